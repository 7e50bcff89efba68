// Matrix products on the matrix cores of CDNA4 (gfx950); matrix_product.h has the kernel.
//
// Intensity: a block reads 16 KiB for 2 · 128 · 128 · 32 operations with 16-bit types and twice as many with 8-bit
// ones: 64 and 128 operations a byte. An MI355X has 2517 TFLOP/s (5033 in 8 bits) by 8 TB/s, 315 (629) a byte: tiles of
// neighbours must come from L2 (4 MiB a die), which they do for rows of up to 16 KiB. Large products are then bound by
// LDS as much as by the matrix cores: the instructions of twice the depth take 8 KiB of LDS for 16 of 16 cycles. FP8
// uses the instruction of CDNA3, which has half the rate of the scaled one of 128 steps.
#pragma once

#include "kernels/gpu/matrix_product.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_MATRIX_CDNA4_KERNELS(X)                                    \
  X(matrix_cdna4_f16, MatrixArgs, 256, matrix_product<Cdna4, Half>)    \
  X(matrix_cdna4_bf16, MatrixArgs, 256, matrix_product<Cdna4, BFloat>) \
  X(matrix_cdna4_i8, MatrixArgs, 256, matrix_product<Cdna4, Int8>)     \
  X(matrix_cdna4_e4m3, MatrixArgs, 256, matrix_product<Cdna4, E4M3>)

}  // namespace kpt::gpu
