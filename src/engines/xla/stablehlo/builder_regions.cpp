// Operations with a region, and products: the long forms.
#include <fmt/format.h>

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {
namespace {

constexpr std::string_view kRegionIndent = "    ";

}  // namespace

std::string Builder::write_region(std::string_view operation, DType dtype) {
  const std::string type = type_name(dtype, {});
  const std::string left = next_name();
  const std::string right = next_name();
  std::string text = fmt::format("({{\n{0}^bb0({1}: {3}, {2}: {3}):\n", kRegionIndent, left, right, type);
  std::string result = right;
  if (!operation.empty()) {
    result = next_name();
    text += fmt::format("{0}  {1} = \"stablehlo.{2}\"({3}, {4}) : ({5}, {5}) -> {5}\n", kRegionIndent, result,
                        operation, left, right, type);
  }
  return text + fmt::format("{0}  \"stablehlo.return\"({1}) : ({2}) -> ()\n{0}}})", kRegionIndent, result, type);
}

Value Builder::reduce(std::string_view operation, const Value& x, const Value& init, const Extents& axes) {
  if (axes.empty()) return x;
  Extents dims;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    bool gone = false;
    for (const std::int64_t other : axes) gone = gone || other == static_cast<std::int64_t>(axis);
    if (!gone) dims.push_back(x.dims[axis]);
  }
  const std::string region = write_region(operation, x.dtype);
  Value result{next_name(), x.dtype, dims};
  text_ += fmt::format("{}{} = \"stablehlo.reduce\"({}, {}) <{{dimensions = {}}}> {} : ({}, {}) -> {}\n", kRegionIndent,
                       result.name, x.name, init.name, array_text(axes), region, type_name(x.dtype, x.dims),
                       type_name(init.dtype, {}), type_name(x.dtype, dims));
  return result;
}

Value Builder::reduce_window(std::string_view operation, const Value& x, const Value& init, const Window& window) {
  Extents dims;
  std::vector<std::string> padding;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t reach = (window.sizes[axis] - 1) * window.dilations[axis] + 1;
    const std::int64_t padded = x.dims[axis] + window.low[axis] + window.high[axis];
    dims.push_back(padded < reach ? 0 : (padded - reach) / window.strides[axis] + 1);
    padding.push_back(fmt::format("[{}, {}]", window.low[axis], window.high[axis]));
  }
  const std::string attributes = fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = dense<[{}]> "
      ": "
      "tensor<{}x2xi64>",
      array_text(window.sizes), array_text(window.strides), array_text(Extents(x.rank(), 1)),
      array_text(window.dilations), fmt::join(padding, ", "), x.rank());
  const std::string region = write_region(operation, x.dtype);
  Value result{next_name(), x.dtype, dims};
  text_ += fmt::format("{}{} = \"stablehlo.reduce_window\"({}, {}) <{{{}}}> {} : ({}, {}) -> {}\n", kRegionIndent,
                       result.name, x.name, init.name, attributes, region, type_name(x.dtype, x.dims),
                       type_name(init.dtype, {}), type_name(x.dtype, dims));
  return result;
}

Value Builder::dot(const Value& lhs, const Value& rhs, const DotDims& dims, DType dtype) {
  Extents result;
  const auto contains = [](const Extents& list, std::size_t axis) {
    for (const std::int64_t item : list) {
      if (item == static_cast<std::int64_t>(axis)) return true;
    }
    return false;
  };
  for (const std::int64_t axis : dims.lhs_batch) result.push_back(lhs.dims[static_cast<std::size_t>(axis)]);
  for (std::size_t axis = 0; axis < lhs.rank(); ++axis) {
    if (!contains(dims.lhs_batch, axis) && !contains(dims.lhs_contracting, axis)) result.push_back(lhs.dims[axis]);
  }
  for (std::size_t axis = 0; axis < rhs.rank(); ++axis) {
    if (!contains(dims.rhs_batch, axis) && !contains(dims.rhs_contracting, axis)) result.push_back(rhs.dims[axis]);
  }
  // HIGHEST keeps float32 products in float32; accelerators would otherwise round them to bfloat16 or TF32.
  const std::string_view precision = lhs.dtype == DType::kFloat32 ? "HIGHEST" : "DEFAULT";
  return emit("stablehlo.dot_general", {lhs, rhs}, dtype, result,
              fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, "
                          "rhs_batching_dimensions = {}, lhs_contracting_dimensions = {}, rhs_contracting_dimensions = "
                          "{}>, precision_config = [#stablehlo<precision {}>, #stablehlo<precision {}>]",
                          list_text(dims.lhs_batch), list_text(dims.rhs_batch), list_text(dims.lhs_contracting),
                          list_text(dims.rhs_contracting), precision, precision));
}

Value Builder::gather(const Value& x, const Value& indices, const GatherDims& dims, const Extents& slice_sizes,
                      const Extents& result) {
  return emit("stablehlo.gather", {x, indices}, x.dtype, result,
              fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, "
                          "start_index_map = {}, index_vector_dim = {}>, slice_sizes = {}, indices_are_sorted = false",
                          list_text(dims.offset_dims), list_text(dims.collapsed), list_text(dims.start_index_map),
                          dims.index_vector_dim, array_text(slice_sizes)));
}

Value Builder::take(const Value& x, std::size_t axis, std::span<const std::int64_t> places) {
  const auto count = static_cast<std::int64_t>(places.size());
  const Value indices = dense_ints(places, DType::kInt32, {count, 1});
  Extents dims = x.dims;
  Extents sizes = x.dims;
  Extents offsets;
  dims[axis] = count;
  sizes[axis] = 1;
  for (std::size_t other = 0; other < x.rank(); ++other) {
    if (other != axis) offsets.push_back(static_cast<std::int64_t>(other));
  }
  const auto along = static_cast<std::int64_t>(axis);
  return gather(x, indices, {offsets, {along}, {along}, 1}, sizes, dims);
}

Value Builder::scatter(std::string_view operation, const Value& x, const Value& indices, const Value& updates,
                       const ScatterDims& dims) {
  const std::string region = write_region(operation, x.dtype);
  Value result{next_name(), x.dtype, x.dims};
  const std::string type = type_name(x.dtype, x.dims);
  text_ += fmt::format(
      "{}{} = \"stablehlo.scatter\"({}, {}, {}) <{{indices_are_sorted = false, scatter_dimension_numbers = "
      "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, scatter_dims_to_operand_dims = {}, "
      "index_vector_dim = {}>, unique_indices = false}}> {} : ({}, {}, {}) -> {}\n",
      kRegionIndent, result.name, x.name, indices.name, updates.name, list_text(dims.update_window_dims),
      list_text(dims.inserted), list_text(dims.to_operand_dims), dims.index_vector_dim, region, type,
      type_name(indices.dtype, indices.dims), type_name(updates.dtype, updates.dims), type);
  return result;
}

Value Builder::dynamic_update_slice(const Value& x, const Value& update, std::span<const Value> starts) {
  std::vector<Value> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit("stablehlo.dynamic_update_slice", operands, x.dtype, x.dims);
}

std::pair<Value, Value> Builder::sort(const Value& keys, const Value& values, std::size_t axis, bool descending) {
  const std::string key = type_name(keys.dtype, {});
  const std::string value = type_name(values.dtype, {});
  std::vector<std::string> names;
  for (int count = 0; count < 4; ++count) names.push_back(next_name());
  std::string region = fmt::format("({{\n{0}^bb0({1}: {5}, {2}: {5}, {3}: {6}, {4}: {6}):\n", kRegionIndent, names[0],
                                   names[1], names[2], names[3], key, value);
  const auto line = [&](std::string_view operation, std::string_view a, std::string_view b, std::string_view type,
                        std::string_view attributes) {
    const std::string name = next_name();
    region += fmt::format("{0}  {1} = \"stablehlo.{2}\"({3}, {4}){5} : ({6}, {6}) -> tensor<i1>\n", kRegionIndent, name,
                          operation, a, b, attributes, type);
    return name;
  };
  const auto compare = [&](std::string_view direction, std::string_view a, std::string_view b) {
    return line("compare", a, b, key, fmt::format(" <{{{}}}>", compare_attributes(direction, keys.dtype)));
  };
  const std::string& first = descending ? names[1] : names[0];
  const std::string& second = descending ? names[0] : names[1];
  std::string before = compare("LT", first, second);
  if (is_floating(keys.dtype)) {
    // A number stands before NaN: second is NaN and first is not.
    const std::string is_nan = compare("NE", second, second);
    const std::string is_number = compare("EQ", first, first);
    const std::string ahead = line("and", is_nan, is_number, "tensor<i1>", "");
    before = line("or", before, ahead, "tensor<i1>", "");
  }
  region += fmt::format("{0}  \"stablehlo.return\"({1}) : (tensor<i1>) -> ()\n{0}}})", kRegionIndent, before);
  const std::string result = next_name();
  const std::string types =
      fmt::format("{}, {}", type_name(keys.dtype, keys.dims), type_name(values.dtype, values.dims));
  text_ += fmt::format(
      "{}{}:2 = \"stablehlo.sort\"({}, {}) <{{dimension = {} : i64, is_stable = true}}> {} : ({}) -> ({})\n",
      kRegionIndent, result, keys.name, values.name, axis, region, types, types);
  return {{result + "#0", keys.dtype, keys.dims}, {result + "#1", values.dtype, values.dims}};
}

}  // namespace kpt::xla
