#include "importer/program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "archive/json_reader.h"
#include "base/text.h"
#include "importer/graph_reader.h"
#include "importer/schema.h"
#include "importer/signature.h"
#include "ir/arithmetic.h"

namespace kpt::pt2 {
namespace {

using Kind = JsonReader::Kind;
using Ranges = std::map<std::string, ir::SymbolRange, std::less<>>;
using Names = std::set<std::string, std::less<>>;

// What the exporter says of an expression: "2*s39" is 2 to 32.
struct DerivedRange {
  ir::Expr expression;
  ir::SymbolRange range;
};

// Adds every symbol that a value of `graph` or of its sub-graphs mentions to `used`.
void collect_symbols(const ir::Graph& graph, Names* used) {
  const auto add = [used](const ir::Expr& expression) {
    if (expression.constant()) return;
    for (std::string& symbol : expression.symbols()) used->insert(std::move(symbol));
  };
  for (const ir::Value& value : graph.values) {
    for (const ir::Expr& size : value.tensor.dims) add(size);
    for (const ir::Expr& stride : value.tensor.strides) add(stride);
    add(value.tensor.storage_offset);
    add(value.expression);
  }
  for (const ir::Node& node : graph.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) {
      const auto* subgraph = std::get_if<ir::Subgraph>(&argument.value.value);
      if (subgraph != nullptr) collect_symbols(*subgraph->graph, used);
    }
  }
}

Names find_input_sizes(const ir::Graph& graph) {
  Names names;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = graph.at(input.value);
    if (value.expression.is_symbol()) names.emplace(value.expression.name());
    for (const ir::Expr& size : value.tensor.dims) {
      if (size.is_symbol()) names.emplace(size.name());
    }
  }
  return names;
}

std::string not_checked(std::string_view name) { return "the range of '" + printable(name, 128) + "' is not checked"; }

// Narrows the symbol to where the form is in its range. Fails when nothing is left.
Status narrow(const ir::LinearForm& form, const ir::SymbolRange& range, ir::SymbolRange* symbol) {
  std::int64_t rest = 0;
  if (range.min && !__builtin_sub_overflow(*range.min, form.offset, &rest)) {
    const std::int64_t down = ir::floor_divide(rest, form.factor).value_or(0);
    const std::int64_t min = down * form.factor == rest ? down : down + 1;
    symbol->min = std::max(symbol->min.value_or(min), min);
  }
  if (range.max && !__builtin_sub_overflow(*range.max, form.offset, &rest)) {
    const std::int64_t max = ir::floor_divide(rest, form.factor).value_or(0);
    symbol->max = std::min(symbol->max.value_or(max), max);
  }
  if (!symbol->min || !symbol->max || *symbol->min <= *symbol->max) return {};
  return {StatusCode::kCorruptData, "the range of '" + printable(range.name, 128) + "' is empty"};
}

// The range of 2*s39 is one of s39. Of a symbol that no input has by itself, the exporter writes what it assumed when
// it made the symbol (2 at least) beside what it promises of the expression, and only the latter counts.
Status apply_derived(const std::vector<DerivedRange>& derived, const ir::Graph& graph, Ranges* ranges,
                     std::vector<std::string>* notes) {
  const Names inputs = find_input_sizes(graph);
  Names seen;
  for (const auto& [expression, range] : derived) {
    const std::optional<ir::LinearForm> form = ir::find_linear(expression);
    if (!form) {
      notes->push_back(not_checked(range.name));
      continue;
    }
    const std::string name(form->symbol);
    ir::SymbolRange& symbol = (*ranges)[name];
    if (seen.insert(name).second && !inputs.contains(name)) symbol = {};
    symbol.name = name;
    KPT_RETURN_IF_ERROR(narrow(*form, range, &symbol));
  }
  return {};
}

// All symbols of the program belong to the top graph; those without a range in the file are unbounded.
void declare_symbols(const Ranges& ranges, ir::Graph* graph, std::vector<std::string>* notes) {
  Names used;
  collect_symbols(*graph, &used);
  for (const auto& [name, range] : ranges) {
    if (used.contains(name) || ir::parse_expr(name).ok()) {
      graph->symbols.push_back(range);
    } else {
      notes->push_back(not_checked(name));  // an expression of a kind that we do not know
    }
  }
  for (const std::string& name : used) {
    if (!ranges.contains(name)) graph->symbols.push_back({.name = name, .min = {}, .max = {}});
  }
}

class ProgramReader {
 public:
  ProgramReader(std::string_view text, const std::string& name) : reader_(text, name), name_(name) {}

  Result<Program> read() {
    std::size_t graph_module = 0;
    std::size_t ranges = 0;
    bool has_version = false;
    // The version stands behind the graph, and decides whether the graph can be read at all.
    KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view key) -> Status {
      if (key == "schema_version") {
        has_version = true;
        return schema_version();
      }
      if (key == "torch_version") return reader_.string(&program_.producer);
      if (key == "graph_module") graph_module = reader_.offset();
      if (key == "range_constraints") ranges = reader_.offset();
      return reader_.skip();
    }));
    KPT_RETURN_IF_ERROR(reader_.finish());
    if (!has_version || graph_module == 0) {
      return Status(StatusCode::kCorruptData, name_ + ": no 'schema_version' or no 'graph_module' in it");
    }
    if (major_ != kSchemaMajor) {
      return Status(StatusCode::kVersionMismatch, name_ + ": schema " + program_.schema_version + " is not " +
                                                      std::to_string(kSchemaMajor) +
                                                      ".x; re-export with PyTorch 2.9 or newer");
    }
    reader_.seek(graph_module);
    KPT_RETURN_IF_ERROR(this->graph_module());
    if (ranges != 0) {
      reader_.seek(ranges);
      KPT_RETURN_IF_ERROR(range_constraints());
    }
    if (const Status status = apply_derived(derived_, program_.graph, &ranges_, &program_.notes); !status.ok()) {
      return Status(status.code(), name_ + ": " + status.message());
    }
    declare_symbols(ranges_, &program_.graph, &program_.notes);
    return std::move(program_);
  }

 private:
  Status schema_version() {
    std::int64_t minor = 0;
    KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view key) -> Status {
      if (key == "major") return reader_.integer(&major_);
      return key == "minor" ? reader_.integer(&minor) : reader_.skip();
    }));
    program_.schema_version = std::to_string(major_) + "." + std::to_string(minor);
    return {};
  }

  Status graph_module() {
    GraphReader graph_reader(&reader_, name_);
    std::size_t graph = 0;
    std::size_t signature = 0;
    std::size_t calls = 0;
    KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view key) -> Status {
      if (key == "graph") graph = reader_.offset();
      if (key == "signature") signature = reader_.offset();
      if (key == "module_call_graph") calls = reader_.offset();
      return key == "treespec_namedtuple_fields" ? named_tuples() : reader_.skip();
    }));
    if (graph == 0 || signature == 0) return reader_.error("a program without 'graph' or 'signature'");
    reader_.seek(graph);
    KPT_ASSIGN_OR_RETURN(program_.graph, graph_reader.read());
    reader_.seek(signature);
    KPT_RETURN_IF_ERROR(apply_signature(&reader_, &graph_reader, &program_.graph, name_));
    CallSignature call;
    if (calls != 0) {
      reader_.seek(calls);
      KPT_RETURN_IF_ERROR(reader_.array([&] { return module_call(&call); }));
    }
    return name_arguments(call, named_tuples_, name_, &program_.graph, &program_.notes);
  }

  Status named_tuples() {
    return reader_.object([&](std::string_view key) -> Status {
      std::vector<std::string>& fields = named_tuples_[std::string(key)];
      return reader_.object([&](std::string_view member) -> Status {
        if (member != "field_names") return reader_.skip();
        return reader_.array([&] { return reader_.string(&fields.emplace_back()); });
      });
    });
  }

  // The entry of the whole program has the empty name; those of its modules are not needed.
  Status module_call(CallSignature* call) {
    std::string fqn;
    CallSignature read;
    KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view key) -> Status {
      if (key == "fqn") return reader_.string(&fqn);
      if (key != "signature" || reader_.peek() != Kind::kObject) return reader_.skip();
      return reader_.object([&](std::string_view member) -> Status {
        if (member == "in_spec") return reader_.string(&read.in_spec);
        if (member == "out_spec") return reader_.string(&read.out_spec);
        if (member != "forward_arg_names" || reader_.peek() != Kind::kArray) return reader_.skip();
        return reader_.array([&] { return reader_.string(&read.argument_names.emplace_back()); });
      });
    }));
    if (fqn.empty()) *call = std::move(read);
    return {};
  }

  Status range_constraints() {
    return reader_.object([&](std::string_view key) -> Status {
      ir::SymbolRange range{.name = std::string(key), .min = {}, .max = {}};
      const auto bound = [&](std::optional<std::int64_t>* value) -> Status {
        if (reader_.peek() == Kind::kNull) return reader_.null();
        return reader_.integer(&value->emplace());
      };
      KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view member) -> Status {
        if (member == "min_val") return bound(&range.min);
        return member == "max_val" ? bound(&range.max) : reader_.skip();
      }));
      if (range.min && range.max && *range.min > *range.max) return reader_.error("an empty range of a symbol");
      Result<ir::Expr> expression = ir::parse_expr(range.name);
      if (expression.ok() && !expression->is_symbol() && !expression->constant()) {
        derived_.push_back({std::move(expression).value(), std::move(range)});
        return {};
      }
      std::string name = range.name;
      ranges_.emplace(std::move(name), std::move(range));
      return {};
    });
  }

  JsonReader reader_;
  const std::string& name_;
  Program program_;
  std::int64_t major_ = 0;
  NamedTupleFields named_tuples_;
  Ranges ranges_;
  std::vector<DerivedRange> derived_;
};

}  // namespace

Result<Program> read_program(std::string_view text, const std::string& name) {
  return ProgramReader(text, name).read();
}

}  // namespace kpt::pt2
