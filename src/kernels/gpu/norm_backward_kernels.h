// Gradients of LayerNorm and RMSNorm: of the input, and of weight and bias.
//
// Intensity: about 14 operations an element against 6 bytes of 16-bit types (read gradient and input, write gradient):
// memory is the limit. Each block takes every n-th row and adds up its share of the weight's gradient in registers, so
// the tensors are read once; the shares (blocks · width floats, under 2 % of the traffic from 4096 rows on) are added
// by a second kernel in a fixed order. No atomics: the same bits in every run.
//
//   norm_backward        rows that 512 threads hold in registers (8192 elements of 16 bits, 4096 of float32)
//   norm_backward_any    any width and alignment; shares are added up in memory
//   norm_backward_finish the sum over blocks
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// All tensors are rows of `width` without gaps. With x the norm's input, y = (x - mean) · scale and g = gradient ·
// weight: input_gradient = scale · (g - average(g) - y · average(g · y)) + sum_gradient, without average(g) for
// RMSNorm.
struct NormBackwardArgs {
  const void* gradient;
  const void* input;
  const void* weight;  // null: ones
  const float* mean;   // null for RMSNorm
  const float* scale;
  const void* sum_gradient;  // arrives at the sum by the residual's way; null: none
  void* input_gradient;
  float* weight_shares;  // [blocks, width]; null: not wanted
  float* bias_shares;    // likewise
  Int64 rows, width;
  Int64 blocks;
  Int32 centered;
  Int32 weight_is_float;
  Int32 threads;
};

struct RowSums {
  float first, second;
};

// Both sums over the block, by one barrier. `scratch`: 2 · kMaxWaves floats; see block_sum().
template <typename L>
KPT_DEVICE RowSums block_sums(L& lane, float first, float second, float* scratch, Int32 threads) {
  first = wave_sum(lane, first);
  second = wave_sum(lane, second);
  const Int32 waves = threads / L::kWave;
  if (waves == 1) return {first, second};
  if (lane.lane() == 0) {
    scratch[2 * lane.wave()] = first;
    scratch[2 * lane.wave() + 1] = second;
  }
  lane.barrier();
  RowSums sums{scratch[0], scratch[1]};
  for (Int32 wave = 1; wave < waves; ++wave) {
    sums.first += scratch[2 * wave];
    sums.second += scratch[2 * wave + 1];
  }
  return sums;
}

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
                                     RowSums averages, float scale) {
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

// What a thread keeps over all its rows, and of one row.
template <int V, int C>
struct BackwardRegisters {
  float weight_share[C][V];
  float bias_share[C][V];
  float y[C][V];
  float gradient[C][V];
};

template <typename T, int V, int C, typename L>
KPT_DEVICE void backward_row(const NormBackwardArgs& a, L& lane, Int64 row, float* scratch,
                             BackwardRegisters<V, C>& r) {
  const float mean = a.centered != 0 ? a.mean[row] : 0.0F;
  const float scale = a.scale[row];
  float first = 0;
  float second = 0;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (lane.thread() + static_cast<Int64>(pass) * a.threads) * V;
    if (column >= a.width) continue;
    load_floats<V>(static_cast<const T*>(a.gradient) + row * a.width + column, r.gradient[pass]);
    load_floats<V>(static_cast<const T*>(a.input) + row * a.width + column, r.y[pass]);
    float g[V];
    load_weighted<T, V>(a, column, r.gradient[pass], g);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) {
      r.y[pass][i] = (r.y[pass][i] - mean) * scale;
      first += g[i];
      second += g[i] * r.y[pass][i];
      r.weight_share[pass][i] += r.gradient[pass][i] * r.y[pass][i];
      r.bias_share[pass][i] += r.gradient[pass][i];
    }
  }
  const RowSums sums = block_sums(lane, first, second, scratch, a.threads);
  const float per_element = 1.0F / static_cast<float>(a.width);
  const RowSums averages{a.centered != 0 ? sums.first * per_element : 0.0F, sums.second * per_element};
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (lane.thread() + static_cast<Int64>(pass) * a.threads) * V;
    if (column >= a.width) continue;
    float g[V];
    load_weighted<T, V>(a, column, r.gradient[pass], g);
    store_input_gradient<T, V>(a, row * a.width + column, g, r.y[pass], averages, scale);
  }
}

template <typename T, int V, int C, typename L>
KPT_DEVICE void norm_backward_rows(const NormBackwardArgs& a, L& lane) {
  // Two in turn: the next row's sums are written while a slow wave still reads this row's.
  KPT_SHARED(lane, float, scratch, 4 * kMaxWaves);
  BackwardRegisters<V, C> r;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    KPT_UNROLL
    for (int i = 0; i < V; ++i) r.weight_share[pass][i] = r.bias_share[pass][i] = 0;
  }
  Int32 turn = 0;
  for (Int64 row = lane.block(); row < a.rows; row += a.blocks) {
    backward_row<T, V, C>(a, lane, row, scratch + turn * 2 * kMaxWaves, r);
    turn ^= 1;
  }
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (lane.thread() + static_cast<Int64>(pass) * a.threads) * V;
    if (column >= a.width) continue;
    if (a.weight_shares != nullptr)
      store_floats<V>(a.weight_shares + lane.block() * a.width + column, r.weight_share[pass]);
    if (a.bias_shares != nullptr) store_floats<V>(a.bias_shares + lane.block() * a.width + column, r.bias_share[pass]);
  }
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
    const RowSums sums = block_sums(lane, first, second, scratch + turn * 2 * kMaxWaves, a.threads);
    turn ^= 1;
    const float per_element = 1.0F / static_cast<float>(a.width);
    const RowSums averages{a.centered != 0 ? sums.first * per_element : 0.0F, sums.second * per_element};
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
  const float* shares;  // [blocks, width]
  void* result;         // [width], of the kernel's type or float32
  Int64 blocks, width;
  Int32 result_is_float;
  Int32 threads;  // 256
};

// 32 columns for each block; eight groups of 32 threads take every eighth share.
template <typename T, typename L>
KPT_DEVICE void norm_backward_finish(const NormFinishArgs& a, L& lane) {
  KPT_SHARED(lane, float, tile, 8 * 32);
  const Int32 group = lane.thread() / 32;
  const Int64 column = lane.block() * 32 + lane.thread() % 32;
  float total = 0;
  if (column < a.width) {
    for (Int64 block = group; block < a.blocks; block += 8) total += a.shares[block * a.width + column];
  }
  tile[lane.thread()] = total;
  lane.barrier();
  if (group != 0 || column >= a.width) return;
  for (Int32 other = 1; other < 8; ++other) total += tile[other * 32 + lane.thread()];
  if (a.result_is_float != 0) {
    static_cast<float*>(a.result)[column] = total;
  } else {
    static_cast<T*>(a.result)[column] = from_float<T>(total);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_NORM_BACKWARD_KERNELS_OF(X, T, type)                                       \
  X(norm_backward_##type, NormBackwardArgs, 512, norm_backward_rows<T, kVector<T>, 2>) \
  X(norm_backward_any_##type, NormBackwardArgs, 512, norm_backward_any<T>)             \
  X(norm_backward_finish_##type, NormFinishArgs, 256, norm_backward_finish<T>)
#define KPT_NORM_BACKWARD_KERNELS(X)          \
  KPT_NORM_BACKWARD_KERNELS_OF(X, float, f32) \
  KPT_NORM_BACKWARD_KERNELS_OF(X, Half, f16)  \
  KPT_NORM_BACKWARD_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
