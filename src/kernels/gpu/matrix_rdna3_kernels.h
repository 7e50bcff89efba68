// Matrix products on the matrix cores of RDNA3 (gfx11); matrix_product.h has the kernel.
//
// Intensity: a block reads 16 KiB for 2 · 128 · 128 · 32 operations with 16-bit types and twice as many with int8: 64
// and 128 operations a byte. An RX 7900 XTX has 123 T operations a second in all three types by 0.96 TB/s, 128 a byte:
// 16-bit tiles of neighbours must come from L2 and the 96 MiB behind it. Large products are then bound by the matrix
// cores: both halves of a wave read the same addresses, so LDS gives 6 KiB for 16 instructions of 32 cycles.
#pragma once

#include "kernels/gpu/matrix_product.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_MATRIX_RDNA3_KERNELS(X)                                    \
  X(matrix_rdna3_f16, MatrixArgs, 256, matrix_product<Rdna3, Half>)    \
  X(matrix_rdna3_bf16, MatrixArgs, 256, matrix_product<Rdna3, BFloat>) \
  X(matrix_rdna3_i8, MatrixArgs, 256, matrix_product<Rdna3, Int8>)

}  // namespace kpt::gpu
