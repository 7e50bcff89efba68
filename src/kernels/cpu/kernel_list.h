// The kernels of each instruction set; matrix_kernel.cpp orders them. Each function's source has flags of its own, so
// it may be called anywhere, but what it returns may run only where the processor has the instructions.
#pragma once

#include "kernels/cpu/matrix_kernel.h"

namespace kpt::kernels {

// Plain C++; `form` is how the weights are stored.
MatrixKernel portable_kernel(LinearForm form);

#if defined(__aarch64__)
MatrixKernel neon_kernel(LinearForm form);  // float32, and all but int8 expanded to it
MatrixKernel neon_bfloat16_matrix_kernel();
MatrixKernel neon_int8_dot_kernel();
MatrixKernel neon_int8_matrix_kernel();
#elif defined(__x86_64__)
MatrixKernel avx2_kernel(LinearForm form);    // every form
MatrixKernel avx512_kernel(LinearForm form);  // all but int8
MatrixKernel avx512_streamed_kernel();        // float32
MatrixKernel avx512_vnni_kernel();
MatrixKernel avx512_bfloat16_kernel();
MatrixKernel amx_bfloat16_kernel();
MatrixKernel amx_int8_kernel();
#endif

}  // namespace kpt::kernels
