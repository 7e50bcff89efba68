// Matrix products on the matrix cores of CDNA2 (gfx90a); matrix_product.h has the kernel.
//
// Intensity: a block reads 16 KiB for 2 · 128 · 128 · 32 operations with 16-bit types and twice as many with int8: 64
// and 128 operations a byte. A die of an MI250X has 191.5 T operations a second in all three types by 1.6 TB/s, 120 a
// byte: 16-bit tiles of neighbours must come from L2 (8 MiB), which they do for depths up to 8192. Large products are
// then bound by the matrix cores; LDS gives 8 KiB to a wave in the time of its 32 instructions, half of what it can.
#pragma once

#include "kernels/gpu/matrix_product.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_MATRIX_CDNA2_KERNELS(X)                                    \
  X(matrix_cdna2_f16, MatrixArgs, 256, matrix_product<Cdna2, Half>)    \
  X(matrix_cdna2_bf16, MatrixArgs, 256, matrix_product<Cdna2, BFloat>) \
  X(matrix_cdna2_i8, MatrixArgs, 256, matrix_product<Cdna2, Int8>)

}  // namespace kpt::gpu
