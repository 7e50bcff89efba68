// Copies into shared memory that go on while a thread computes. A thread copies into slots of its own and reads them
// itself, so no barrier is needed. On NVIDIA only; on the host a copy is done when it is started.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

#if defined(KPT_SIMT_CUDA)
KPT_DEVICE UInt32 shared_address(const Words* slot) { return static_cast<UInt32>(__cvta_generic_to_shared(slot)); }
#endif

// Starts to copy the words at source[index]; zeros where they are not wanted: nothing is read there, so that the
// address may be any.
template <typename T>
KPT_DEVICE void start_copy(bool wanted, Words* slot, const T* source, Int64 index) {
#if defined(KPT_SIMT_CUDA)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(slot)), "l"(source + index),
               "r"(wanted ? 16U : 0U)
               : "memory");
#else
  *slot = wanted ? *reinterpret_cast<const Words*>(source + index) : Words{};
#endif
}

// What was started since the last call is one group.
KPT_DEVICE void end_copy_group() {
#if defined(KPT_SIMT_CUDA)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Returns when at most `open` (0 to 2) of the newest groups are under way.
KPT_DEVICE void wait_for_copies([[maybe_unused]] Int32 open) {
#if defined(KPT_SIMT_CUDA)
  if (open == 0) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  } else if (open == 1) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  }
#endif
}

// Reads a slot, each time anew: what is not kept takes no registers.
KPT_DEVICE Words read_slot(const Words* slot) {
#if defined(KPT_SIMT_CUDA)
  Words words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.values[0]), "=r"(words.values[1]), "=r"(words.values[2]), "=r"(words.values[3])
               : "r"(shared_address(slot))
               : "memory");
  return words;
#else
  return *slot;
#endif
}

}  // namespace kpt::gpu
