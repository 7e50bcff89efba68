#include "passes/graph_edit.h"

#include <algorithm>
#include <cmath>

#include "ir/text_names.h"
#include "passes/node_arguments.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

template <typename Visit>
void for_each_result(const ir::Node& node, const Visit& visit) {
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id != ir::kNoValue) visit(id);
    }
  }
}

template <typename Visit>
void for_each_argument(const ir::Node& node, const Visit& visit) {
  for (const ir::NamedArgument& argument : node.arguments) {
    ir::for_each_value(argument.value, [&](ir::ValueId id) {
      if (id != ir::kNoValue) visit(id);  // verify() will say so
    });
  }
}

// The number where an element of the type is the same: an integer has no fraction, a truth value is 0 or 1.
std::optional<double> as_stored(std::optional<double> number, DType dtype) {
  if (!number || is_floating(dtype)) return number;
  const bool kept =
      dtype == DType::kBool || dtype == DType::kUInt8 ? *number == 0 || *number == 1 : *number == std::trunc(*number);
  return kept ? number : std::nullopt;
}

void replace_in(ir::Argument& argument, ir::ValueId from, ir::ValueId to) {
  if (argument.value_id() != nullptr && *argument.value_id() == from) argument.value = to;
  if (auto* list = std::get_if<ir::List>(&argument.value)) {
    for (ir::Argument& item : list->items) replace_in(item, from, to);
  }
}

}  // namespace

GraphEdit::GraphEdit(ir::Graph& graph, Weights& weights)
    : graph_(graph),
      weights_(weights),
      facts_(graph, weights),
      constants_(graph, weights, facts_),
      alive_(graph.nodes.size(), true),
      anchors_(graph.nodes.size()),
      producers_(graph.values.size(), kNoNode),
      users_(graph.values.size()),
      output_uses_(graph.values.size()),
      original_size_(graph.nodes.size()) {
  for (const ir::Value& value : graph_.values) names_.insert(value.name);
  for (NodeIndex index = 0; index < graph_.nodes.size(); ++index) {
    anchors_[index] = index;
    for_each_result(graph_.nodes[index], [&](ir::ValueId id) { producers_[ir::index_of(id)] = index; });
    add_uses(index);
  }
  for (const ir::GraphOutput& output : graph_.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId id) { ++output_uses_[ir::index_of(id)]; });
  }
}

NodeIndex GraphEdit::producer(ir::ValueId id) const {
  return id == ir::kNoValue ? kNoNode : producers_[ir::index_of(id)];
}

const ir::Node* GraphEdit::made_by(ir::ValueId id, std::initializer_list<std::string_view> targets) const {
  const NodeIndex index = producer(id);
  if (index == kNoNode || !is_any(node(index), targets)) return nullptr;
  // Through a view one sees what is written; whether that is read in time is asked of may_read_at().
  return gives_fresh_memory(node(index)) && facts_.is_written(id) ? nullptr : &node(index);
}

const Tensor* GraphEdit::constant(ir::ValueId id) const {
  if (id == ir::kNoValue) return nullptr;
  const auto added = added_constants_.find(ir::index_of(id));
  return added != added_constants_.end() ? &added->second : constants_.find(id);
}

std::optional<double> GraphEdit::constant_number(ir::ValueId id) const {
  if (const ir::Node* made = made_by(id, {"aten.scalar_tensor.default"})) {
    return as_stored(number_argument(*made, "s"), type(id).dtype);
  }
  if (const ir::Node* made = made_by(id, {"aten.full.default", "aten.full_like.default"})) {
    return as_stored(number_argument(*made, "fill_value"), type(id).dtype);
  }
  const Tensor* tensor = constant(id);
  if (tensor == nullptr || tensor->element_count() != 1) return std::nullopt;
  const Result<std::vector<double>> values = read_as_double(*tensor);
  return values.ok() ? std::optional((*values)[0]) : std::nullopt;
}

bool GraphEdit::may_read_at(ir::ValueId id, NodeIndex reader, NodeIndex place) const {
  return facts_.is_steady(id, position(reader), position(place));
}

std::string GraphEdit::fresh_name(const std::string& wanted) {
  std::string name = wanted;
  for (int suffix = 1; !names_.insert(name).second; ++suffix) name = wanted + "_" + std::to_string(suffix);
  return name;
}

ir::ValueId GraphEdit::add_value(const std::string& name, ir::TensorType type) {
  ir::Value value;
  value.name = fresh_name(name);
  value.tensor = std::move(type);
  producers_.push_back(kNoNode);
  users_.emplace_back();
  output_uses_.push_back(0);
  return graph_.add_value(std::move(value));
}

ir::ValueId GraphEdit::add_weight(const std::string& name, Tensor tensor) {
  std::vector<ir::Expr> dims(tensor.dims().begin(), tensor.dims().end());
  ir::TensorType type = contiguous_type(tensor.dtype(), std::move(dims));
  type.strides.assign(tensor.strides().begin(), tensor.strides().end());
  const ir::ValueId id = add_value(name, std::move(type));
  std::string key = graph_.at(id).name;
  for (int suffix = 1; weights_.contains(key); ++suffix) key = graph_.at(id).name + "." + std::to_string(suffix);
  ir::GraphInput input;
  input.kind = ir::InputKind::kConstant;
  input.value = id;
  input.name = key;
  graph_.inputs.push_back(std::move(input));
  added_constants_.emplace(ir::index_of(id), tensor);
  weights_.insert_or_assign(std::move(key), std::move(tensor));
  return id;
}

NodeIndex GraphEdit::insert_before(NodeIndex before, ir::Node node) {
  const NodeIndex index = graph_.nodes.size();
  graph_.nodes.push_back(std::move(node));
  alive_.push_back(true);
  anchors_.push_back(anchors_[before]);
  for_each_result(graph_.nodes[index], [&](ir::ValueId id) { producers_[ir::index_of(id)] = index; });
  add_uses(index);
  return index;
}

NodeIndex GraphEdit::insert_behind(NodeIndex after, ir::Node node) {
  const NodeIndex index = insert_before(after, std::move(node));
  anchors_[index] = anchors_[after] + 1;
  return index;
}

void GraphEdit::replace_call(NodeIndex index, std::string target, std::vector<ir::NamedArgument> arguments) {
  std::vector<NodeIndex> feeders;
  for_each_argument(node(index), [&](ir::ValueId id) {
    if (producer(id) != kNoNode) feeders.push_back(producer(id));
  });
  remove_uses(index);
  graph_.nodes[index].target = std::move(target);
  graph_.nodes[index].arguments = std::move(arguments);
  add_uses(index);
  for (const NodeIndex feeder : feeders) erase_unused(feeder);
}

void GraphEdit::replace_argument(NodeIndex index, std::string_view name, const ir::Argument& argument) {
  std::vector<ir::NamedArgument> arguments = node(index).arguments;
  for (ir::NamedArgument& given : arguments) {
    if (given.name == name) given.value = argument;
  }
  replace_call(index, node(index).target, std::move(arguments));
}

void GraphEdit::replace_uses(ir::ValueId from, ir::ValueId to) {
  if (from == ir::kNoValue || to == ir::kNoValue) return;
  const std::vector<NodeIndex> users = users_[ir::index_of(from)];
  for (const NodeIndex user : users) {
    for (ir::NamedArgument& argument : graph_.nodes[user].arguments) replace_in(argument.value, from, to);
  }
  std::vector<NodeIndex>& others = users_[ir::index_of(to)];
  others.insert(others.end(), users.begin(), users.end());
  users_[ir::index_of(from)].clear();
  replace_outputs(from, to);
}

void GraphEdit::replace_uses_in(NodeIndex user, ir::ValueId from, ir::ValueId to) {
  remove_uses(user);
  for (ir::NamedArgument& argument : graph_.nodes[user].arguments) replace_in(argument.value, from, to);
  add_uses(user);
}

void GraphEdit::replace_outputs(ir::ValueId from, ir::ValueId to) {
  if (from == ir::kNoValue || to == ir::kNoValue) return;
  for (ir::GraphOutput& output : graph_.outputs) replace_in(output.value, from, to);
  output_uses_[ir::index_of(to)] += output_uses_[ir::index_of(from)];
  output_uses_[ir::index_of(from)] = 0;
}

void GraphEdit::swap_names(NodeIndex a, NodeIndex b) {
  std::swap(graph_.nodes[a].name, graph_.nodes[b].name);
  std::swap(graph_.at(result_at(node(a), 0)).name, graph_.at(result_at(node(b), 0)).name);
}

void GraphEdit::erase_unused(NodeIndex first) {
  std::vector<NodeIndex> waiting = {first};
  while (!waiting.empty()) {
    const NodeIndex index = waiting.back();
    waiting.pop_back();
    if (!alive_[index] || !is_removable(node(index))) continue;
    bool used = false;
    for_each_result(node(index), [&](ir::ValueId id) { used = used || !users(id).empty() || is_output(id); });
    if (used) continue;
    for_each_argument(node(index), [&](ir::ValueId id) {
      if (producer(id) != kNoNode) waiting.push_back(producer(id));
    });
    remove_uses(index);
    alive_[index] = false;
  }
}

void GraphEdit::finish() {
  if (finished_) return;
  finished_ = true;
  // Nodes in front of an original one, in the order in which they were inserted.
  std::vector<std::vector<NodeIndex>> inserted(original_size_ + 1);
  for (NodeIndex index = original_size_; index < graph_.nodes.size(); ++index) {
    if (alive_[index]) inserted[anchors_[index]].push_back(index);
  }
  std::vector<ir::Node> ordered;
  ordered.reserve(graph_.nodes.size());
  for (NodeIndex index = 0; index < original_size_; ++index) {
    for (const NodeIndex before : inserted[index]) ordered.push_back(std::move(graph_.nodes[before]));
    if (alive_[index]) ordered.push_back(std::move(graph_.nodes[index]));
  }
  for (const NodeIndex last : inserted[original_size_]) ordered.push_back(std::move(graph_.nodes[last]));
  graph_.nodes = std::move(ordered);
}

void GraphEdit::add_uses(NodeIndex index) {
  for_each_argument(node(index), [&](ir::ValueId id) { users_[ir::index_of(id)].push_back(index); });
}

void GraphEdit::remove_uses(NodeIndex index) {
  for_each_argument(node(index), [&](ir::ValueId id) {
    std::vector<NodeIndex>& users = users_[ir::index_of(id)];
    users.erase(std::find(users.begin(), users.end(), index));
  });
}

ir::TensorType contiguous_type(DType dtype, std::vector<ir::Expr> dims) {
  ir::TensorType type;
  type.dtype = dtype;
  type.strides = ir::row_major_strides(dims);
  type.dims = std::move(dims);
  return type;
}

bool is_contiguous(const ir::TensorType& type) { return type.strides == ir::row_major_strides(type.dims); }

std::optional<std::int64_t> constant_dim(const ir::TensorType& type, std::size_t axis) {
  return axis < type.dims.size() ? type.dims[axis].constant() : std::nullopt;
}

ir::Expr last_dim(const ir::TensorType& type) { return type.dims.empty() ? ir::Expr(-1) : type.dims.back(); }

ir::Node make_node(const std::string& name, std::string target, std::vector<ir::NamedArgument> arguments,
                   ir::ValueId result) {
  ir::Node node;
  node.name = name;
  node.target = std::move(target);
  node.arguments = std::move(arguments);
  node.outputs = {{false, {result}}};
  return node;
}

}  // namespace kpt
