// Transposes matrices, converting and scaling on the way.
//
// Intensity: 0 FLOP and some 8 instructions an element against 2 to 8 bytes, 1 to 4 a byte; FP8 with its division takes
// 30 more, 13 a byte from 16 bits and 8 from float32. An MI300X has 7.7 for each byte that it can move (163.4 TFLOP/s
// are four to an instruction, by 5.3 TB/s): memory is the limit, the vector units that of FP8. A block takes a tile of
// 64 x 64 through shared memory, two elements a thread on both sides: whole lines of 128 bytes are read and written for
// 16-bit types. Rows of the tile are padded, so that a column is read with at most two accesses to a bank.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// output[b][c][r] = input[b][r][c] / scale.
struct TransposeArgs {
  const void* input;
  void* output;
  const float* scale;  // one, for kernels that make numbers of 8 bits out of longer ones; else null
  Int64 rows, columns;
  Int64 input_stride, output_stride;              // elements between rows of the input, of the output
  Int64 input_batch_stride, output_batch_stride;  // elements between matrices
  Int64 row_tiles, column_tiles;
  Int32 input_pairs, output_pairs;  // two elements at a time: even sizes and strides, aligned addresses
  Int32 threads;                    // 256
};

inline constexpr int kTile = 64;

// A number of which only the bits count.
struct Bits16 {
  UInt16 bits;
};

template <typename To, typename From>
KPT_DEVICE To scaled_number(From value, float scale) {
  if constexpr (__is_same(From, To)) {
    return value;
  } else if constexpr (sizeof(To) == 1) {
    return from_float<To>(to_float(value) / scale);
  } else {
    return from_float<To>(to_float(value));
  }
}

template <typename From, typename To, typename L>
KPT_DEVICE void transpose(const TransposeArgs& a, L& lane) {
  constexpr int kPitch = kTile + (sizeof(To) < 4 ? static_cast<int>(4 / sizeof(To)) : 1);
  KPT_SHARED(lane, To, tile, kTile * kPitch);
  const Int64 upper = divide(lane.block(), a.column_tiles);
  const Int64 first_column = (lane.block() - upper * a.column_tiles) * kTile;
  const Int64 batch = divide(upper, a.row_tiles);
  const Int64 first_row = (upper - batch * a.row_tiles) * kTile;
  const Int32 across = lane.thread() % 32 * 2;
  const Int32 down = lane.thread() / 32;
  const float scale = a.scale == nullptr ? 1.0F : *a.scale;
  const From* input = static_cast<const From*>(a.input) + batch * a.input_batch_stride;
  for (Int32 line = down; line < kTile; line += 8) {
    const Int64 row = first_row + line;
    const Int64 column = first_column + across;
    if (row >= a.rows || column >= a.columns) continue;
    const From* source = input + row * a.input_stride + column;
    From values[2];
    if (a.input_pairs != 0) {
      load_values<2>(source, values);
    } else {
      values[0] = source[0];
      values[1] = column + 1 < a.columns ? source[1] : source[0];
    }
    tile[line * kPitch + across] = scaled_number<To>(values[0], scale);
    tile[line * kPitch + across + 1] = scaled_number<To>(values[1], scale);
  }
  lane.barrier();
  To* output = static_cast<To*>(a.output) + batch * a.output_batch_stride;
  for (Int32 line = down; line < kTile; line += 8) {
    const Int64 row = first_row + across;
    const Int64 column = first_column + line;
    if (row >= a.rows || column >= a.columns) continue;
    To* target = output + column * a.output_stride + row;
    const To values[2] = {tile[across * kPitch + line], tile[(across + 1) * kPitch + line]};
    if (a.output_pairs != 0) {
      store_values<2>(target, values);
    } else {
      target[0] = values[0];
      if (row + 1 < a.rows) target[1] = values[1];
    }
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_TRANSPOSE_KERNELS_OF(X, T, type)                                 \
  X(transpose_##type##_e4m3, TransposeArgs, 256, transpose<T, E4M3>)         \
  X(transpose_##type##_e4m3fnuz, TransposeArgs, 256, transpose<T, E4M3Fnuz>) \
  X(transpose_##type##_e5m2, TransposeArgs, 256, transpose<T, E5M2>)         \
  X(transpose_##type##_e5m2fnuz, TransposeArgs, 256, transpose<T, E5M2Fnuz>)
#define KPT_TRANSPOSE_KERNELS(X)                                      \
  X(transpose_b8, TransposeArgs, 256, transpose<UInt8, UInt8>)        \
  X(transpose_b16, TransposeArgs, 256, transpose<Bits16, Bits16>)     \
  X(transpose_b32, TransposeArgs, 256, transpose<float, float>)       \
  X(transpose_f32_f16, TransposeArgs, 256, transpose<float, Half>)    \
  X(transpose_f32_bf16, TransposeArgs, 256, transpose<float, BFloat>) \
  X(transpose_f16_f32, TransposeArgs, 256, transpose<Half, float>)    \
  X(transpose_bf16_f32, TransposeArgs, 256, transpose<BFloat, float>) \
  KPT_TRANSPOSE_KERNELS_OF(X, float, f32)                             \
  KPT_TRANSPOSE_KERNELS_OF(X, Half, f16)                              \
  KPT_TRANSPOSE_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
