// Products of small blocks in registers, compiled once for each instruction set (simd_kernels.h).
#pragma once

#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/unroll.h"

namespace kpt::kernels::KPT_SIMD {

// A tile: as many sums as stay in registers beside their operands.
#if defined(__aarch64__) || defined(__AVX512F__)
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 2;
inline constexpr std::int64_t kTileColumns = kTileVectors * kLanes;
static_assert(kTileColumns % kTileRows == 0);

// c = aᵀ · b + factors · c for one tile. a: `depth` rows of kTileRows; b: `depth` rows of kTileColumns.
struct TileProduct {
  const float* a;
  std::int64_t a_stride;
  const float* b;
  std::int64_t b_stride;
  std::int64_t depth;
  float* c;
  std::int64_t c_stride;
  const float* factors;  // one per row of c; null: c is only written
};

[[gnu::noinline]] inline void multiply_tile(const TileProduct& product) {
  Floats sums[kTileRows][kTileVectors];
  KPT_UNROLL for (int row = 0; row < kTileRows; ++row) {
    KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) sums[row][vector] = Floats{};
  }
  if (product.factors != nullptr) {
    KPT_UNROLL for (int row = 0; row < kTileRows; ++row) {
      KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
        sums[row][vector] = load(product.c + row * product.c_stride + vector * kLanes) * product.factors[row];
      }
    }
  }
  const float* a = product.a;
  const float* b = product.b;
  for (std::int64_t step = 0; step < product.depth; ++step) {
    Floats right[kTileVectors];
    KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) right[vector] = load(b + vector * kLanes);
#if defined(__aarch64__)
    const float32x4_t low = vld1q_f32(a);
    const float32x4_t high = vld1q_f32(a + 4);
    KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
      sums[0][vector] = vfmaq_laneq_f32(sums[0][vector], right[vector], low, 0);
      sums[1][vector] = vfmaq_laneq_f32(sums[1][vector], right[vector], low, 1);
      sums[2][vector] = vfmaq_laneq_f32(sums[2][vector], right[vector], low, 2);
      sums[3][vector] = vfmaq_laneq_f32(sums[3][vector], right[vector], low, 3);
      sums[4][vector] = vfmaq_laneq_f32(sums[4][vector], right[vector], high, 0);
      sums[5][vector] = vfmaq_laneq_f32(sums[5][vector], right[vector], high, 1);
      sums[6][vector] = vfmaq_laneq_f32(sums[6][vector], right[vector], high, 2);
      sums[7][vector] = vfmaq_laneq_f32(sums[7][vector], right[vector], high, 3);
    }
#else
    KPT_UNROLL for (int row = 0; row < kTileRows; ++row) {
      const Floats left = splat(a[row]);
      KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) sums[row][vector] += left * right[vector];
    }
#endif
    a += product.a_stride;
    b += product.b_stride;
  }
  KPT_UNROLL for (int row = 0; row < kTileRows; ++row) {
    KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
      store(product.c + row * product.c_stride + vector * kLanes, sums[row][vector]);
    }
  }
}

// The bytes of an element of kernels::is_row_type(); here, so that no function shared with other files is compiled with
// this file's instructions.
inline std::int64_t size_of(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

using Quad [[gnu::vector_size(16)]] = float;
using LooseQuad [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;

// Four rows of `width` elements become columns: target[i · stride + row] = rows[row][i], zero for i in [width, depth).
inline void transpose_rows(const float* const (&rows)[4], std::int64_t width, std::int64_t depth, float* target,
                           std::int64_t stride) {
  std::int64_t index = 0;
  for (; index + 4 <= width; index += 4) {
    const Quad a = *reinterpret_cast<const LooseQuad*>(rows[0] + index);
    const Quad b = *reinterpret_cast<const LooseQuad*>(rows[1] + index);
    const Quad c = *reinterpret_cast<const LooseQuad*>(rows[2] + index);
    const Quad d = *reinterpret_cast<const LooseQuad*>(rows[3] + index);
    const Quad ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    const Quad ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    const Quad bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    const Quad bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    float* place = target + index * stride;
    *reinterpret_cast<LooseQuad*>(place) = __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5);
    *reinterpret_cast<LooseQuad*>(place + stride) = __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7);
    *reinterpret_cast<LooseQuad*>(place + 2 * stride) = __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5);
    *reinterpret_cast<LooseQuad*>(place + 3 * stride) = __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7);
  }
  for (; index < width; ++index) {
    for (int row = 0; row < 4; ++row) target[index * stride + row] = rows[row][index];
  }
  for (; index < depth; ++index) {
    for (int row = 0; row < 4; ++row) target[index * stride + row] = 0;
  }
}

// Rows of a matrix where they lie.
struct BlockRows {
  const char* data;
  std::int64_t row_stride;  // in elements
  std::int64_t step;
  DType dtype;
  bool plain;  // float32, one beside the other

  const float* row(std::int64_t index, std::int64_t width, float* buffer) const {
    const char* source = data + index * row_stride * size_of(dtype);
    if (plain) return reinterpret_cast<const float*>(source);
    load_row(source, dtype, step, width, buffer);
    return buffer;
  }
};

// products[i] = vector · row i, four rows at a time. `buffer`: memory for four rows, `pitch` elements apart.
inline void multiply_by_rows(const float* vector, std::int64_t width, const BlockRows& block, std::int64_t count,
                             float* buffer, std::int64_t pitch, float* products) {
  for (std::int64_t first = 0; first < count; first += 4) {
    const float* rows[4];
    for (std::int64_t lane = 0; lane < 4; ++lane) {
      const std::int64_t index = first + lane < count ? first + lane : count - 1;
      rows[lane] = block.row(index, width, buffer + lane * pitch);
    }
    Floats sums[4] = {};
    Floats more[4] = {};
    std::int64_t element = 0;
    for (; element + 2 * kLanes <= width; element += 2 * kLanes) {
      const Floats low = load(vector + element);
      const Floats high = load(vector + element + kLanes);
      for (int lane = 0; lane < 4; ++lane) {
        sums[lane] += low * load(rows[lane] + element);
        more[lane] += high * load(rows[lane] + element + kLanes);
      }
    }
    for (std::int64_t lane = 0; lane < 4 && first + lane < count; ++lane) {
      float sum = sum_of(sums[lane] + more[lane]);
      for (std::int64_t rest = element; rest < width; ++rest) sum += vector[rest] * rows[lane][rest];
      products[first + lane] = sum;
    }
  }
}

// sums[element] = factor · sums[element] + Σ weights[i] · row i[element] for so many vectors of elements.
template <std::size_t kVectors>
inline void add_columns(const float* weights, const BlockRows& block, std::int64_t count, float factor, float* sums,
                        std::int64_t column) {
  constexpr auto kCount = static_cast<std::int64_t>(kVectors);
  Floats totals[kVectors];
  for (std::int64_t vector = 0; vector < kCount; ++vector)
    totals[vector] = load(sums + column + vector * kLanes) * factor;
  const float* row = reinterpret_cast<const float*>(block.data) + column;
  for (std::int64_t index = 0; index < count; ++index, row += block.row_stride) {
    const Floats weight = splat(weights[index]);
    for (std::int64_t vector = 0; vector < kCount; ++vector) totals[vector] += weight * load(row + vector * kLanes);
  }
  for (std::int64_t vector = 0; vector < kCount; ++vector) store(sums + column + vector * kLanes, totals[vector]);
}

inline void add_rows_weighted(const float* weights, const BlockRows& block, std::int64_t count, std::int64_t width,
                              float factor, float* buffer, float* sums) {
  std::int64_t column = 0;
  if (block.plain) {
    for (; column + 16 * kLanes <= width; column += 16 * kLanes) {
      add_columns<16>(weights, block, count, factor, sums, column);
    }
    for (; column + 4 * kLanes <= width; column += 4 * kLanes) {
      add_columns<4>(weights, block, count, factor, sums, column);
    }
    for (; column + kLanes <= width; column += kLanes) {
      add_columns<1>(weights, block, count, factor, sums, column);
    }
  }
  if (column == width) return;
  for (std::int64_t element = column; element < width; ++element) sums[element] *= factor;
  for (std::int64_t index = 0; index < count; ++index) {
    const float* row = block.row(index, width, buffer);
    for (std::int64_t element = column; element < width; ++element) sums[element] += weights[index] * row[element];
  }
}

}  // namespace kpt::kernels::KPT_SIMD
