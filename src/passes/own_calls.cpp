#include "passes/own_calls.h"

#include <algorithm>

#include <fmt/format.h>

#include "passes/node_arguments.h"

namespace kpt {

Support needs_own_operators(const Capabilities& capabilities, std::initializer_list<std::string_view> targets) {
  for (const std::string_view target : targets) {
    const auto& own = capabilities.own_operators;
    if (std::find(own.begin(), own.end(), target) == own.end()) {
      return {false, fmt::format("the target does not run {}", target)};
    }
  }
  return {};
}

bool takes_dtype(const Capabilities& capabilities, std::string_view target, DType dtype) {
  if (dtype == DType::kFloat32 || dtype == DType::kBFloat16) return true;
  const auto& half = capabilities.float16_operators;
  return dtype == DType::kFloat16 && std::find(half.begin(), half.end(), target) != half.end();
}

bool has_matrix_dtype(const Capabilities& capabilities, DType dtype) {
  const auto& dtypes = capabilities.matrix_dtypes;
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

bool is_quantized_linear(std::string_view target) {
  return target == kLinearInt8Target || target == kLinearWeightInt8Target || target == kLinearFp8Target ||
         target == kLinearFp8E5M2Target || target == kLinearInt4Target;
}

bool is_quantized_product(std::string_view target) {
  return is_quantized_linear(target) || target == kConv2dInt8Target;
}

LinearCall read_linear(const ir::Node& node) {
  return {value_argument(node, "input"), value_argument(node, "weight"), value_argument(node, "bias"),
          value_argument(node, "residual"),
          ir::find_activation(string_argument(node, "activation", "none")).value_or(ir::Activation::kNone)};
}

std::vector<ir::NamedArgument> linear_arguments(const LinearCall& call) {
  return {{"input", {call.input}},
          {"weight", {call.weight}},
          {"bias", value_or_none(call.bias)},
          {"residual", value_or_none(call.residual)},
          {"activation", {std::string(ir::activation_name(call.activation))}}};
}

ir::Activation activation_of(const ir::Node& node) {
  if (node.target == "aten.gelu.default") {
    const std::string_view approximate = string_argument(node, "approximate", "none");
    if (approximate == "none") return ir::Activation::kGelu;
    return approximate == "tanh" ? ir::Activation::kGeluTanh : ir::Activation::kNone;
  }
  if (node.target == "aten.hardtanh.default") {
    const bool six = number_argument(node, "min_val", -1.0) == 0.0 && number_argument(node, "max_val", 1.0) == 6.0;
    return six ? ir::Activation::kRelu6 : ir::Activation::kNone;
  }
  struct Row {
    std::string_view target;
    ir::Activation activation;
  };
  constexpr Row kRows[] = {
      {"aten.relu.default", ir::Activation::kRelu},
      {"aten.silu.default", ir::Activation::kSilu},
      {"aten.sigmoid.default", ir::Activation::kSigmoid},
      {"aten.tanh.default", ir::Activation::kTanh},
      {"aten.hardswish.default", ir::Activation::kHardswish},
      {"aten.hardsigmoid.default", ir::Activation::kHardsigmoid},
      {"aten.relu6.default", ir::Activation::kRelu6},
  };
  for (const Row& row : kRows) {
    if (row.target == node.target) return row.activation;
  }
  return ir::Activation::kNone;
}

ir::ValueId other_summand(const GraphEdit& edit, const ir::Node& node, ir::ValueId value) {
  if (node.target != "aten.add.Tensor" || number_argument(node, "alpha", 1.0) != 1.0) return ir::kNoValue;
  const ir::ValueId a = value_argument(node, "self");
  const ir::ValueId b = value_argument(node, "other");
  const ir::ValueId result = only_result(node);
  if (!edit.is_tensor(a) || !edit.is_tensor(b) || a == b || (a != value && b != value)) return ir::kNoValue;
  const ir::TensorType& type = edit.type(result);
  for (const ir::ValueId id : {a, b}) {
    if (edit.type(id).dims != type.dims || edit.type(id).dtype != type.dtype) return ir::kNoValue;
  }
  return a == value ? b : a;
}

bool is_kept_precise(const std::vector<std::string>& kept, const std::string& node) {
  return std::find(kept.begin(), kept.end(), node) != kept.end();
}

}  // namespace kpt
