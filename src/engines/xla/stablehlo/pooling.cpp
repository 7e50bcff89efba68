// Pooling over the last axes.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

struct Pooling {
  std::size_t first = 0;  // of the axes that are pooled
  Extents kernel, stride, padding;
  Window window;  // over all axes
};

// The recorded dims decide how far the windows reach (ceil_mode): what lies behind the padding is filled likewise.
Pooling read_pooling(Call& call, const Value& x, std::size_t axes) {
  if (x.rank() < axes + 1) refuse("its input has too few dimensions");
  Pooling pooling;
  pooling.first = x.rank() - axes;
  pooling.kernel = call.ints_per_axis("kernel_size", axes, {});
  pooling.stride = call.ints_per_axis("stride", axes, pooling.kernel);
  pooling.padding = call.ints_per_axis("padding", axes, {0});
  const Extents dilation = call.ints_per_axis("dilation", axes, {1});
  const Extents ones(x.rank(), 1);
  pooling.window = {ones, ones, ones, Extents(x.rank(), 0), Extents(x.rank(), 0)};
  if (call.type().dims.size() != x.rank()) refuse("its result has another number of dimensions");
  for (std::size_t index = 0; index < axes; ++index) {
    const std::size_t axis = pooling.first + index;
    if (pooling.kernel[index] < 1 || pooling.stride[index] < 1 || dilation[index] < 1) {
      refuse("its kernel, stride or dilation is not positive");
    }
    const std::int64_t reach = (pooling.kernel[index] - 1) * dilation[index] + 1;
    const std::int64_t needed =
        (call.type().dims[axis] - 1) * pooling.stride[index] + reach - x.dims[axis] - pooling.padding[index];
    pooling.window.sizes[axis] = pooling.kernel[index];
    pooling.window.strides[axis] = pooling.stride[index];
    pooling.window.dilations[axis] = dilation[index];
    pooling.window.low[axis] = pooling.padding[index];
    pooling.window.high[axis] = std::max(pooling.padding[index], needed);
  }
  return pooling;
}

void max_pool(Call& call, std::size_t axes) {
  const Value x = call.tensor("self");
  const Pooling pooling = read_pooling(call, x, axes);
  call.set(call.builder().reduce_window("maximum", x, call.builder().lowest(x.dtype), pooling.window));
  if (call.result_count() < 2) return;
  if (call.is_used(1)) refuse("the places of the greatest elements are used");
  call.leave_out(1);
}

// How many elements each window of one axis counts: those of the input, or also of the padding around it, but never
// what lies behind that.
std::vector<double> window_counts(std::int64_t extent, std::int64_t windows, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding, bool counts_padding) {
  std::vector<double> counts;
  for (std::int64_t index = 0; index < windows; ++index) {
    const std::int64_t start = index * stride - padding;
    const std::int64_t end = std::min(start + kernel, extent + padding);
    const std::int64_t inside = std::min(end, extent) - std::max<std::int64_t>(start, 0);
    counts.push_back(static_cast<double>(counts_padding ? end - start : inside));
  }
  return counts;
}

void average_pool(Call& call, std::size_t axes) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Value x = b.convert(self, math_dtype(self.dtype));
  const Pooling pooling = read_pooling(call, x, axes);
  Value value = b.reduce_window("add", x, b.scalar(std::int64_t{0}, x.dtype), pooling.window);
  if (call.has("divisor_override")) {
    return call.set(b.binary("divide", value, b.splat(call.number("divisor_override"), x.dtype, value.dims)));
  }
  const bool counts_padding = call.flag("count_include_pad", true);
  for (std::size_t index = 0; index < axes; ++index) {
    const std::size_t axis = pooling.first + index;
    const auto counts = window_counts(x.dims[axis], value.dims[axis], pooling.kernel[index], pooling.stride[index],
                                      pooling.padding[index], counts_padding);
    const Value row = b.dense_reals(counts, x.dtype, {value.dims[axis]});
    value = b.binary("divide", value, b.broadcast_in_dim(row, value.dims, {static_cast<std::int64_t>(axis)}));
  }
  call.set(value);
}

// One axis averaged over windows from floor(i·n/m) to ceil((i+1)·n/m). No product with a matrix of zeros and weights:
// one infinite element would make every window of its row NaN.
Value average_axis(Builder& b, const Value& x, std::size_t axis, std::int64_t windows) {
  constexpr std::int64_t kMostUneven = 1 << 20;  // their places are written out
  const std::int64_t extent = x.dims[axis];
  const bool even = windows > 0 && extent % windows == 0;
  if (extent < 1 || windows < 1 || (!even && std::max(extent, windows) > kMostUneven)) {
    refuse("it averages too many or no elements of an axis");
  }
  std::int64_t most = even ? extent / windows : 1;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> counts;
  for (std::int64_t window = 0; !even && window < windows; ++window) {
    starts.push_back(window * extent / windows);
    counts.push_back((((window + 1) * extent + windows - 1) / windows) - starts.back());
    most = std::max(most, counts.back());
  }
  std::vector<std::int64_t> places;
  for (const std::int64_t start : starts) {
    for (std::int64_t place = start; place < start + most; ++place) places.push_back(std::min(place, extent - 1));
  }
  Extents dims = x.dims;
  dims[axis] = windows;
  Extents split = dims;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, most);
  const auto along = static_cast<std::int64_t>(axis);
  Value parts = b.reshape(even ? x : b.take(x, axis, places), split);
  const Value zero = b.scalar(std::int64_t{0}, x.dtype);
  if (even) {
    const Value sums = b.reduce("add", parts, zero, {along + 1});
    return b.binary("divide", {sums, b.splat(static_cast<double>(most), x.dtype, dims)});
  }
  const Value ends = b.dense_ints(counts, DType::kInt32, {windows});
  const Value inside =
      b.compare("LT", {b.iota(DType::kInt32, {windows, most}, 1), b.broadcast_in_dim(ends, {windows, most}, {0})});
  parts = b.select({b.broadcast_in_dim(inside, split, {along, along + 1}), parts, b.splat(0.0, x.dtype, split)});
  const Value sums = b.reduce("add", parts, zero, {along + 1});
  return b.binary("divide", {sums, b.broadcast_in_dim(b.convert(ends, x.dtype), dims, {along})});
}

void adaptive_average(Call& call, std::size_t axes) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  Value x = b.convert(self, math_dtype(self.dtype));
  if (x.rank() < axes + 1 || call.type().dims.size() != x.rank()) refuse("its input has too few dimensions");
  for (std::size_t axis = x.rank() - axes; axis < x.rank(); ++axis) {
    const std::int64_t windows = call.type().dims[axis];
    if (windows != x.dims[axis]) x = average_axis(b, x, axis, windows);
  }
  call.set(x);
}

void lower_max_pool1d(Call& call) { max_pool(call, 1); }
void lower_max_pool2d(Call& call) { max_pool(call, 2); }
void lower_max_pool3d(Call& call) { max_pool(call, 3); }
void lower_average_pool1d(Call& call) { average_pool(call, 1); }
void lower_average_pool2d(Call& call) { average_pool(call, 2); }
void lower_average_pool3d(Call& call) { average_pool(call, 3); }
void lower_adaptive1d(Call& call) { adaptive_average(call, 1); }
void lower_adaptive2d(Call& call) { adaptive_average(call, 2); }
void lower_adaptive3d(Call& call) { adaptive_average(call, 3); }

constexpr Rule kPoolingRules[] = {
    {"aten._adaptive_avg_pool2d.default", lower_adaptive2d},
    {"aten._adaptive_avg_pool3d.default", lower_adaptive3d},
    {"aten.adaptive_avg_pool1d.default", lower_adaptive1d},
    {"aten.adaptive_avg_pool2d.default", lower_adaptive2d},
    {"aten.adaptive_avg_pool3d.default", lower_adaptive3d},
    {"aten.avg_pool1d.default", lower_average_pool1d},
    {"aten.avg_pool2d.default", lower_average_pool2d},
    {"aten.avg_pool3d.default", lower_average_pool3d},
    {"aten.max_pool1d.default", lower_max_pool1d},
    {"aten.max_pool2d.default", lower_max_pool2d},
    {"aten.max_pool2d_with_indices.default", lower_max_pool2d},
    {"aten.max_pool3d.default", lower_max_pool3d},
};

}  // namespace

std::span<const Rule> pooling_rules() { return kPoolingRules; }

}  // namespace kpt::xla
