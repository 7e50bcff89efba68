// What the tensors of a graph hold while it is written down, when some of them share memory.
//
// PyTorch's views share the memory of their base, and operators may write. Here every tensor is a chain of view steps
// over a cell; a cell has contents (a value of the function) and a version. A write through any view makes new contents
// of its cell: the steps are undone one by one. A tensor whose cell has changed since it was last read is taken from
// the new contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engines/xla/stablehlo/builder.h"
#include "ir/graph.h"

namespace kpt::xla {

enum class ViewKind : std::uint8_t { kReshape, kPermute, kSlice, kExpand };

struct ViewStep {
  ViewKind kind = ViewKind::kReshape;
  Extents dims;             // kReshape, kExpand: of the result; kPermute: the permutation; kSlice: where it starts
  Extents limits, strides;  // kSlice
};

// Throws Refusal when the step does not fit the value.
Value apply_step(Builder& builder, const ViewStep& step, const Value& base);
// `base` with the elements that the step shows replaced. Throws Refusal for an expansion: its elements are not
// distinct.
Value undo_step(Builder& builder, const ViewStep& step, const Value& base, const Value& changed);
Value apply_steps(Builder& builder, std::span<const ViewStep> steps, const Value& base);
Value undo_steps(Builder& builder, std::span<const ViewStep> steps, const Value& base, const Value& changed);

class Environment {
 public:
  Environment(const ir::Graph& graph, Builder& builder);

  // A tensor that nobody else can see.
  void define(ir::ValueId id, Value value);
  // A tensor that shares the memory of `source`.
  void define_view(ir::ValueId id, ir::ValueId source, std::span<const ViewStep> steps);
  // An input of the graph: an argument, taken when it is first read.
  void define_input(ir::ValueId id, std::uint32_t index, Value value);

  bool is_defined(ir::ValueId id) const;
  // What it holds now. Throws Refusal when nothing was defined.
  Value read(ir::ValueId id);
  // New contents, of the same type and dims.
  void write(ir::ValueId id, const Value& value);

  // The new contents of an input if something wrote it; its argument if something read it.
  std::optional<Value> written_input(std::uint32_t index) const;
  bool is_argument(std::uint32_t index) const;

 private:
  struct Cell {
    Value contents;
    std::uint64_t version = 0;
    std::optional<std::uint32_t> input;
    bool taken = false;  // an argument that something read
  };
  struct Place {
    std::optional<std::size_t> cell;
    std::vector<ViewStep> steps;
    std::optional<Value> seen;
    std::uint64_t version = 0;
  };
  Place& place(ir::ValueId id);

  Builder& builder_;
  std::vector<Cell> cells_;
  std::vector<Place> places_;  // by value
};

}  // namespace kpt::xla
