// Matrix products on the matrix cores of RDNA4 (gfx12); matrix_product.h has the kernel.
//
// Intensity: a block reads 16 KiB for 2 · 128 · 128 · 32 operations with 16-bit types and twice as many with 8-bit
// ones: 64 and 128 operations a byte. An RX 9070 XT has 195 TFLOP/s (389 in 8 bits) by 0.64 TB/s, 304 (608) a byte:
// tiles of neighbours must come from L2 (8 MiB) and the 64 MiB behind it. Large products are then bound by the matrix
// cores as much as by LDS: a wave reads 6 KiB for 16 instructions of 16 cycles (8 bits: 16 for each 64 bytes of depth).
#pragma once

#include "kernels/gpu/matrix_product.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_MATRIX_RDNA4_KERNELS(X)                                    \
  X(matrix_rdna4_f16, MatrixArgs, 256, matrix_product<Rdna4, Half>)    \
  X(matrix_rdna4_bf16, MatrixArgs, 256, matrix_product<Rdna4, BFloat>) \
  X(matrix_rdna4_i8, MatrixArgs, 256, matrix_product<Rdna4, Int8>)     \
  X(matrix_rdna4_e4m3, MatrixArgs, 256, matrix_product<Rdna4, E4M3>)

}  // namespace kpt::gpu
