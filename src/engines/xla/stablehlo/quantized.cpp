#include "engines/xla/stablehlo/quantized.h"

#include <limits>

#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/softmax.h"

namespace kpt::xla {
namespace {

constexpr double kGreatestFloat = std::numeric_limits<float>::max();
constexpr double kGreatestInt8 = 127;
constexpr double kGreatestFp8 = 448;  // of float8_e4m3fn

// Sums of products of codes fit into 32 bits up to here.
constexpr std::int64_t kGreatestDepth = std::numeric_limits<std::int32_t>::max() / (127 * 127);

void require_depth(const Extents& weight) {
  std::int64_t depth = 1;
  for (std::size_t axis = 1; axis < weight.size(); ++axis) depth *= weight[axis];
  if (depth > kGreatestDepth) refuse("its sums do not fit into 32 bits");
}

// x as multiples of a scale, not rounded yet. Of a group of zeros, and of one so small that 1 / scale is no number,
// nothing is left.
Scaled divide(Builder& b, const Value& given, const Extents& axes, double greatest_code) {
  const Value x = b.convert(given, DType::kFloat32);
  Extents from_start;
  for (const std::int64_t axis : axes)
    from_start.push_back(axis < 0 ? axis + static_cast<std::int64_t>(x.rank()) : axis);
  const Value greatest = reduce_kept(b, "maximum", b.unary("abs", x), b.scalar(0.0, DType::kFloat32), from_start);
  const auto fill = [&](double number) { return b.splat(number, DType::kFloat32, greatest.dims); };
  const Value scale =
      b.select({b.compare("LE", {greatest, fill(kGreatestFloat)}), b.binary("divide", {greatest, fill(greatest_code)}),
                fill(std::numeric_limits<double>::quiet_NaN())});
  const Value inverse = b.binary("divide", {fill(1.0), scale});
  const Value factor = b.select({b.compare("LE", {inverse, fill(kGreatestFloat)}), inverse, fill(0.0)});
  return {b.binary("multiply", {x, b.broadcast_to(factor, x.dims)}), scale};
}

}  // namespace

Scaled quantize_int8(Builder& b, const Value& x, const Extents& axes) {
  const Scaled divided = divide(b, x, axes, kGreatestInt8);
  const auto limit = [&](double number) { return b.splat(number, DType::kFloat32, x.dims); };
  const Value rounded = b.unary("round_nearest_even", divided.codes);
  const Value below = b.binary("minimum", {rounded, limit(kGreatestInt8)});
  const Value codes = b.binary("maximum", {below, limit(-kGreatestInt8)});
  return {b.emit("stablehlo.convert", {codes}, DType::kInt8, x.dims), divided.scale};
}

Scaled quantize_fp8(Builder& b, const Value& x, const Extents& axes) {
  const Scaled divided = divide(b, x, axes, kGreatestFp8);
  return {b.convert(divided.codes, DType::kFloat8E4M3FN), divided.scale};
}

Value unpack_int4(Builder& b, const Value& codes, const Value& scale, std::int64_t group) {
  if (codes.dtype != DType::kUInt8 || codes.rank() != 2) refuse("its codes are no matrix of bytes");
  const Extents dims = {codes.dims[0], codes.dims[1] * 2};
  if (group < 1 || scale.dims != Extents{dims[0], dims[1] / group} || dims[1] % group != 0) {
    refuse("its scales do not fit its groups");
  }
  const auto number = [&](std::int64_t value) { return b.splat(value, DType::kUInt8, codes.dims); };
  const Extents single = {codes.dims[0], codes.dims[1], 1};
  const Value pair[] = {b.reshape(b.binary("and", {codes, number(15)}), single),
                        b.reshape(b.binary("shift_right_logical", {codes, number(4)}), single)};
  const Value shifted = b.convert(b.reshape(b.concatenate(pair, 2), dims), DType::kFloat32);
  const Value values = b.binary("subtract", {shifted, b.splat(8.0, DType::kFloat32, dims)});
  const Extents groups = {dims[0], dims[1] / group, group};
  return b.binary("multiply", {values, b.reshape(b.broadcast_in_dim(scale, groups, {0, 1}), dims)});
}

Value multiply_int8(Builder& b, const Value& input, const Value& weight) {
  if (weight.rank() != 2 || weight.dtype != DType::kInt8) refuse("its weight is no matrix of int8");
  if (input.rank() == 0 || input.dims.back() != weight.dims[1]) refuse("its matrices do not fit each other");
  require_depth(weight.dims);
  const auto last = static_cast<std::int64_t>(input.rank()) - 1;
  return b.convert(b.dot(input, weight, {{}, {}, {last}, {1}}, DType::kInt32), DType::kFloat32);
}

Value convolve_int8(Builder& b, const Value& input, const Value& weight, const ConvolutionShape& shape) {
  if (weight.dtype != DType::kInt8) refuse("its weight is not of int8");
  require_depth(weight.dims);
  return b.convert(convolve(b, input, weight, std::nullopt, shape, DType::kInt32), DType::kFloat32);
}

}  // namespace kpt::xla
