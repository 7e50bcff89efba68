// Loops over a tile are unrolled by name: arrays of vectors stay in registers only then.
#pragma once

#if defined(__clang__)
#define KPT_UNROLL _Pragma("unroll")
#else
#define KPT_UNROLL _Pragma("GCC unroll 16")
#endif
