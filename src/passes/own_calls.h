// Calls of our own operators (ir/own_operators.h): made in one place, with all their arguments, and read back.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "device/execution.h"
#include "ir/own_operators.h"
#include "passes/graph_edit.h"

namespace kpt {

inline constexpr std::string_view kLinearTarget = "kpt.linear.default";
inline constexpr std::string_view kLinearInt8Target = "kpt.linear_int8.default";
inline constexpr std::string_view kLinearWeightInt8Target = "kpt.linear_weight_int8.default";
inline constexpr std::string_view kLinearFp8Target = "kpt.linear_fp8.default";
inline constexpr std::string_view kLinearFp8E5M2Target = "kpt.linear_fp8_e5m2.default";
inline constexpr std::string_view kLinearInt4Target = "kpt.linear_int4.default";
inline constexpr std::string_view kAttentionTarget = "kpt.attention.default";
inline constexpr std::string_view kAddNormTarget = "kpt.add_norm.default";
inline constexpr std::string_view kGluTarget = "kpt.glu.default";
inline constexpr std::string_view kRotaryTarget = "kpt.rotary.default";
inline constexpr std::string_view kConv2dTarget = "kpt.conv2d.default";
inline constexpr std::string_view kConv2dInt8Target = "kpt.conv2d_int8.default";

// Whether the target runs all of these; if not, the reason names the first that it lacks.
Support needs_own_operators(const Capabilities& capabilities, std::initializer_list<std::string_view> targets);
// Whether one of them takes inputs, weights and results of this type.
bool takes_dtype(const Capabilities& capabilities, std::string_view target, DType dtype);
bool has_matrix_dtype(const Capabilities& capabilities, DType dtype);

// Whether it is a form of kpt.linear, or of that or kpt.conv2d, whose weights are stored in eight bits or fewer.
bool is_quantized_linear(std::string_view target);
bool is_quantized_product(std::string_view target);

// kpt.linear in pieces; kNoValue is None.
struct LinearCall {
  ir::ValueId input = ir::kNoValue;
  ir::ValueId weight = ir::kNoValue;
  ir::ValueId bias = ir::kNoValue;
  ir::ValueId residual = ir::kNoValue;
  ir::Activation activation = ir::Activation::kNone;
};

LinearCall read_linear(const ir::Node& node);  // of a kpt.linear
std::vector<ir::NamedArgument> linear_arguments(const LinearCall& call);

// The activation that a node of aten computes on one tensor, kNone for all others: aten.gelu, aten.silu, aten.relu,
// aten.hardtanh(0, 6) and so on.
ir::Activation activation_of(const ir::Node& node);

// add(a, b) of two tensors of one type and the same extents, without a factor: the operand that is not `value`.
// kNoValue for everything else.
ir::ValueId other_summand(const GraphEdit& edit, const ir::Node& node, ir::ValueId value);

// Whether the name stands in the list.
bool is_kept_precise(const std::vector<std::string>& kept, const std::string& node);

}  // namespace kpt
