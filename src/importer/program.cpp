#include "importer/program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "archive/json_reader.h"
#include "importer/graph_reader.h"
#include "importer/schema.h"
#include "importer/signature.h"

namespace kpt::pt2 {
namespace {

using Kind = JsonReader::Kind;
using Ranges = std::map<std::string, ir::SymbolRange, std::less<>>;

// Adds every symbol that a value of `graph` or of its sub-graphs mentions to `used`.
void collect_symbols(const ir::Graph& graph, std::set<std::string, std::less<>>* used) {
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

// All symbols of the program belong to the top graph; those without a range in the file are unbounded.
void declare_symbols(const Ranges& ranges, ir::Graph* graph) {
  for (const auto& [name, range] : ranges) graph->symbols.push_back(range);
  std::set<std::string, std::less<>> used;
  collect_symbols(*graph, &used);
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
    declare_symbols(ranges_, &program_.graph);
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
};

}  // namespace

Result<Program> read_program(std::string_view text, const std::string& name) {
  return ProgramReader(text, name).read();
}

}  // namespace kpt::pt2
