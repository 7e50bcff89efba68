// Matrix product with bias and activation on AMD's matrix cores (CDNA, wavefronts of 64).
//
// output[m][n] = activation(Σ input[m][k] · weight[n][k] + bias[n]), float16 or bfloat16, sums in float32.
//
// Intensity: a block of 256 threads makes 128 x 128 results; each 32 steps of k it reads 16 KiB and does 1 MFLOP, 64
// FLOP a byte. gfx942 has 1307 TFLOP/s by 5.3 TB/s, 247 FLOP a byte: tiles of neighbours must come from L2 (4 MiB a
// die), which they do for k up to 8192. Large products are then bound by matrix instructions and LDS: a wave reads 16
// KiB of LDS for 32 instructions of 16x16x16.
//
// Two buffers of LDS: while one is multiplied, the next tile is on its way in registers. Rows in LDS have no gaps, so
// two blocks fit into the 64 KiB of a compute unit; their four pieces of 16 bytes change places from row pair to row
// pair, so that 32 lanes which read 8 bytes of 16 rows touch every bank twice, the least there is.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matrix_lane.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

struct MatrixArgs {
  const void* input;   // [rows, depth]
  const void* weight;  // [columns, depth]
  const void* bias;    // [columns], of the kernel's type or float32; null: none
  void* output;        // [rows, columns], without gaps
  Int64 rows, columns, depth;
  Int64 input_stride, weight_stride;  // elements between rows
  Int64 column_tiles;
  Activation activation;
  Int32 bias_is_float;
  Int32 vectors;  // depth and strides are multiples of 8, addresses of 16 bytes
  Int32 threads;  // 256
};

inline constexpr int kMatrixTile = 128;  // rows and columns of a block
inline constexpr int kMatrixDepth = 32;  // of one buffer
inline constexpr int kMatrixPieces = 2;  // of 8 elements that a thread moves for each operand and buffer
inline constexpr int kMatrixBuffer = 2 * kMatrixTile * kMatrixDepth;

// Where element `depth` of a row stands in a buffer.
KPT_DEVICE Int32 matrix_place(Int32 row, Int32 depth) {
  return row * kMatrixDepth + ((depth / 8) ^ (row / 2 % 4)) * 8 + depth % 8;
}

// Pieces of both operands on their way from memory to LDS.
template <typename T>
struct MatrixPieces {
  T input[kMatrixPieces][8];
  T weight[kMatrixPieces][8];
};

// Eight elements of a row from `first` on; zeros beyond its end and beyond the last row.
template <typename T>
KPT_DEVICE void load_piece(const MatrixArgs& a, const T* matrix, Int64 stride, Int64 row, Int64 rows, Int64 first,
                           T (&piece)[8]) {
  KPT_UNROLL
  for (int i = 0; i < 8; ++i) piece[i] = T{0};
  if (row >= rows || first >= a.depth) return;
  const T* source = matrix + row * stride + first;
  if (a.vectors != 0) {
    load_values<8>(source, piece);
    return;
  }
  KPT_UNROLL
  for (int i = 0; i < 8; ++i) {
    if (first + i < a.depth) piece[i] = source[i];
  }
}

template <typename T>
KPT_DEVICE void load_pieces(const MatrixArgs& a, Int64 first_row, Int64 first_column, Int64 depth, Int32 thread,
                            MatrixPieces<T>& pieces) {
  // Four threads for each row of 32 elements, 64 rows at a time.
  KPT_UNROLL
  for (int part = 0; part < kMatrixPieces; ++part) {
    const Int64 line = thread / 4 + 64 * part;
    const Int64 first = depth + thread % 4 * 8;
    load_piece(a, static_cast<const T*>(a.input), a.input_stride, first_row + line, a.rows, first, pieces.input[part]);
    load_piece(a, static_cast<const T*>(a.weight), a.weight_stride, first_column + line, a.columns, first,
               pieces.weight[part]);
  }
}

template <typename T>
KPT_DEVICE void store_pieces(T* buffer, Int32 thread, const MatrixPieces<T>& pieces) {
  KPT_UNROLL
  for (int part = 0; part < kMatrixPieces; ++part) {
    T* place = buffer + matrix_place(thread / 4 + 64 * part, thread % 4 * 8);
    store_values<8>(place, pieces.input[part]);
    store_values<8>(place + kMatrixTile * kMatrixDepth, pieces.weight[part]);
  }
}

// Each wave multiplies 64 x 64 of the tile: 4 x 4 instructions of 16 x 16 for each 16 steps of depth.
template <typename T, typename L>
KPT_DEVICE void multiply_buffer(const T* buffer, Int32 wave_row, Int32 wave_column, L& lane, float (&sums)[4][4][4]) {
  const Int32 line = lane.lane() % 16;
  const Int32 quarter = lane.lane() / 16 * 4;
  KPT_UNROLL
  for (int step = 0; step < kMatrixDepth; step += 16) {
    T rows[4][4], columns[4][4];
    KPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      load_values<4>(buffer + matrix_place(wave_row + 16 * i + line, step + quarter), rows[i]);
      load_values<4>(buffer + matrix_place(kMatrixTile + wave_column + 16 * i + line, step + quarter), columns[i]);
    }
    KPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      KPT_UNROLL
      for (int j = 0; j < 4; ++j) multiply_16x16x16(lane, rows[i], columns[j], sums[i][j]);
    }
  }
}

template <typename T, typename L>
KPT_DEVICE void store_results(const MatrixArgs& a, Int64 first_row, Int64 first_column, L& lane,
                              const float (&sums)[4][4][4]) {
  KPT_UNROLL
  for (int j = 0; j < 4; ++j) {
    const Int64 column = first_column + 16 * j + lane.lane() % 16;
    if (column >= a.columns) continue;
    const float bias = a.bias == nullptr ? 0.0F : load_parameter<T>(a.bias, a.bias_is_float != 0, column);
    KPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      KPT_UNROLL
      for (int r = 0; r < 4; ++r) {
        const Int64 row = first_row + 16 * i + lane.lane() / 16 * 4 + r;
        if (row >= a.rows) continue;
        static_cast<T*>(a.output)[row * a.columns + column] =
            from_float<T>(activate(a.activation, sums[i][j][r] + bias));
      }
    }
  }
}

template <typename T, typename L>
KPT_DEVICE void matrix_product(const MatrixArgs& a, L& lane) {
  KPT_SHARED(lane, T, buffers, 2 * kMatrixBuffer);
  const Int64 tile_row = divide(lane.block(), a.column_tiles);
  const Int64 first_row = tile_row * kMatrixTile;
  const Int64 first_column = (lane.block() - tile_row * a.column_tiles) * kMatrixTile;
  const Int32 wave_row = lane.wave() / 2 * 64;
  const Int32 wave_column = lane.wave() % 2 * 64;
  float sums[4][4][4] = {};
  MatrixPieces<T> pieces;
  load_pieces<T>(a, first_row, first_column, 0, lane.thread(), pieces);
  Int32 turn = 0;
  for (Int64 depth = 0; depth < a.depth; depth += kMatrixDepth) {
    T* buffer = buffers + turn * kMatrixBuffer;
    store_pieces(buffer, lane.thread(), pieces);
    lane.barrier();
    // Beyond the end these are zeros that nobody multiplies.
    load_pieces<T>(a, first_row, first_column, depth + kMatrixDepth, lane.thread(), pieces);
    multiply_buffer<T>(buffer, wave_row, wave_column, lane, sums);
    turn ^= 1;
  }
  store_results<T>(a, first_row + wave_row, first_column + wave_column, lane, sums);
}

// X(name, arguments, most threads in a block, body)
#define KPT_MATRIX_KERNELS(X)                               \
  X(matrix_mfma_f16, MatrixArgs, 256, matrix_product<Half>) \
  X(matrix_mfma_bf16, MatrixArgs, 256, matrix_product<BFloat>)

}  // namespace kpt::gpu
