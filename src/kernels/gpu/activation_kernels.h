// Activations that are fused with what stands before them: a gate (SwiGLU, GeGLU) or a bias and a residual.
//
// Intensity, by gfx942's code, where an instruction of a quarter of the rate counts four: 2 (relu), 35 (silu) or 55
// (gelu by erfc) an element, and up to 8 for conversions, against 6 bytes of 16-bit types for the gate and 4 for the
// bias: 2 to 16 a byte, of float32 less than half. An MI300X has 7.7 for each byte that it can move (163.4 TFLOP/s are
// four to an instruction, by 5.3 TB/s): memory is the limit for float32 and for what has no exponential, silu in 16
// bits is near the balance, and there gelu is bound by the vector units.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// output = activation(gate) · up. With gate and up as the halves of one row of 2 · width, their strides are 2 · width.
struct GatedArgs {
  const void* gate;
  const void* up;
  void* output;  // rows without gaps
  Int64 rows, width;
  Int64 gate_stride, up_stride;
  Activation activation;
  Int32 vectors;  // 16 bytes at a time: widths, strides and addresses allow it
  Int32 threads;
};

template <typename T, int V>
KPT_DEVICE void gate_values(const GatedArgs& a, Int64 item) {
  const Int64 per_row = a.width / V;
  if (item >= a.rows * per_row) return;
  const Int64 row = divide(item, per_row);
  const Int64 column = (item - row * per_row) * V;
  float gate[V], up[V];
  load_floats<V>(static_cast<const T*>(a.gate) + row * a.gate_stride + column, gate);
  load_floats<V>(static_cast<const T*>(a.up) + row * a.up_stride + column, up);
  KPT_UNROLL
  for (int i = 0; i < V; ++i) gate[i] = activate(a.activation, gate[i]) * up[i];
  store_floats<V>(static_cast<T*>(a.output) + item * V, gate);
}

template <typename T, typename L>
KPT_DEVICE void gated(const GatedArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (a.vectors != 0) {
    gate_values<T, kVector<T>>(a, item);
  } else {
    gate_values<T, 1>(a, item);
  }
}

// output = activation(input + bias + residual). output may be the input.
struct BiasArgs {
  const void* input;
  const void* bias;      // [width], of the kernel's type or float32; null: none
  const void* residual;  // null: none
  void* output;          // rows without gaps
  Int64 rows, width;
  Int64 input_stride, residual_stride;
  Activation activation;
  Int32 bias_is_float;
  Int32 vectors;
  Int32 threads;
};

template <typename T, int V>
KPT_DEVICE void bias_values(const BiasArgs& a, Int64 item) {
  const Int64 per_row = a.width / V;
  if (item >= a.rows * per_row) return;
  const Int64 row = divide(item, per_row);
  const Int64 column = (item - row * per_row) * V;
  float x[V];
  load_floats<V>(static_cast<const T*>(a.input) + row * a.input_stride + column, x);
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
KPT_DEVICE void bias_activation(const BiasArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (a.vectors != 0) {
    bias_values<T, kVector<T>>(a, item);
  } else {
    bias_values<T, 1>(a, item);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_ACTIVATION_KERNELS_OF(X, T, type) \
  X(gated_##type, GatedArgs, 256, gated<T>)   \
  X(bias_activation_##type, BiasArgs, 256, bias_activation<T>)
#define KPT_ACTIVATION_KERNELS(X)          \
  KPT_ACTIVATION_KERNELS_OF(X, float, f32) \
  KPT_ACTIVATION_KERNELS_OF(X, Half, f16)  \
  KPT_ACTIVATION_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
