// aten._scaled_mm.default(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum): how PyTorch
// multiplies matrices of FP8. A number is its code times its scale:
//
//   result = (self · scale_a) · (mat2 · scale_b) + bias
#pragma once

#include <string_view>

#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::ir {

inline constexpr std::string_view kScaledProductTarget = "aten._scaled_mm.default";

struct ScaledProduct {
  ValueId self = kNoValue;     // [M, K], FP8
  ValueId mat2 = kNoValue;     // [K, N], FP8
  ValueId scale_a = kNoValue;  // float32: one element, or [M, 1]
  ValueId scale_b = kNoValue;  // float32: one element, or [1, N]
  ValueId bias = kNoValue;     // [N]; kNoValue: none
  ValueId result = kNoValue;   // [M, N]
};

// What the node takes and gives, by its recorded types. Fails with kUnsupported and one clause for every other form:
// scales of blocks, and a scale of the result (of FP8 results alone; PyTorch divides by it on the CPU, and CUDA
// multiplies).
Result<ScaledProduct> read_scaled_product(const Graph& graph, const Node& node);

}  // namespace kpt::ir
