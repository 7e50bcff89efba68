// What follows a product of int8 matrices: its sums of int32 become real numbers by a scale of the row and one of the
// column, then bias, residual and activation. For NVIDIA alone, whose library writes the sums to memory; AMD's products
// are ours and end with this themselves.
//
// Intensity: 4 bytes read and 2 or 4 written for an element, and at most 60 instructions (gelu by erfc): memory is the
// limit.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// output = activation(sums · row_scale · column_scale + bias + residual).
struct ScaledProductArgs {
  const Int32* sums;          // rows without gaps, as the output's
  const float* row_scale;     // [rows]
  const float* column_scale;  // [width]
  const void* bias;           // [width], of the kernel's type or float32; null: none
  const void* residual;       // null: none
  void* output;
  Int64 rows, width;
  Int64 sum_stride, residual_stride;
  Activation activation;
  Int32 bias_is_float;
  Int32 vectors;
  Int32 threads;
};

template <typename T, int V>
KPT_DEVICE void scale_sums(const ScaledProductArgs& a, Int64 item) {
  const Int64 per_row = a.width / V;
  if (item >= a.rows * per_row) return;
  const Int64 row = divide(item, per_row);
  const Int64 column = (item - row * per_row) * V;
  Int32 sums[V];
  float x[V];
  load_values<V>(a.sums + row * a.sum_stride + column, sums);
  load_floats<V>(a.column_scale + column, x);
  const float row_scale = a.row_scale[row];
  KPT_UNROLL
  for (int i = 0; i < V; ++i) x[i] *= static_cast<float>(sums[i]) * row_scale;
  if (a.bias != nullptr) {
    float bias[V];
    load_parameters<T, V>(a.bias, a.bias_is_float != 0, column, bias);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) x[i] += bias[i];
  }
  if (a.residual != nullptr) {
    float residual[V];
    load_floats<V>(static_cast<const T*>(a.residual) + row * a.residual_stride + column, residual);
    KPT_UNROLL
    for (int i = 0; i < V; ++i) x[i] += residual[i];
  }
  KPT_UNROLL
  for (int i = 0; i < V; ++i) x[i] = activate(a.activation, x[i]);
  store_floats<V>(static_cast<T*>(a.output) + item * V, x);
}

template <typename T, typename L>
KPT_DEVICE void scaled_product(const ScaledProductArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (a.vectors != 0) {
    scale_sums<T, kVector<T>>(a, item);
  } else {
    scale_sums<T, 1>(a, item);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_SCALED_PRODUCT_KERNELS(X)                                  \
  X(scaled_product_f32, ScaledProductArgs, 256, scaled_product<float>) \
  X(scaled_product_f16, ScaledProductArgs, 256, scaled_product<Half>)  \
  X(scaled_product_bf16, ScaledProductArgs, 256, scaled_product<BFloat>)

}  // namespace kpt::gpu
