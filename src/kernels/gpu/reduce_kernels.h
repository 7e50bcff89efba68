// Sums, means, extremes and lengths over axes of a tensor with any strides.
//
// Intensity: one or two operations an element; memory is the limit where the reduced axes are the fastest. A wave makes
// one result, and its lanes read neighbouring elements of the reduced axes.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

inline constexpr int kReduceAxes = 4;

enum class ReduceOp : Int32 { kSum, kMean, kMaximum, kMinimum, kLength, kAny, kAll };

struct ReduceArgs {
  const void* input;
  void* output;                     // without gaps
  Int64 kept_dims[kReduceAxes];     // the last is fastest
  Int64 kept_strides[kReduceAxes];  // of the input
  Int64 reduced_dims[kReduceAxes];
  Int64 reduced_strides[kReduceAxes];
  Int64 results, count;  // elements of the output, and of the input for each of them
  ReduceOp op;
  Int32 output_is_float;  // else of the kernel's type; kAny and kAll give bytes of 0 or 1
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

// X(name, arguments, most threads in a block, body)
#define KPT_REDUCE_KERNELS(X)                              \
  X(reduce_f32, ReduceArgs, 256, reduce_by_waves<float>)   \
  X(reduce_f16, ReduceArgs, 256, reduce_by_waves<Half>)    \
  X(reduce_bf16, ReduceArgs, 256, reduce_by_waves<BFloat>) \
  X(reduce_bool, ReduceArgs, 256, reduce_by_waves<UInt8>)

}  // namespace kpt::gpu
