// LayerNorm and RMSNorm over rows, with the sum of two tensors before it.
//
// Intensity: 6 to 12 operations an element against 4 to 16 bytes (read input and residual, write sum and result), so
// under 3 FLOP a byte where an H200 has 14 FLOP (float32) for each byte it can move: the limit is memory. A row is read
// once, kept in registers for mean, deviation and result. Weight and bias are shared by all rows and come from cache.
//
//   wave      a wave for each row: rows of up to 4 accesses a lane (1024 elements of 16 bits with 32 lanes)
//   block     a block for each row: up to 4 accesses a thread, two where the block may be large enough
//   streamed  rows of any length, read again for each of the three passes (the later ones hit L2)
//   scalar    like streamed for rows that cannot be read by 16 bytes: odd widths, strides and addresses
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// sum = input + residual; normed = norm(sum) · weight + bias. All tensors are of the kernel's type; weight and bias may
// be float32. sum, normed: rows without gaps. Whatever is null is not there or not wanted.
struct NormArgs {
  const void* input;
  const void* residual;
  const void* weight;
  const void* bias;
  void* normed;
  void* sum;
  float* mean;   // [rows]: what the backward pass needs
  float* scale;  // [rows]: 1 / deviation
  Int64 rows, width;
  Int64 input_stride, residual_stride;  // elements between rows
  float epsilon;
  Int32 centered;  // LayerNorm, else RMSNorm
  Int32 weight_is_float, bias_is_float;
  Int32 threads;
};

template <typename T, int V>
KPT_DEVICE void load_sum(const NormArgs& a, Int64 row, Int64 column, float (&values)[V]) {
  load_floats<V>(static_cast<const T*>(a.input) + row * a.input_stride + column, values);
  if (a.residual == nullptr) return;
  float other[V];
  load_floats<V>(static_cast<const T*>(a.residual) + row * a.residual_stride + column, other);
  KPT_UNROLL
  for (int i = 0; i < V; ++i) values[i] += other[i];
}

template <typename T, int V>
KPT_DEVICE void store_normed(const NormArgs& a, Int64 row, Int64 column, const float (&values)[V], float mean,
                             float scale) {
  float result[V];
  KPT_UNROLL
  for (int i = 0; i < V; ++i) result[i] = (values[i] - mean) * scale;
  if (a.weight != nullptr) {
    float weight[V];
    load_parameters<T, V>(a.weight, a.weight_is_float != 0, column, weight);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) result[i] *= weight[i];
  }
  if (a.bias != nullptr) {
    float bias[V];
    load_parameters<T, V>(a.bias, a.bias_is_float != 0, column, bias);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) result[i] += bias[i];
  }
  store_floats<V>(static_cast<T*>(a.normed) + row * a.width + column, result);
}

KPT_DEVICE void store_statistics(const NormArgs& a, Int64 row, bool first, float mean, float scale) {
  if (!first) return;
  if (a.mean != nullptr) a.mean[row] = mean;
  if (a.scale != nullptr) a.scale[row] = scale;
}

// A row in registers: C accesses of V elements for each lane. kBlock: the whole block has one row, else each wave.
template <typename T, int V, int C, bool kBlock, typename L>
KPT_DEVICE void norm_in_registers(const NormArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 2 * kMaxWaves);
  const Int64 row = kBlock ? lane.block() : lane.block() * (a.threads / L::kWave) + lane.wave();
  if (row >= a.rows) return;  // the same for all that share the row
  const Int64 first = kBlock ? lane.thread() : lane.lane();
  const Int64 step = kBlock ? a.threads : L::kWave;
  float x[C][V];
  float total = 0;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (first + pass * step) * V;
    if (column >= a.width) continue;
    load_sum<T, V>(a, row, column, x[pass]);
    if (a.sum != nullptr) store_floats<V>(static_cast<T*>(a.sum) + row * a.width + column, x[pass]);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) total += x[pass][i];
  }
  float mean = 0;
  if (a.centered != 0) mean = group_sum<kBlock>(lane, total, scratch, a.threads) / static_cast<float>(a.width);
  float squares = 0;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    if ((first + pass * step) * V >= a.width) continue;
    KPT_UNROLL
    for (int i = 0; i < V; ++i) squares += (x[pass][i] - mean) * (x[pass][i] - mean);
  }
  squares = group_sum<kBlock>(lane, squares, scratch + kMaxWaves, a.threads);
  const float scale = inverse_root(squares / static_cast<float>(a.width) + a.epsilon);
  store_statistics(a, row, first == 0, mean, scale);
  if (a.normed == nullptr) return;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (first + pass * step) * V;
    if (column < a.width) store_normed<T, V>(a, row, column, x[pass], mean, scale);
  }
}

// A row of any length, by a block, read once for each pass.
template <typename T, int V, typename L>
KPT_DEVICE void norm_streamed(const NormArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 2 * kMaxWaves);
  const Int64 row = lane.block();
  const Int64 first = static_cast<Int64>(lane.thread()) * V;
  const Int64 step = static_cast<Int64>(a.threads) * V;
  float x[V];
  float mean = 0;
  if (a.centered != 0) {
    float total = 0;
    for (Int64 column = first; column < a.width; column += step) {
      load_sum<T, V>(a, row, column, x);
      KPT_UNROLL
      for (int i = 0; i < V; ++i) total += x[i];
    }
    mean = block_sum(lane, total, scratch, a.threads) / static_cast<float>(a.width);
  }
  float squares = 0;
  for (Int64 column = first; column < a.width; column += step) {
    load_sum<T, V>(a, row, column, x);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) squares += (x[i] - mean) * (x[i] - mean);
  }
  squares = block_sum(lane, squares, scratch + kMaxWaves, a.threads);
  const float scale = inverse_root(squares / static_cast<float>(a.width) + a.epsilon);
  store_statistics(a, row, first == 0, mean, scale);
  for (Int64 column = first; column < a.width; column += step) {
    load_sum<T, V>(a, row, column, x);
    if (a.sum != nullptr) store_floats<V>(static_cast<T*>(a.sum) + row * a.width + column, x);
    if (a.normed != nullptr) store_normed<T, V>(a, row, column, x, mean, scale);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_NORM_KERNELS_OF(X, T, type)                                           \
  X(norm_wave_##type, NormArgs, 256, norm_in_registers<T, kVector<T>, 4, false>)  \
  X(norm_block_##type, NormArgs, 1024, norm_in_registers<T, kVector<T>, 4, true>) \
  X(norm_streamed_##type, NormArgs, 512, norm_streamed<T, kVector<T>>)            \
  X(norm_scalar_##type, NormArgs, 512, norm_streamed<T, 1>)
#define KPT_NORM_KERNELS(X)          \
  KPT_NORM_KERNELS_OF(X, float, f32) \
  KPT_NORM_KERNELS_OF(X, Half, f16)  \
  KPT_NORM_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
