#include "backends/amd/amd_program.h"

#include <algorithm>
#include <future>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "backends/amd/code_object.h"
#include "backends/amd/target_traits.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt {
namespace {

constexpr std::string_view kWord = "kpt-amd-program";
constexpr int kPlainForm = 1;             // version of the form
constexpr int kFormWithOptions = 2;       // a line of compile options follows the compiler
constexpr std::size_t kMostObjects = 64;  // far more families than there are

Status corrupt_program(std::string_view what) {
  return {StatusCode::kCorruptData, fmt::format("a stored AMD program cannot be read: {}", what)};
}

// Takes the text up to the next line break.
Result<std::string_view> take_program_line(std::string_view& rest) {
  const auto end = rest.find('\n');
  if (end == std::string_view::npos) return corrupt_program("it ends within its head");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

Result<std::uint64_t> take_number(std::string_view& rest) {
  KPT_ASSIGN_OR_RETURN(const std::string_view line, take_program_line(rest));
  const auto number = parse_uint(line);
  if (!number) return corrupt_program("a number of its head is none");
  return *number;
}

Result<std::string_view> take_bytes(std::string_view& rest, std::uint64_t bytes) {
  if (bytes > rest.size()) return corrupt_program("a part does not fit into it");
  const std::string_view part = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return part;
}

// What the kernels of a target may use; how many compute units there are does not matter to which are launched.
native::Traits target_traits(const AmdArchitecture& architecture, bool matrix_cores) {
  return native_traits(architecture, 0, matrix_cores);
}

Result<KernelObject> get_object(const KernelSource& kernels, std::string_view family, std::string_view gfx_target) {
  KernelObject object;
  KPT_ASSIGN_OR_RETURN(const HipSource source, own_kernels(family));
  object.source_digest = source_digest(source);
  KPT_ASSIGN_OR_RETURN(object.code, kernels(family, gfx_target));
  return object;
}

// In the families' order. Where the system gives no threads, one after another.
std::vector<Result<KernelObject>> get_objects(const KernelSource& kernels, const std::vector<std::string>& families,
                                              std::string_view gfx_target, int threads) {
  std::vector<Result<KernelObject>> objects;
  const int useful = std::min(threads, static_cast<int>(families.size()));
  if (useful > 1) {
    try {
      ThreadPool pool(useful);
      std::vector<std::future<Result<KernelObject>>> waiting;
      for (const std::string& family : families) {
        waiting.push_back(pool.submit([&] { return get_object(kernels, family, gfx_target); }));
      }
      for (auto& one : waiting) objects.push_back(one.get());
      return objects;
    } catch (const std::system_error&) {
      objects.clear();
    }
  }
  for (const std::string& family : families) objects.push_back(get_object(kernels, family, gfx_target));
  return objects;
}

KernelFigures figures_of(const AmdArchitecture& architecture, const KernelResources& resources, int threads) {
  KernelFigures figures;
  figures.name = resources.name;
  figures.threads = static_cast<std::uint64_t>(threads);
  figures.vector_registers = resources.vector_registers;
  figures.accumulation_registers = resources.accumulation_registers;
  figures.scalar_registers = resources.scalar_registers;
  figures.vector_spills = resources.vector_spills;
  figures.scalar_spills = resources.scalar_spills;
  figures.lds_bytes = resources.lds_bytes;
  figures.private_bytes = resources.private_bytes;
  figures.waves = static_cast<std::uint64_t>(waves_per_simd(architecture, resources, threads));
  figures.most_waves = static_cast<std::uint64_t>(architecture.registers.max_waves);
  return figures;
}

}  // namespace

AmdProgram::AmdProgram(const AmdArchitecture& architecture, ir::Graph graph)
    : target_("amd:" + std::string(architecture.gfx_target)),
      graph_(std::make_shared<const ir::Graph>(std::move(graph))) {
  figures_.device_kind = fmt::format("{} {}", architecture.gfx_target, architecture.name);
}

Result<std::unique_ptr<AmdProgram>> AmdProgram::make(const AmdArchitecture& architecture, ir::Graph graph,
                                                     const KernelSource& kernels, int threads, bool matrix_cores) {
  KPT_ASSIGN_OR_RETURN(const native::NeededKernels needed,
                       native::find_needed_kernels(graph, target_traits(architecture, matrix_cores)));
  std::unique_ptr<AmdProgram> program(new AmdProgram(architecture, std::move(graph)));
  auto objects = get_objects(kernels, needed.families, architecture.gfx_target, threads);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (!objects[i].ok()) return objects[i].status();
    program->objects_.emplace(needed.families[i], std::move(objects[i]).value());
  }
  KPT_RETURN_IF_ERROR(program->describe(architecture, needed));
  return program;
}

Status AmdProgram::describe(const AmdArchitecture& architecture, const native::NeededKernels& needed) {
  std::vector<KernelResources> resources;
  std::uint64_t code_bytes = 0;
  for (const auto& [family, object] : objects_) {
    const auto read = read_code_object(std::as_bytes(std::span(object.code)));
    if (!read.ok())
      return corrupt_program(fmt::format("kernels '{}': {}", printable(family, 64), read.status().message()));
    if (read->gfx_target != architecture.gfx_target) {
      return corrupt_program(
          fmt::format("kernels '{}' are for {}", printable(family, 64), printable(read->gfx_target, 64)));
    }
    resources.insert(resources.end(), read->kernels.begin(), read->kernels.end());
    code_bytes += object.code.size();
  }
  for (const gpu::KernelInfo& info : gpu::list_kernels()) {
    if (!std::ranges::binary_search(needed.kernels, info.name)) continue;
    const auto found = std::ranges::find(resources, info.name, &KernelResources::name);
    if (found == resources.end()) continue;  // code of another build
    figures_.kernels.push_back(figures_of(architecture, *found, info.max_threads));
  }
  figures_.code_bytes = code_bytes;
  figures_.temporary_bytes = needed.arena_bytes;
  if (needed.arena_bytes) figures_.peak_bytes = *needed.arena_bytes + *needed.weight_bytes;
  nodes_ = needed.nodes;
  return {};
}

const KernelObject* AmdProgram::find_current(std::string_view family) const {
  const auto found = objects_.find(family);
  if (found == objects_.end()) return nullptr;
  const auto source = own_kernels(family);
  return source.ok() && source_digest(*source) == found->second.source_digest ? &found->second : nullptr;
}

void AmdProgram::set_compiler(std::string compiler, std::vector<std::string> options) {
  figures_.compiler = std::move(compiler);
  for (const std::string& option : options) figures_.compiler += (figures_.compiler.empty() ? "" : " ") + option;
  options_ = std::move(options);
}

// Head, target, compiler, compile options if there are any, bytes of the graph, number of families; a line for each;
// the graph; their code.
Result<std::string> AmdProgram::serialize() const {
  const std::string graph = ir::print_graph(*graph_);
  std::string bytes = fmt::format("{} {}\n{}\n{}\n", kWord, options_.empty() ? kPlainForm : kFormWithOptions, target_,
                                  printable(figures_.compiler, 200));
  if (!options_.empty()) bytes += join(options_, " ") + "\n";
  bytes += fmt::format("{}\n{}\n", graph.size(), objects_.size());
  for (const auto& [family, object] : objects_) {
    bytes += fmt::format("{} {} {}\n", family, object.source_digest, object.code.size());
  }
  bytes += graph;
  for (const auto& [family, object] : objects_) bytes += object.code;
  return bytes;
}

Result<std::unique_ptr<Program>> AmdProgram::deserialize(const AmdArchitecture& architecture, std::string_view bytes,
                                                         bool matrix_cores) {
  KPT_ASSIGN_OR_RETURN(const std::string_view head, take_program_line(bytes));
  if (!head.starts_with(fmt::format("{} ", kWord))) return corrupt_program("it is no AMD program");
  KPT_ASSIGN_OR_RETURN(const std::string_view made_for, take_program_line(bytes));
  const std::string target = fmt::format("amd:{}", architecture.gfx_target);
  const bool with_options = head == fmt::format("{} {}", kWord, kFormWithOptions);
  if ((!with_options && head != fmt::format("{} {}", kWord, kPlainForm)) || made_for != target) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("the stored program is of another version or for another target than {}", target));
  }
  KPT_ASSIGN_OR_RETURN(const std::string_view compiler, take_program_line(bytes));
  std::string_view options;
  if (with_options) {
    KPT_ASSIGN_OR_RETURN(options, take_program_line(bytes));
  }
  KPT_ASSIGN_OR_RETURN(const std::uint64_t graph_bytes, take_number(bytes));
  KPT_ASSIGN_OR_RETURN(const std::uint64_t count, take_number(bytes));
  if (count > kMostObjects) return corrupt_program("it has more families of kernels than there are");
  std::vector<std::vector<std::string_view>> rows;
  for (std::uint64_t i = 0; i < count; ++i) {
    KPT_ASSIGN_OR_RETURN(const std::string_view line, take_program_line(bytes));
    rows.push_back(split(line, ' '));
    if (rows.back().size() != 3 || !parse_uint(rows.back()[2])) return corrupt_program("a line of its head is none");
  }
  KPT_ASSIGN_OR_RETURN(const std::string_view text, take_bytes(bytes, graph_bytes));
  auto graph = ir::read_graph(text);
  if (!graph.ok()) return corrupt_program(graph.status().message());
  if (const Status status = ir::verify(*graph); !status.ok()) return corrupt_program(status.message());
  std::unique_ptr<AmdProgram> program(new AmdProgram(architecture, std::move(graph).value()));
  program->stored_ = true;
  program->figures_.compiler = printable(compiler, 200);
  for (const std::string_view option : split(options, ' ')) program->options_.push_back(printable(option, 100));
  for (const auto& row : rows) {
    KPT_ASSIGN_OR_RETURN(const std::string_view code, take_bytes(bytes, *parse_uint(row[2])));
    program->objects_.emplace(std::string(row[0]), KernelObject{std::string(row[1]), std::string(code)});
  }
  if (!bytes.empty()) return corrupt_program("more follows its end");
  const auto needed = native::find_needed_kernels(program->graph(), target_traits(architecture, matrix_cores));
  if (!needed.ok()) return needed.status();
  KPT_RETURN_IF_ERROR(program->describe(architecture, *needed));
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace kpt
