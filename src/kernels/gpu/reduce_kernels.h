// Sums, means, extremes and lengths over axes of a tensor with any strides.
//
// Intensity: one or two FLOP an element, 0.25 to 1 a byte. Addresses over four axes take some 170 instructions an
// element by gfx942's code (those of a quarter of the rate count four), 43 a byte of float32. An MI300X has 7.7 for
// each byte that it can move (5.3 TB/s): this arithmetic is the limit, at less than a fifth of the bandwidth. A wave
// makes one result, and its lanes read neighbouring elements of the reduced axes.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

inline constexpr int kReduceAxes = 4;

enum class ReduceOp : Int32 { kSum, kMean, kMaximum, kMinimum, kLength, kAny, kAll, kPlaceOfMaximum, kPlaceOfMinimum };

struct ReduceArgs {
  const void* input;
  void* output;                     // without gaps
  Int64 kept_dims[kReduceAxes];     // the last is fastest
  Int64 kept_strides[kReduceAxes];  // of the input
  Int64 reduced_dims[kReduceAxes];
  Int64 reduced_strides[kReduceAxes];
  Int64 results, count;  // elements of the output, and of the input for each of them
  ReduceOp op;
  Int32 output_is_float;  // else of the kernel's type; kAny and kAll give bytes of 0 or 1, places are 64-bit integers
  Int32 threads;
};

KPT_DEVICE Int64 find_place(const Int64 (&dims)[kReduceAxes], const Int64 (&strides)[kReduceAxes], Int64 item) {
  Int64 place = 0;
  KPT_UNROLL
  for (int axis = kReduceAxes - 1; axis >= 0; --axis) {
    const Int64 rest = divide(item, dims[axis]);
    place += (item - rest * dims[axis]) * strides[axis];
    item = rest;
  }
  return place;
}

KPT_DEVICE float lesser(float a, float b) { return -greater_of(-a, -b); }

KPT_DEVICE bool takes_greatest(ReduceOp op) { return op == ReduceOp::kMaximum || op == ReduceOp::kAny; }
KPT_DEVICE bool takes_least(ReduceOp op) { return op == ReduceOp::kMinimum || op == ReduceOp::kAll; }

KPT_DEVICE float reduce_start(ReduceOp op) {
  if (op == ReduceOp::kMaximum) return -infinity();
  if (op == ReduceOp::kMinimum) return infinity();
  return op == ReduceOp::kAll ? 1.0F : 0.0F;
}

KPT_DEVICE float reduce_step(ReduceOp op, float total, float value) {
  if (op == ReduceOp::kAny || op == ReduceOp::kAll) value = value != 0 ? 1.0F : 0.0F;
  if (takes_greatest(op)) return greater_of(total, value);
  if (takes_least(op)) return lesser(total, value);
  return total + (op == ReduceOp::kLength ? value * value : value);
}

KPT_DEVICE float to_float(UInt8 value) { return value != 0 ? 1.0F : 0.0F; }

template <typename T, typename L>
KPT_DEVICE void reduce_by_waves(const ReduceArgs& a, L& lane) {
  const Int64 result = lane.block() * (a.threads / L::kWave) + lane.wave();
  if (result >= a.results) return;  // the same for the whole wave
  const T* source = static_cast<const T*>(a.input) + find_place(a.kept_dims, a.kept_strides, result);
  float total = reduce_start(a.op);
  for (Int64 item = lane.lane(); item < a.count; item += L::kWave) {
    total = reduce_step(a.op, total, to_float(source[find_place(a.reduced_dims, a.reduced_strides, item)]));
  }
  if (takes_greatest(a.op)) {
    total = wave_max(lane, total);
  } else if (takes_least(a.op)) {
    total = -wave_max(lane, -total);
  } else {
    total = wave_sum(lane, total);
  }
  if (a.op == ReduceOp::kMean) total /= static_cast<float>(a.count);
  if (a.op == ReduceOp::kLength) total = __builtin_sqrtf(total);
  if (lane.lane() != 0) return;
  if (a.op == ReduceOp::kAny || a.op == ReduceOp::kAll) {
    static_cast<UInt8*>(a.output)[result] = total != 0 ? 1 : 0;
  } else if (a.output_is_float != 0) {
    static_cast<float*>(a.output)[result] = total;
  } else if constexpr (sizeof(T) > 1) {
    static_cast<T*>(a.output)[result] = from_float<T>(total);
  }
}

// A candidate for the place of an extreme.
template <typename V>
struct Candidate {
  V value;
  Int64 place;
};

KPT_DEVICE bool is_nan(float value) { return value != value; }
KPT_DEVICE bool is_nan(Int64 /*value*/) { return false; }

// NaN comes before all numbers, and of equals the first one.
template <typename V>
KPT_DEVICE bool comes_first(const Candidate<V>& a, const Candidate<V>& b, bool greatest) {
  if (is_nan(a.value) != is_nan(b.value)) return is_nan(a.value);
  if (a.value == b.value || is_nan(a.value)) return a.place < b.place;
  return greatest ? a.value > b.value : a.value < b.value;
}

template <typename L>
KPT_DEVICE float exchange(L& lane, float value, Int32 mask) {
  return lane.shuffle_xor(value, mask);
}

template <typename L>
KPT_DEVICE Int64 exchange(L& lane, Int64 value, Int32 mask) {
  const auto bits = static_cast<UInt64>(value);
  const UInt32 low = bits_of(lane.shuffle_xor(float_of(static_cast<UInt32>(bits)), mask));
  const UInt32 high = bits_of(lane.shuffle_xor(float_of(static_cast<UInt32>(bits >> 32U)), mask));
  return static_cast<Int64>(static_cast<UInt64>(high) << 32U | low);
}

KPT_DEVICE Int64 as_candidate(Int64 value) { return value; }
template <typename T>
KPT_DEVICE float as_candidate(T value) {
  return to_float(value);
}

// The place of the greatest or least, counted over the reduced axes.
template <typename T, typename L>
KPT_DEVICE void find_extreme_by_waves(const ReduceArgs& a, L& lane) {
  const Int64 result = lane.block() * (a.threads / L::kWave) + lane.wave();
  if (result >= a.results) return;  // the same for the whole wave
  const bool greatest = a.op == ReduceOp::kPlaceOfMaximum;
  const T* source = static_cast<const T*>(a.input) + find_place(a.kept_dims, a.kept_strides, result);
  using Value = decltype(as_candidate(T{}));
  // Lanes without elements start with the first one, which is a candidate in any case.
  Candidate<Value> best{as_candidate(source[0]), 0};
  for (Int64 item = lane.lane(); item < a.count; item += L::kWave) {
    const Candidate<Value> next{as_candidate(source[find_place(a.reduced_dims, a.reduced_strides, item)]), item};
    if (comes_first(next, best, greatest)) best = next;
  }
  KPT_UNROLL
  for (Int32 mask = L::kWave / 2; mask > 0; mask /= 2) {
    const Candidate<Value> other{exchange(lane, best.value, mask), exchange(lane, best.place, mask)};
    if (comes_first(other, best, greatest)) best = other;
  }
  if (lane.lane() == 0) static_cast<Int64*>(a.output)[result] = best.place;
}

// X(name, arguments, most threads in a block, body)
#define KPT_REDUCE_KERNELS(X)                                     \
  X(reduce_f32, ReduceArgs, 256, reduce_by_waves<float>)          \
  X(reduce_f16, ReduceArgs, 256, reduce_by_waves<Half>)           \
  X(reduce_bf16, ReduceArgs, 256, reduce_by_waves<BFloat>)        \
  X(reduce_bool, ReduceArgs, 256, reduce_by_waves<UInt8>)         \
  X(extreme_f32, ReduceArgs, 256, find_extreme_by_waves<float>)   \
  X(extreme_f16, ReduceArgs, 256, find_extreme_by_waves<Half>)    \
  X(extreme_bf16, ReduceArgs, 256, find_extreme_by_waves<BFloat>) \
  X(extreme_i64, ReduceArgs, 256, find_extreme_by_waves<Int64>)

}  // namespace kpt::gpu
