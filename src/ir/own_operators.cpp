#include "ir/own_operators.h"

#include <algorithm>
#include <array>

namespace kpt::ir {
namespace {

using Name = std::string_view;

constexpr Name kLinear[] = {"input", "weight", "bias", "residual", "activation"};
constexpr Name kLinearInt8[] = {"input", "weight", "scale", "bias", "residual", "activation"};
constexpr Name kLinearWeightInt8[] = {"input", "weight", "scale", "bias", "residual", "activation"};
constexpr Name kLinearFp8[] = {"input", "weight", "scale", "bias", "residual", "activation"};
constexpr Name kLinearInt4[] = {"input", "weight", "scale", "bias", "residual", "activation", "group"};
constexpr Name kAttention[] = {"query", "key", "value", "mask", "scale", "causal"};
constexpr Name kAddNorm[] = {"input", "residual", "weight", "bias", "epsilon", "kind"};
constexpr Name kGlu[] = {"input", "activation"};
constexpr Name kRotary[] = {"input", "cos", "sin"};
constexpr Name kConv2d[] = {"input",   "weight",   "bias",   "residual",  "stride",
                            "padding", "dilation", "groups", "activation"};
constexpr Name kConv2dInt8[] = {"input",  "weight",  "scale",    "bias",      "residual",
                                "stride", "padding", "dilation", "activation"};

constexpr OwnOperator kOperators[] = {
    {"kpt.linear.default", kLinear, 1},
    {"kpt.linear_int8.default", kLinearInt8, 1},
    {"kpt.linear_weight_int8.default", kLinearWeightInt8, 1},
    {"kpt.linear_int4.default", kLinearInt4, 1},
    {"kpt.linear_fp8.default", kLinearFp8, 1},
    {"kpt.linear_fp8_e5m2.default", kLinearFp8, 1},
    {"kpt.attention.default", kAttention, 1},
    {"kpt.add_norm.default", kAddNorm, 2},
    {"kpt.glu.default", kGlu, 1},
    {"kpt.rotary.default", kRotary, 1},
    {"kpt.conv2d.default", kConv2d, 1},
    {"kpt.conv2d_int8.default", kConv2dInt8, 1},
};

constexpr std::array<Name, 10> kActivations = {"none",    "relu", "gelu",      "gelu_tanh",   "silu",
                                               "sigmoid", "tanh", "hardswish", "hardsigmoid", "relu6"};

}  // namespace

std::span<const OwnOperator> own_operators() { return kOperators; }

const OwnOperator* find_own_operator(std::string_view target) {
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [&](const OwnOperator& entry) { return entry.target == target; });
  return found == std::end(kOperators) ? nullptr : found;
}

std::optional<Activation> find_activation(std::string_view name) {
  const auto* found = std::find(kActivations.begin(), kActivations.end(), name);
  if (found == kActivations.end()) return std::nullopt;
  return static_cast<Activation>(found - kActivations.begin());
}

std::string_view activation_name(Activation activation) {
  return kActivations.at(static_cast<std::size_t>(activation));
}

}  // namespace kpt::ir
