// Weights of kpt.linear in fewer bits, symmetric, scales computed in double. quantize_int8 gives kpt.linear_int8 and
// quantize_fp8 kpt.linear_fp8 or, where the target or PassContext::wide_inputs says so, kpt.linear_fp8_e5m2, one scale
// per row; the inputs of these are quantized when they come. So does
// quantize_convs_int8 with kpt.conv2d that have one group and at least 16 channels. With inputs as they are and in no
// level: quantize_weights_int8 gives kpt.linear_weight_int8, one scale per row, and quantize_int4
// kpt.linear_int4, one scale per group of 64 (or 32) elements of a row. quantize_few_rows_int8 is the first of these
// for products whose rows are known and at most Capabilities::weight_only_rows: reading the weight is what those take.
// Nodes that stay precise are left alone, and so are those that were measured to be slower in fewer bits, weights
// with an element that is no finite number, and products of int8 deeper than Capabilities::int8_depth.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kQuantizeInt8;
extern const Pass kQuantizeConvsInt8;
extern const Pass kQuantizeWeightsInt8;
extern const Pass kQuantizeFewRowsInt8;
extern const Pass kQuantizeFp8;
extern const Pass kQuantizeInt4;

}  // namespace kpt
