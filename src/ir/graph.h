// The graph: what a model computes, in single assignment form, one node per operator call.
//
// Targets keep PyTorch's names without the leading "torch.ops.": "aten.linear.default", "_operator.add",
// "higher_order.cond". Nothing here says where or how a node runs. A Graph is a value; verify() in verifier.h says
// whether one is well formed, text.h prints it and reads it back.
#pragma once

#include <compare>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/symbolic.h"
#include "kpt/dtype.h"

namespace kpt::ir {

// Index into Graph::values.
enum class ValueId : std::uint32_t {};
inline constexpr ValueId kNoValue{0xffffffffU};
constexpr std::uint32_t index_of(ValueId id) { return static_cast<std::uint32_t>(id); }

enum class ValueKind : std::uint8_t { kTensor, kInt, kFloat, kBool };
enum class Layout : std::uint8_t { kStrided, kSparseCoo, kSparseCsr, kSparseCsc, kSparseBsr, kSparseBsc, kMkldnn };
enum class MemoryFormat : std::uint8_t { kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };

struct DeviceSpec {
  std::string type = "cpu";  // as the exporter wrote it: "cpu", "cuda", "meta"
  std::optional<int> index;
  bool operator==(const DeviceSpec&) const = default;
};

// What the exporter recorded about a tensor. Strides and offset describe what PyTorch produced at export.
struct TensorType {
  DType dtype = DType::kFloat32;
  std::vector<Expr> dims;
  std::vector<Expr> strides;
  Expr storage_offset;
  DeviceSpec device;
  Layout layout = Layout::kStrided;
  bool requires_grad = false;
  bool operator==(const TensorType&) const = default;
};

struct Value {
  std::string name;  // unique in its graph
  ValueKind kind = ValueKind::kTensor;
  TensorType tensor;  // of kTensor
  Expr expression;    // of kInt: its value in terms of the inputs' symbols
  bool operator==(const Value&) const = default;
};

struct Graph;
struct Argument;

struct None {
  bool operator==(const None&) const = default;
};

// What the elements of a list are; an empty list has nothing else to say it by.
enum class ElementKind : std::uint8_t { kTensor, kOptionalTensor, kInt, kFloat, kBool, kString, kList };

// Lists in lists and graphs in graphs go this deep at most; verify() refuses more.
inline constexpr std::size_t kMaxNesting = 64;

struct List {
  ElementKind element = ElementKind::kTensor;
  std::vector<Argument> items;
  bool operator==(const List&) const;
};

struct Subgraph {
  std::string name;
  std::shared_ptr<const Graph> graph;
  bool operator==(const Subgraph&) const;  // by content
};

struct OperatorName {
  std::string target;
  bool operator==(const OperatorName&) const = default;
};

// One argument: a value of the graph or a constant. Ints, floats and bools that are symbolic are ValueIds.
struct Argument {
  std::variant<None, ValueId, bool, std::int64_t, double, std::complex<double>, std::string, DType, Layout,
               MemoryFormat, DeviceSpec, List, Subgraph, OperatorName>
      value;
  bool operator==(const Argument&) const;  // nan equals nan, so that a graph equals its copy

  const ValueId* value_id() const { return std::get_if<ValueId>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
};

struct NamedArgument {
  std::string name;  // of the operator's schema; empty: by position (operators of Python, higher-order operators)
  Argument value;
  bool operator==(const NamedArgument&) const = default;
};

// One result of a call: a value, a list of values (aten.split), or nothing (kNoValue in `values[0]`: an optional result
// that was None). A result that nobody uses still has its value.
struct Output {
  bool is_list = false;
  std::vector<ValueId> values;  // exactly one unless is_list
  bool operator==(const Output&) const = default;
};

struct Node {
  std::string target;
  std::string name;  // for messages; unique where the exporter gave one
  std::vector<NamedArgument> arguments;
  std::vector<Output> outputs;
  bool grad_enabled = true;           // false inside an inlined wrap_with_set_grad_enabled(False, …)
  std::uint64_t metadata_offset = 0;  // of its metadata object in the model's JSON; 0: none. Not part of equality
  bool operator==(const Node& other) const;
};

enum class InputKind : std::uint8_t {
  kUser,
  kParameter,
  kBuffer,
  kConstant,  // a tensor constant of the file
  kFixed,     // an argument that export specialised: `fixed` is the only value it may have
};

struct GraphInput {
  InputKind kind = InputKind::kUser;
  ValueId value = kNoValue;  // kNoValue only for kFixed
  std::string name;          // kUser, kFixed: how callers name it; otherwise the key of the weight
  bool persistent = true;    // of kBuffer
  Argument fixed;
  bool operator==(const GraphInput&) const = default;
};

// What the file holds rather than a caller gives.
inline bool is_weight(const GraphInput& input) {
  return input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer || input.kind == InputKind::kConstant;
}

enum class OutputKind : std::uint8_t { kUser, kBufferMutation, kParameterMutation, kInputMutation };

struct GraphOutput {
  OutputKind kind = OutputKind::kUser;
  Argument value;    // a ValueId, or a constant that the model returns (None, 1, "text")
  std::string name;  // kUser: by the structure that the model returns ("last_hidden_state", "past.0.key"); otherwise
                     // the key of the weight, or the name of the input, that receives the value after the run
  bool operator==(const GraphOutput&) const = default;
};

struct Graph {
  std::vector<Value> values;
  std::vector<GraphInput> inputs;  // in the order of the call
  std::vector<Node> nodes;         // in an order that computes
  std::vector<GraphOutput> outputs;
  std::vector<SymbolRange> symbols;
  bool operator==(const Graph&) const = default;

  const Value& at(ValueId id) const { return values[index_of(id)]; }
  Value& at(ValueId id) { return values[index_of(id)]; }
  ValueId add_value(Value value);
};

inline bool List::operator==(const List&) const = default;

// Calls `visit(ValueId)` for every value that an argument uses, lists included (sub-graphs have values of their own).
template <typename Visit>
void for_each_value(const Argument& argument, const Visit& visit) {
  if (const ValueId* id = argument.value_id()) visit(*id);
  if (const List* list = argument.list()) {
    for (const Argument& item : list->items) for_each_value(item, visit);
  }
}

}  // namespace kpt::ir
