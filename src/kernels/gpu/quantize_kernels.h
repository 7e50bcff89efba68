// Numbers of 8 bits with scales found from the values: for each row, or for the whole tensor.
//
// Intensity, by gfx942's code: 34 (int8) to 40 (FP8 by integers) instructions an element against 3 bytes of 16-bit
// input and 5 of float32 (a row is read twice, the second time from L1 or L2): 11 to 13 and 7 to 8 a byte. An MI300X
// has 7.7 for each byte that it can move (163.4 TFLOP/s are four to an instruction, by 5.3 TB/s): from 16 bits the
// vector units are the limit, from float32 both. largest_* takes 6 for each element: there it is memory.
//
// Scale: largest magnitude of the finite values, divided by the largest number of the type; 1 where all are zero. Real
// value = stored · scale. Infinities saturate. NaN stays NaN in FP8; int8 has none, so the row's scale becomes NaN and
// nothing of the row passes for a number.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

struct QuantizeRowsArgs {
  const void* input;
  void* output;  // rows without gaps
  float* scale;  // [rows]
  Int64 width;
  Int64 input_stride;  // elements between rows
  Int32 vectors;       // width and stride are multiples of 8, addresses of 16 bytes
  Int32 threads;
};

inline constexpr int kQuantizeVector = 8;

// The magnitude, 0 for infinities and NaN.
KPT_DEVICE float finite_magnitude(float x) {
  const float size = magnitude_of(x);
  return size < infinity() ? size : 0.0F;
}

// scale for the type T, and never one that is 0: the smallest normal number where the division underflows.
template <typename T>
KPT_DEVICE float scale_for(float greatest) {
  if (greatest == 0) return 1.0F;
  const float scale = greatest / largest_of<T>();
  return scale < 1.17549435e-38F ? 1.17549435e-38F : scale;
}

template <typename T, typename Q, int V, typename L>
KPT_DEVICE void quantize_row(const QuantizeRowsArgs& a, L& lane, float* scratch) {
  const Int64 row = lane.block();
  const T* input = static_cast<const T*>(a.input) + row * a.input_stride;
  Q* output = static_cast<Q*>(a.output) + row * a.width;
  const Int64 first = static_cast<Int64>(lane.thread()) * V;
  const Int64 step = static_cast<Int64>(a.threads) * V;
  float x[V];
  float greatest = 0;
  float nans = 0;
  for (Int64 column = first; column < a.width; column += step) {
    load_floats<V>(input + column, x);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) {
      greatest = greater_of(greatest, finite_magnitude(x[i]));
      nans += x[i] != x[i] ? 1.0F : 0.0F;
    }
  }
  float scale = scale_for<Q>(block_max(lane, greatest, scratch, a.threads));
  const bool has_nan = block_sum(lane, nans, scratch + kMaxWaves, a.threads) > 0;
  for (Int64 column = first; column < a.width; column += step) {
    load_floats<V>(input + column, x);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) x[i] /= scale;
    store_floats<V>(output + column, x);
  }
  if (lane.thread() != 0) return;
  if constexpr (__is_same(Q, Int8)) scale = has_nan ? nan_float() : scale;
  a.scale[row] = scale;
}

template <typename T, typename Q, typename L>
KPT_DEVICE void quantize_rows(const QuantizeRowsArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 2 * kMaxWaves);
  if (a.vectors != 0) {
    quantize_row<T, Q, kQuantizeVector>(a, lane, scratch);
  } else {
    quantize_row<T, Q, 1>(a, lane, scratch);
  }
}

// The largest finite magnitude: each block's share, then of all shares. FP8 only, so NaN needs no scale of its own.
struct LargestArgs {
  const void* input;
  float* shares;  // [blocks]
  Int64 count;
  Int64 blocks;
  Int32 vectors;
  Int32 threads;
};

template <typename T, typename L>
KPT_DEVICE void largest_shares(const LargestArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, kMaxWaves);
  const T* input = static_cast<const T*>(a.input);
  const Int64 thread = lane.block() * a.threads + lane.thread();
  const Int64 threads = a.blocks * a.threads;
  const Int64 whole = a.vectors != 0 ? a.count / kQuantizeVector : 0;
  float greatest = 0;
  for (Int64 item = thread; item < whole; item += threads) {
    float x[kQuantizeVector];
    load_floats<kQuantizeVector>(input + item * kQuantizeVector, x);
    KPT_UNROLL
    for (int i = 0; i < kQuantizeVector; ++i) greatest = greater_of(greatest, finite_magnitude(x[i]));
  }
  for (Int64 index = whole * kQuantizeVector + thread; index < a.count; index += threads) {
    greatest = greater_of(greatest, finite_magnitude(to_float(input[index])));
  }
  greatest = block_max(lane, greatest, scratch, a.threads);
  if (lane.thread() == 0) a.shares[lane.block()] = greatest;
}

struct TensorScaleArgs {
  const float* shares;
  float* largest;  // null: not wanted
  float* scale;    // null: not wanted
  Int64 blocks;
  float type_largest;
  Int32 threads;
};

template <typename L>
KPT_DEVICE void tensor_scale(const TensorScaleArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, kMaxWaves);
  float greatest = 0;
  for (Int64 block = lane.thread(); block < a.blocks; block += a.threads)
    greatest = greater_of(greatest, a.shares[block]);
  greatest = block_max(lane, greatest, scratch, a.threads);
  if (lane.thread() != 0) return;
  if (a.largest != nullptr) *a.largest = greatest;
  if (a.scale == nullptr) return;
  const float scale = greatest / a.type_largest;
  *a.scale = greatest == 0 ? 1.0F : (scale < 1.17549435e-38F ? 1.17549435e-38F : scale);
}

// FP8 with one scale for the tensor, from magnitudes that are known before: the shares of its own (largest_shares), or
// those of earlier runs. What is beyond them saturates. Blocks take rows in turn, so that there are few shares.
struct QuantizeTensorArgs {
  const void* input;
  void* output;             // rows without gaps
  float* scale;             // [rows], the same in each
  const float* magnitudes;  // [magnitude_count]
  float* shares;            // [blocks]: the largest finite magnitude of each block's rows; null: not wanted
  Int64 rows;
  Int64 width;
  Int64 input_stride;  // elements between rows
  Int64 magnitude_count;
  Int64 blocks;
  Int32 vectors;
  Int32 threads;
};

template <typename T, typename Q, int V, typename L>
KPT_DEVICE float quantize_share(const QuantizeTensorArgs& a, L& lane, float scale) {
  const Int64 first = static_cast<Int64>(lane.thread()) * V;
  const Int64 step = static_cast<Int64>(a.threads) * V;
  float greatest = 0;
  for (Int64 row = lane.block(); row < a.rows; row += a.blocks) {
    const T* input = static_cast<const T*>(a.input) + row * a.input_stride;
    Q* output = static_cast<Q*>(a.output) + row * a.width;
    for (Int64 column = first; column < a.width; column += step) {
      float x[V];
      load_floats<V>(input + column, x);
      KPT_UNROLL
      for (int i = 0; i < V; ++i) {
        greatest = greater_of(greatest, finite_magnitude(x[i]));
        x[i] /= scale;
      }
      store_floats<V>(output + column, x);
    }
    if (lane.thread() == 0) a.scale[row] = scale;
  }
  return greatest;
}

template <typename T, typename Q, typename L>
KPT_DEVICE void quantize_tensor(const QuantizeTensorArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 2 * kMaxWaves);
  float followed = 0;
  for (Int64 index = lane.thread(); index < a.magnitude_count; index += a.threads) {
    followed = greater_of(followed, a.magnitudes[index]);
  }
  const float scale = scale_for<Q>(block_max(lane, followed, scratch, a.threads));
  const float own =
      a.vectors != 0 ? quantize_share<T, Q, kQuantizeVector>(a, lane, scale) : quantize_share<T, Q, 1>(a, lane, scale);
  if (a.shares == nullptr) return;
  const float greatest = block_max(lane, own, scratch + kMaxWaves, a.threads);
  if (lane.thread() == 0) a.shares[lane.block()] = greatest;
}

// Puts the largest of the shares into a ring of magnitudes, in the place of the oldest. A launch of its own: every
// block of the one before must have read the ring.
struct RememberLargestArgs {
  const float* shares;
  float* magnitudes;  // [capacity]
  Int32* position;    // of the oldest
  Int64 share_count;
  Int32 capacity;
  Int32 threads;
};

template <typename L>
KPT_DEVICE void remember_largest(const RememberLargestArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, kMaxWaves);
  float greatest = 0;
  for (Int64 index = lane.thread(); index < a.share_count; index += a.threads) {
    greatest = greater_of(greatest, a.shares[index]);
  }
  greatest = block_max(lane, greatest, scratch, a.threads);
  if (lane.thread() != 0) return;
  const Int32 place = *a.position;
  a.magnitudes[place] = greatest;
  *a.position = place + 1 == a.capacity ? 0 : place + 1;
}

// X(name, arguments, most threads in a block, body)
#define KPT_QUANTIZE_KERNELS_OF(X, T, type)                                             \
  X(quantize_rows_##type##_i8, QuantizeRowsArgs, 512, quantize_rows<T, Int8>)           \
  X(quantize_rows_##type##_e4m3, QuantizeRowsArgs, 512, quantize_rows<T, E4M3>)         \
  X(quantize_rows_##type##_e4m3fnuz, QuantizeRowsArgs, 512, quantize_rows<T, E4M3Fnuz>) \
  X(quantize_rows_##type##_e5m2, QuantizeRowsArgs, 512, quantize_rows<T, E5M2>)         \
  X(quantize_rows_##type##_e5m2fnuz, QuantizeRowsArgs, 512, quantize_rows<T, E5M2Fnuz>) \
  X(quantize_tensor_##type##_e4m3, QuantizeTensorArgs, 512, quantize_tensor<T, E4M3>)   \
  X(largest_##type, LargestArgs, 256, largest_shares<T>)
#define KPT_QUANTIZE_KERNELS(X)                           \
  KPT_QUANTIZE_KERNELS_OF(X, float, f32)                  \
  KPT_QUANTIZE_KERNELS_OF(X, Half, f16)                   \
  KPT_QUANTIZE_KERNELS_OF(X, BFloat, bf16)                \
  X(tensor_scale_f32, TensorScaleArgs, 256, tensor_scale) \
  X(remember_largest_f32, RememberLargestArgs, 256, remember_largest)

}  // namespace kpt::gpu
