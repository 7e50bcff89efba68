// LayerNorm and RMSNorm over rows, with the sum of two tensors before it.
//
// Intensity: 6 to 12 operations an element against 4 to 16 bytes (read input and residual, write sum and result), so
// under 3 FLOP a byte. For each byte that it can move an H200 has 14 FLOP (float32); AMD's products, by the table in
// backends/amd/architecture.cpp, 14 (MI210), 31 (MI300X), 20 (MI355X), 64 (RX 7900 XTX) and 76 (RX 9070 XT). The limit
// is memory on all of them. A row is read once and kept in registers for mean, deviation and result. Weight and bias
// are shared by all rows and come from the first cache, which the rows themselves are kept out of.
//
// What decides the speed is how many bytes are under way (on an H200 4 TB/s for 0.8 µs: 3 MB, 24 KB on each
// multiprocessor), so all reads of a row are issued before the first is used, and a row costs one barrier. Every row
// has threads of its own: blocks that walk over rows and read the next one ahead were measured there and were slower.
//
//   narrow    some lanes of a wave for each row, one access each, and 2, 4 or 8 rows for each lane: rows of up to an
//             access for each lane of a wave (256 elements of 16 bits with 32 lanes)
//   wave      a wave for each row: rows of up to 4 accesses a lane (1024 elements of 16 bits with 32 lanes)
//   block4    a block for each row: up to 4 accesses a thread
//   streamed  rows of any length, read again for each of the three passes (the later ones hit L2)
//   scalar    like streamed for rows that cannot be read by 16 bytes: odd widths, strides and addresses
//
// With a residual, sum_narrow (2 or 4), sum_wave, sum_block4, and sum_block2 for what 2 accesses a thread hold.
#pragma once

#include "kernels/gpu/norm_narrow.h"
#include "kernels/gpu/row_part.h"

namespace kpt::gpu {

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

// The accesses that a lane has of a row of `sum`. All are under way before the first is used.
template <typename T, int C, bool kResidual, typename L>
KPT_DEVICE void load_row(const NormArgs& a, Int64 row, const RowPart<C, L>& part, float (&x)[C][kVector<T>]) {
  Words words[C];
  Words more[C];
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const bool wanted = part.has(pass);
    const Int64 column = part.access(pass) * kVector<T>;
    words[pass] = load_once(wanted, static_cast<const T*>(a.input), row * a.input_stride + column);
    if constexpr (kResidual) {
      more[pass] = load_once(wanted, static_cast<const T*>(a.residual), row * a.residual_stride + column);
    }
  }
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    unpack<T>(words[pass], x[pass]);
    if constexpr (kResidual) {
      float other[kVector<T>];
      unpack<T>(more[pass], other);
      KPT_UNROLL
      for (int i = 0; i < kVector<T>; ++i) x[pass][i] += other[i];
    }
  }
}

// Of some elements: their mean (0 for RMSNorm) and the sum of squared distances from it.
struct Moments {
  float mean, squares;
};

// Of the wave's part of a row, which has `count` elements.
template <int C, int V, typename L>
KPT_DEVICE Moments wave_moments(const NormArgs& a, L& lane, const RowPart<C, L>& part, const float (&x)[C][V],
                                float count) {
  float mean = 0;
  if (a.centered != 0) {
    float total = 0;
    KPT_UNROLL
    for (int pass = 0; pass < C; ++pass) {
      KPT_UNROLL
      for (int i = 0; i < V; ++i) total += x[pass][i];  // zeros where the row has ended
    }
    total = wave_sum(lane, total);
    mean = count > 0 ? total / count : 0.0F;  // not by the reciprocal: the mean of equal numbers is that number
  }
  float squares = 0;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    float more = 0;
    KPT_UNROLL
    for (int i = 0; i < V; ++i) more += (x[pass][i] - mean) * (x[pass][i] - mean);
    squares += part.has(pass) ? more : 0.0F;
  }
  return {mean, wave_sum(lane, squares)};
}

// Of the row, from those of the block's waves, by one barrier; count: elements of the own wave's part. Means are seen
// from the first wave's: it has its share of the row, so what cancels is at most `waves` times the result.
template <typename L>
KPT_DEVICE Moments block_moments(const NormArgs& a, L& lane, Moments own, float count) {
  KPT_SHARED(lane, float, scratch, 3 * kMaxWaves);
  const Int32 waves = a.threads / L::kWave;
  if (waves == 1) return own;
  if (lane.lane() == 0) {
    scratch[3 * lane.wave()] = own.mean;
    scratch[3 * lane.wave() + 1] = own.squares;
    scratch[3 * lane.wave() + 2] = count;
  }
  lane.barrier();
  const float origin = scratch[0];
  Sums sums{0, 0};
  if (lane.lane() < waves) {
    const float* of_wave = scratch + 3 * lane.lane();
    const float distance = of_wave[0] - origin;
    sums.first = of_wave[2] * distance;
    sums.second = of_wave[1] + sums.first * distance;
  }
  sums = wave_sums(lane, sums);
  const float shift = sums.first / static_cast<float>(a.width);
  const float squares = sums.second - sums.first * shift;
  return {origin + shift, squares < 0 ? 0.0F : squares};
}

// normed of a row, with weight and bias of type P.
template <typename P, typename T, int C, typename L>
KPT_DEVICE void store_normed_row(const NormArgs& a, Int64 row, const RowPart<C, L>& part,
                                 const float (&x)[C][kVector<T>], float mean, float scale) {
  T* normed = static_cast<T*>(a.normed) + row * a.width;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = part.access(pass) * kVector<T>;
    const bool wanted = part.has(pass);
    float weight[kVector<T>];
    float bias[kVector<T>];
    load_of_all_rows(wanted && a.weight != nullptr, static_cast<const P*>(a.weight), column, word_of_ones(P{}), weight);
    load_of_all_rows(wanted && a.bias != nullptr, static_cast<const P*>(a.bias), column, 0U, bias);
    float y[kVector<T>];
    KPT_UNROLL
    for (int i = 0; i < kVector<T>; ++i) y[i] = (x[pass][i] - mean) * scale * weight[i] + bias[i];
    store_packed<T>(wanted, normed + column, y);
  }
}

// A row in registers: C accesses for each lane. kBlock: the whole block has one row, else each wave. Weight and bias
// are of one type.
template <typename T, int C, bool kBlock, bool kResidual, typename L>
KPT_DEVICE void norm_in_registers(const NormArgs& a, L& lane) {
  const Int64 row = kBlock ? lane.block() : lane.block() * (a.threads / L::kWave) + lane.wave();
  if (row >= a.rows) return;  // the same for all that share the row
  const RowPart<C, L> part(lane, kBlock ? lane.wave() : 0, a.width / kVector<T>);
  float x[C][kVector<T>];
  load_row<T, C, kResidual>(a, row, part, x);
  if (a.sum != nullptr) {
    T* sum = static_cast<T*>(a.sum) + row * a.width;
    KPT_UNROLL
    for (int pass = 0; pass < C; ++pass) {
      store_packed<T>(part.has(pass), sum + part.access(pass) * kVector<T>, x[pass]);
    }
  }
  Moments moments;
  if constexpr (kBlock) {
    const auto count = static_cast<float>(part.of_wave(lane) * kVector<T>);
    moments = wave_moments(a, lane, part, x, count);
    moments = block_moments(a, lane, moments, count);
  } else {
    moments = wave_moments(a, lane, part, x, static_cast<float>(a.width));
  }
  const float scale = inverse_root(moments.squares / static_cast<float>(a.width) + a.epsilon);
  store_statistics(a, row, part.first == 0, moments.mean, scale);
  if (a.normed == nullptr) return;
  if (a.weight_is_float != 0) {
    store_normed_row<float, T>(a, row, part, x, moments.mean, scale);
  } else {
    store_normed_row<T, T>(a, row, part, x, moments.mean, scale);
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

// X(name, arguments, most threads in a block, body). The number of threads bounds the registers: 64 for 1024.
#define KPT_NORM_KERNELS_OF(X, T, type)                                          \
  X(norm_narrow4_##type, NormArgs, 256, norm_narrow<T, 4, false>)                \
  X(norm_sum_narrow2_##type, NormArgs, 256, norm_narrow<T, 2, true>)             \
  X(norm_wave_##type, NormArgs, 768, norm_in_registers<T, 4, false, false>)      \
  X(norm_block4_##type, NormArgs, 1024, norm_in_registers<T, 4, true, false>)    \
  X(norm_sum_wave_##type, NormArgs, 768, norm_in_registers<T, 4, false, true>)   \
  X(norm_sum_block2_##type, NormArgs, 1024, norm_in_registers<T, 2, true, true>) \
  X(norm_sum_block4_##type, NormArgs, 1024, norm_in_registers<T, 4, true, true>) \
  X(norm_streamed_##type, NormArgs, 512, norm_streamed<T, kVector<T>>)           \
  X(norm_scalar_##type, NormArgs, 512, norm_streamed<T, 1>)
#define KPT_NORM_KERNELS(X)          \
  KPT_NORM_KERNELS_OF(X, float, f32) \
  KPT_NORM_KERNELS_OF(X, Half, f16)  \
  KPT_NORM_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
