// Random well-formed graphs for tests.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/expr_sampling.h"
#include "ir/graph.h"

namespace kpt::ir {

class GraphSampler {
 public:
  explicit GraphSampler(std::mt19937& random) : random_(random), exprs_(random) {}

  // `nesting`: how deep sub-graphs go.
  Graph graph(int nesting) {
    Graph made;
    made.symbols = {{"a", 1, 64}, {"b", std::nullopt, std::nullopt}, {"or", -5, std::nullopt}, {"two words", {}, 7}};
    std::vector<ValueId> ready;
    for (int i = 0; i < draw(0, 5); ++i) add_input(made, ready, i);
    for (int i = 0; i < draw(0, 6); ++i) add_node(made, ready, i, nesting);
    for (int i = 0; i < draw(0, 3); ++i) {
      made.outputs.push_back({OutputKind::kUser, argument(made, ready, 2, 0), pick({"", "logits", "past.0", "\"\n"})});
    }
    for (const GraphInput& input : made.inputs) {
      if (input.value == kNoValue || made.at(input.value).kind != ValueKind::kTensor || draw(0, 2) > 0) continue;
      if (input.kind == InputKind::kConstant || input.kind == InputKind::kFixed) continue;
      const OutputKind kind = input.kind == InputKind::kUser     ? OutputKind::kInputMutation
                              : input.kind == InputKind::kBuffer ? OutputKind::kBufferMutation
                                                                 : OutputKind::kParameterMutation;
      made.outputs.push_back({kind, {input.value}, input.name});
    }
    if (draw(0, 3) == 0) shuffle_values(made);
    return made;
  }

  std::int64_t draw(std::int64_t low, std::int64_t high) { return exprs_.draw(low, high); }

 private:
  std::string pick(std::vector<std::string> words) {
    return words[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(words.size()) - 1))];
  }

  std::vector<Expr> exprs(std::size_t count) {
    std::vector<Expr> made;
    while (made.size() < count) {
      Expr expr = exprs_.number(2);
      if (expr.constant().value_or(0) >= 0) made.push_back(std::move(expr));
    }
    return made;
  }

  // Names that are words, statements, flags, and no words at all.
  std::string value_name(const Graph& graph) {
    return pick({"x", "linear_", "input", "name", "no_grad", "none", "values", "a b", "\"%", "tensor",
                 "not_persistent"}) +
           (graph.values.empty() ? "" : std::to_string(graph.values.size()));
  }

  ValueId add_value(Graph& graph, ValueKind kind) {
    Value value;
    value.name = value_name(graph);
    value.kind = kind;
    if (kind != ValueKind::kTensor) {
      if (draw(0, 2) > 0) value.expression = exprs_.number(3);
      return graph.add_value(std::move(value));
    }
    TensorType& type = value.tensor;
    type.dtype = static_cast<DType>(draw(0, 20));
    type.dims = exprs(static_cast<std::size_t>(draw(0, 4)));
    type.strides = exprs(type.dims.size());
    if (draw(0, 1) == 0) {
      Expr stride = 1;
      for (std::size_t i = type.dims.size(); i-- > 0;) {
        type.strides[i] = stride;
        stride = Expr::make(ExprOp::kMul, {stride, type.dims[i]});
      }
    }
    if (draw(0, 3) == 0) type.storage_offset = exprs_.number(1);
    if (draw(0, 3) == 0) type.device = {pick({"cuda", "meta", "", "a:b"}), std::nullopt};
    if (draw(0, 3) == 0) type.device.index = static_cast<int>(draw(-1, 3));
    if (draw(0, 3) == 0) type.layout = static_cast<Layout>(draw(0, 6));
    type.requires_grad = draw(0, 3) == 0;
    return graph.add_value(std::move(value));
  }

  void add_input(Graph& graph, std::vector<ValueId>& ready, int number) {
    GraphInput input;
    input.kind = static_cast<InputKind>(draw(0, 4));
    const std::string name = pick({"weight ", "x.", "\\\xff\x01"}) + std::to_string(number);
    if (input.kind == InputKind::kFixed && draw(0, 1) == 0) {
      input.name = name;
    } else {
      const bool any = input.kind == InputKind::kUser || input.kind == InputKind::kFixed;
      input.value = add_value(graph, any ? static_cast<ValueKind>(draw(0, 3)) : ValueKind::kTensor);
      input.name = draw(0, 1) == 0 ? name : graph.at(input.value).name;
    }
    if (input.kind == InputKind::kFixed) input.fixed = argument(graph, ready, 2, 0);
    input.persistent = input.kind != InputKind::kBuffer || draw(0, 1) == 0;
    if (input.value != kNoValue) ready.push_back(input.value);
    graph.inputs.push_back(std::move(input));
  }

  void add_node(Graph& graph, std::vector<ValueId>& ready, int number, int nesting) {
    Node node;
    node.target = pick({"aten.linear.default", "_operator.add", "higher_order.cond", "#ns:op", "a b", "ns::op"});
    for (int i = 0; i < draw(0, 4); ++i) {
      const std::string name = pick({"", "self", "dtype", "none", "a b"});
      node.arguments.push_back({name.empty() ? name : name + std::to_string(i), argument(graph, ready, 3, nesting)});
    }
    for (int i = 0; i < draw(0, 3); ++i) {
      Output output;
      output.is_list = draw(0, 3) == 0;
      for (std::int64_t count = output.is_list ? draw(0, 3) : 1; count > 0; --count) {
        const bool absent = draw(0, 5) == 0;
        output.values.push_back(absent ? kNoValue : add_value(graph, static_cast<ValueKind>(draw(0, 3))));
      }
      node.outputs.push_back(std::move(output));
    }
    for (const Output& output : node.outputs) {
      for (const ValueId id : output.values) {
        if (id != kNoValue) ready.push_back(id);
      }
    }
    node.name = pick({"", "node_", "\"n\" "}) + std::to_string(number);
    if (!node.outputs.empty() && !node.outputs[0].values.empty() && node.outputs[0].values[0] != kNoValue &&
        draw(0, 1) == 0) {
      node.name = graph.at(node.outputs[0].values[0]).name;
    }
    node.grad_enabled = draw(0, 3) > 0;
    graph.nodes.push_back(std::move(node));
  }

  Argument argument(const Graph& graph, const std::vector<ValueId>& ready, int depth, int nesting) {
    switch (draw(0, 14)) {
      case 0: return {};
      case 1: return {draw(0, 1) == 0};
      case 2: return {std::vector<std::int64_t>{0, -1, INT64_MIN, INT64_MAX, 7}[index(5)]};
      case 3: return {real()};
      case 4: return {std::complex<double>(real(), real())};
      case 5: return {pick({"", "text", "\"\\\n\t\x7f", "=", std::string("\0x", 2)})};
      case 6: return {static_cast<DType>(draw(0, 20))};
      case 7: return {static_cast<Layout>(draw(0, 6))};
      case 8: return {static_cast<MemoryFormat>(draw(0, 3))};
      case 9: return {DeviceSpec{pick({"cpu", "cuda", ""}), draw(0, 1) == 0 ? std::nullopt : std::optional<int>(1)}};
      case 10: return {OperatorName{pick({"aten.add.Tensor", "", "a b"})}};
      case 11:
        if (nesting == 0) return {};
        return {Subgraph{pick({"body", "", "\n"}), std::make_shared<const Graph>(this->graph(nesting - 1))}};
      case 12:
        if (!ready.empty()) return {ready[index(static_cast<std::int64_t>(ready.size()))]};
        return {};
      default: return depth > 0 ? Argument{list(graph, ready, depth)} : Argument{};
    }
  }

  List list(const Graph& graph, const std::vector<ValueId>& ready, int depth) {
    List made;
    made.element = static_cast<ElementKind>(draw(0, 6));
    for (int i = 0; i < draw(0, 3); ++i) {
      const ValueKind kind = made.element == ElementKind::kInt     ? ValueKind::kInt
                             : made.element == ElementKind::kFloat ? ValueKind::kFloat
                             : made.element == ElementKind::kBool  ? ValueKind::kBool
                                                                   : ValueKind::kTensor;
      const bool constant_only = made.element == ElementKind::kString || made.element == ElementKind::kList;
      std::vector<ValueId> fitting;
      for (const ValueId id : ready) {
        if (graph.at(id).kind == kind) fitting.push_back(id);
      }
      if (!constant_only && !fitting.empty() && draw(0, 1) == 0) {
        made.items.push_back({fitting[index(static_cast<std::int64_t>(fitting.size()))]});
        continue;
      }
      switch (made.element) {
        case ElementKind::kTensor: break;
        case ElementKind::kOptionalTensor: made.items.push_back({}); break;
        case ElementKind::kInt: made.items.push_back({draw(-9, 9)}); break;
        case ElementKind::kFloat: made.items.push_back({real()}); break;
        case ElementKind::kBool: made.items.push_back({draw(0, 1) == 0}); break;
        case ElementKind::kString: made.items.push_back({pick({"", "nearest", "]"})}); break;
        case ElementKind::kList:
          if (depth > 0) made.items.push_back({list(graph, ready, depth - 1)});
      }
    }
    return made;
  }

  // Values in another order than they are defined in, and some that nothing defines.
  void shuffle_values(Graph& graph) {
    for (std::int64_t count = draw(0, 2); count > 0; --count) add_value(graph, static_cast<ValueKind>(draw(0, 3)));
    if (graph.values.size() < 2) return;
    const auto last = static_cast<ValueId>(graph.values.size() - 1);
    std::swap(graph.values.front(), graph.values.back());
    const auto move = [&](ValueId& id) {
      if (id == ValueId{0} || id == last) id = id == last ? ValueId{0} : last;
    };
    for (GraphInput& input : graph.inputs) {
      move(input.value);
      move_in(input.fixed, move);
    }
    for (Node& node : graph.nodes) {
      for (NamedArgument& argument : node.arguments) move_in(argument.value, move);
      for (Output& output : node.outputs) {
        for (ValueId& id : output.values) move(id);
      }
    }
    for (GraphOutput& output : graph.outputs) move_in(output.value, move);
  }

  template <typename Move>
  static void move_in(Argument& argument, const Move& move) {
    if (auto* id = std::get_if<ValueId>(&argument.value)) move(*id);
    if (auto* list = std::get_if<List>(&argument.value)) {
      for (Argument& item : list->items) move_in(item, move);
    }
  }

  double real() {
    switch (draw(0, 6)) {
      case 0: return HUGE_VAL;
      case 1: return -HUGE_VAL;
      case 2: return NAN;
      case 3: return -0.0;
      case 4: return 5e-324;
      case 5: return static_cast<double>(draw(-3, 3));
      default: return std::ldexp(static_cast<double>(random_()), static_cast<int>(draw(-80, 80)));
    }
  }
  std::size_t index(std::int64_t count) { return static_cast<std::size_t>(draw(0, count - 1)); }

  std::mt19937& random_;
  ExprSampler exprs_;
};

}  // namespace kpt::ir
