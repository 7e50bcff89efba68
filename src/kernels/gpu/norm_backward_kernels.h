// Gradients of LayerNorm and RMSNorm: of the input, and of weight and bias.
//
// Intensity: 17 FLOP an element against 6 bytes of 16-bit types (read gradient and input, write gradient), under 3 a
// byte and half of that in float32; with conversions 4.5 instructions a byte by gfx942's code. An MI300X has 31 FLOP,
// or 7.7 instructions, for each byte that it can move (163.4 TFLOP/s by 5.3 TB/s), an MI210 14 and 7: memory is the
// limit. Blocks walk over rows and add up their share of the weight's gradient in registers, so the
// tensors are read once; the shares (blocks · width floats) are added by a second kernel in a fixed order. No atomics:
// the same bits in every run. As in norm_kernels.h, all reads of a row are issued before the first is used, and the
// next row is read into registers as the present one leaves them.
//
//   norm_backward4        a block has one to many rows at once: up to 4 accesses a thread
//   norm_backward1        the same for 1 access a thread: more threads, for rows with a third tensor to read
//   norm_backward_narrow  some lanes of a wave for each row, one access each, and 2 rows for each lane
//   norm_backward_any     any width and alignment; shares are added up in memory
//   norm_backward_finish  the sum over blocks
// On NVIDIA most rows are taken by norm_backward_staged_kernels.h.
#pragma once

#include "kernels/gpu/norm_backward_narrow.h"
#include "kernels/gpu/norm_backward_rows.h"

namespace kpt::gpu {

template <typename T, int V>
KPT_DEVICE void load_weighted(const NormBackwardArgs& a, Int64 column, const float (&gradient)[V], float (&g)[V]) {
  KPT_UNROLL
  for (int i = 0; i < V; ++i) g[i] = 1.0F;
  if (a.weight != nullptr) load_parameters<T, V>(a.weight, a.weight_is_float != 0, column, g);
  KPT_UNROLL
  for (int i = 0; i < V; ++i) g[i] *= gradient[i];
}

template <typename T, int V>
KPT_DEVICE void store_input_gradient(const NormBackwardArgs& a, Int64 place, const float (&g)[V], const float (&y)[V],
                                     Sums averages, float scale) {
  float result[V];
  KPT_UNROLL
  for (int i = 0; i < V; ++i) result[i] = scale * (g[i] - averages.first - y[i] * averages.second);
  if (a.sum_gradient != nullptr) {
    float more[V];
    load_floats<V>(static_cast<const T*>(a.sum_gradient) + place, more);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) result[i] += more[i];
  }
  store_floats<V>(static_cast<T*>(a.input_gradient) + place, result);
}

template <typename T, typename L>
KPT_DEVICE void norm_backward_any(const NormBackwardArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 4 * kMaxWaves);
  float* weight_share = a.weight_shares == nullptr ? nullptr : a.weight_shares + lane.block() * a.width;
  float* bias_share = a.bias_shares == nullptr ? nullptr : a.bias_shares + lane.block() * a.width;
  for (Int64 column = lane.thread(); column < a.width; column += a.threads) {
    if (weight_share != nullptr) weight_share[column] = 0;
    if (bias_share != nullptr) bias_share[column] = 0;
  }
  Int32 turn = 0;
  for (Int64 row = lane.block(); row < a.rows; row += a.blocks) {
    const float mean = a.centered != 0 ? a.mean[row] : 0.0F;
    const float scale = a.scale[row];
    const T* gradient = static_cast<const T*>(a.gradient) + row * a.width;
    const T* input = static_cast<const T*>(a.input) + row * a.width;
    float first = 0;
    float second = 0;
    for (Int64 column = lane.thread(); column < a.width; column += a.threads) {
      const float dy[1] = {to_float(gradient[column])};
      const float y = (to_float(input[column]) - mean) * scale;
      float g[1];
      load_weighted<T, 1>(a, column, dy, g);
      first += g[0];
      second += g[0] * y;
      if (weight_share != nullptr) weight_share[column] += dy[0] * y;
      if (bias_share != nullptr) bias_share[column] += dy[0];
    }
    const Sums sums = row_sums(lane, {first, second}, scratch + turn * 2 * kMaxWaves, 0, a.threads / L::kWave);
    turn ^= 1;
    const Sums averages{a.centered != 0 ? sums.first * a.per_element : 0.0F, sums.second * a.per_element};
    for (Int64 column = lane.thread(); column < a.width; column += a.threads) {
      const float dy[1] = {to_float(gradient[column])};
      const float y[1] = {(to_float(input[column]) - mean) * scale};
      float g[1];
      load_weighted<T, 1>(a, column, dy, g);
      store_input_gradient<T, 1>(a, row * a.width + column, g, y, averages, scale);
    }
  }
}

struct NormFinishArgs {
  const float* shares[2];  // [blocks, width] each
  void* results[2];        // [width], of the kernel's type or float32
  Int64 blocks, width;
  Int64 column_blocks;  // blocks for each result
  Int32 result_is_float;
  Int32 threads;  // 1024
};

// 32 columns for each block; 32 groups of 32 threads take every 32nd share.
template <typename T, typename L>
KPT_DEVICE void norm_backward_finish(const NormFinishArgs& a, L& lane) {
  KPT_SHARED(lane, float, tile, 32 * 32);
  const Int32 group = lane.thread() / 32;
  const bool second = lane.block() >= a.column_blocks;
  const float* shares = second ? a.shares[1] : a.shares[0];
  const Int64 column = (lane.block() - (second ? a.column_blocks : 0)) * 32 + lane.thread() % 32;
  float total = 0;
  if (column < a.width) {
    Int64 block = group;
    for (; block + 96 < a.blocks; block += 128) {
      float some[4];
      KPT_UNROLL
      for (int i = 0; i < 4; ++i) some[i] = shares[(block + 32 * i) * a.width + column];
      total += (some[0] + some[1]) + (some[2] + some[3]);
    }
    for (; block < a.blocks; block += 32) total += shares[block * a.width + column];
  }
  tile[lane.thread()] = total;
  lane.barrier();
  if (group != 0 || column >= a.width) return;
  KPT_UNROLL
  for (int other = 1; other < 32; ++other) total += tile[other * 32 + lane.thread()];
  void* result = second ? a.results[1] : a.results[0];
  if (a.result_is_float != 0) {
    static_cast<float*>(result)[column] = total;
  } else {
    static_cast<T*>(result)[column] = from_float<T>(total);
  }
}

// Registers are bounded by a block's most threads. norm_backward1: to 64 on NVIDIA, so that 1024 threads fit a
// multiprocessor; plans take 512 of them. norm_backward4: to 128, which clang for RDNA exceeds twofold; there rows are
// read twice and shares added up in memory.
#if defined(KPT_SIMT_CUDA)
#define KPT_NORM_BACKWARD1_THREADS 1024
#define KPT_NORM_BACKWARD_NARROW_THREADS 640
#else
#define KPT_NORM_BACKWARD1_THREADS 512
#define KPT_NORM_BACKWARD_NARROW_THREADS kNarrowThreads
#endif
#if defined(KPT_SIMT_HIP) && KPT_WAVE == 32
#define KPT_NORM_BACKWARD4(T) norm_backward_any<T>
#else
#define KPT_NORM_BACKWARD4(T) norm_backward_rows<T, 4>
#endif

// X(name, arguments, most threads in a block, body).
#define KPT_NORM_BACKWARD_KERNELS_OF(X, T, type)                                                                  \
  X(norm_backward_narrow2_##type, NormBackwardArgs, KPT_NORM_BACKWARD_NARROW_THREADS, norm_backward_narrow<T, 2>) \
  X(norm_backward1_##type, NormBackwardArgs, KPT_NORM_BACKWARD1_THREADS, norm_backward_rows<T, 1>)                \
  X(norm_backward4_##type, NormBackwardArgs, 512, KPT_NORM_BACKWARD4(T))                                          \
  X(norm_backward_any_##type, NormBackwardArgs, 512, norm_backward_any<T>)                                        \
  X(norm_backward_finish_##type, NormFinishArgs, 1024, norm_backward_finish<T>)
#define KPT_NORM_BACKWARD_KERNELS(X)          \
  KPT_NORM_BACKWARD_KERNELS_OF(X, float, f32) \
  KPT_NORM_BACKWARD_KERNELS_OF(X, Half, f16)  \
  KPT_NORM_BACKWARD_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
