// What goes into each position of an operator's stack: a constant prepared at load, or a value of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "device/nvidia_policy.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::aten {

struct ArgumentSource {
  enum class Kind : std::uint8_t {
    kConstant,
    kSlot,          // the value as it is
    kScalarTensor,  // a number in a tensor's place: a 0-dim tensor that does not take part in type promotion
    kFloat,         // an integer where the schema wants a float
    kInteger,       // a truth value where the schema wants an integer
    kList,          // `items`, gathered anew in each run
  };
  Kind kind = Kind::kConstant;
  c10::IValue constant;
  std::uint32_t slot = 0;
  ir::ElementKind element = ir::ElementKind::kTensor;  // of kList
  std::uint32_t list = 0;                              // of kList: its place in the frame's list cache
  std::vector<ArgumentSource> items;

  bool is_constant() const { return kind == Kind::kConstant; }
};

struct BindingContext {
  const ir::Graph& graph;
  at::Device device;             // replaces every device that the exporter wrote into a node
  NvidiaPolicy policy = {};      // of nodes of ours
  std::uint32_t list_count = 0;  // of kList sources so far
  std::vector<bool> used = {};   // by value: whether a node or an output takes it; found when an own node first asks
};

// How `argument` fills a position of type `type`. Fails with kUnsupported when the two do not go together.
Result<ArgumentSource> bind_argument(const ir::Argument& argument, const c10::TypePtr& type, BindingContext& context);

// All positions of `schema` in order: given by name (or by position where the name is empty), else the default.
// Fails with kUnsupported for an argument the schema lacks, given twice, or one that is missing.
Result<std::vector<ArgumentSource>> bind_arguments(const std::vector<ir::NamedArgument>& given,
                                                   const c10::FunctionSchema& schema, BindingContext& context);

}  // namespace kpt::aten
