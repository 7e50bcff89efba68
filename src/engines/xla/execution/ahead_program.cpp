#include "engines/xla/execution/ahead_program.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text.h"
#include "device/compile_figures_json.h"
#include "device/graph_arguments.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt {
namespace {

constexpr std::string_view kModuleWord = "kpt-tpu-module";
constexpr int kModuleVersion = 1;

Status corrupt(std::string_view what) {
  return {StatusCode::kCorruptData, fmt::format("a stored program cannot be read: {}", what)};
}

// Takes the text up to the next line break.
Result<std::string_view> take_line(std::string_view& rest) {
  const auto end = rest.find('\n');
  if (end == std::string_view::npos) return corrupt("it ends within its head");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

}  // namespace

std::string pack_topology_program(const pjrt::TopologyProgram& program) {
  const std::string figures = to_json(program.figures).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return fmt::format("{} {}\n{}\n{}", kModuleWord, kModuleVersion, figures, program.executable);
}

Result<pjrt::TopologyProgram> unpack_topology_program(std::string_view bytes) {
  KPT_ASSIGN_OR_RETURN(const std::string_view head, take_line(bytes));
  if (head != fmt::format("{} {}", kModuleWord, kModuleVersion)) return corrupt("it is of another version");
  KPT_ASSIGN_OR_RETURN(const std::string_view figures, take_line(bytes));
  const auto json = nlohmann::ordered_json::parse(figures, nullptr, false);
  pjrt::TopologyProgram program;
  KPT_ASSIGN_OR_RETURN(program.figures, read_compile_figures(json));
  if (bytes.empty()) return corrupt("it holds no executable");
  program.executable = std::string(bytes);
  return program;
}

std::string hash_module(const xla::LoweredModule& module) { return sha256_hex(module.text); }

bool is_ahead_program(const AheadForm& form, std::string_view bytes) {
  return bytes.starts_with(fmt::format("{} ", form.word));
}

Status check_sizes(const ir::Graph& graph, const ir::Bindings& sizes, std::string_view what) {
  const auto shown = find_shown_symbols(graph);
  std::string open;
  for (const ir::SymbolRange& symbol : graph.symbols) {
    const auto value = sizes.find(symbol.name);
    if (!shown.contains(symbol.name)) {
      if (!value) continue;  // the node that reads it is refused by its name
      return {StatusCode::kInvalidArgument,
              fmt::format("{} is no size of the model's inputs, and cannot be given", symbol.name)};
    }
    if (!value) {
      open += fmt::format("{}{}", open.empty() ? "" : ", ", symbol.name);
      continue;
    }
    if ((symbol.min && *value < *symbol.min) || (symbol.max && *value > *symbol.max)) {
      return {StatusCode::kInvalidArgument, fmt::format("the size {}={} is out of its range", symbol.name, *value)};
    }
  }
  if (open.empty()) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("a program for {} has fixed sizes, and the model leaves {} free; give each a value", what, open)};
}

std::string write_sizes(const ir::Bindings& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes.entries())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

Result<ir::Bindings> read_sizes(const ir::Graph& graph, std::string_view sizes) {
  const auto shown = find_shown_symbols(graph);
  ir::Bindings bindings;
  for (const ir::SymbolRange& symbol : graph.symbols) {
    if (!shown.contains(symbol.name)) continue;
    std::optional<std::int64_t> value;
    for (const std::string_view entry : split(sizes, ',')) {
      const auto equal = entry.find('=');
      if (equal != std::string_view::npos && entry.substr(0, equal) == symbol.name) {
        value = parse_int(entry.substr(equal + 1));
      }
    }
    const std::int64_t least = std::max<std::int64_t>(symbol.min.value_or(0), 0);
    if (!value || *value < least || (symbol.max && *value > *symbol.max)) {
      return corrupt(fmt::format("it has no size for {} that the model allows", symbol.name));
    }
    bindings.set(symbol.name, *value);
  }
  return bindings;
}

// Head, target, sizes, module, conditions, number of bytes of the graph; the graph; the compiled module.
Result<std::string> AheadProgram::serialize() const {
  const std::string graph = ir::print_graph(graph_);
  return fmt::format("{} {}\n{}\n{}\n{}\n{}\n{}\n{}{}", form_.word, form_.version, target_, facts_.sizes, facts_.module,
                     facts_.conditions, graph.size(), graph, pack_topology_program(compiled_));
}

Result<std::unique_ptr<Program>> AheadProgram::deserialize(const AheadForm& form, std::string_view target,
                                                           std::string_view bytes) {
  KPT_ASSIGN_OR_RETURN(const std::string_view head, take_line(bytes));
  if (!is_ahead_program(form, head)) return corrupt("it is of another kind");
  KPT_ASSIGN_OR_RETURN(const std::string_view made_for, take_line(bytes));
  if (head != fmt::format("{} {}", form.word, form.version) || made_for != target) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("the stored program is of another version or for another target than {}", target));
  }
  AheadFacts facts;
  for (std::string* const fact : {&facts.sizes, &facts.module, &facts.conditions}) {
    KPT_ASSIGN_OR_RETURN(*fact, take_line(bytes));
  }
  KPT_ASSIGN_OR_RETURN(const std::string_view count, take_line(bytes));
  const auto graph_bytes = parse_uint(count);
  if (!graph_bytes || *graph_bytes > bytes.size()) return corrupt("its graph does not fit into it");
  auto graph = ir::read_graph(bytes.substr(0, *graph_bytes));
  if (!graph.ok()) return corrupt(graph.status().message());
  if (const Status status = ir::verify(*graph); !status.ok()) return corrupt(status.message());
  KPT_ASSIGN_OR_RETURN(pjrt::TopologyProgram compiled, unpack_topology_program(bytes.substr(*graph_bytes)));
  return std::unique_ptr<Program>(std::make_unique<AheadProgram>(form, std::string(target), std::move(*graph),
                                                                 std::move(facts), std::move(compiled)));
}

}  // namespace kpt
