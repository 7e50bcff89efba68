// Attention on the matrix cores of RDNA3 (gfx11); attention_forward.h has the kernel.
//
// Intensity: a block does 4 · 128 operations for each element of keys and values it reads: 128 FLOP a byte. An RX 7900
// XTX has 123 TFLOP/s by 0.96 TB/s, as many a byte: the matrix cores are the limit where two blocks of a head share
// keys and values in L2. Both halves of a wave read the same addresses of LDS, 512 bytes for an instruction of 32
// cycles. One query alone (decoding) is bound by memory: 4 FLOP for each element.
#pragma once

#include "kernels/gpu/attention_forward.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_ATTENTION_RDNA3_KERNELS(X) KPT_ATTENTION_KERNELS_OF(X, Rdna3, rdna3)

}  // namespace kpt::gpu
