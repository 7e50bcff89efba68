// Matrix product with scales, bias, what is added, and activation on AMD's matrix cores, for every unit and type.
//
// output[m][n] = activation(row_scale[m] · column_scale[n] · Σ input[m][k] · weight[n][k] + bias[n] + residual[m][n])
//
// A block of 256 threads makes 128 x 128 results. Two buffers of LDS, 16 KiB each, hold 64 bytes of 128 rows of both
// operands: while one is multiplied, the next tile is on its way in registers. Two blocks fit into the 64 KiB of a
// compute unit. A wave of 64 makes 64 x 64 of the results, one of 32 makes 64 x 32; a lane's sums are 64 in both. The
// headers of the families say what limits it on their targets.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matrix_tile.h"

namespace kpt::gpu {

enum class NumberType : Int32 { kFloat, kHalf, kBFloat };

struct MatrixArgs {
  const void* input;          // [rows, depth]
  const void* weight;         // [columns, depth]
  const float* row_scale;     // [rows]; null: 1
  const float* column_scale;  // [columns]; null: 1
  const void* bias;           // [columns]; null: none
  const void* residual;       // as the output lies and of its type; null: none
  void* output;               // [rows, columns], without gaps
  Int64 rows, columns, depth;
  Int64 input_stride, weight_stride;  // elements between rows
  Int64 column_tiles;
  float scale;  // of all results
  Activation activation;
  NumberType bias_type, output_type;
  Int32 vectors;          // rows of both operands begin at multiples of 16 bytes and have a whole number of pieces
  Int32 threads;          // 256
  Int32 input_as_weight;  // the input's codes are of the weights' kind, which matters to E4M3Fnuz
};

inline constexpr int kMatrixTile = 128;    // rows and columns of a block
inline constexpr int kMatrixPieces = 4;    // of 16 bytes in a row of a buffer
inline constexpr int kMatrixStaged = 2;    // pieces that a thread moves for each operand and buffer
inline constexpr int kMatrixRowTiles = 4;  // 16 x 16 results of a wave, one below the other
inline constexpr int kMatrixOperand = kMatrixTile * kMatrixPieces * kPieceWords;  // words of one operand in a buffer

// Pieces of both operands on their way from memory to LDS.
struct MatrixStage {
  UInt32 input[kMatrixStaged][kPieceWords];
  UInt32 weight[kMatrixStaged][kPieceWords];
};

// Weights are stored as E4M3. Read as E4M3Fnuz the same bits are half the number, up to the largest (448 and 224). Only
// two magnitudes differ: minus zero would be NaN there and becomes zero, NaN (0x7f, 0xff) would be 240 and becomes
// 0x80.
template <typename T>
KPT_DEVICE UInt32 weight_word(UInt32 word) {
  return word;
}
template <>
KPT_DEVICE UInt32 weight_word<E4M3Fnuz>(UInt32 word) {
  const UInt32 magnitudes = word & 0x7f7f7f7fU;
  const UInt32 others = magnitudes + 0x7f7f7f7fU;                // the sign's place is set where the magnitude is not 0
  const UInt32 nans = (magnitudes + 0x01010101U) & 0x80808080U;  // and here where it is 0x7f
  return (magnitudes & ~(nans - (nans >> 7U))) | (word & others & 0x80808080U) | nans;
}

template <typename T>
KPT_DEVICE void load_stage(const MatrixArgs& a, Int64 first_row, Int64 first_column, Int64 depth, Int32 thread,
                           MatrixStage& stage) {
  // Four threads for each row, 64 rows at a time.
  const Int64 first = depth + thread % 4 * kPieceElements<T>;
  const bool vectors = a.vectors != 0;
  KPT_UNROLL
  for (int part = 0; part < kMatrixStaged; ++part) {
    const Int64 row = first_row + thread / 4 + 64 * part;
    const Int64 column = first_column + thread / 4 + 64 * part;
    load_piece<T>(static_cast<const T*>(a.input) + row * a.input_stride, first, row < a.rows ? a.depth : 0, vectors,
                  stage.input[part]);
    load_piece<T>(static_cast<const T*>(a.weight) + column * a.weight_stride, first, column < a.columns ? a.depth : 0,
                  vectors, stage.weight[part]);
  }
}

template <typename T>
KPT_DEVICE void store_stage(const MatrixArgs& a, UInt32* buffer, Int32 thread, MatrixStage& stage) {
  KPT_UNROLL
  for (int part = 0; part < kMatrixStaged; ++part) {
    UInt32* place = buffer + tile_place<kMatrixPieces>(thread / 4 + 64 * part, thread % 4);
    KPT_UNROLL
    for (int i = 0; i < kPieceWords; ++i) stage.weight[part][i] = weight_word<T>(stage.weight[part][i]);
    if (a.input_as_weight != 0) {
      KPT_UNROLL
      for (int i = 0; i < kPieceWords; ++i) stage.input[part][i] = weight_word<T>(stage.input[part][i]);
    }
    store_values<kPieceWords>(place, stage.input[part]);
    store_values<kPieceWords>(place + kMatrixOperand, stage.weight[part]);
  }
}

template <typename Unit>
inline constexpr int kMatrixColumnTiles = Unit::kWave == 64 ? 4 : 2;

template <typename Unit, typename T>
using MatrixSums = typename MatrixSum<T>::Type[kMatrixRowTiles][kMatrixColumnTiles<Unit>][Unit::kSums];

template <typename Unit, typename T, typename L>
KPT_DEVICE void multiply_buffer(const UInt32* buffer, Int32 wave_row, Int32 wave_column, L& lane,
                                MatrixSums<Unit, T>& sums) {
  constexpr int kColumns = kMatrixColumnTiles<Unit>;
  KPT_UNROLL
  for (int step = 0; step < kMatrixPieces / Fragment<Unit, T>::kPieces; ++step) {
    Fragment<Unit, T> rows[kMatrixRowTiles], columns[kColumns];
    KPT_UNROLL
    for (int i = 0; i < kMatrixRowTiles; ++i) {
      read_fragment<kMatrixPieces>(buffer, wave_row + 16 * i, step, lane, rows[i]);
    }
    KPT_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      read_fragment<kMatrixPieces>(buffer + kMatrixOperand, wave_column + 16 * j, step, lane, columns[j]);
    }
    KPT_UNROLL
    for (int i = 0; i < kMatrixRowTiles; ++i) {
      KPT_UNROLL
      for (int j = 0; j < kColumns; ++j) multiply_fragments<Unit, T>(lane, rows[i], columns[j], sums[i][j]);
    }
    keep_order();
  }
}

KPT_DEVICE float load_number(const void* source, NumberType type, Int64 index) {
  if (type == NumberType::kHalf) return to_float(static_cast<const Half*>(source)[index]);
  if (type == NumberType::kBFloat) return to_float(static_cast<const BFloat*>(source)[index]);
  return static_cast<const float*>(source)[index];
}

KPT_DEVICE void store_number(void* target, NumberType type, Int64 index, float value) {
  if (type == NumberType::kHalf) {
    static_cast<Half*>(target)[index] = from_float<Half>(value);
  } else if (type == NumberType::kBFloat) {
    static_cast<BFloat*>(target)[index] = from_float<BFloat>(value);
  } else {
    static_cast<float*>(target)[index] = value;
  }
}

// Half of the results go through LDS at a time, so that bias and activation are in the code once and not for each sum.
inline constexpr int kMatrixHalf = kMatrixTile / 2;

// The wave's results of one half as float32: columns [kHalf] for each group of waves.
template <typename Unit, typename T, int Half, typename L>
KPT_DEVICE void share_results(float* shared, Int32 wave_row, Int32 wave_column, L& lane,
                              const MatrixSums<Unit, T>& sums) {
  constexpr int kTiles = kMatrixColumnTiles<Unit> / 2;
  KPT_UNROLL
  for (int j = 0; j < kTiles; ++j) {
    KPT_UNROLL
    for (int i = 0; i < kMatrixRowTiles; ++i) {
      KPT_UNROLL
      for (int r = 0; r < Unit::kSums; ++r) {
        const Int32 row = wave_row + 16 * i + Unit::row_of(lane.lane(), r);
        const Int32 column = wave_column / 2 + 16 * j + lane.lane() % 16;
        shared[row * kMatrixHalf + column] = static_cast<float>(sums[i][Half * kTiles + j][r]);
      }
    }
  }
}

KPT_DEVICE void store_result(const MatrixArgs& a, Int64 row, Int64 column, float sum) {
  const Int64 place = row * a.columns + column;
  float value = sum * a.scale;
  if (a.row_scale != nullptr) value *= a.row_scale[row];
  if (a.column_scale != nullptr) value *= a.column_scale[column];
  if (a.bias != nullptr) value += load_number(a.bias, a.bias_type, column);
  if (a.residual != nullptr) value += load_number(a.residual, a.output_type, place);
  store_number(a.output, a.output_type, place, activate(a.activation, value));
}

// `shared`: 128 x 64 floats, the buffers of the operands.
template <typename Unit, typename T, typename L>
KPT_DEVICE void store_results(const MatrixArgs& a, Int64 first_row, Int64 first_column, Int32 wave_row,
                              Int32 wave_column, float* shared, L& lane, const MatrixSums<Unit, T>& sums) {
  constexpr Int32 kTogether = 8 * kMatrixColumnTiles<Unit>;  // columns of a wave in one half
  KPT_ROLLED
  for (Int32 half = 0; half < 2; ++half) {
    lane.barrier();
    if (half == 0) {
      share_results<Unit, T, 0>(shared, wave_row, wave_column, lane, sums);
    } else {
      share_results<Unit, T, 1>(shared, wave_row, wave_column, lane, sums);
    }
    lane.barrier();
    const Int32 place = lane.thread() % kMatrixHalf;
    const Int64 column = first_column + place / kTogether * 2 * kTogether + half * kTogether + place % kTogether;
    KPT_ROLLED
    for (Int32 row = lane.thread() / kMatrixHalf; row < kMatrixTile; row += 256 / kMatrixHalf) {
      if (first_row + row >= a.rows || column >= a.columns) break;
      store_result(a, first_row + row, column, shared[row * kMatrixHalf + place]);
    }
  }
}

template <typename Unit, typename T, typename L>
KPT_DEVICE void matrix_product(const MatrixArgs& a, L& lane) {
  KPT_SHARED(lane, UInt32, buffers, 4 * kMatrixOperand);
  constexpr int kDepth = kMatrixPieces * kPieceElements<T>;
  constexpr Int32 kWaveColumns = 16 * kMatrixColumnTiles<Unit>;
  const Int64 tile_row = divide(lane.block(), a.column_tiles);
  const Int64 first_row = tile_row * kMatrixTile;
  const Int64 first_column = (lane.block() - tile_row * a.column_tiles) * kMatrixTile;
  const Int32 wave_row = lane.wave() / (kMatrixTile / kWaveColumns) * 64;
  const Int32 wave_column = lane.wave() % (kMatrixTile / kWaveColumns) * kWaveColumns;
  MatrixSums<Unit, T> sums = {};
  MatrixStage stage;
  load_stage<T>(a, first_row, first_column, 0, lane.thread(), stage);
  Int32 turn = 0;
  for (Int64 depth = 0; depth < a.depth; depth += kDepth) {
    UInt32* buffer = buffers + turn * 2 * kMatrixOperand;
    store_stage<T>(a, buffer, lane.thread(), stage);
    lane.barrier();
    // Beyond the end these are zeros that nobody multiplies.
    load_stage<T>(a, first_row, first_column, depth + kDepth, lane.thread(), stage);
    multiply_buffer<Unit, T>(buffer, wave_row, wave_column, lane, sums);
    turn ^= 1;
  }
  store_results<Unit, T>(a, first_row, first_column, wave_row, wave_column, reinterpret_cast<float*>(buffers), lane,
                         sums);
}

}  // namespace kpt::gpu
