// The kernels of each family as functions of the host. Made from host_kernels.cpp.in, one source for each family.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/gpu/host_block.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

struct HostEntry {
  KernelInfo info;
  HostKernel wave_32;  // null where the kernel is for waves of 64 only
  HostKernel wave_64;
};

// A family is a file <family>_kernels.h; this list and that of CMakeLists.txt are all there is to a new one.
#define KPT_GPU_FAMILIES(X) \
  X(activation)             \
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
  X(transpose)

// For AMD's CDNA alone: waves of 64 and their matrix instructions. X(family, the instructions it is made of)
#define KPT_CDNA_FAMILIES(X) X(matrix, "mfma_f32_16x16x16f16", "mfma_f32_16x16x16bf16_1k")

#define KPT_DECLARE_FAMILY(family, ...) std::span<const HostEntry> host_##family##_kernels();
KPT_GPU_FAMILIES(KPT_DECLARE_FAMILY)
KPT_CDNA_FAMILIES(KPT_DECLARE_FAMILY)
#undef KPT_DECLARE_FAMILY

}  // namespace kpt::gpu
