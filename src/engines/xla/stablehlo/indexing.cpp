// Reading and writing by indices that are tensors.
//
// One out of range, for which PyTorch raises, reads NaN (the least integer, true), and writes that into the nearest
// place in range: XLA would take the nearest element, or drop the write, in silence. Negative indices are such, too,
// but for the operators for which they count from the end.
#include <algorithm>
#include <limits>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

// What a wrong index shows.
Value poison(Builder& b, DType dtype) {
  if (is_floating(dtype)) return b.scalar(std::numeric_limits<double>::quiet_NaN(), dtype);
  return dtype == DType::kBool ? b.scalar(true, dtype) : b.lowest(dtype);
}

struct Checked {
  Value index;     // within the axis, as int32 where that is enough
  Value in_range;  // bool, of the same dims
};

enum class Negative : std::uint8_t { kFromEnd, kOutOfRange };

Checked check_index(Builder& b, const Value& given, std::int64_t extent, Negative negative) {
  if (!is_integral(given.dtype)) refuse("an index is no integer");
  const Value index = b.convert(given, DType::kInt64);
  const Value zero = b.splat(std::int64_t{0}, DType::kInt64, index.dims);
  const Value size = b.splat(extent, DType::kInt64, index.dims);
  Value wrapped = index;
  if (negative == Negative::kFromEnd) {
    wrapped = b.select({b.compare("LT", index, zero), b.binary("add", index, size), index});
  }
  const Value in_range = b.binary("and", {b.compare("GE", wrapped, zero), b.compare("LT", wrapped, size)});
  const Value last = b.splat(std::max<std::int64_t>(extent - 1, 0), DType::kInt64, index.dims);
  const Value nearest = b.binary("minimum", b.binary("maximum", wrapped, zero), last);
  const bool small = extent <= std::numeric_limits<std::int32_t>::max();
  return {small ? b.convert(nearest, DType::kInt32) : nearest, in_range};
}

// `in_range` has some of the axes of `dims`; where it is false the value is replaced.
Value poison_where_wrong(Builder& b, const Value& value, const Value& in_range, const Extents& mapping) {
  const Value mask = b.broadcast_in_dim(in_range, value.dims, mapping);
  return b.select(mask, value, b.broadcast_to(poison(b, value.dtype), value.dims));
}

Extents counting(std::size_t from, std::size_t count) {
  Extents list;
  for (std::size_t item = 0; item < count; ++item) list.push_back(static_cast<std::int64_t>(from + item));
  return list;
}

// Indices for some axes of a tensor, all of one shape, and where that shape stands in the result: in the place of the
// indexed axes when they are neighbours, else in front.
struct Selection {
  Extents axes;           // of the tensor, rising
  Value vectors;          // [shape…, axes]
  Value in_range;         // [shape…]
  Extents shape;          // of the indices
  std::size_t place = 0;  // of `shape` in the result
  Extents result;         // dims of what is read or written
  Extents window;         // axes of the result that are not of `shape`
  Extents slice_sizes;    // of the tensor: 1 for indexed axes
};

Extents broadcast_shapes(const Extents& a, const Extents& b) {
  Extents result(std::max(a.size(), b.size()), 1);
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::int64_t x = back <= a.size() ? a[a.size() - back] : 1;
    const std::int64_t y = back <= b.size() ? b[b.size() - back] : 1;
    if (x != y && x != 1 && y != 1) refuse("its indices do not broadcast");
    result[result.size() - back] = x == 1 ? y : x;
  }
  return result;
}

Selection make_selection(Builder& b, const Extents& dims, const std::vector<std::optional<Value>>& indices,
                         Negative negative) {
  Selection selection;
  if (indices.size() > dims.size()) refuse("it has more indices than dimensions");
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis]) continue;
    selection.axes.push_back(static_cast<std::int64_t>(axis));
    selection.shape = broadcast_shapes(selection.shape, indices[axis]->dims);
  }
  if (selection.axes.empty()) refuse("it has no index");
  Extents column = selection.shape;
  column.push_back(1);
  std::vector<Value> columns;
  DType widest = DType::kInt32;
  for (const std::int64_t axis : selection.axes) {
    const auto place = static_cast<std::size_t>(axis);
    const Checked checked = check_index(b, *indices[place], dims[place], negative);
    const Value spread = b.broadcast_to(checked.in_range, selection.shape);
    selection.in_range = columns.empty() ? spread : b.binary("and", selection.in_range, spread);
    columns.push_back(b.reshape(b.broadcast_to(checked.index, selection.shape), column));
    if (checked.index.dtype == DType::kInt64) widest = DType::kInt64;
  }
  for (Value& part : columns) part = b.convert(part, widest);
  selection.vectors = b.concatenate(columns, selection.shape.size());
  const auto first = static_cast<std::size_t>(selection.axes.front());
  const bool neighbours =
      selection.axes.back() - selection.axes.front() + 1 == static_cast<std::int64_t>(selection.axes.size());
  selection.place = neighbours ? first : 0;
  selection.slice_sizes = dims;
  for (const std::int64_t axis : selection.axes) selection.slice_sizes[static_cast<std::size_t>(axis)] = 1;
  const auto insert_shape = [&] {
    selection.result.insert(selection.result.end(), selection.shape.begin(), selection.shape.end());
  };
  for (std::size_t axis = 0; axis <= dims.size(); ++axis) {
    if (axis == selection.place) insert_shape();
    if (axis == dims.size()) break;
    if (std::find(selection.axes.begin(), selection.axes.end(), static_cast<std::int64_t>(axis)) !=
        selection.axes.end())
      continue;
    selection.window.push_back(static_cast<std::int64_t>(selection.result.size()));
    selection.result.push_back(dims[axis]);
  }
  return selection;
}

Value read_selected(Builder& b, const Value& x, const Selection& selection) {
  if (element_count(x.dims) == 0 || element_count(selection.result) == 0) {
    // Nothing to read; where elements are wanted all the same every index is out of range.
    return b.broadcast_to(poison(b, x.dtype), selection.result);
  }
  const auto vector_dim = static_cast<std::int64_t>(selection.shape.size());
  const Value read = b.gather(x, selection.vectors, {selection.window, selection.axes, selection.axes, vector_dim},
                              selection.slice_sizes, selection.result);
  return poison_where_wrong(b, read, selection.in_range, counting(selection.place, selection.shape.size()));
}

Value write_selected(Builder& b, std::string_view operation, const Value& x, const Selection& selection,
                     const Value& values) {
  if (element_count(x.dims) == 0 || element_count(selection.result) == 0) return x;
  const Value updates = poison_where_wrong(b, b.broadcast_to(b.convert(values, x.dtype), selection.result),
                                           selection.in_range, counting(selection.place, selection.shape.size()));
  const auto vector_dim = static_cast<std::int64_t>(selection.shape.size());
  return b.scatter(operation, x, selection.vectors, updates,
                   {selection.window, selection.axes, selection.axes, vector_dim});
}

Selection select_axis(Builder& b, const Extents& dims, std::size_t axis, const Value& index,
                      Negative negative = Negative::kOutOfRange) {
  std::vector<std::optional<Value>> indices(axis + 1);
  indices[axis] = index;
  return make_selection(b, dims, indices, negative);
}

void lower_embedding(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  call.set(read_selected(b, weight, select_axis(b, weight.dims, 0, call.tensor("indices"))));
}

// In the place of indices PyTorch takes bytes as a mask, too.
bool is_mask(const std::optional<Value>& index) {
  return index && (index->dtype == DType::kBool || index->dtype == DType::kUInt8);
}

void lower_index(Call& call) {
  const Value self = call.tensor("self");
  const auto indices = call.optional_tensors("indices");
  if (std::ranges::any_of(indices, is_mask)) refuse("the number of its results depends on the contents of a mask");
  Builder& b = call.builder();
  call.set(read_selected(b, self, make_selection(b, self.dims, indices, Negative::kFromEnd)));
}

void lower_index_select(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  if (self.rank() == 0) refuse("it selects from a tensor without dimensions");
  Value index = call.tensor("index");
  if (index.rank() == 0) index = b.reshape(index, {1});
  call.set(read_selected(b, self, select_axis(b, self.dims, call.axis("dim", self.rank()), index)));
}

// A mask in the place of indices, with one value: that is a choice.
bool put_by_mask(Call& call, const Value& self, const std::vector<std::optional<Value>>& indices) {
  if (indices.size() != 1 || !is_mask(indices[0])) return false;
  Builder& b = call.builder();
  const Value values = call.tensor("values");
  const Value mask = b.convert(*indices[0], DType::kBool);
  const bool leading = mask.rank() <= self.rank() && std::equal(mask.dims.begin(), mask.dims.end(), self.dims.begin());
  if (!leading || element_count(values.dims) != 1 || call.flag("accumulate", false)) {
    refuse("how many elements its mask writes depends on the contents");
  }
  const Value wide = b.broadcast_in_dim(mask, self.dims, counting(0, mask.rank()));
  const Value filler = b.broadcast_to(b.reshape(b.convert(values, self.dtype), {}), self.dims);
  call.set(b.select(wide, filler, self));
  return true;
}

void lower_index_put(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const auto indices = call.optional_tensors("indices");
  if (put_by_mask(call, self, indices)) return;
  if (std::ranges::any_of(indices, is_mask)) refuse("how many elements its mask writes depends on the contents");
  const Selection selection = make_selection(b, self.dims, indices, Negative::kFromEnd);
  const bool adds = call.flag("accumulate", false);
  call.set(write_selected(b, adds ? "add" : "", self, selection, call.tensor("values")));
}

// One row or token: a plain slice that accelerators update in place.
Value put_one(Builder& b, const Value& x, std::size_t axis, const Value& index, const Value& source) {
  const Checked checked = check_index(b, b.reshape(index, {}), x.dims[axis], Negative::kOutOfRange);
  const Value update = poison_where_wrong(b, source, checked.in_range, {});
  std::vector<Value> starts(x.rank(), b.scalar(std::int64_t{0}, checked.index.dtype));
  starts[axis] = checked.index;
  return b.dynamic_update_slice(x, update, starts);
}

void lower_index_copy(Call& call) {
  Builder& b = call.builder();
  Value self = call.tensor("self");
  const Value index = call.tensor("index");
  Value source = b.convert(call.tensor("source"), self.dtype);
  const Extents original = self.dims;
  if (self.rank() == 0) self = b.reshape(self, {1});
  const std::size_t axis = call.axis("dim", self.rank());
  Extents wanted = self.dims;
  wanted[axis] = element_count(index.dims);
  source = b.reshape(source, wanted);
  if (wanted[axis] == 1 && element_count(self.dims) > 0) {
    return call.set(b.reshape(put_one(b, self, axis, index, source), original));
  }
  const Selection selection = select_axis(b, self.dims, axis, b.reshape(index, {wanted[axis]}));
  call.set(b.reshape(write_selected(b, "", self, selection, source), original));
}

void lower_index_add(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  if (self.rank() == 0) refuse("it adds to a tensor without dimensions");
  const std::size_t axis = call.axis("dim", self.rank());
  const DType wide = math_dtype(self.dtype);
  Value source = b.convert(call.tensor("source"), wide);
  if (const auto alpha = call.find_number("alpha"); alpha && as_double(*alpha) != 1) {
    source = b.binary("multiply", source, b.splat(*alpha, wide, source.dims));
  }
  Value index = call.tensor("index");
  if (index.rank() == 0) index = b.reshape(index, {1});
  const Selection selection = select_axis(b, self.dims, axis, index);
  call.set(write_selected(b, "add", b.convert(self, wide), selection, source));
}

void lower_index_fill(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  if (self.rank() == 0) refuse("it fills a tensor without dimensions");
  Value index = call.tensor("index");
  if (index.rank() == 0) index = b.reshape(index, {1});
  const std::size_t axis = call.axis("dim", self.rank());
  const Selection selection = select_axis(b, self.dims, axis, index, Negative::kFromEnd);
  const Value filler = call.expand(call.operand("value"), self.dtype, {});
  call.set(write_selected(b, "", self, selection, filler));
}

// gather and scatter: every element has an index along one axis and its own place along the others.
Selection select_elements(Builder& b, const Extents& dims, std::size_t axis, const Value& index,
                          Negative negative = Negative::kOutOfRange) {
  std::vector<std::optional<Value>> indices(dims.size());
  for (std::size_t other = 0; other < dims.size(); ++other) {
    indices[other] = other == axis ? index : b.iota(DType::kInt64, index.dims, other);
  }
  return make_selection(b, dims, indices, negative);
}

Value gather_elements(Builder& b, const Value& self, std::size_t axis, const Value& index,
                      Negative negative = Negative::kOutOfRange) {
  if (self.rank() == 0 || index.rank() != self.rank()) refuse("its index has another number of dimensions");
  return read_selected(b, self, select_elements(b, self.dims, axis, index, negative));
}

void lower_gather(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  if (self.rank() == 0) refuse("it gathers from a tensor without dimensions");
  call.set(gather_elements(b, self, call.axis("dim", self.rank()), call.tensor("index")));
}

void lower_take(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Value flat = b.reshape(self, {element_count(self.dims)});
  call.set(read_selected(b, flat, select_axis(b, flat.dims, 0, call.tensor("index"), Negative::kFromEnd)));
}

// Negative indices count from the end only where there is an axis: that is PyTorch's way.
void lower_take_along_dim(Call& call) {
  Builder& b = call.builder();
  Value self = call.tensor("self");
  Value index = call.tensor("indices");
  if (!call.has("dim")) {
    self = b.reshape(self, {element_count(self.dims)});
    index = b.reshape(index, {element_count(index.dims)});
    return call.set(gather_elements(b, self, 0, index));
  }
  const std::size_t axis = call.axis("dim", self.rank());
  if (self.rank() == 0 || index.rank() != self.rank()) refuse("its index has another number of dimensions");
  // The two broadcast along all axes but that one.
  Extents self_dims = self.dims;
  Extents index_dims = index.dims;
  for (std::size_t other = 0; other < self.rank(); ++other) {
    if (other == axis) continue;
    const std::int64_t extent = self.dims[other] == 1 ? index.dims[other] : self.dims[other];
    self_dims[other] = extent;
    index_dims[other] = extent;
  }
  const Value wide = b.broadcast_to(self, self_dims);
  call.set(gather_elements(b, wide, axis, b.broadcast_to(index, index_dims), Negative::kFromEnd));
}

void scatter_elements(Call& call, std::string_view operation, const Operand& source) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Value index = call.tensor("index");
  if (self.rank() == 0 || index.rank() != self.rank()) refuse("its index has another number of dimensions");
  const std::size_t axis = call.axis("dim", self.rank());
  const DType dtype = operation == "add" || operation == "multiply" ? math_dtype(self.dtype) : self.dtype;
  Value updates;
  if (source.tensor) {
    if (source.tensor->rank() != self.rank()) refuse("its source has another number of dimensions");
    updates = b.slice(*source.tensor, Extents(index.rank(), 0), index.dims, Extents(index.rank(), 1));
  } else {
    updates = b.splat(source.number, dtype, index.dims);
  }
  const Selection selection = select_elements(b, self.dims, axis, index);
  const Value wide = b.convert(self, dtype);
  call.set(write_selected(b, operation, wide, selection, b.convert(updates, dtype)));
}

void lower_scatter_source(Call& call) { scatter_elements(call, "", call.operand("src")); }
void lower_scatter_value(Call& call) { scatter_elements(call, "", call.operand("value")); }
void lower_scatter_add(Call& call) { scatter_elements(call, "add", call.operand("src")); }

void lower_scatter_reduce(Call& call) {
  const std::string_view reduce = call.text("reduce", "");
  if (!call.flag("include_self", true)) refuse("it leaves out what was there");
  if (reduce == "sum") return scatter_elements(call, "add", call.operand("src"));
  if (reduce == "prod") return scatter_elements(call, "multiply", call.operand("src"));
  if (reduce == "amax") return scatter_elements(call, "maximum", call.operand("src"));
  if (reduce == "amin") return scatter_elements(call, "minimum", call.operand("src"));
  refuse("it scatters a mean");
}

constexpr Rule kIndexingRules[] = {
    {"aten.embedding.default", lower_embedding},
    {"aten.gather.default", lower_gather},
    {"aten.index.Tensor", lower_index},
    {"aten.index_add.default", lower_index_add},
    {"aten.index_copy.default", lower_index_copy},
    {"aten.index_fill.int_Scalar", lower_index_fill},
    {"aten.index_fill.int_Tensor", lower_index_fill},
    {"aten.index_put.default", lower_index_put},
    {"aten.index_select.default", lower_index_select},
    {"aten.scatter.src", lower_scatter_source},
    {"aten.scatter.value", lower_scatter_value},
    {"aten.scatter_add.default", lower_scatter_add},
    {"aten.scatter_reduce.two", lower_scatter_reduce},
    {"aten.take.default", lower_take},
    {"aten.take_along_dim.default", lower_take_along_dim},
};

}  // namespace

std::span<const Rule> indexing_rules() { return kIndexingRules; }

}  // namespace kpt::xla
