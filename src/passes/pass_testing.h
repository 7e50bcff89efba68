// What tests of passes share: weights with random contents, and a target that can do everything.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include "device/execution.h"
#include "ir/own_operators.h"
#include "passes/weight_values.h"

namespace kpt::pass_testing {

inline Capabilities full_capabilities() {
  Capabilities capabilities;
  capabilities.raw_pointers = true;
  capabilities.dynamic_shapes = true;
  capabilities.products_give_either_type = true;
  capabilities.dtypes = {DType::kFloat32, DType::kBFloat16};
  capabilities.matrix_dtypes = {DType::kBFloat16, DType::kInt8};
  for (const ir::OwnOperator& own : ir::own_operators()) capabilities.own_operators.emplace_back(own.target);
  return capabilities;
}

// What one pass alone is tested with. In the others FP8 is left out: it would take all that int8 is tested on.
inline Capabilities capabilities_for(std::string_view pass) {
  Capabilities capabilities = full_capabilities();
  if (pass == "quantize_fp8") capabilities.matrix_dtypes.push_back(DType::kFloat8E4M3FN);
  if (pass == "quantize_few_rows_int8") capabilities.weight_only_rows = 8;
  if (pass == "share_masks") capabilities.attention_adds_masks = true;
  return capabilities;
}

// Floats from a normal distribution (positive for what is called a variance), zeros for all else. Extents must be
// constants.
inline Weights draw_weights(const ir::Graph& graph, std::uint64_t seed) {
  Weights weights;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 0.3);
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed) continue;
    const ir::TensorType& type = graph.at(input.value).tensor;
    Dims dims;
    for (const ir::Expr& dim : type.dims) dims.push_back(*dim.constant());
    Tensor tensor = Tensor::empty(type.dtype, dims).value();
    if (is_floating(type.dtype)) {
      std::vector<double> values(static_cast<std::size_t>(tensor.element_count()));
      const bool variance = input.name.find("var") != std::string::npos;
      for (double& value : values) value = variance ? 0.2 + std::fabs(normal(random)) : normal(random);
      tensor = make_weight(type.dtype, dims, values).value();
    } else if (tensor.bytes() != 0) {
      std::memset(tensor.data(), 0, tensor.bytes());
    }
    weights.emplace(input.name, tensor);
  }
  return weights;
}

}  // namespace kpt::pass_testing
