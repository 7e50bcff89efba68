// Attention on the matrix cores of RDNA4 (gfx12); attention_forward.h has the kernel.
//
// Intensity: a block does 4 · 128 operations for each element of keys and values it reads: 128 FLOP a byte, and 384 a
// byte where three blocks of a head share them in L2. An RX 9070 XT has 195 TFLOP/s by 0.64 TB/s, 304 FLOP a byte: from
// 384 queries on LDS and the matrix cores are the limit: 512 bytes of LDS for an instruction of 16 cycles, which two
// SIMDs take in eight. One query alone (decoding) is bound by memory: 4 FLOP for each element.
#pragma once

#include "kernels/gpu/attention_forward.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_ATTENTION_RDNA4_KERNELS(X) KPT_ATTENTION_KERNELS_OF(X, Rdna4, rdna4)

}  // namespace kpt::gpu
