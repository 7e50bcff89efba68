// The kernels of each family as functions of the host. Made from host_kernels.cpp.in, one source for each family.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/gpu/host_block.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

struct HostEntry {
  KernelInfo info;
  // One of them is null where the kernel's matrix instructions are of waves of the other size.
  HostKernel wave_32;
  HostKernel wave_64;
};

// A family is a file <family>_kernels.h; this list and that of CMakeLists.txt are all there is to a new one.
#define KPT_GPU_FAMILIES(X) \
  X(activation)             \
  X(blind_rows)             \
  X(convert)                \
  X(elementwise)            \
  X(embedding)              \
  X(gather)                 \
  X(norm)                   \
  X(norm_backward)          \
  X(product)                \
  X(quantize)               \
  X(reduce)                 \
  X(rotary)                 \
  X(softmax)                \
  X(transpose)              \
  X(weight_only)

// For CUDA and the host: AMD's code objects have nothing of them.
#define KPT_CUDA_FAMILIES(X) \
  X(norm_backward_staged)    \
  X(quantize_e5m2)           \
  X(scaled_product)

// For one of AMD's matrix units alone. X(family, unit)
#define KPT_MATRIX_FAMILIES(X) \
  X(matrix_cdna2, kCdna2)      \
  X(matrix_cdna3, kCdna3)      \
  X(matrix_cdna4, kCdna4)      \
  X(matrix_rdna3, kRdna3)      \
  X(matrix_rdna4, kRdna4)      \
  X(attention_cdna2, kCdna2)   \
  X(attention_cdna3, kCdna3)   \
  X(attention_cdna4, kCdna4)   \
  X(attention_rdna3, kRdna3)   \
  X(attention_rdna4, kRdna4)

#define KPT_DECLARE_FAMILY(family, ...) std::span<const HostEntry> host_##family##_kernels();
KPT_GPU_FAMILIES(KPT_DECLARE_FAMILY)
KPT_CUDA_FAMILIES(KPT_DECLARE_FAMILY)
KPT_MATRIX_FAMILIES(KPT_DECLARE_FAMILY)
#undef KPT_DECLARE_FAMILY

}  // namespace kpt::gpu
