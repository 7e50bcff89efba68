// Softmax over rows with a scale, a mask and causality.
//
// Intensity: about 25 operations an element (exp is 15 of them) against 4 bytes of 16-bit types and what the mask
// takes: under 7 FLOP a byte. An H200 has 14 for each byte that it can move, AMD's products by their table 14 (MI210),
// 31 (MI300X), 20 (MI355X) and 64 (RX 7900 XTX): memory is the limit. A row is read once and kept in registers.
//
//   wave      a wave for each row: rows of up to 4 accesses a lane
//   block     a block for each row: up to 4 accesses a thread
//   streamed  any width and alignment; maximum and sum in one pass, the results in a second one
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/mask.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// Rows are [batches, heads, queries], the last fastest. output: rows without gaps. A row of which nothing takes part
// becomes zeros, or NaN where that is wanted.
struct SoftmaxArgs {
  const void* input;
  const void* mask;
  void* output;
  Int64 rows, width;
  Int64 heads, queries;
  Int64 input_stride;                                            // elements between rows
  Int64 mask_batch_stride, mask_head_stride, mask_query_stride;  // 0 where the mask is broadcast
  Int64 causal_offset;                                           // a query sees keys up to its own index plus this
  float scale;
  Int32 causal;
  Int32 empty_is_nan;
  MaskKind mask_kind;
  Int32 threads;
};

// Where a row's mask begins, and how many of its columns take part.
struct SoftmaxRow {
  Int64 mask_place;
  Int64 visible;
};

KPT_DEVICE SoftmaxRow find_softmax_row(const SoftmaxArgs& a, Int64 row) {
  const Int64 outer = divide(row, a.queries);
  const Int64 query = row - outer * a.queries;
  const Int64 batch = divide(outer, a.heads);
  const Int64 head = outer - batch * a.heads;
  SoftmaxRow result{batch * a.mask_batch_stride + head * a.mask_head_stride + query * a.mask_query_stride, a.width};
  if (a.causal != 0) {
    const Int64 visible = query + a.causal_offset + 1;
    result.visible = visible < 0 ? 0 : (visible < a.width ? visible : a.width);
  }
  return result;
}

template <typename T, int V>
KPT_DEVICE void load_scores(const SoftmaxArgs& a, Int64 row, const SoftmaxRow& place, Int64 column, float (&x)[V]) {
  load_floats<V>(static_cast<const T*>(a.input) + row * a.input_stride + column, x);
  KPT_UNROLL
  for (int i = 0; i < V; ++i) x[i] *= a.scale;
  if (a.mask_kind == MaskKind::kKept) {
    UInt8 kept[V];
    load_values<V>(static_cast<const UInt8*>(a.mask) + place.mask_place + column, kept);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) x[i] = kept[i] != 0 ? x[i] : -infinity();
  } else if (a.mask_kind != MaskKind::kNone) {
    float mask[V];
    load_parameters<T, V>(a.mask, a.mask_kind == MaskKind::kAddedFloat, place.mask_place + column, mask);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) x[i] += mask[i];
  }
  KPT_UNROLL
  for (int i = 0; i < V; ++i) x[i] = column + i < place.visible ? x[i] : -infinity();
}

// What the exponentials are multiplied by; zeros times NaN are NaN.
KPT_DEVICE float softmax_factor(const SoftmaxArgs& a, float total) {
  if (total != 0) return 1.0F / total;
  return a.empty_is_nan != 0 ? __builtin_nanf("") : 0.0F;
}

template <typename T, int V, int C, bool kBlock, typename L>
KPT_DEVICE void softmax_in_registers(const SoftmaxArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 2 * kMaxWaves);
  const Int64 row = kBlock ? lane.block() : lane.block() * (a.threads / L::kWave) + lane.wave();
  if (row >= a.rows) return;  // the same for all that share the row
  const Int64 first = kBlock ? lane.thread() : lane.lane();
  const Int64 step = kBlock ? a.threads : L::kWave;
  const SoftmaxRow place = find_softmax_row(a, row);
  float x[C][V];
  float greatest = -infinity();
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (first + pass * step) * V;
    if (column >= a.width) continue;
    load_scores<T, V>(a, row, place, column, x[pass]);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) greatest = greater_of(greatest, x[pass][i]);
  }
  greatest = group_max<kBlock>(lane, greatest, scratch, a.threads);
  // Nothing takes part: any finite number makes every exponential 0.
  const float base = greatest == -infinity() ? 0.0F : greatest;
  float total = 0;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    if ((first + pass * step) * V >= a.width) continue;
    KPT_UNROLL
    for (int i = 0; i < V; ++i) {
      x[pass][i] = exponential(x[pass][i] - base);
      total += x[pass][i];
    }
  }
  total = group_sum<kBlock>(lane, total, scratch + kMaxWaves, a.threads);
  const float factor = softmax_factor(a, total);
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = (first + pass * step) * V;
    if (column >= a.width) continue;
    KPT_UNROLL
    for (int i = 0; i < V; ++i) x[pass][i] *= factor;
    store_floats<V>(static_cast<T*>(a.output) + row * a.width + column, x[pass]);
  }
}

template <typename T, typename L>
KPT_DEVICE void softmax_streamed(const SoftmaxArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 2 * kMaxWaves);
  const Int64 row = lane.block();
  const SoftmaxRow place = find_softmax_row(a, row);
  float x[1];
  float own = -infinity();
  float total = 0;
  for (Int64 column = lane.thread(); column < place.visible; column += a.threads) {
    load_scores<T, 1>(a, row, place, column, x);
    if (x[0] == -infinity()) continue;
    const float greatest = greater_of(own, x[0]);
    total = total * (own == -infinity() ? 0.0F : exponential(own - greatest)) + exponential(x[0] - greatest);
    own = greatest;
  }
  const float greatest = block_max(lane, own, scratch, a.threads);
  const float base = greatest == -infinity() ? 0.0F : greatest;
  total = own == -infinity() ? 0.0F : total * exponential(own - base);
  total = block_sum(lane, total, scratch + kMaxWaves, a.threads);
  const float factor = softmax_factor(a, total);
  T* output = static_cast<T*>(a.output) + row * a.width;
  for (Int64 column = lane.thread(); column < a.width; column += a.threads) {
    load_scores<T, 1>(a, row, place, column, x);
    output[column] = from_float<T>(exponential(x[0] - base) * factor);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_SOFTMAX_KERNELS_OF(X, T, type)                                                 \
  X(softmax_wave_##type, SoftmaxArgs, 256, softmax_in_registers<T, kVector<T>, 4, false>)  \
  X(softmax_block_##type, SoftmaxArgs, 1024, softmax_in_registers<T, kVector<T>, 4, true>) \
  X(softmax_streamed_##type, SoftmaxArgs, 512, softmax_streamed<T>)
#define KPT_SOFTMAX_KERNELS(X)          \
  KPT_SOFTMAX_KERNELS_OF(X, float, f32) \
  KPT_SOFTMAX_KERNELS_OF(X, Half, f16)  \
  KPT_SOFTMAX_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
