// Attention on the matrix cores of CDNA3 (gfx942); attention_forward.h has the kernel.
//
// Intensity: a block does 4 · 128 operations for each element of keys and values it reads: 128 FLOP a byte, and 256 a
// byte where two blocks of a head share them in L2. An MI300X has 1307 TFLOP/s by 5.3 TB/s, 247 FLOP a byte: from 256
// queries on the matrix cores are the limit, and beside them the exponentials: one for each 256 (D = 64) or 512
// operations. A wave reads keys and values from LDS once for 32 queries: half of what LDS gives. One query alone
// (decoding) is bound by memory: 4 FLOP for each element.
#pragma once

#include "kernels/gpu/attention_forward.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_ATTENTION_CDNA3_KERNELS(X) KPT_ATTENTION_KERNELS_OF(X, Cdna3, cdna3)

}  // namespace kpt::gpu
