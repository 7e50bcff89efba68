// The operators of ir/own_operators.h, which passes put into graphs.
#include "engines/xla/stablehlo/activations.h"
#include "engines/xla/stablehlo/attention.h"
#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/convolution.h"
#include "engines/xla/stablehlo/matmul.h"
#include "engines/xla/stablehlo/norm.h"

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

void lower_conv2d(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  const Value input = b.convert(call.tensor("input"), weight.dtype);
  if (input.rank() != 4 || weight.rank() != 4) refuse("its operands are no images");
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
  finish(call, convolve(b, input, weight, call.find_tensor("bias"), shape));
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
    {"kpt.add_norm.default", lower_add_norm}, {"kpt.attention.default", lower_own_attention},
    {"kpt.conv2d.default", lower_conv2d},     {"kpt.glu.default", lower_own_glu},
    {"kpt.linear.default", lower_own_linear}, {"kpt.rotary.default", lower_rotary},
};

}  // namespace

std::span<const Rule> own_rules() { return kOwnRules; }

}  // namespace kpt::xla
