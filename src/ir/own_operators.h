// Operators of our own that passes put into graphs. Their targets start with "kpt."; an engine that knows one runs it
// by its own kernel. All arguments are given by name, and none is optional: an absent tensor is None. Where a target
// says so (Capabilities::float16_operators), float16 may stand for bfloat16, in one node for all of it.
//
//   kpt.linear.default(input, weight, bias, residual, activation) -> result
//     activation(input · weightᵀ + bias + residual). input [..., K]; weight [N, K] float32 or bfloat16: products in the
//     weight's type, sums in float32; bias [N] or None; residual of the result's shape or None. The result is of the
//     input's type; with a bfloat16 weight some targets give float32 or bfloat16, as recorded, for an input of either.
//   kpt.linear_int8.default(input, weight, scale, bias, residual, activation) -> result
//     weight int8 [N, K], scale float32 [N] (per row of the weight, symmetric); every row of the input is quantized
//     when it comes, symmetric, to its own greatest magnitude. Sums in int32.
//   kpt.linear_weight_int8.default(input, weight, scale, bias, residual, activation) -> result
//     weight and scale as those of kpt.linear_int8; the input stays as it comes. Products in float32; with more rows
//     than it has a kernel for, a target may multiply in the narrower of the input's and the result's type.
//   kpt.linear_fp8.default(input, weight, scale, bias, residual, activation) -> result
//     weight float8_e4m3fn [N, K], N and K multiples of 16, scale float32 [N]: real value = stored number · scale.
//     Every row of the input is rounded to float8_e4m3fn when it comes, with a scale of its own that maps its greatest
//     magnitude to 448; an engine may take one scale for all rows instead where an option says so. The result is of the
//     recorded type, float32, bfloat16 or float16.
//   kpt.linear_fp8_e5m2.default(input, weight, scale, bias, residual, activation) -> result
//     The same with an input that is rounded to float8_e5m2, its greatest magnitude mapped to 57344.
//   kpt.linear_int4.default(input, weight, scale, bias, residual, activation, group) -> result
//     weight uint8 [N, K/2]: element 2j in the low four bits, value - 8; scale float32 [N, K/group]. Products as those
//     of kpt.linear_weight_int8.
//   kpt.attention.default(query, key, value, mask, scale, causal) -> result
//     query [B, H, S, D], key and value [B, G, T, D] with H a multiple of G, any strides; mask None, bool (true: look
//     there) or of the query's type (added), broadcastable to [B, H, S, T]; scale a float. `causal`: element (s, t)
//     counts when t <= s. A row that may look nowhere is zero. Result [B, S, H, D], contiguous.
//   kpt.add_norm.default(input, residual, weight, bias, epsilon, kind) -> (normed, sum)
//     sum = input + residual (residual None: the input itself); normed over the last axis. kind "layer" or "rms";
//     weight and bias [C] or None. The statistics are in float32 or better.
//   kpt.glu.default(input, activation) -> result
//     input [..., 2N]: activation(first half) · second half.
//   kpt.rotary.default(input, cos, sin) -> result
//     input [B, H, S, D]; cos and sin broadcastable to it: input · cos + (-second half, first half) · sin.
//   kpt.conv2d.default(input, weight, bias, residual, stride, padding, dilation, groups, activation) -> result
//     activation(conv2d(input, weight, bias) + residual). The lists have two elements each, groups is an integer.
//     Padding may have four: above, left, below, right.
//     Input and result [N, C, H, W] in any memory format; the recorded strides of the result decide the result's.
//   kpt.conv2d_int8.default(input, weight, scale, bias, residual, stride, padding, dilation, activation) -> result
//     The same with weight int8 [O, C, kh, kw] and scale float32 [O]; one group. The input is rounded to int8 when it
//     comes, with a scale per place where the filter is 1 x 1 without stride and padding, else with one per image.
//
// activation: "none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "relu6".
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace kpt::ir {

inline constexpr std::string_view kOwnPrefix = "kpt.";

struct OwnOperator {
  std::string_view target;
  std::span<const std::string_view> arguments;  // in order
  int results;
};

// Null for targets that are none of ours.
const OwnOperator* find_own_operator(std::string_view target);
std::span<const OwnOperator> own_operators();

enum class Activation : unsigned char {
  kNone,
  kRelu,
  kGelu,
  kGeluTanh,
  kSilu,
  kSigmoid,
  kTanh,
  kHardswish,
  kHardsigmoid,
  kRelu6
};

std::optional<Activation> find_activation(std::string_view name);
std::string_view activation_name(Activation activation);

}  // namespace kpt::ir
