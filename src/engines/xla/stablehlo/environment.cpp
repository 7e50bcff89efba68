#include "engines/xla/stablehlo/environment.h"

#include <algorithm>

namespace kpt::xla {
namespace {

Extents inverse_of(const Extents& permutation) {
  Extents inverse(permutation.size());
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    inverse[static_cast<std::size_t>(permutation[axis])] = static_cast<std::int64_t>(axis);
  }
  return inverse;
}

Value put_slice(Builder& builder, const ViewStep& step, const Value& base, const Value& changed) {
  if (changed.dims == base.dims) return changed;
  if (element_count(changed.dims) == 0) return base;
  if (std::all_of(step.strides.begin(), step.strides.end(), [](std::int64_t stride) { return stride == 1; })) {
    std::vector<Value> starts;
    for (const std::int64_t start : step.dims) starts.push_back(builder.scalar(start, DType::kInt64));
    return builder.dynamic_update_slice(base, changed, starts);
  }
  Extents high;
  Extents interior;
  for (std::size_t axis = 0; axis < base.rank(); ++axis) {
    const std::int64_t reach = (changed.dims[axis] - 1) * step.strides[axis] + 1;
    high.push_back(base.dims[axis] - step.dims[axis] - reach);
    interior.push_back(step.strides[axis] - 1);
  }
  const Value spread = builder.pad(changed, builder.scalar(std::int64_t{0}, base.dtype), step.dims, high, interior);
  const Value there = builder.splat(true, DType::kBool, changed.dims);
  const Value mask = builder.pad(there, builder.scalar(false, DType::kBool), step.dims, high, interior);
  return builder.select(mask, spread, base);
}

}  // namespace

Value apply_step(Builder& builder, const ViewStep& step, const Value& base) {
  switch (step.kind) {
    case ViewKind::kReshape: return builder.reshape(base, step.dims);
    case ViewKind::kPermute: return builder.transpose(base, step.dims);
    case ViewKind::kSlice: return builder.slice(base, step.dims, step.limits, step.strides);
    case ViewKind::kExpand: return builder.broadcast_to(base, step.dims);
  }
  throw Refusal{"an unknown kind of view"};
}

Value undo_step(Builder& builder, const ViewStep& step, const Value& base, const Value& changed) {
  switch (step.kind) {
    case ViewKind::kReshape: return builder.reshape(changed, base.dims);
    case ViewKind::kPermute: return builder.transpose(changed, inverse_of(step.dims));
    case ViewKind::kSlice: return put_slice(builder, step, base, changed);
    case ViewKind::kExpand:
      if (element_count(changed.dims) == element_count(base.dims)) return builder.reshape(changed, base.dims);
      throw Refusal{"it writes through an expanded view, whose elements share memory"};
  }
  throw Refusal{"an unknown kind of view"};
}

Value apply_steps(Builder& builder, std::span<const ViewStep> steps, const Value& base) {
  Value value = base;
  for (const ViewStep& step : steps) value = apply_step(builder, step, value);
  return value;
}

Value undo_steps(Builder& builder, std::span<const ViewStep> steps, const Value& base, const Value& changed) {
  if (steps.empty()) return changed;
  const Value inner = apply_step(builder, steps.front(), base);
  return undo_step(builder, steps.front(), base, undo_steps(builder, steps.subspan(1), inner, changed));
}

Environment::Environment(const ir::Graph& graph, Builder& builder) : builder_(builder), places_(graph.values.size()) {}

Environment::Place& Environment::place(ir::ValueId id) {
  if (ir::index_of(id) >= places_.size()) throw Refusal{"it uses a value that the graph does not have"};
  return places_[ir::index_of(id)];
}

void Environment::define(ir::ValueId id, Value value) {
  Place& entry = place(id);
  cells_.push_back({value, 0, std::nullopt, false});
  entry = {cells_.size() - 1, {}, std::move(value), 0};
}

void Environment::define_input(ir::ValueId id, std::uint32_t index, Value value) {
  Place& entry = place(id);
  cells_.push_back({std::move(value), 0, index, false});
  entry = {cells_.size() - 1, {}, std::nullopt, 0};
}

void Environment::define_view(ir::ValueId id, ir::ValueId source, std::span<const ViewStep> steps) {
  const Value before = read(source);
  const Place& from = place(source);
  Place& entry = place(id);
  entry.cell = from.cell;
  entry.steps = from.steps;
  entry.steps.insert(entry.steps.end(), steps.begin(), steps.end());
  entry.seen = apply_steps(builder_, steps, before);
  entry.version = cells_[*entry.cell].version;
}

bool Environment::is_defined(ir::ValueId id) const {
  return ir::index_of(id) < places_.size() && places_[ir::index_of(id)].cell.has_value();
}

Value Environment::read(ir::ValueId id) {
  Place& entry = place(id);
  if (!entry.cell) throw Refusal{"one of its operands has no lowering"};
  Cell& cell = cells_[*entry.cell];
  if (entry.seen && entry.version == cell.version) return *entry.seen;
  if (cell.input && cell.version == 0) cell.taken = true;
  entry.seen = apply_steps(builder_, entry.steps, cell.contents);
  entry.version = cell.version;
  return *entry.seen;
}

void Environment::write(ir::ValueId id, const Value& value) {
  Place& entry = place(id);
  if (!entry.cell) throw Refusal{"it writes a tensor that has no lowering"};
  Cell& cell = cells_[*entry.cell];
  if (cell.input && cell.version == 0 && !entry.steps.empty()) cell.taken = true;
  cell.contents = undo_steps(builder_, entry.steps, cell.contents, value);
  ++cell.version;
  entry.seen = value;
  entry.version = cell.version;
}

std::optional<Value> Environment::written_input(std::uint32_t index) const {
  for (const Cell& cell : cells_) {
    if (cell.input == index && cell.version > 0) return cell.contents;
  }
  return std::nullopt;
}

bool Environment::is_argument(std::uint32_t index) const {
  return std::any_of(cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.input == index && cell.taken; });
}

}  // namespace kpt::xla
