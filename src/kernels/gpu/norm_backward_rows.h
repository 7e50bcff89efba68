// The gradients of norms over rows that are held in registers; norm_backward_kernels.h says what they are made for.
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/row_part.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// All tensors are rows of `width` without gaps. With x the norm's input, y = (x - mean) · scale and g = gradient ·
// weight: input_gradient = scale · (g - average(g) - y · average(g · y)) + sum_gradient, without average(g) for
// RMSNorm.
struct NormBackwardArgs {
  const void* gradient;
  const void* input;
  const void* weight;  // null: ones
  const float* mean;   // null for RMSNorm
  const float* scale;
  const void* sum_gradient;  // arrives at the sum by the residual's way; null: none
  void* input_gradient;
  float* weight_shares;  // [blocks, width]; null: not wanted
  float* bias_shares;    // likewise
  Int64 rows, width;
  Int64 blocks;
  float per_element;  // 1 / width
  Int32 row_threads;  // threads that share a row
  Int32 stages;       // norm_backward_staged: rows that shared memory has room for
  Int32 centered;
  Int32 weight_is_float;
  Int32 threads;
};

// Both sums over the waves first … first + waves - 1 of the block, which share a row, by one barrier of the block.
// `scratch`: 2 · kMaxWaves floats; see block_sum().
template <typename L>
KPT_DEVICE Sums row_sums(L& lane, Sums sums, float* scratch, Int32 first, Int32 waves) {
  sums = wave_sums(lane, sums);
  if (waves == 1) return sums;
  if (lane.lane() == 0) {
    scratch[2 * lane.wave()] = sums.first;
    scratch[2 * lane.wave() + 1] = sums.second;
  }
  lane.barrier();
  Sums of_wave{0, 0};
  if (lane.lane() < waves) {
    of_wave.first = scratch[2 * (first + lane.lane())];
    of_wave.second = scratch[2 * (first + lane.lane()) + 1];
  }
  return wave_sums(lane, of_wave);
}

struct BackwardStatistics {
  float mean, scale;
  KPT_DEVICE void load(bool wanted, const NormBackwardArgs& a, Int64 row) {
    mean = wanted && a.centered != 0 ? a.mean[row] : 0.0F;
    scale = wanted ? a.scale[row] : 0.0F;
  }
};

// A row as it was read, and what a lane keeps over all its rows.
template <typename T, int C>
struct BackwardRow {
  Words gradient[C];
  Words input[C];
  float mean, scale;
  float weight_share[C][kVector<T>];
  float bias_share[C][kVector<T>];

  KPT_DEVICE void load(int pass, bool wanted, const NormBackwardArgs& a, Int64 place) {
    gradient[pass] = load_once(wanted, static_cast<const T*>(a.gradient), place);
    input[pass] = load_once(wanted, static_cast<const T*>(a.input), place);
  }
  KPT_DEVICE void load_statistics(bool wanted, const NormBackwardArgs& a, Int64 row) {
    BackwardStatistics statistics;
    statistics.load(wanted, a, row);
    mean = statistics.mean;
    scale = statistics.scale;
  }
  KPT_DEVICE void clear_shares() {
    KPT_UNROLL
    for (int pass = 0; pass < C; ++pass) {
      KPT_UNROLL
      for (int i = 0; i < kVector<T>; ++i) weight_share[pass][i] = bias_share[pass][i] = 0;
    }
  }
};

// The part of `pass` in the row's sums and in the shares. P: the weight's type.
template <typename P, typename T, int C>
KPT_DEVICE void add_terms(const NormBackwardArgs& a, int pass, bool wanted, Int64 column, BackwardRow<T, C>& r,
                          Sums& sums) {
  float gradient[kVector<T>];
  float y[kVector<T>];
  float g[kVector<T>];
  unpack<T>(r.gradient[pass], gradient);
  unpack<T>(r.input[pass], y);
  load_of_all_rows(wanted && a.weight != nullptr, static_cast<const P*>(a.weight), column, word_of_ones(P{}), g);
  KPT_UNROLL
  for (int i = 0; i < kVector<T>; ++i) {  // zeros where the row has ended
    y[i] = (y[i] - r.mean) * r.scale;
    g[i] *= gradient[i];
    sums.first += g[i];
    sums.second += g[i] * y[i];
    r.weight_share[pass][i] += gradient[i] * y[i];
    r.bias_share[pass][i] += gradient[i];
  }
}

// The input's gradient is gradient · weight · scale + (input - mean) · of_input + rest.
struct GradientTerms {
  float scale, mean, of_input, rest;
};

// `more`: the words of sum_gradient, or zeros.
template <typename P, typename T>
KPT_DEVICE void store_gradient(const NormBackwardArgs& a, bool wanted, Int64 column, Int64 place,
                               const Words& gradients, const Words& inputs, const Words& more, GradientTerms terms) {
  float gradient[kVector<T>];
  float input[kVector<T>];
  float weight[kVector<T>];
  float result[kVector<T>];
  unpack<T>(more, result);
  load_of_all_rows(wanted && a.weight != nullptr, static_cast<const P*>(a.weight), column, word_of_ones(P{}), weight);
  unpack<T>(gradients, gradient);
  unpack<T>(inputs, input);
  KPT_UNROLL
  for (int i = 0; i < kVector<T>; ++i) {
    result[i] += gradient[i] * (weight[i] * terms.scale) + ((input[i] - terms.mean) * terms.of_input + terms.rest);
  }
  store_packed<T>(wanted, static_cast<T*>(a.input_gradient) + place, result);
}

// From a lane's part of the sums, those of its row.
template <typename L>
KPT_DEVICE GradientTerms gradient_terms(const NormBackwardArgs& a, L& lane, float* scratch, Sums sums, float mean,
                                        float scale) {
  const Int32 waves = a.row_threads / L::kWave;
  sums = row_sums(lane, sums, scratch, lane.wave() / waves * waves, waves);
  const float first = a.centered != 0 ? sums.first * a.per_element * scale : 0.0F;
  const float second = sums.second * a.per_element * scale;
  return {scale, mean, -scale * second, -first};
}

// A row: its part of the shares and its gradient. r becomes the row that is `row_step` rows on, if there is one.
template <typename P, typename T, int C, typename L>
KPT_DEVICE void backward_row(const NormBackwardArgs& a, L& lane, const RowPart<C, L>& part, Int64 row, Int64 row_step,
                             float* scratch, BackwardRow<T, C>& r) {
  Sums sums{0, 0};
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    add_terms<P>(a, pass, part.has(pass), part.access(pass) * kVector<T>, r, sums);
  }
  const GradientTerms terms = gradient_terms(a, lane, scratch, sums, r.mean, r.scale);
  const bool has_next = row + row_step < a.rows;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = part.access(pass) * kVector<T>;
    const Int64 place = row * a.width + column;
    const bool wanted = row < a.rows && part.has(pass);
    const Words more = load_once(wanted && a.sum_gradient != nullptr, static_cast<const T*>(a.sum_gradient), place);
    store_gradient<P, T>(a, wanted, column, place, packed_again(r.gradient[pass]), packed_again(r.input[pass]), more,
                         terms);
    r.load(pass, has_next && part.has(pass), a, place + row_step * a.width);
  }
  r.load_statistics(has_next, a, row + row_step);
}

inline constexpr Int32 kShareTile = 4096;

// The block's share, from those of its `groups` of threads that had rows of their own: through `tile` of `room` floats,
// as many groups at once as it holds.
template <typename T, int C, typename L>
KPT_DEVICE void store_share(const NormBackwardArgs& a, L& lane, const RowPart<C, L>& part, Int32 group, Int32 groups,
                            float* tile, Int32 room, const float (&share)[C][kVector<T>], float* shares) {
  if (shares == nullptr) return;
  float* target = shares + lane.block() * a.width;
  if (groups == 1) {
    KPT_UNROLL
    for (int pass = 0; pass < C; ++pass) {
      if (part.has(pass)) store_floats<kVector<T>>(target + part.access(pass) * kVector<T>, share[pass]);
    }
    return;
  }
  const auto width = static_cast<Int32>(a.width);
  const Int32 at_once = room / width;  // at least one: see the plan
  lane.barrier();                      // the tile may still be read
  for (Int32 begin = 0; begin < groups; begin += at_once) {
    if (group >= begin && group < begin + at_once) {
      KPT_UNROLL
      for (int pass = 0; pass < C; ++pass) {
        if (!part.has(pass)) continue;
        float* place = tile + (group - begin) * width + part.access(pass) * kVector<T>;
        KPT_UNROLL
        for (int i = 0; i < kVector<T>; ++i) place[i] = share[pass][i] + (begin == 0 ? 0.0F : place[i]);
      }
    }
    lane.barrier();
  }
  const Int32 parts = groups < at_once ? groups : at_once;
  for (Int32 column = lane.thread(); column < width; column += a.threads) {
    float total = tile[column];
    for (Int32 other = 1; other < parts; ++other) total += tile[other * width + column];
    target[column] = total;
  }
}

template <typename P, typename T, int C, typename L>
KPT_DEVICE void backward_rows(const NormBackwardArgs& a, L& lane, const RowPart<C, L>& part, Int32 group, Int32 groups,
                              float* scratch, BackwardRow<T, C>& r) {
  const Int64 row_step = a.blocks * groups;
  const Int64 first = lane.block() * groups;
  const bool has_first = first + group < a.rows;
  r.load_statistics(has_first, a, first + group);
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    r.load(pass, has_first && part.has(pass), a, (first + group) * a.width + part.access(pass) * kVector<T>);
  }
  Int32 turn = 0;
  for (Int64 row = first; row < a.rows; row += row_step) {
    backward_row<P>(a, lane, part, row + group, row_step, scratch + turn * 2 * kMaxWaves, r);
    turn ^= 1;
  }
}

// C accesses of a row for each lane.
template <typename T, int C, typename L>
KPT_DEVICE void norm_backward_rows(const NormBackwardArgs& a, L& lane) {
  // Two in turn: the next row's sums are written while a slow wave still reads this row's.
  KPT_SHARED(lane, float, scratch, 4 * kMaxWaves);
  KPT_SHARED(lane, float, tile, kShareTile);
  const Int32 waves = a.row_threads / L::kWave;
  const Int32 group = lane.wave() / waves;
  const Int32 groups = a.threads / L::kWave / waves;
  const RowPart<C, L> part(lane, lane.wave() - group * waves, a.width / kVector<T>);
  BackwardRow<T, C> r;
  r.clear_shares();
  if (a.weight_is_float != 0) {
    backward_rows<float>(a, lane, part, group, groups, scratch, r);
  } else {
    backward_rows<T>(a, lane, part, group, groups, scratch, r);
  }
  store_share<T>(a, lane, part, group, groups, tile, kShareTile, r.weight_share, a.weight_shares);
  store_share<T>(a, lane, part, group, groups, tile, kShareTile, r.bias_share, a.bias_shares);
}

}  // namespace kpt::gpu
