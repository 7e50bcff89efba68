// Waves of 64 lanes on an NVIDIA GPU: two neighbouring warps of a block, as AMD's CDNA has them. For tests alone: what
// is special to 64 lanes runs there on a real GPU, by a real compiler. No product holds it (kpt_cuda_kernels.cmake).
//
// Partners in the same warp shuffle. Those in the other warp put their values into shared memory and meet: a barrier of
// their 64 threads, by an mbarrier for each wave, since a block of 1024 threads has 16 waves and the hardware 15
// barriers besides that of the block. Its phase ends when all 64 have arrived, so both warps must reach each such
// shuffle: the rule that the host mapping checks (simt.h).
#pragma once

#include "kernels/gpu/simt.h"

#if defined(__CUDACC__)
namespace kpt::gpu {

template <>
struct Lane<64> {
  static constexpr int kWave = 64;

  // Every thread of the block makes its lane before anything else.
  KPT_DEVICE Lane() {
    if (lane() == 0) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(meeting()), "r"(kWave) : "memory");
    }
    __syncthreads();
  }

  KPT_DEVICE static Int32 thread() { return static_cast<Int32>(threadIdx.x); }
  KPT_DEVICE static Int64 block() { return static_cast<Int64>(blockIdx.x); }
  KPT_DEVICE static Int32 lane() { return thread() % kWave; }
  KPT_DEVICE static Int32 wave() { return thread() / kWave; }
  KPT_DEVICE static void barrier() { __syncthreads(); }
  KPT_DEVICE static float shuffle_xor(float value, Int32 mask) {
    if ((mask & 32) == 0) return __shfl_xor_sync(0xffffffffU, value, mask);
    __shared__ float slots[kMaxThreads];
    slots[thread()] = value;
    meet();
    const float other = slots[thread() ^ mask];
    meet();  // before the slots are written again
    return other;
  }

 private:
  // The address in shared memory of the wave's barrier.
  KPT_DEVICE static UInt32 meeting() {
    __shared__ __align__(8) UInt64 meetings[kMaxThreads / kWave];
    return static_cast<UInt32>(__cvta_generic_to_shared(meetings + wave()));
  }

  // Returns when all 64 threads have called it; what they wrote before is seen.
  KPT_DEVICE static void meet() {
    const UInt32 place = meeting();
    UInt64 phase = 0;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(phase) : "r"(place) : "memory");
    UInt32 ended = 0;
    while (ended == 0) {
      asm volatile(
          "{\n"
          "  .reg .pred ended;\n"
          "  mbarrier.test_wait.shared.b64 ended, [%1], %2;\n"
          "  selp.u32 %0, 1, 0, ended;\n"
          "}\n"
          : "=r"(ended)
          : "r"(place), "l"(phase)
          : "memory");
    }
    __syncwarp();
  }
};

}  // namespace kpt::gpu
#endif
