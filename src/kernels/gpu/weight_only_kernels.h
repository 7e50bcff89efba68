// Products of few rows with weights of 8 or 4 bits: input · (weight · scale)ᵀ. And weights of 4 bits made floats.
//
// Intensity: M rows take 2 M operations for each weight, which is 1 or 1/2 byte, and 2 to turn it into a float: 2 M
// FLOP a byte of int8, 4 M of int4. By gfx942's code that is some 1.25 M + 3 instructions a weight; an MI300X has 7.7
// for each byte that it can move (163.4 TFLOP/s are four to an instruction, by 5.3 TB/s). Up to some 4 rows (int8) or 1
// (int4) memory is the limit: the weight's bytes by the device's bandwidth. Beyond, the vector units are. With 16 rows
// sums fill the registers (gfx90a keeps some in memory), and matrix cores win even with weights written out first.
//
// A wave has four columns of the result and all rows, and goes along the depth; a lane holds 16 bytes of each column's
// weights, the next 16 on their way while it multiplies where rows are few. Two rows at most: one access of 16 bytes.
// More rows: four of 4 bytes, a wave's width apart, so that what lanes read of the input lies side by side; then the
// first cache, which serves every row, would be the limit. Where columns are few, waves of a block share the depth.
// Depths, addresses or groups that allow no such accesses are read element by element.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"
#include "kernels/gpu/weight_forms.h"

namespace kpt::gpu {

inline constexpr int kWeightColumns = 4;  // of a wave
inline constexpr int kWeightThreads = 128;

enum class FloatType : Int32 { kFloat, kHalf, kBFloat };

struct WeightOnlyArgs {
  const void* input;   // [rows, depth], of the kernel's type
  const void* weight;  // [columns, depth] without gaps; of 4 bits: the even element in the low half of a byte
  const float* scale;  // [columns], or [columns, depth / group]
  const void* bias;    // [columns]; null: none
  const void* residual;
  void* output;  // rows without gaps
  Int64 columns, depth;
  Int64 input_stride, residual_stride;  // elements between rows
  Int64 group;                          // elements with one scale, in weights of 4 bits
  FloatType bias_type, residual_type, output_type;
  Activation activation;
  Int32 rows;
  Int32 parts;        // waves of a block that share the depth of four columns
  Int32 vectors;      // 16 bytes of weights at a time
  Int32 group_shift;  // its logarithm; with vectors only
  Int32 threads;
};

KPT_DEVICE float load_typed(const void* source, FloatType type, Int64 index) {
  if (type == FloatType::kFloat) return static_cast<const float*>(source)[index];
  if (type == FloatType::kHalf) return to_float(static_cast<const Half*>(source)[index]);
  return to_float(static_cast<const BFloat*>(source)[index]);
}

KPT_DEVICE void store_typed(void* target, FloatType type, Int64 index, float value) {
  if (type == FloatType::kFloat) {
    static_cast<float*>(target)[index] = value;
  } else if (type == FloatType::kHalf) {
    static_cast<Half*>(target)[index] = from_float<Half>(value);
  } else {
    static_cast<BFloat*>(target)[index] = from_float<BFloat>(value);
  }
}

// What a lane has of four columns at once: F is the form of weights, kSpread says how its four words lie.
template <typename F, bool kSpread, typename L>
struct WeightPart {
  static constexpr int kScales = F::kGroups ? (kSpread ? 4 : 1) : 1;
  Words words[kWeightColumns];
  float scales[kWeightColumns][kScales];

  // The place of a word in the weights of a column.
  KPT_DEVICE static Int64 place(L& lane, Int64 chunk, int word) {
    if constexpr (kSpread) return (chunk * 4 + word) * L::kWave + lane.lane();
    return (chunk * L::kWave + lane.lane()) * 4 + word;
  }

  KPT_DEVICE void load(const WeightOnlyArgs& a, L& lane, const Int64 (&columns)[kWeightColumns], Int64 chunk) {
    const Int64 count = a.depth / F::kPerWord;
    KPT_UNROLL
    for (int r = 0; r < kWeightColumns; ++r) {
      const UInt32* source = static_cast<const UInt32*>(a.weight) + columns[r] * count;
      if constexpr (kSpread) {
        KPT_UNROLL
        for (int word = 0; word < 4; ++word) {
          const Int64 at = place(lane, chunk, word);
          words[r].values[word] = at < count ? source[at] : 0U;
        }
      } else {
        const Int64 at = place(lane, chunk, 0);
        words[r] = load_once(at < count, source, at);
      }
      if constexpr (F::kGroups) {
        const float* scale = a.scale + columns[r] * (a.depth >> a.group_shift);
        KPT_UNROLL
        for (int word = 0; word < kScales; ++word) {
          const Int64 at = place(lane, chunk, word);
          scales[r][word] = at < count ? scale[(at * F::kPerWord) >> a.group_shift] : 0.0F;
        }
      }
    }
  }

  // sums[m][r] += Σ input[m][k] · weight[r][k] over the k of one word.
  template <typename T, int M>
  KPT_DEVICE void multiply_word(int word, Int64 first, const T* const (&rows)[M], float (&sums)[M][kWeightColumns]) {
    float weights[kWeightColumns][F::kPerWord];
    KPT_UNROLL
    for (int r = 0; r < kWeightColumns; ++r) F::unpack(words[r].values[word], weights[r]);
    KPT_UNROLL
    for (int m = 0; m < M; ++m) {
      float x[F::kPerWord];
      load_floats<F::kPerWord>(rows[m] + first, x);
      KPT_UNROLL
      for (int r = 0; r < kWeightColumns; ++r) {
        float sum = F::kGroups ? 0.0F : sums[m][r];
        KPT_UNROLL
        for (int i = 0; i < F::kPerWord; ++i) sum += x[i] * weights[r][i];
        sums[m][r] = F::kGroups ? sums[m][r] + sum * scales[r][kScales == 1 ? 0 : word] : sum;
      }
    }
  }

  template <typename T, int M>
  KPT_DEVICE void multiply(const WeightOnlyArgs& a, L& lane, Int64 chunk, const T* const (&rows)[M],
                           float (&sums)[M][kWeightColumns]) {
    const Int64 count = a.depth / F::kPerWord;
    KPT_UNROLL
    for (int word = 0; word < 4; ++word) {
      const Int64 at = place(lane, chunk, word);
      if (at < count) multiply_word<T, M>(word, at * F::kPerWord, rows, sums);
    }
  }
};

template <typename F, bool kAhead, typename Part, typename T, int M, typename L>
KPT_DEVICE void multiply_chunks(const WeightOnlyArgs& a, L& lane, Int32 first, const Int64 (&columns)[kWeightColumns],
                                const T* const (&rows)[M], float (&sums)[M][kWeightColumns]) {
  const Int64 words = a.depth / F::kPerWord;
  const Int64 chunks = (words + 4 * L::kWave - 1) / (4 * L::kWave);
  Part now;
  if constexpr (kAhead) now.load(a, lane, columns, first);
  for (Int64 chunk = first; chunk < chunks; chunk += a.parts) {
    if constexpr (kAhead) {
      Part next;
      next.load(a, lane, columns, chunk + a.parts);
      now.template multiply<T, M>(a, lane, chunk, rows, sums);
      now = next;
    } else {
      now.load(a, lane, columns, chunk);
      now.template multiply<T, M>(a, lane, chunk, rows, sums);
    }
  }
}

template <typename F, typename T, int M, typename L>
KPT_DEVICE void multiply_elements(const WeightOnlyArgs& a, L& lane, Int32 first, const Int64 (&columns)[kWeightColumns],
                                  const T* const (&rows)[M], float (&sums)[M][kWeightColumns]) {
  for (Int64 k = first * L::kWave + lane.lane(); k < a.depth; k += Int64{a.parts} * L::kWave) {
    float weights[kWeightColumns];
    KPT_UNROLL
    for (int r = 0; r < kWeightColumns; ++r)
      weights[r] = F::element(a.weight, a.scale, a.group, columns[r] * a.depth + k);
    KPT_UNROLL
    for (int m = 0; m < M; ++m) {
      const float x = to_float(rows[m][k]);
      KPT_UNROLL
      for (int r = 0; r < kWeightColumns; ++r) sums[m][r] += x * weights[r];
    }
  }
}

template <typename F>
KPT_DEVICE void store_weight_only(const WeightOnlyArgs& a, Int64 row, Int64 column, float sum) {
  float value = F::kGroups ? sum : sum * a.scale[column];
  if (a.bias != nullptr) value += load_typed(a.bias, a.bias_type, column);
  if (a.residual != nullptr) value += load_typed(a.residual, a.residual_type, row * a.residual_stride + column);
  store_typed(a.output, a.output_type, row * a.columns + column, activate(a.activation, value));
}

// For at most M rows.
template <typename T, typename F, int M, typename L>
KPT_DEVICE void weight_only(const WeightOnlyArgs& a, L& lane) {
  constexpr int kValues = M * kWeightColumns;
  constexpr int kOwn = (kValues + L::kWave - 1) / L::kWave;
  KPT_SHARED(lane, float, scratch, (kWeightThreads / L::kWave) * kValues);
  const Int32 part = lane.wave() % a.parts;
  const Int32 sets = a.threads / L::kWave / a.parts;  // of columns in this block
  const Int64 first_column = (lane.block() * sets + lane.wave() / a.parts) * kWeightColumns;
  // Behind the last column and row the last one is computed again, so that all lanes stay together.
  Int64 columns[kWeightColumns];
  KPT_UNROLL
  for (int r = 0; r < kWeightColumns; ++r) {
    columns[r] = first_column + r < a.columns ? first_column + r : a.columns - 1;
  }
  const T* rows[M];
  KPT_UNROLL
  for (int m = 0; m < M; ++m) {
    rows[m] = static_cast<const T*>(a.input) + (m < a.rows ? m : a.rows - 1) * a.input_stride;
  }
  float sums[M][kWeightColumns] = {};
  if (a.vectors != 0) {
    multiply_chunks<F, (M <= 4), WeightPart<F, (M > 2), L>>(a, lane, part, columns, rows, sums);
  } else {
    multiply_elements<F>(a, lane, part, columns, rows, sums);
  }
  // Value v = row · 4 + column goes to lane v.
  float own[kOwn] = {};
  KPT_UNROLL
  for (int v = 0; v < kValues; ++v) {
    const float sum = wave_sum(lane, sums[v / kWeightColumns][v % kWeightColumns]);
    if (lane.lane() == v % L::kWave) own[v / L::kWave] = sum;
  }
  if (a.parts > 1) {
    KPT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const Int32 v = i * L::kWave + lane.lane();
      if (v < kValues) scratch[lane.wave() * kValues + v] = own[i];
    }
    lane.barrier();
    if (part != 0) return;
  }
  KPT_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    const Int32 v = i * L::kWave + lane.lane();
    const Int32 row = v / kWeightColumns;
    const Int64 column = first_column + v % kWeightColumns;
    if (v >= kValues || row >= a.rows || column >= a.columns) continue;
    float sum = own[i];
    for (Int32 other = 1; other < a.parts; ++other) sum += scratch[(lane.wave() + other) * kValues + v];
    store_weight_only<F>(a, row, column, sum);
  }
}

// Weights of 4 bits as floats: a thread takes 4 bytes, or one.
struct UnpackInt4Args {
  const void* input;
  void* output;
  const float* scale;  // one for `group` elements
  Int64 bytes, group;
  Int32 vectors;  // group is a multiple of 8, addresses of 4 and 16 bytes
  Int32 threads;
};

template <typename T, typename L>
KPT_DEVICE void unpack_int4(const UnpackInt4Args& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  T* output = static_cast<T*>(a.output);
  if (a.vectors != 0) {
    if (item * 4 >= a.bytes) return;
    float values[8];
    WeightInt4::unpack(static_cast<const UInt32*>(a.input)[item], values);
    const float scale = a.scale[divide(item * 8, a.group)];
    KPT_UNROLL
    for (int i = 0; i < 8; ++i) values[i] *= scale;
    store_floats<8>(output + item * 8, values);
    return;
  }
  if (item >= a.bytes) return;
  const UInt32 byte = static_cast<const UInt8*>(a.input)[item];
  KPT_UNROLL
  for (int i = 0; i < 2; ++i) {
    const Int64 place = 2 * item + i;
    output[place] = from_float<T>(WeightInt4::code(byte, i == 1) * a.scale[divide(place, a.group)]);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_WEIGHT_ONLY_KERNELS_OF(X, T, type)                              \
  X(weight_i8_1_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt8, 1>) \
  X(weight_i8_2_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt8, 2>) \
  X(weight_i8_4_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt8, 4>) \
  X(weight_i8_8_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt8, 8>) \
  X(weight_i4_1_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt4, 1>) \
  X(weight_i4_2_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt4, 2>) \
  X(weight_i4_4_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt4, 4>) \
  X(weight_i4_8_##type, WeightOnlyArgs, 128, weight_only<T, WeightInt4, 8>) \
  X(unpack_i4_##type, UnpackInt4Args, 256, unpack_int4<T>)
#define KPT_WEIGHT_ONLY_KERNELS(X)          \
  KPT_WEIGHT_ONLY_KERNELS_OF(X, float, f32) \
  KPT_WEIGHT_ONLY_KERNELS_OF(X, Half, f16)  \
  KPT_WEIGHT_ONLY_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
