// Weights of kpt.linear in fewer bits, symmetric, scales computed in double. quantize_int8 gives kpt.linear_int8 and
// quantize_fp8 kpt.linear_fp8, one scale per row; quantize_int4 gives kpt.linear_int4, one scale per group of 64 (or
// 32) elements of a row, and is in no level. Nodes that stay precise are left alone, and so are weights with an element
// that is no finite number.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kQuantizeInt8;
extern const Pass kQuantizeFp8;
extern const Pass kQuantizeInt4;

}  // namespace kpt
