// Copies, casts, and operators that put elements in other places.
#include <algorithm>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

// PyTorch's rule for when other dims can be seen in the same memory: each group of old axes that lies in one piece must
// be made of whole new axes.
bool fits_view(const Extents& dims, const Extents& strides, const Extents& wanted) {
  if (dims.empty() || element_count(dims) == 0) return true;
  std::int64_t base = strides.back();
  std::int64_t old_count = 1;
  std::int64_t new_count = 1;
  std::size_t next = wanted.size();
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    old_count *= dims[axis];
    if (axis > 0 && (dims[axis - 1] == 1 || strides[axis - 1] == old_count * base)) continue;
    while (next > 0 && (new_count < old_count || wanted[next - 1] == 1)) new_count *= wanted[--next];
    if (new_count != old_count) return false;
    if (axis > 0) base = strides[axis - 1];
    old_count = 1;
    new_count = 1;
  }
  return next == 0;
}

// A view where PyTorch gives one, a copy elsewhere: who writes the one later must see it in the other, or not.
void lower_reshape(Call& call) {
  const Value self = call.tensor("self");
  const ViewStep step{ViewKind::kReshape, call.type().dims, {}, {}};
  if (fits_view(self.dims, call.recorded_strides("self"), call.type().dims)) return call.set_view("self", {&step, 1});
  call.set(apply_step(call.builder(), step, self));
}

void lower_copied_reshape(Call& call) { call.set(call.builder().reshape(call.tensor("self"), call.type().dims)); }

void lower_contiguous(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const Extents before = call.recorded_strides("self");
  const Extents after = call.recorded_strides(std::size_t{0});
  bool same = before.size() == after.size() && before.size() == dims.size();
  for (std::size_t axis = 0; same && axis < dims.size(); ++axis) same = dims[axis] <= 1 || before[axis] == after[axis];
  if (same) return call.set_view("self", {});
  call.set(call.tensor("self"));
}

void lower_clone(Call& call) { call.set(call.tensor("self")); }

void lower_to(Call& call) {
  const Value self = call.tensor("self");
  if (self.dtype == call.type().dtype && !call.flag("copy", false)) return call.set_view("self", {});
  call.set(self);
}

// copy(self, src), the functional form of copy_.
void lower_copy(Call& call) {
  Builder& b = call.builder();
  call.set(b.broadcast_to(b.convert(call.tensor("src"), call.type().dtype), call.type().dims));
}

void join(Call& call, const std::vector<Value>& parts, std::size_t axis) {
  Builder& b = call.builder();
  std::vector<Value> used;
  for (const Value& part : parts) {
    // An old custom that PyTorch keeps: an empty tensor of one dimension joins anything.
    if (part.dims == Extents{0} && call.type().dims.size() != 1) continue;
    used.push_back(b.convert(part, call.type().dtype));
  }
  if (used.empty()) return call.set(b.splat(std::int64_t{0}, call.type().dtype, call.type().dims));
  for (const Value& part : used) {
    if (part.rank() != used[0].rank() || axis >= part.rank()) refuse("its tensors have other numbers of dimensions");
  }
  call.set(b.concatenate(used, axis));
}

void lower_cat(Call& call) { join(call, call.tensors("tensors"), call.axis("dim", call.type().dims.size(), 0)); }

void lower_stack(Call& call) {
  std::vector<Value> parts = call.tensors("tensors");
  const std::size_t axis = call.axis("dim", call.type().dims.size(), 0);
  for (Value& part : parts) {
    Extents dims = part.dims;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    part = call.builder().reshape(part, dims);
  }
  join(call, parts, axis);
}

// hstack joins along the second axis (the first of vectors), vstack along the first of matrices.
void lower_hstack(Call& call) {
  std::vector<Value> parts = call.tensors("tensors");
  for (Value& part : parts) {
    if (part.rank() == 0) part = call.builder().reshape(part, {1});
  }
  const std::size_t axis = parts.empty() || parts[0].rank() == 1 ? 0 : 1;
  join(call, parts, axis);
}

void lower_vstack(Call& call) {
  std::vector<Value> parts = call.tensors("tensors");
  for (Value& part : parts) {
    if (part.rank() == 0) part = call.builder().reshape(part, {1, 1});
    if (part.rank() == 1) part = call.builder().reshape(part, {1, part.dims[0]});
  }
  join(call, parts, 0);
}

// Every axis of extent n becomes (count, n), broadcast, and is joined again.
void lower_repeat(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  Extents counts = call.ints(call.has("repeats") ? "repeats" : "dims", {});
  if (counts.size() < self.rank()) counts.insert(counts.begin(), self.rank() - counts.size(), 1);
  const std::size_t added = counts.size() - self.rank();
  Extents split;
  Extents mapping;
  for (std::size_t axis = 0; axis < counts.size(); ++axis) {
    split.push_back(counts[axis]);
    if (axis < added) continue;
    mapping.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(self.dims[axis - added]);
  }
  call.set(b.reshape(b.broadcast_in_dim(self, split, mapping), call.type().dims));
}

void lower_repeat_interleave(Call& call) {
  Builder& b = call.builder();
  Value self = call.tensor("self");
  if (!call.has("dim")) self = b.reshape(self, {element_count(self.dims)});
  const std::size_t axis = call.axis("dim", self.rank(), 0);
  Extents split = self.dims;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, call.integer("repeats"));
  Extents mapping;
  for (std::size_t place = 0; place < self.rank(); ++place) {
    mapping.push_back(static_cast<std::int64_t>(place <= axis ? place : place + 1));
  }
  call.set(b.reshape(b.broadcast_in_dim(self, split, mapping), call.type().dims));
}

void lower_flip(Call& call) {
  const Value self = call.tensor("self");
  Extents axes = call.ints("dims", {});
  for (std::int64_t& axis : axes) axis = static_cast<std::int64_t>(normalize_axis(axis, self.rank()));
  call.set(self.rank() == 0 ? self : call.builder().reverse(self, axes));
}

Value roll(Builder& b, const Value& x, std::size_t axis, std::int64_t shift) {
  const std::int64_t extent = x.dims[axis];
  if (extent == 0) return x;
  const std::int64_t cut = extent - ((shift % extent) + extent) % extent;
  if (cut == extent) return x;
  const Value parts[] = {b.slice_axis(x, axis, cut, extent), b.slice_axis(x, axis, 0, cut)};
  return b.concatenate(parts, axis);
}

void lower_roll(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Extents shifts = call.ints("shifts", {});
  const Extents axes = call.ints("dims", {});
  if (axes.empty()) {
    if (shifts.size() != 1) refuse("its shifts have no axes");
    const Value flat = b.reshape(self, {element_count(self.dims)});
    return call.set(b.reshape(roll(b, flat, 0, shifts[0]), self.dims));
  }
  if (axes.size() != shifts.size()) refuse("it has other shifts than axes");
  Value value = self;
  for (std::size_t index = 0; index < axes.size(); ++index) {
    value = roll(b, value, normalize_axis(axes[index], self.rank()), shifts[index]);
  }
  call.set(value);
}

// One axis with its edge mirrored (without the edge itself) or repeated.
Value extend_axis(Builder& b, const Value& x, std::size_t axis, std::int64_t low, std::int64_t high, bool mirrors) {
  if (low < 0 || high < 0) refuse("it pads with a negative width");
  const std::int64_t extent = x.dims[axis];
  if (extent == 0 || (mirrors && (low >= extent || high >= extent))) refuse("its padding is wider than the tensor");
  const auto edge = [&](std::int64_t start, std::int64_t count, std::int64_t place) {
    if (mirrors) return b.reverse(b.slice_axis(x, axis, start, start + count), {static_cast<std::int64_t>(axis)});
    Extents dims = x.dims;
    dims[axis] = count;
    return b.broadcast_to(b.slice_axis(x, axis, place, place + 1), dims);
  };
  std::vector<Value> parts;
  if (low > 0) parts.push_back(edge(1, low, 0));
  parts.push_back(x);
  if (high > 0) parts.push_back(edge(extent - 1 - high, high, extent - 1));
  return b.concatenate(parts, axis);
}

void pad(Call& call, std::string_view mode) {
  Builder& b = call.builder();
  Value value = call.tensor("self");
  const Extents widths = call.ints(call.has("pad") ? "pad" : "padding", {});
  if (widths.size() % 2 != 0 || widths.size() / 2 > value.rank()) refuse("it pads other axes than there are");
  Extents low(value.rank(), 0);
  Extents high(value.rank(), 0);
  for (std::size_t index = 0; index < widths.size() / 2; ++index) {
    low[value.rank() - 1 - index] = widths[2 * index];
    high[value.rank() - 1 - index] = widths[2 * index + 1];
  }
  if (mode == "constant") {
    const Number filler = call.find_number("value").value_or(std::int64_t{0});
    return call.set(b.pad(value, b.scalar(filler, value.dtype), low, high));
  }
  if (mode != "reflect" && mode != "replicate") refuse("it pads by wrapping around");
  for (std::size_t axis = 0; axis < value.rank(); ++axis) {
    if (low[axis] != 0 || high[axis] != 0) {
      value = extend_axis(b, value, axis, low[axis], high[axis], mode == "reflect");
    }
  }
  call.set(value);
}

void lower_pad(Call& call) { pad(call, call.text("mode", "constant")); }
void lower_constant_pad(Call& call) { pad(call, "constant"); }
void lower_reflect(Call& call) { pad(call, "reflect"); }
void lower_replicate(Call& call) { pad(call, "replicate"); }

// Windows of an axis, which come last; they may overlap, so each is a slice.
void lower_unfold(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const std::size_t axis = call.axis("dimension", self.rank());
  const std::int64_t size = call.integer("size");
  const std::int64_t step = call.integer("step");
  if (self.rank() == 0 || step < 1 || size < 1 || size > self.dims[axis]) refuse("its windows do not fit");
  const std::int64_t count = (self.dims[axis] - size) / step + 1;
  if (size > 256) refuse("its windows are longer than 256");
  std::vector<Value> parts;
  Extents dims = self.dims;
  dims[axis] = count;
  dims.push_back(1);
  for (std::int64_t place = 0; place < size; ++place) {
    const Value taken = b.slice_axis(self, axis, place, place + (count - 1) * step + 1, step);
    parts.push_back(b.reshape(taken, dims));
  }
  call.set(b.concatenate(parts, self.rank()));
}

constexpr Rule kShapeRules[] = {
    {"aten._to_copy.default", lower_clone},
    {"aten._unsafe_view.default", lower_copied_reshape},
    {"aten.cat.default", lower_cat},
    {"aten.clone.default", lower_clone},
    {"aten.concat.default", lower_cat},
    {"aten.constant_pad_nd.default", lower_constant_pad},
    {"aten.contiguous.default", lower_contiguous},
    {"aten.copy.default", lower_copy},
    {"aten.flatten.using_ints", lower_reshape},
    {"aten.flip.default", lower_flip},
    {"aten.hstack.default", lower_hstack},
    {"aten.lift_fresh_copy.default", lower_clone},
    {"aten.pad.default", lower_pad},
    {"aten.ravel.default", lower_reshape},
    {"aten.reflection_pad1d.default", lower_reflect},
    {"aten.reflection_pad2d.default", lower_reflect},
    {"aten.repeat.default", lower_repeat},
    {"aten.repeat_interleave.self_int", lower_repeat_interleave},
    {"aten.replication_pad1d.default", lower_replicate},
    {"aten.replication_pad2d.default", lower_replicate},
    {"aten.reshape.default", lower_reshape},
    {"aten.reshape_as.default", lower_reshape},
    {"aten.roll.default", lower_roll},
    {"aten.stack.default", lower_stack},
    {"aten.tile.default", lower_repeat},
    {"aten.to.device", lower_to},
    {"aten.to.dtype", lower_to},
    {"aten.to.dtype_layout", lower_to},
    {"aten.to.other", lower_to},
    {"aten.type_as.default", lower_to},
    {"aten.unfold.default", lower_unfold},
    {"aten.vstack.default", lower_vstack},
};

}  // namespace

std::span<const Rule> shape_rules() { return kShapeRules; }

}  // namespace kpt::xla
