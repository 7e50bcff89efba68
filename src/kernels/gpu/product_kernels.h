// Products of matrices with any strides, in batches of up to three axes, by ordinary multiplications.
//
// A block makes 64 x 64 results from pieces of 16 columns of both operands in shared memory: 2 · 64 · 64 · 16
// operations for 2 · 64 · 16 elements, 64 FLOP for each that is loaded: 16 a byte of float32, 32 of 16-bit types. By
// the table in backends/amd/architecture.cpp a die of an MI250X has 15 FLOP of float32 for each byte that it can move
// (23.9 TFLOP/s by 1.6 TB/s), an MI300X 31 (163.4 by 5.3), an RX 7900 XTX 64 (61.4 by 0.96): there tiles of neighbours
// must come from L2. Vector units are then the limit where matrices are large (matrix_product.h has AMD's matrix
// cores), latency where they are small. Sums are in float32.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

inline constexpr int kProductTile = 64;   // rows and columns of a block
inline constexpr int kProductDepth = 16;  // of one piece
inline constexpr int kProductThreads = 256;
inline constexpr int kProductEach = 4;                 // rows and columns of a thread
inline constexpr int kProductLine = kProductTile + 4;  // elements between lines in shared memory: other banks

// One of the operands: [batches, lines, depth], a line for each row or column of the result.
struct ProductOperand {
  const void* data;
  Int64 batch_strides[3];
  Int64 line_stride;
  Int64 depth_stride;
};

// output[row][column] = activation(scale · Σ left[row][k] · right[column][k] + bias[column] + residual[row][column]).
struct ProductArgs {
  ProductOperand left, right;
  const void* bias;      // null: none
  const void* residual;  // as the output lies; null: none
  void* output;
  Int64 output_batch_strides[3];
  Int64 output_row_stride;
  Int64 batches_1, batches_2;  // extents of the second and third batch axis
  Int64 rows, columns, depth;
  Int64 row_tiles, column_tiles;
  float scale;
  Activation activation;
  Int32 left_is_float, right_is_float, bias_is_float, output_is_float;  // else of the kernel's type
  Int32 threads;
};

struct ProductBatch {
  Int64 left, right, output;
};

KPT_DEVICE ProductBatch find_batch(const ProductArgs& a, Int64 batch) {
  const Int64 outer = divide(batch, a.batches_2);
  const Int64 last = batch - outer * a.batches_2;
  const Int64 first = divide(outer, a.batches_1);
  const Int64 middle = outer - first * a.batches_1;
  const auto place = [&](const Int64(&strides)[3]) {
    return first * strides[0] + middle * strides[1] + last * strides[2];
  };
  return {place(a.left.batch_strides), place(a.right.batch_strides), place(a.output_batch_strides)};
}

// A piece of an operand, turned: shared[k][line]. Zeros beyond the last line and the depth. Neighbouring threads read
// along the axis without gaps.
template <typename T, typename L>
KPT_DEVICE void load_piece_of(const ProductOperand& operand, bool is_float, Int64 base, Int64 first_line, Int64 lines,
                              Int64 first_depth, Int64 depth, float* shared, L& lane) {
  constexpr int kPerThread = kProductTile * kProductDepth / kProductThreads;
  const bool along_depth = operand.depth_stride == 1;
  KPT_UNROLL
  for (int part = 0; part < kPerThread; ++part) {
    const Int32 item = lane.thread() + part * kProductThreads;
    const Int32 line = along_depth ? item / kProductDepth : item % kProductTile;
    const Int32 k = along_depth ? item % kProductDepth : item / kProductTile;
    float value = 0;
    if (first_line + line < lines && first_depth + k < depth) {
      const Int64 index = base + (first_line + line) * operand.line_stride + (first_depth + k) * operand.depth_stride;
      value = load_parameter<T>(operand.data, is_float, index);
    }
    shared[k * kProductLine + line] = value;
  }
}

template <typename T>
KPT_DEVICE void store_product(const ProductArgs& a, Int64 base, Int64 row, Int64 column, float sum) {
  const Int64 place = base + row * a.output_row_stride + column;
  float value = sum * a.scale;
  if (a.bias != nullptr) value += load_parameter<T>(a.bias, a.bias_is_float != 0, column);
  if (a.residual != nullptr) value += load_parameter<T>(a.residual, a.output_is_float != 0, place);
  value = activate(a.activation, value);
  if (a.output_is_float != 0) {
    static_cast<float*>(a.output)[place] = value;
  } else {
    static_cast<T*>(a.output)[place] = from_float<T>(value);
  }
}

KPT_DEVICE void multiply_piece(const float* left, const float* right, Int32 row, Int32 column,
                               float (&sums)[kProductEach][kProductEach]) {
  KPT_UNROLL
  for (int k = 0; k < kProductDepth; ++k) {
    float x[kProductEach], y[kProductEach];
    load_values<kProductEach>(left + k * kProductLine + row, x);
    load_values<kProductEach>(right + k * kProductLine + column, y);
    KPT_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      KPT_UNROLL
      for (int j = 0; j < kProductEach; ++j) sums[i][j] += x[i] * y[j];
    }
  }
}

template <typename T, typename L>
KPT_DEVICE void product(const ProductArgs& a, L& lane) {
  KPT_SHARED(lane, float, left, kProductDepth* kProductLine);
  KPT_SHARED(lane, float, right, kProductDepth* kProductLine);
  const Int64 tiles = a.row_tiles * a.column_tiles;
  const Int64 batch = divide(lane.block(), tiles);
  const Int64 tile = lane.block() - batch * tiles;
  const Int64 tile_row = divide(tile, a.column_tiles);
  const Int64 first_row = tile_row * kProductTile;
  const Int64 first_column = (tile - tile_row * a.column_tiles) * kProductTile;
  const ProductBatch base = find_batch(a, batch);
  const Int32 row = lane.thread() / (kProductTile / kProductEach) * kProductEach;
  const Int32 column = lane.thread() % (kProductTile / kProductEach) * kProductEach;
  float sums[kProductEach][kProductEach] = {};
  for (Int64 depth = 0; depth < a.depth; depth += kProductDepth) {
    load_piece_of<T>(a.left, a.left_is_float != 0, base.left, first_row, a.rows, depth, a.depth, left, lane);
    load_piece_of<T>(a.right, a.right_is_float != 0, base.right, first_column, a.columns, depth, a.depth, right, lane);
    lane.barrier();
    multiply_piece(left, right, row, column, sums);
    lane.barrier();
  }
  KPT_UNROLL
  for (int i = 0; i < kProductEach; ++i) {
    KPT_UNROLL
    for (int j = 0; j < kProductEach; ++j) {
      if (first_row + row + i < a.rows && first_column + column + j < a.columns) {
        store_product<T>(a, base.output, first_row + row + i, first_column + column + j, sums[i][j]);
      }
    }
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_PRODUCT_KERNELS(X)                     \
  X(product_f32, ProductArgs, 256, product<float>) \
  X(product_f16, ProductArgs, 256, product<Half>)  \
  X(product_bf16, ProductArgs, 256, product<BFloat>)

}  // namespace kpt::gpu
