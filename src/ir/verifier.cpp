#include "ir/verifier.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "ir/own_operators.h"
#include "kpt/tensor.h"

namespace kpt::ir {
namespace {

std::string show(std::string_view name) { return "'" + printable(name, 100) + "'"; }

Status refuse(const std::string& message) { return {StatusCode::kCorruptData, message}; }

class Verification {
 public:
  // `place` stands before every message: empty for the whole graph, "in the graph 'body': " for a sub-graph. `outer`:
  // of the graph around it, whose symbols hold here too.
  Verification(const Graph& graph, std::string place, const Verification* outer, std::size_t nesting)
      : graph_(graph),
        place_(std::move(place)),
        outer_(outer),
        nesting_(nesting),
        defined_(graph.values.size(), false) {}

  Status run() {
    KPT_RETURN_IF_ERROR(check_symbols());
    KPT_RETURN_IF_ERROR(check_values());
    for (const GraphInput& input : graph_.inputs) KPT_RETURN_IF_ERROR(check_input(input));
    for (const Node& node : graph_.nodes) KPT_RETURN_IF_ERROR(check_node(node));
    for (const GraphOutput& output : graph_.outputs) KPT_RETURN_IF_ERROR(check_output(output));
    return {};
  }

 private:
  Status fail(const std::string& what) const { return refuse(place_ + what); }

  Status check_symbols();
  Status check_values() const;
  Status check_tensor_type(const Value& value) const;
  Status check_expr(const Value& value, const Expr& expr) const;
  Status check_input(const GraphInput& input);
  Status check_node(const Node& node);
  Status check_own_node(const Node& node, const std::string& where) const;
  Status check_output(const GraphOutput& output) const;
  Status define(ValueId id, const std::string& where);
  Status check_argument(const Argument& argument, const std::string& where, std::size_t nesting) const;
  Status check_list(const List& list, const std::string& where, std::size_t nesting) const;
  Status check_operands(const List& list, const std::string& where) const;
  Status check_use(ValueId id, const std::string& where) const;
  bool fits(const Argument& item, ElementKind kind) const;
  bool knows(std::string_view symbol) const;

  const Graph& graph_;
  std::string place_;
  const Verification* outer_;
  std::size_t nesting_;
  std::vector<bool> defined_;
  std::set<std::string_view> symbols_;  // the graph's own
  std::set<std::string_view> input_names_;
  std::set<std::pair<InputKind, std::string_view>> inputs_;
};

Status Verification::check_symbols() {
  for (const SymbolRange& symbol : graph_.symbols) {
    if (symbol.name.empty()) return fail("a symbol has no name");
    if (!symbols_.insert(symbol.name).second) return fail("the symbol " + show(symbol.name) + " is declared twice");
    if (symbol.min && symbol.max && *symbol.min > *symbol.max) {
      return fail("the range of the symbol " + show(symbol.name) + " is empty");
    }
  }
  return {};
}

bool Verification::knows(std::string_view symbol) const {
  const Verification* graph = this;
  while (graph != nullptr && !graph->symbols_.contains(symbol)) graph = graph->outer_;
  return graph != nullptr;
}

Status Verification::check_values() const {
  std::set<std::string_view> names;
  for (const Value& value : graph_.values) {
    if (value.name.empty()) return fail("a value has no name");
    if (!names.insert(value.name).second) return fail("two values have the name " + show(value.name));
    if (value.kind > ValueKind::kBool) return fail("the value " + show(value.name) + " is of an invalid kind");
    if (value.kind == ValueKind::kTensor) {
      KPT_RETURN_IF_ERROR(check_tensor_type(value));
      if (value.expression != Expr(0)) return fail("the tensor " + show(value.name) + " has an expression");
    } else {
      if (value.tensor != TensorType{}) return fail("the value " + show(value.name) + " is no tensor but has its type");
      KPT_RETURN_IF_ERROR(check_expr(value, value.expression));
    }
  }
  return {};
}

Status Verification::check_tensor_type(const Value& value) const {
  const TensorType& type = value.tensor;
  if (!find_dtype(to_string(type.dtype)) || type.layout > Layout::kMkldnn) {
    return fail("the value " + show(value.name) + " has an invalid element type or layout");
  }
  if (type.dims.size() > kMaxRank) {
    return fail("the value " + show(value.name) + " has rank " + std::to_string(type.dims.size()) + "; the limit is " +
                std::to_string(kMaxRank));
  }
  if (type.strides.size() != type.dims.size()) {
    return fail("the value " + show(value.name) + " has " + std::to_string(type.dims.size()) + " extents and " +
                std::to_string(type.strides.size()) + " strides");
  }
  for (const Expr& dim : type.dims) {
    KPT_RETURN_IF_ERROR(check_expr(value, dim));
    if (dim.constant().value_or(0) < 0) return fail("the value " + show(value.name) + " has a negative extent");
  }
  for (const Expr& stride : type.strides) KPT_RETURN_IF_ERROR(check_expr(value, stride));
  return check_expr(value, type.storage_offset);
}

Status Verification::check_expr(const Value& value, const Expr& expr) const {
  if (expr.constant()) return {};
  for (const std::string& symbol : expr.symbols()) {
    if (!knows(symbol)) {
      return fail("the value " + show(value.name) + " uses the symbol " + show(symbol) + ", which is not declared");
    }
  }
  return {};
}

Status Verification::check_input(const GraphInput& input) {
  const std::string where = "the input " + show(input.name);
  if (input.kind > InputKind::kFixed) return fail(where + " is of an invalid kind");
  inputs_.emplace(input.kind, input.name);
  const bool caller = input.kind == InputKind::kUser || input.kind == InputKind::kFixed;
  if (caller && !input.name.empty() && !input_names_.insert(input.name).second) {
    return fail("two inputs have the name " + show(input.name));
  }
  if (!caller && input.name.empty()) return fail("an input that is a weight does not name it");
  if (input.kind != InputKind::kFixed && !std::holds_alternative<None>(input.fixed.value)) {
    return fail(where + " has a fixed value but is not of that kind");
  }
  KPT_RETURN_IF_ERROR(check_argument(input.fixed, where, nesting_));
  if (input.value == kNoValue) {
    if (input.kind == InputKind::kFixed) return {};
    return fail(where + " has no value");
  }
  KPT_RETURN_IF_ERROR(define(input.value, where));
  if (!caller && graph_.at(input.value).kind != ValueKind::kTensor) return fail(where + " is a weight but no tensor");
  return {};
}

Status Verification::check_node(const Node& node) {
  const std::string where = "the node " + show(node.name) + " (" + printable(node.target, 100) + ")";
  if (node.target.empty()) return fail(where + " has no operator");
  std::set<std::string_view> names;
  for (const NamedArgument& argument : node.arguments) {
    if (!argument.name.empty() && !names.insert(argument.name).second) {
      return fail(where + " has the argument " + show(argument.name) + " twice");
    }
    const List* list = argument.value.list();
    if (list != nullptr && list->element == ElementKind::kTensor && node.target.starts_with("higher_order.")) {
      KPT_RETURN_IF_ERROR(check_operands(*list, where));
    } else {
      KPT_RETURN_IF_ERROR(check_argument(argument.value, where, nesting_));
    }
  }
  if (node.target.starts_with(kOwnPrefix)) KPT_RETURN_IF_ERROR(check_own_node(node, where));
  for (const Output& output : node.outputs) {
    if (!output.is_list && output.values.size() != 1) return fail(where + " has a result without exactly one value");
    for (const ValueId id : output.values) {
      if (id != kNoValue) KPT_RETURN_IF_ERROR(define(id, where));
    }
  }
  return {};
}

// Our own operators take every argument by name, none left out.
Status Verification::check_own_node(const Node& node, const std::string& where) const {
  const OwnOperator* own = find_own_operator(node.target);
  if (own == nullptr) return fail(where + " is of an operator that does not exist");
  for (const NamedArgument& argument : node.arguments) {
    if (std::find(own->arguments.begin(), own->arguments.end(), argument.name) == own->arguments.end()) {
      return fail(where + " has the argument " + show(argument.name) + ", which its operator lacks");
    }
  }
  if (node.arguments.size() != own->arguments.size()) {  // each stands there once at most
    return fail(where + " has " + std::to_string(node.arguments.size()) + " arguments, its operator " +
                std::to_string(own->arguments.size()));
  }
  if (std::cmp_not_equal(node.outputs.size(), own->results)) {
    return fail(where + " has " + std::to_string(node.outputs.size()) + " results, its operator " +
                std::to_string(own->results));
  }
  return {};
}

Status Verification::check_output(const GraphOutput& output) const {
  const std::string where = "the output " + show(output.name);
  if (output.kind > OutputKind::kInputMutation) return fail(where + " is of an invalid kind");
  KPT_RETURN_IF_ERROR(check_argument(output.value, where, nesting_));
  if (output.kind == OutputKind::kUser) return {};
  const ValueId* id = output.value.value_id();
  if (id == nullptr || graph_.at(*id).kind != ValueKind::kTensor) return fail(where + " changes a tensor but is none");
  const InputKind changed = output.kind == OutputKind::kBufferMutation      ? InputKind::kBuffer
                            : output.kind == OutputKind::kParameterMutation ? InputKind::kParameter
                                                                            : InputKind::kUser;
  if (!inputs_.contains({changed, output.name})) return fail(where + " changes an input that the graph does not have");
  return {};
}

Status Verification::define(ValueId id, const std::string& where) {
  if (index_of(id) >= graph_.values.size()) return fail(where + " defines a value that the graph does not have");
  if (defined_[index_of(id)]) return fail(where + " defines the value " + show(graph_.at(id).name) + " a second time");
  defined_[index_of(id)] = true;
  return {};
}

Status Verification::check_use(ValueId id, const std::string& where) const {
  if (index_of(id) >= graph_.values.size()) return fail(where + " uses a value that the graph does not have");
  if (!defined_[index_of(id)]) {
    return fail(where + " uses the value " + show(graph_.at(id).name) + " before it is defined");
  }
  return {};
}

Status Verification::check_argument(const Argument& argument, const std::string& where, std::size_t nesting) const {
  if (const ValueId* id = argument.value_id()) return check_use(*id, where);
  if (const List* list = argument.list()) return check_list(*list, where, nesting + 1);
  if (const auto* dtype = std::get_if<DType>(&argument.value); dtype != nullptr && !find_dtype(to_string(*dtype))) {
    return fail(where + " has an invalid element type");
  }
  const auto* subgraph = std::get_if<Subgraph>(&argument.value);
  if (subgraph == nullptr) return {};
  if (subgraph->graph == nullptr) return fail(where + " has no body for the graph " + show(subgraph->name));
  if (nesting + 1 > kMaxNesting) return fail(where + " nests lists and graphs too deeply");
  return Verification(*subgraph->graph, place_ + "in the graph " + show(subgraph->name) + ": ", this, nesting + 1)
      .run();
}

Status Verification::check_list(const List& list, const std::string& where, std::size_t nesting) const {
  if (nesting > kMaxNesting) return fail(where + " nests lists and graphs too deeply");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    KPT_RETURN_IF_ERROR(check_argument(list.items[i], where, nesting));
    if (!fits(list.items[i], list.element)) {
      return fail(where + " has a list whose item " + std::to_string(i) + " is not of the list's kind");
    }
  }
  return {};
}

// What sub-graphs take: the exporter writes numbers and tensors as one list of tensors.
Status Verification::check_operands(const List& list, const std::string& where) const {
  for (const Argument& item : list.items) {
    const ValueId* id = item.value_id();
    if (id == nullptr) return fail(where + " gives its sub-graphs something that is no value");
    KPT_RETURN_IF_ERROR(check_use(*id, where));
  }
  return {};
}

bool Verification::fits(const Argument& item, ElementKind kind) const {
  const ValueId* id = item.value_id();
  const auto is_value = [&](ValueKind wanted) { return id != nullptr && graph_.at(*id).kind == wanted; };
  switch (kind) {
    case ElementKind::kTensor: return is_value(ValueKind::kTensor);
    case ElementKind::kOptionalTensor: return is_value(ValueKind::kTensor) || std::holds_alternative<None>(item.value);
    case ElementKind::kInt: return is_value(ValueKind::kInt) || std::holds_alternative<std::int64_t>(item.value);
    case ElementKind::kFloat: return is_value(ValueKind::kFloat) || std::holds_alternative<double>(item.value);
    case ElementKind::kBool: return is_value(ValueKind::kBool) || std::holds_alternative<bool>(item.value);
    case ElementKind::kString: return std::holds_alternative<std::string>(item.value);
    case ElementKind::kList: return item.list() != nullptr;
  }
  return false;
}

}  // namespace

Status verify(const Graph& graph) { return Verification(graph, "", nullptr, 0).run(); }

}  // namespace kpt::ir
