// Attention on the matrix cores of CDNA4 (gfx950); attention_forward.h has the kernel.
//
// Intensity: a block does 4 · 128 operations for each element of keys and values it reads: 128 FLOP a byte, and 384 a
// byte where three blocks of a head share them in L2. An MI355X has 2517 TFLOP/s by 8 TB/s, 315 FLOP a byte: from 384
// queries on the matrix cores and LDS are the limit (a wave reads keys and values once for 32 queries, by instructions
// of 32 steps), and beside them the exponentials: one for each 256 (D = 64) or 512 operations. One query alone
// (decoding) is bound by memory: 4 FLOP for each element.
#pragma once

#include "kernels/gpu/attention_forward.h"

namespace kpt::gpu {

// X(name, arguments, most threads in a block, body)
#define KPT_ATTENTION_CDNA4_KERNELS(X) KPT_ATTENTION_KERNELS_OF(X, Cdna4, cdna4)

}  // namespace kpt::gpu
