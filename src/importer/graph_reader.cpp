#include "importer/graph_reader.h"

#include <array>
#include <utility>

#include "base/text.h"
#include "ir/own_operators.h"

namespace kpt::pt2 {
namespace {

// Where the types of values stand in a Graph, and the kind of value that each object is about.
struct TypeTable {
  std::string_view key;
  ir::ValueKind kind;
};
constexpr std::array kTypeTables = {
    TypeTable{"tensor_values", ir::ValueKind::kTensor}, TypeTable{"sym_int_values", ir::ValueKind::kInt},
    TypeTable{"sym_float_values", ir::ValueKind::kFloat}, TypeTable{"sym_bool_values", ir::ValueKind::kBool}};

}  // namespace

Result<ir::Graph> GraphReader::read() {
  scope_ = std::make_unique<Scope>();
  return graph();
}

Result<ir::Graph> GraphReader::graph() {
  bool has_inputs = false;
  bool has_outputs = false;
  bool has_nodes = false;
  std::array<std::size_t, kTypeTables.size()> tables{};  // their places; 0: absent
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key == "inputs") {
      has_inputs = true;
      return graph_inputs();
    }
    if (key == "outputs") {
      has_outputs = true;
      return graph_outputs();
    }
    if (key == "nodes") {
      has_nodes = true;
      return nodes();
    }
    for (std::size_t i = 0; i < kTypeTables.size(); ++i) {
      if (key == kTypeTables[i].key) tables[i] = reader_->offset();
    }
    return reader_->skip();
  }));
  if (!has_inputs || !has_outputs || !has_nodes) {
    return reader_->error("a graph without 'inputs', 'outputs' or 'nodes'");
  }
  const std::size_t end = reader_->offset();
  for (std::size_t i = 0; i < kTypeTables.size(); ++i) {
    if (tables[i] == 0) continue;
    reader_->seek(tables[i]);
    KPT_RETURN_IF_ERROR(
        reader_->object([&](std::string_view name) -> Status { return value_type(name, kTypeTables[i].kind); }));
  }
  reader_->seek(end);
  KPT_RETURN_IF_ERROR(require_types());
  scope_->closed = true;
  return std::move(scope_->graph);
}

Status GraphReader::graph_inputs() {
  return reader_->array([&]() -> Status {
    ir::Argument value;
    KPT_RETURN_IF_ERROR(argument(&value));
    const std::string where = "input " + std::to_string(scope_->graph.inputs.size()) + " of the graph";
    if (!refusal_.empty()) return unsupported(where);
    ir::GraphInput& input = scope_->graph.inputs.emplace_back();
    if (const ir::ValueId* id = value.value_id()) {
      input.value = *id;
      input.name = scope_->graph.at(*id).name;
    } else if (value.list() != nullptr || std::holds_alternative<ir::Subgraph>(value.value)) {
      return reader_->error("a list or a graph as input of a graph");
    } else {
      input.kind = ir::InputKind::kFixed;
      input.fixed = std::move(value);
    }
    return {};
  });
}

Status GraphReader::graph_outputs() {
  return reader_->array([&]() -> Status {
    ir::GraphOutput output;
    KPT_RETURN_IF_ERROR(argument(&output.value));
    const std::string where = "output " + std::to_string(scope_->graph.outputs.size()) + " of the graph";
    if (!refusal_.empty()) return unsupported(where);
    scope_->graph.outputs.push_back(std::move(output));
    return {};
  });
}

Status GraphReader::nodes() {
  return reader_->array([&]() -> Status {
    ir::Node result;
    KPT_RETURN_IF_ERROR(node(&result));
    scope_->graph.nodes.push_back(std::move(result));
    return {};
  });
}

Status GraphReader::node(ir::Node* node) {
  std::string target;
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key == "target") return reader_->string(&target);
    if (key == "inputs") return reader_->array([&] { return node_input(&node->arguments.emplace_back()); });
    if (key == "outputs") return reader_->array([&] { return node_output(&node->outputs.emplace_back()); });
    if (key == "name" && reader_->peek() == JsonReader::Kind::kString) return reader_->string(&node->name);
    if (key == "metadata" && reader_->peek() == JsonReader::Kind::kObject) node->metadata_offset = reader_->offset();
    return reader_->skip();
  }));
  node->target = strip_target(target);
  if (node->target.empty()) return reader_->error("a node without 'target'");
  if (node->name.empty()) {  // files before 2.11 do not say; the first result has the node's name then
    const bool has_value =
        !node->outputs.empty() && !node->outputs[0].values.empty() && node->outputs[0].values[0] != ir::kNoValue;
    node->name = has_value ? scope_->graph.at(node->outputs[0].values[0]).name
                           : "node_" + std::to_string(scope_->graph.nodes.size());
  }
  if (node->target.starts_with(ir::kOwnPrefix)) {
    return {StatusCode::kUnsupported, file_ + ": the node '" + printable(node->name, 128) + "' (" +
                                          printable(node->target, 128) +
                                          ") uses a name of KernelPyTorch's own operators, which no exporter writes"};
  }
  return refusal_.empty() ? Status() : unsupported("the node '" + node->name + "' (" + node->target + ")");
}

Status GraphReader::node_input(ir::NamedArgument* input) {
  bool seen = false;
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key == "name") return reader_->string(&input->name);
    if (key != "arg") return reader_->skip();
    seen = true;
    return argument(&input->value);
  }));
  return seen ? Status() : reader_->error("an argument without 'arg'");
}

Status GraphReader::node_output(ir::Output* output) {
  ir::Argument value;
  KPT_RETURN_IF_ERROR(argument(&value));
  if (!refusal_.empty()) return {};
  const auto add = [&](const ir::Argument& item) {
    if (const ir::ValueId* id = item.value_id()) {
      output->values.push_back(*id);
    } else if (std::holds_alternative<ir::None>(item.value)) {
      output->values.push_back(ir::kNoValue);
    } else {
      refusal_ = "a constant or a nested list as result";
    }
  };
  if (const ir::List* list = value.list()) {
    output->is_list = true;
    for (const ir::Argument& item : list->items) add(item);
  } else {
    add(value);
  }
  return {};
}

Status GraphReader::value_type(std::string_view name, ir::ValueKind kind) {
  const auto found = scope_->ids.find(std::string(name));
  if (found == scope_->ids.end()) return reader_->skip();  // nobody uses it
  ir::Value& value = scope_->graph.at(found->second);
  if (value.kind != kind) return reader_->error("the value '" + value.name + "' is used as another kind elsewhere");
  scope_->typed[index_of(found->second)] = true;
  if (kind == ir::ValueKind::kTensor) {
    KPT_RETURN_IF_ERROR(types_.tensor(&value.tensor));
    if (value.tensor.layout == ir::Layout::kStrided) return {};
    return {StatusCode::kUnsupported, file_ + ": the tensor '" + printable(value.name, 128) +
                                          "' is sparse or of another special layout, which is not supported"};
  }
  if (kind == ir::ValueKind::kInt) return types_.sym_int(&value.expression);
  return reader_->skip();  // of floats and truth values the graph keeps no expression
}

Status GraphReader::require_types() const {
  for (std::size_t i = 0; i < scope_->typed.size(); ++i) {
    if (scope_->typed[i]) continue;
    const ir::Value& value = scope_->graph.values[i];
    for (const TypeTable& table : kTypeTables) {
      if (table.kind != value.kind) continue;
      return reader_->error("the value '" + value.name + "' is missing from '" + std::string(table.key) + "'");
    }
  }
  return {};
}

Status GraphReader::unsupported(const std::string& where) const {
  return {StatusCode::kUnsupported,
          file_ + ": " + printable(where, 256) + " has " + refusal_ + ", which is not supported"};
}

}  // namespace kpt::pt2
