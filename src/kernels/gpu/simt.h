// Threads of a GPU, seen alike on CUDA, HIP and the host. Kernels are written against this header alone.
//
// A kernel is a template `body<…>(const Args&, Lane&)`. `Lane` is one thread: its place, the barrier of its block, the
// shuffle of its wave (CUDA's warp, AMD's wavefront; 32 or 64 lanes, a constant of the type). Blocks have one dimension
// and a whole number of waves. What a kernel needs to know of its launch (threads in a block, blocks) stands in its
// Args: reading it from the hardware needs hidden arguments on AMD.
//
//   CUDA   nvcc; one wave is 32 lanes.
//   HIP    clang -x hip without any header of ROCm; KPT_WAVE says 32 or 64.
//   host   any C++20 compiler; each lane is a fiber (host_block.h), so barriers and shuffles are real.
//
// Rules that the host mapping checks: all lanes of a block reach the same barriers, all lanes of a wave the same
// shuffles. Device code includes nothing but headers of this folder, so that a compiler without a C++ library is
// enough.
#pragma once

#if defined(__HIP__)
#define KPT_SIMT_HIP 1
#define KPT_DEVICE __attribute__((device, always_inline)) inline
#elif defined(__CUDACC__)
#define KPT_SIMT_CUDA 1
#define KPT_DEVICE __device__ __forceinline__
#else
#define KPT_SIMT_HOST 1
#define KPT_DEVICE inline
#include "kernels/gpu/host_lane.h"
// Widths are int in templates, as in the loops over them; GCC warns of every array that has one as its bound.
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

// Loops whose count is a constant are unrolled, so that arrays indexed by them stay in registers; KPT_ROLLED where that
// would only make more code.
#if defined(KPT_SIMT_HOST)
#define KPT_UNROLL
#define KPT_ROLLED
#elif defined(KPT_SIMT_HIP)
#define KPT_UNROLL _Pragma("unroll")
#define KPT_ROLLED _Pragma("nounroll")
#else
#define KPT_UNROLL _Pragma("unroll")
#define KPT_ROLLED _Pragma("unroll 1")
#endif

namespace kpt::gpu {

using Int8 = __INT8_TYPE__;
using UInt8 = __UINT8_TYPE__;
using Int16 = __INT16_TYPE__;
using UInt16 = __UINT16_TYPE__;
using Int32 = __INT32_TYPE__;
using UInt32 = __UINT32_TYPE__;
using Int64 = __INT64_TYPE__;
using UInt64 = __UINT64_TYPE__;

// No block has more waves than this.
inline constexpr int kMaxWaves = 32;
inline constexpr int kMaxThreads = 1024;

#if defined(KPT_SIMT_CUDA)

template <int W>
struct Lane {
  static_assert(W == 32, "a warp has 32 lanes");
  static constexpr int kWave = W;
  KPT_DEVICE static Int32 thread() { return static_cast<Int32>(threadIdx.x); }
  KPT_DEVICE static Int64 block() { return static_cast<Int64>(blockIdx.x); }
  KPT_DEVICE static Int32 lane() { return thread() % W; }
  KPT_DEVICE static Int32 wave() { return thread() / W; }
  KPT_DEVICE static void barrier() { __syncthreads(); }
  KPT_DEVICE static float shuffle_xor(float value, Int32 mask) { return __shfl_xor_sync(0xffffffffU, value, mask); }
};

#define KPT_SHARED(lane, type, name, count) __shared__ __align__(16) type name[count]
// As many bytes as the launch says (Launch::shared_bytes); once in a kernel. No such kernel is for AMD.
extern __shared__ __align__(16) unsigned char kpt_shared_at_launch[];
#define KPT_SHARED_AT_LAUNCH(lane, type, name, count) type* const name = reinterpret_cast<type*>(kpt_shared_at_launch)

#elif defined(KPT_SIMT_HIP)

template <int W>
struct Lane {
  static_assert(W == 32 || W == 64, "a wavefront has 32 or 64 lanes");
  static constexpr int kWave = W;
  KPT_DEVICE static Int32 thread() { return static_cast<Int32>(__builtin_amdgcn_workitem_id_x()); }
  KPT_DEVICE static Int64 block() { return static_cast<Int64>(__builtin_amdgcn_workgroup_id_x()); }
  KPT_DEVICE static Int32 lane() { return thread() % W; }
  KPT_DEVICE static Int32 wave() { return thread() / W; }
  KPT_DEVICE static void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  KPT_DEVICE static float shuffle_xor(float value, Int32 mask) {
    const Int32 bits = __builtin_amdgcn_ds_bpermute((lane() ^ mask) * 4, __builtin_bit_cast(Int32, value));
    return __builtin_bit_cast(float, bits);
  }
};

#define KPT_SHARED(lane, type, name, count) __attribute__((shared, aligned(16))) type name[count]
#define KPT_SHARED_AT_LAUNCH(lane, type, name, count) type* const name = nullptr

#else

template <int W>
class Lane {
 public:
  static constexpr int kWave = W;
  explicit Lane(HostLane& host) : host_(host) {}
  Int32 thread() const { return host_.thread; }
  Int64 block() const { return host_.block_index; }
  Int32 lane() const { return thread() % W; }
  Int32 wave() const { return thread() / W; }
  void barrier() { host_.wait_for_block(); }
  float shuffle_xor(float value, Int32 mask) { return host_.exchange(value, thread() ^ mask); }
  HostLane& host() { return host_; }
  // Memory of `count` elements that all lanes of the block share; every lane asks in the same order.
  template <typename T>
  T* shared_array(int count) {
    return static_cast<T*>(host_.shared_bytes(sizeof(T) * static_cast<unsigned>(count)));
  }

 private:
  HostLane& host_;
};

#define KPT_SHARED(lane, type, name, count) type* const name = (lane).template shared_array<type>(count)
#define KPT_SHARED_AT_LAUNCH(lane, type, name, count) KPT_SHARED(lane, type, name, count)

#endif

// Sums over a wave, the same in every lane. The order of additions is fixed, so results do not change between runs.
template <typename L>
KPT_DEVICE float wave_sum(L& lane, float value) {
  KPT_UNROLL
  for (Int32 mask = L::kWave / 2; mask > 0; mask /= 2) value += lane.shuffle_xor(value, mask);
  return value;
}

struct Sums {
  float first, second;
};

// Two sums in the time of one: their shuffles do not wait for each other.
template <typename L>
KPT_DEVICE Sums wave_sums(L& lane, Sums sums) {
  KPT_UNROLL
  for (Int32 mask = L::kWave / 2; mask > 0; mask /= 2) {
    const float first = lane.shuffle_xor(sums.first, mask);
    const float second = lane.shuffle_xor(sums.second, mask);
    sums.first += first;
    sums.second += second;
  }
  return sums;
}

// The greater one; NaN when one of them is.
KPT_DEVICE float greater_of(float a, float b) { return (a >= b || a != a) ? a : b; }

template <typename L>
KPT_DEVICE float wave_max(L& lane, float value) {
  KPT_UNROLL
  for (Int32 mask = L::kWave / 2; mask > 0; mask /= 2) value = greater_of(value, lane.shuffle_xor(value, mask));
  return value;
}

// Sums over a block of `threads`, the same in every lane. `scratch`: kMaxWaves floats of shared memory that nothing
// else uses between the last barrier before this call and the first one after it.
template <typename L>
KPT_DEVICE float block_sum(L& lane, float value, float* scratch, Int32 threads) {
  value = wave_sum(lane, value);
  const Int32 waves = threads / L::kWave;
  if (waves == 1) return value;
  if (lane.lane() == 0) scratch[lane.wave()] = value;
  lane.barrier();
  float total = scratch[0];
  for (Int32 wave = 1; wave < waves; ++wave) total += scratch[wave];
  return total;
}

template <typename L>
KPT_DEVICE float block_max(L& lane, float value, float* scratch, Int32 threads) {
  value = wave_max(lane, value);
  const Int32 waves = threads / L::kWave;
  if (waves == 1) return value;
  if (lane.lane() == 0) scratch[lane.wave()] = value;
  lane.barrier();
  float greatest = scratch[0];
  for (Int32 wave = 1; wave < waves; ++wave) greatest = greater_of(greatest, scratch[wave]);
  return greatest;
}

// Over the lanes that share a row: the block, or one wave of it.
template <bool kBlock, typename L>
KPT_DEVICE float group_sum(L& lane, float value, float* scratch, Int32 threads) {
  if constexpr (kBlock) return block_sum(lane, value, scratch, threads);
  return wave_sum(lane, value);
}

template <bool kBlock, typename L>
KPT_DEVICE float group_max(L& lane, float value, float* scratch, Int32 threads) {
  if constexpr (kBlock) return block_max(lane, value, scratch, threads);
  return wave_max(lane, value);
}

}  // namespace kpt::gpu
