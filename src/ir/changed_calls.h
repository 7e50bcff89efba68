// Graphs whose calls are wrong in ways that a reader of files cannot see, because it knows no operator: for tests only.
//
// verify() holds what every graph must have; which arguments an operator takes, and of which kind and size, is known to
// whoever runs it. Whatever reads a call must answer such graphs with a status.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace kpt::ir {

inline constexpr std::size_t kOneIn = 61;  // of a graph's values, what node_alone() adds to those that a node reads

class CallChanger {
 public:
  // Other operators and names of arguments are those of `words`, which must outlive this.
  CallChanger(const Graph& words, std::uint64_t seed) : words_(words), random_(seed) {}

  // Changes one node, or what is recorded about one result. Says how, for the message of a test that fails.
  std::string change(Graph& graph) {
    const std::size_t place = draw(graph.nodes.size());
    Node& node = graph.nodes[place];
    const std::string name = node.name + " (" + node.target + "): ";
    switch (draw(8)) {
      case 0:
        node.target = draw(4) == 0 ? "aten.nothing.default" : words_.nodes[draw(words_.nodes.size())].target;
        return name + "now " + node.target;
      case 1: return name + change_type(graph, node);
      case 2: return name + change_results(node);
      case 3:
        node.arguments.insert(node.arguments.begin() + static_cast<std::ptrdiff_t>(draw(node.arguments.size() + 1)),
                              {draw(2) == 0 ? "surplus" : any_name(), make_argument(graph, place, 2)});
        return name + "an argument more";
      default: return name + change_argument(graph, place);
    }
  }

 private:
  std::size_t draw(std::size_t end) {
    return end == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

  std::string any_name() {
    const Node& other = words_.nodes[draw(words_.nodes.size())];
    return other.arguments.empty() ? "self" : other.arguments[draw(other.arguments.size())].name;
  }

  std::int64_t extreme() {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kValues[] = {0, 1, -1, 2, 3, 7, -7, 64, 1 << 20, std::int64_t{1} << 40, kMost, -kMost - 1};
    return kValues[draw(std::size(kValues))];
  }

  double extreme_float() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kValues[] = {
        0, -0.0, 0.5, -1, 1e300, 5e-324, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
    return kValues[draw(std::size(kValues))];
  }

  // A value that is there before the node at `place`.
  Argument earlier_value(const Graph& graph, std::size_t place) {
    std::vector<ValueId> ready;
    for (const GraphInput& input : graph.inputs) {
      if (input.value != kNoValue) ready.push_back(input.value);
    }
    for (std::size_t i = 0; i < place; ++i) {
      for (const Output& output : graph.nodes[i].outputs) {
        std::ranges::copy_if(output.values, std::back_inserter(ready), [](auto id) { return id != kNoValue; });
      }
    }
    if (ready.empty()) return {None{}};
    return {ready[draw(ready.size())]};
  }

  Argument make_argument(const Graph& graph, std::size_t place, int nesting) {
    switch (draw(nesting > 0 ? 12 : 8)) {
      case 0: return {None{}};
      case 1: return {draw(2) == 0};
      case 2:
      case 3: return {extreme()};
      case 4: return {extreme_float()};
      case 5: return {std::string(draw(2) == 0 ? "none" : "")};
      case 6: return {static_cast<DType>(draw(kDTypes))};
      case 7: return earlier_value(graph, place);
      default: return make_list(graph, place, nesting - 1);
    }
  }

  Argument make_list(const Graph& graph, std::size_t place, int nesting) {
    List list;
    const std::size_t count = draw(10);
    switch (draw(4)) {
      case 0:
        list.element = ElementKind::kInt;
        for (std::size_t i = 0; i < count; ++i) list.items.push_back({extreme()});
        break;
      case 1:
        list.element = ElementKind::kOptionalTensor;
        for (std::size_t i = 0; i < count; ++i) {
          list.items.push_back(draw(3) == 0 ? Argument{None{}} : earlier_value(graph, place));
        }
        break;
      case 2:
        list.element = ElementKind::kFloat;
        for (std::size_t i = 0; i < count; ++i) list.items.push_back({extreme_float()});
        break;
      default:
        list.element = ElementKind::kList;
        for (std::size_t i = 0; i < count; ++i) list.items.push_back(make_argument(graph, place, nesting));
    }
    return {std::move(list)};
  }

  std::string change_argument(Graph& graph, std::size_t place) {
    Node& node = graph.nodes[place];
    if (node.arguments.empty()) return "nothing to change";
    const std::size_t which = draw(node.arguments.size());
    NamedArgument& argument = node.arguments[which];
    const std::string name = argument.name;
    switch (draw(6)) {
      case 0:
        node.arguments.erase(node.arguments.begin() + static_cast<std::ptrdiff_t>(which));
        return name + " left out";
      case 1: argument.name = any_name(); return name + " is called " + argument.name;
      case 2:
        if (auto* const list = std::get_if<List>(&argument.value.value)) {
          return name + change_list(graph, place, *list);
        }
        [[fallthrough]];
      default: argument.value = make_argument(graph, place, 2); return name + " has another value";
    }
  }

  std::string change_list(const Graph& graph, std::size_t place, List& list) {
    if (list.items.empty() || draw(3) == 0) {
      list.items.push_back(make_argument(graph, place, 0));
      return " has an element more";
    }
    const std::size_t which = draw(list.items.size());
    if (draw(2) == 0) {
      list.items.erase(list.items.begin() + static_cast<std::ptrdiff_t>(which));
      return " has an element less";
    }
    list.items[which] = make_argument(graph, place, 0);
    return " has another element";
  }

  std::string change_results(Node& node) {
    if (node.outputs.empty()) return "nothing to change";
    Output& output = node.outputs[draw(node.outputs.size())];
    if (output.is_list && !output.values.empty() && draw(2) == 0) {
      output.values.pop_back();
      return "a result less in its list";
    }
    output.is_list = !output.is_list;
    return output.is_list ? "its result is a list" : "its result is no list";
  }

  std::string change_type(Graph& graph, const Node& node) {
    std::vector<ValueId> results;
    for (const Output& output : node.outputs) {
      std::ranges::copy_if(output.values, std::back_inserter(results), [](auto id) { return id != kNoValue; });
    }
    if (results.empty()) return "nothing to change";
    Value& value = graph.at(results[draw(results.size())]);
    if (draw(8) == 0) {
      value.kind = static_cast<ValueKind>(draw(4));
      return "another kind of result";
    }
    if (draw(3) == 0) {
      value.tensor.dtype = static_cast<DType>(draw(kDTypes));
      return "another type of elements";
    }
    std::vector<Expr>& dims = value.tensor.dims;
    std::vector<Expr>& strides = value.tensor.strides;
    if (dims.empty() || draw(3) == 0) {
      dims.emplace_back(std::max<std::int64_t>(0, extreme()));
      strides.emplace_back(1);
      return "a dimension more";
    }
    const std::size_t which = draw(dims.size());
    if (draw(2) == 0) {
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(which));
      if (!strides.empty()) strides.pop_back();
      return "a dimension less";
    }
    dims[which] = Expr(std::max<std::int64_t>(0, extreme()));
    return "another extent";
  }

  static constexpr std::size_t kDTypes = static_cast<std::size_t>(DType::kComplex128) + 1;
  const Graph& words_;
  std::mt19937_64 random_;
};

// One node; its inputs are what it reads, and some of the other values: a large graph takes a hundred times as long.
inline Graph node_alone(const Graph& graph, std::size_t place) {
  Graph alone;
  alone.values = graph.values;
  alone.symbols = graph.symbols;
  alone.nodes = {graph.nodes[place]};
  std::vector<bool> wanted(graph.values.size());
  for (std::size_t index = place % kOneIn; index < wanted.size(); index += kOneIn) wanted[index] = true;
  for (const NamedArgument& argument : graph.nodes[place].arguments) {
    for_each_value(argument.value, [&](ValueId id) { wanted[index_of(id)] = true; });
  }
  for (const Output& output : graph.nodes[place].outputs) {
    for (const ValueId id : output.values) {
      if (id == kNoValue) continue;
      wanted[index_of(id)] = false;
      alone.outputs.push_back({OutputKind::kUser, {id}, graph.at(id).name});
    }
  }
  for (std::size_t index = 0; index < wanted.size(); ++index) {
    const auto id = static_cast<ValueId>(index);
    if (!wanted[index] || graph.at(id).kind != ValueKind::kTensor) continue;
    alone.inputs.push_back({InputKind::kUser, id, graph.at(id).name, true, {}});
  }
  return alone;
}

}  // namespace kpt::ir
