// Masks of attention scores, for softmax and attention.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

enum class MaskKind : Int32 {
  kNone,
  kAdded,       // numbers of the kernel's type, added to the scaled input
  kAddedFloat,  // float32 numbers, added
  kKept         // bytes; where they are 0 the element takes no part
};

// A scaled score with the mask's element `place`.
template <typename T>
KPT_DEVICE float masked(MaskKind kind, const void* mask, Int64 place, float score) {
  if (kind == MaskKind::kNone) return score;
  if (kind == MaskKind::kKept) return static_cast<const UInt8*>(mask)[place] != 0 ? score : -infinity();
  return score + load_parameter<T>(mask, kind == MaskKind::kAddedFloat, place);
}

}  // namespace kpt::gpu
