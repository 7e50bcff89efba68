// Attention on the matrix cores of CDNA2 (gfx90a); attention_forward.h has the kernel.
//
// Intensity: a block does 4 · 128 operations for each element of keys and values it reads: 128 FLOP a byte, and 1024 a
// byte where eight blocks of a head share them in L2. A die of an MI250X has 191.5 TFLOP/s by 1.6 TB/s, 120 FLOP a
// byte: the matrix cores are the limit, and beside them the exponentials: one for each 256 (D = 64) or 512 operations,
// four cycles of a SIMD for 64 of them against 16 for 16384 operations. A wave reads keys and values from LDS once for
// 32 queries: half of what LDS gives. One query alone (decoding) is bound by memory: 4 FLOP for each element.
#pragma once

#include "kernels/gpu/attention_forward.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_ATTENTION_CDNA2_KERNELS(X) KPT_ATTENTION_KERNELS_OF(X, Cdna2, cdna2)

}  // namespace kpt::gpu
