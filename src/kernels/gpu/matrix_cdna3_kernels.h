// Matrix products on the matrix cores of CDNA3 (gfx942); matrix_product.h has the kernel.
//
// Intensity: a block reads 16 KiB for 2 · 128 · 128 · 32 operations with 16-bit types and twice as many with 8-bit
// ones: 64 and 128 operations a byte. An MI300X has 1307 TFLOP/s (2615 in 8 bits) by 5.3 TB/s, 247 (493) a byte: tiles
// of neighbours must come from L2 (4 MiB a die), which they do for rows of up to 16 KiB. Large products are then bound
// by the matrix cores: a wave reads 8 KiB of LDS for 32 instructions of 16 cycles, half of what LDS gives to four
// waves.
//
// The instruction for FP8 knows E4M3Fnuz only. Weights are given as E4M3 and read as the other: half their numbers, so
// the plan doubles the scale; inputs may be given so too, and double it once more.
#pragma once

#include "kernels/gpu/matrix_product.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_MATRIX_CDNA3_KERNELS(X)                                    \
  X(matrix_cdna3_f16, MatrixArgs, 256, matrix_product<Cdna3, Half>)    \
  X(matrix_cdna3_bf16, MatrixArgs, 256, matrix_product<Cdna3, BFloat>) \
  X(matrix_cdna3_i8, MatrixArgs, 256, matrix_product<Cdna3, Int8>)     \
  X(matrix_cdna3_e4m3fnuz, MatrixArgs, 256, matrix_product<Cdna3, E4M3Fnuz>)

}  // namespace kpt::gpu
