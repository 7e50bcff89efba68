// The operators of ir/own_operators.h, which passes put into graphs.
#include <algorithm>

#include "engines/xla/stablehlo/activations.h"
#include "engines/xla/stablehlo/attention.h"
#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/convolution.h"
#include "engines/xla/stablehlo/matmul.h"
#include "engines/xla/stablehlo/norm.h"
#include "engines/xla/stablehlo/quantized.h"

namespace kpt::xla {
namespace {

ir::Activation read_activation(Call& call) {
  const auto activation = ir::find_activation(call.text("activation", "none"));
  if (!activation) refuse("its activation is unknown");
  return *activation;
}

// activation(value + residual), before the result is rounded.
void finish(Call& call, Value value) {
  Builder& b = call.builder();
  if (const auto residual = call.find_tensor("residual")) {
    value = b.binary("add", value, b.broadcast_to(b.convert(*residual, value.dtype), value.dims));
  }
  call.set(apply_activation(b, read_activation(call), value));
}

// Products are in the weight's type.
void lower_own_linear(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  finish(call, linear(b, b.convert(call.tensor("input"), weight.dtype), weight, call.find_tensor("bias")));
}

// sums · (scale of the input) · (scale of the weight) + bias. `spread` gives a factor the extents of the result.
template <typename Spread>
Value unscale(Call& call, Value sums, const std::optional<Value>& input_scale, const Spread& spread) {
  Builder& b = call.builder();
  if (input_scale) sums = b.binary("multiply", sums, b.broadcast_to(*input_scale, sums.dims));
  sums = b.binary("multiply", sums, spread(b.convert(call.tensor("scale"), sums.dtype)));
  if (const auto bias = call.find_tensor("bias")) sums = b.binary("add", sums, spread(b.convert(*bias, sums.dtype)));
  return sums;
}

Value unscale_rows(Call& call, const Value& sums, const std::optional<Value>& input_scale) {
  return unscale(call, sums, input_scale, [&](const Value& x) { return call.builder().broadcast_to(x, sums.dims); });
}

void lower_linear_int8(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  const Scaled input = quantize_int8(b, call.tensor("input"), {-1});
  finish(call, unscale_rows(call, multiply_int8(b, input.codes, weight), input.scale));
}

void lower_linear_fp8(Call& call) {
  Builder& b = call.builder();
  const Scaled input = quantize_fp8(b, call.tensor("input"), {-1});
  finish(call, unscale_rows(call, linear(b, input.codes, call.tensor("weight"), std::nullopt), input.scale));
}

// Codes of eight bits are exact in every float type, so they multiply as the input comes.
void lower_linear_weight_int8(Call& call) {
  Builder& b = call.builder();
  const Value input = call.tensor("input");
  const Value sums = linear(b, input, b.convert(call.tensor("weight"), input.dtype), std::nullopt);
  finish(call, unscale_rows(call, sums, std::nullopt));
}

void lower_linear_int4(Call& call) {
  Builder& b = call.builder();
  const Value input = call.tensor("input");
  const Value weight = unpack_int4(b, call.tensor("weight"), call.tensor("scale"), call.integer("group"));
  finish(call, linear(b, input, b.convert(weight, input.dtype), call.find_tensor("bias")));
}

ConvolutionShape read_convolution(Call& call) {
  ConvolutionShape shape;
  shape.stride = call.ints("stride", {1, 1});
  shape.low = call.ints("padding", {0, 0});
  shape.high = shape.low;
  if (shape.low.size() == 4) {  // above, left, below, right
    shape.high = {shape.low[2], shape.low[3]};
    shape.low.resize(2);
  }
  shape.dilation = call.ints("dilation", {1, 1});
  shape.groups = call.integer("groups", 1);
  if (shape.stride.size() != 2 || shape.low.size() != 2 || shape.dilation.size() != 2)
    refuse("its lists are not pairs");
  return shape;
}

void require_images(const Value& input, const Value& weight) {
  if (input.rank() != 4 || weight.rank() != 4) refuse("its operands are no images");
}

void lower_conv2d(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  const Value input = b.convert(call.tensor("input"), weight.dtype);
  require_images(input, weight);
  finish(call, convolve(b, input, weight, call.find_tensor("bias"), read_convolution(call)));
}

// A filter of one place sees the channels of that place only, so each has its scale; else an image has one.
void lower_conv2d_int8(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  const Value images = call.tensor("input");
  require_images(images, weight);
  const ConvolutionShape shape = read_convolution(call);
  const Extents pairs[] = {{weight.dims[2], weight.dims[3]}, shape.stride};
  const bool is_pointwise = std::ranges::all_of(pairs, [](const Extents& pair) { return pair == Extents{1, 1}; }) &&
                            shape.low == Extents{0, 0} && shape.high == Extents{0, 0};
  const Scaled input = quantize_int8(b, images, is_pointwise ? Extents{1} : Extents{1, 2, 3});
  const Value sums = convolve_int8(b, input.codes, weight, shape);
  finish(call, unscale(call, sums, input.scale, [&](const Value& x) { return b.broadcast_in_dim(x, sums.dims, {1}); }));
}

void lower_own_attention(Call& call) {
  Builder& b = call.builder();
  Attention attention;
  attention.query = call.tensor("query");
  attention.key = call.tensor("key");
  attention.value = call.tensor("value");
  if (attention.query.rank() != 4 || attention.key.rank() != 4 || attention.value.rank() != 4) {
    refuse("its operands have other than four dimensions");
  }
  attention.mask = call.find_tensor("mask");
  attention.scale = as_double(call.number("scale"));
  attention.causal = call.flag("causal", false);
  call.set(b.transpose(attend(b, attention), {0, 2, 1, 3}));
}

void lower_add_norm(Call& call) {
  Builder& b = call.builder();
  const Value input = call.tensor("input");
  const DType wide = math_dtype(input.dtype);
  Value sum = b.convert(input, wide);
  if (const auto residual = call.find_tensor("residual")) {
    sum = b.binary("add", sum, b.broadcast_to(b.convert(*residual, wide), sum.dims));
  }
  const double epsilon = as_double(call.number("epsilon"));
  const std::string_view kind = call.text("kind", "");
  if (kind != "layer" && kind != "rms") refuse("its kind is unknown");
  const auto weight = call.find_tensor("weight");
  const auto bias = call.find_tensor("bias");
  // The norm is of the sum as it is stored.
  const Value stored = b.convert(b.convert(sum, input.dtype), wide);
  if (kind == "layer") {
    call.set(layer_norm(b, stored, 1, weight, bias, epsilon).value);
  } else {
    const Value normed = rms_norm(b, stored, 1, weight, epsilon).value;
    call.set(bias ? b.binary("add", normed, b.broadcast_to(b.convert(*bias, wide), normed.dims)) : normed);
  }
  call.set(sum, 1);
}

void lower_own_glu(Call& call) {
  Builder& b = call.builder();
  const Value input = call.tensor("input");
  if (input.rank() == 0 || input.dims.back() % 2 != 0) refuse("its last axis has no two halves");
  const Value wide = b.convert(input, math_dtype(input.dtype));
  const std::size_t axis = input.rank() - 1;
  const std::int64_t half = input.dims[axis] / 2;
  const Value gate = apply_activation(b, read_activation(call), b.slice_axis(wide, axis, 0, half));
  call.set(b.binary("multiply", gate, b.slice_axis(wide, axis, half, 2 * half)));
}

void lower_rotary(Call& call) {
  Builder& b = call.builder();
  const Value input = call.tensor("input");
  if (input.rank() == 0 || input.dims.back() % 2 != 0) refuse("its last axis has no two halves");
  const DType wide = math_dtype(input.dtype);
  const Value x = b.convert(input, wide);
  const std::size_t axis = input.rank() - 1;
  const std::int64_t half = input.dims[axis] / 2;
  const Value parts[] = {b.unary("negate", b.slice_axis(x, axis, half, 2 * half)), b.slice_axis(x, axis, 0, half)};
  const auto times = [&](const Value& value, std::string_view name) {
    return b.binary("multiply", value, b.broadcast_to(b.convert(call.tensor(name), wide), x.dims));
  };
  call.set(b.binary("add", {times(x, "cos"), times(b.concatenate(parts, axis), "sin")}));
}

constexpr Rule kOwnRules[] = {
    {"kpt.add_norm.default", lower_add_norm},
    {"kpt.attention.default", lower_own_attention},
    {"kpt.conv2d.default", lower_conv2d},
    {"kpt.conv2d_int8.default", lower_conv2d_int8},
    {"kpt.glu.default", lower_own_glu},
    {"kpt.linear.default", lower_own_linear},
    {"kpt.linear_fp8.default", lower_linear_fp8},
    {"kpt.linear_int4.default", lower_linear_int4},
    {"kpt.linear_int8.default", lower_linear_int8},
    {"kpt.linear_weight_int8.default", lower_linear_weight_int8},
    {"kpt.rotary.default", lower_rotary},
};

}  // namespace

std::span<const Rule> own_rules() { return kOwnRules; }

}  // namespace kpt::xla
