// Rotary positions: pairs of elements of a row are turned by angles whose cosines and sines stand in tables.
//
// Intensity: 3 FLOP an element against 4 bytes of 16-bit types (the tables, shared by all heads, come from cache), 0.75
// a byte; with addresses and conversions 5 instructions a byte by gfx942's code. An MI300X has 31 FLOP, or 7.7
// instructions, for each byte that it can move (163.4 TFLOP/s by 5.3 TB/s): memory is the limit. Each thread takes 16
// bytes of the first half and the 16 bytes of the second half that belong to them.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// Pairs are (i, i + width/2), or with `interleaved` (2i, 2i + 1). With a, b a pair:
//   a' = a·cos[a] - b·sin[a],  b' = b·cos[b] + a·sin[b]; with `inverse` the transpose of that: the gradient.
// The tables have a column for each element of a row and may be float32. result: rows without gaps.
struct RotaryArgs {
  const void* input;
  const void* cosines;
  const void* sines;
  void* result;
  Int64 width;
  Int64 items;             // rows · pairs / pairs that a thread takes
  Int64 middle, inner;     // rows are [outer, middle, inner]
  Int64 input_strides[3];  // elements; 0 where broadcast
  Int64 cosine_strides[3], sine_strides[3];
  Int32 tables_are_float;
  Int32 interleaved, inverse;
  Int32 vectors;  // 16 bytes at a time; only without `interleaved`
  Int32 threads;
};

template <typename T, int V>
KPT_DEVICE void rotate(const RotaryArgs& a, Int64 item) {
  const Int64 per_row = a.width / 2 / V;
  const Int64 row = divide(item, per_row);
  const Int64 pair = (item - row * per_row) * V;
  const Int64 upper = divide(row, a.inner);
  const Int64 place[3] = {divide(upper, a.middle), upper % a.middle, row - upper * a.inner};
  Int64 source = 0;
  Int64 cosine = 0;
  Int64 sine = 0;
  KPT_UNROLL
  for (int axis = 0; axis < 3; ++axis) {
    source += place[axis] * a.input_strides[axis];
    cosine += place[axis] * a.cosine_strides[axis];
    sine += place[axis] * a.sine_strides[axis];
  }
  const Int64 left = a.interleaved != 0 ? 2 * pair : pair;
  const Int64 right = a.interleaved != 0 ? 2 * pair + 1 : pair + a.width / 2;
  const bool is_float = a.tables_are_float != 0;
  float x[2][V], cosines[2][V], sines[2][V], result[2][V];
  load_floats<V>(static_cast<const T*>(a.input) + source + left, x[0]);
  load_floats<V>(static_cast<const T*>(a.input) + source + right, x[1]);
  load_parameters<T, V>(a.cosines, is_float, cosine + left, cosines[0]);
  load_parameters<T, V>(a.cosines, is_float, cosine + right, cosines[1]);
  load_parameters<T, V>(a.sines, is_float, sine + left, sines[0]);
  load_parameters<T, V>(a.sines, is_float, sine + right, sines[1]);
  KPT_UNROLL
  for (int i = 0; i < V; ++i) {
    const float up = a.inverse != 0 ? sines[1][i] : -sines[0][i];
    const float down = a.inverse != 0 ? -sines[0][i] : sines[1][i];
    result[0][i] = x[0][i] * cosines[0][i] + x[1][i] * up;
    result[1][i] = x[1][i] * cosines[1][i] + x[0][i] * down;
  }
  store_floats<V>(static_cast<T*>(a.result) + row * a.width + left, result[0]);
  store_floats<V>(static_cast<T*>(a.result) + row * a.width + right, result[1]);
}

template <typename T, typename L>
KPT_DEVICE void rotary(const RotaryArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (item >= a.items) return;
  if (a.vectors != 0) {
    rotate<T, kVector<T>>(a, item);
  } else {
    rotate<T, 1>(a, item);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_ROTARY_KERNELS(X)                   \
  X(rotary_f32, RotaryArgs, 256, rotary<float>) \
  X(rotary_f16, RotaryArgs, 256, rotary<Half>)  \
  X(rotary_bf16, RotaryArgs, 256, rotary<BFloat>)

}  // namespace kpt::gpu
