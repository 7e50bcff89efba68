// The gradients of norms over short rows; norm_backward_kernels.h says when they are taken.
#pragma once

#include "kernels/gpu/narrow_rows.h"
#include "kernels/gpu/norm_backward_rows.h"

namespace kpt::gpu {

inline constexpr Int32 kNarrowThreads = 256;  // the most of a block

// R rows as they were read, and what a lane keeps over all its rows.
template <typename T, int R>
struct NarrowGradients {
  Words gradient[R];
  Words input[R];
  BackwardStatistics of[R];
  float weight[kVector<T>];
  float weight_share[kVector<T>];
  float bias_share[kVector<T>];

  KPT_DEVICE void load(int r, bool has, const NormBackwardArgs& a, Int64 row, Int64 column) {
    const bool wanted = has && row < a.rows;
    gradient[r] = load_once(wanted, static_cast<const T*>(a.gradient), row * a.width + column);
    input[r] = load_once(wanted, static_cast<const T*>(a.input), row * a.width + column);
    of[r].load(row < a.rows, a, row);
  }

  // The parts of row r in its sums and in the shares.
  KPT_DEVICE void add_terms(int r, const Words& gradients, const Words& inputs, float& first, float& second) {
    float dy[kVector<T>];
    float y[kVector<T>];
    unpack<T>(gradients, dy);
    unpack<T>(inputs, y);
    KPT_UNROLL
    for (int i = 0; i < kVector<T>; ++i) {  // zeros where the row has ended
      y[i] = (y[i] - of[r].mean) * of[r].scale;
      first += dy[i] * weight[i];
      second += dy[i] * weight[i] * y[i];
      weight_share[i] += dy[i] * y[i];
      bias_share[i] += dy[i];
    }
  }

  KPT_DEVICE void store(int r, bool wanted, const NormBackwardArgs& a, Int64 place, const Words& gradients,
                        const Words& inputs, const Words& more, float first, float second) {
    const float scale = of[r].scale;
    const float of_input = -scale * (second * a.per_element * scale);
    const float rest = a.centered != 0 ? -first * a.per_element * scale : 0.0F;
    float dy[kVector<T>];
    float x[kVector<T>];
    float result[kVector<T>];
    unpack<T>(gradients, dy);
    unpack<T>(inputs, x);
    unpack<T>(more, result);
    KPT_UNROLL
    for (int i = 0; i < kVector<T>; ++i) {
      result[i] += dy[i] * (weight[i] * scale) + ((x[i] - of[r].mean) * of_input + rest);
    }
    store_packed<T>(wanted, static_cast<T*>(a.input_gradient) + place, result);
  }
};

// The block's share, from those of its lanes: over the wave by shuffles, over waves through `tile`.
template <typename T, int R, typename L>
KPT_DEVICE void store_narrow_share(const NormBackwardArgs& a, L& lane, const NarrowRows<R, L>& rows, float* tile,
                                   float (&share)[kVector<T>], float* shares) {
  if (shares == nullptr) return;
  for (Int32 mask = rows.lanes; mask < L::kWave; mask *= 2) {
    KPT_UNROLL
    for (int i = 0; i < kVector<T>; ++i) share[i] += lane.shuffle_xor(share[i], mask);
  }
  const auto width = static_cast<Int32>(a.width);
  lane.barrier();  // the tile may still be read
  if (rows.own == 0 && rows.has) {
    KPT_UNROLL
    for (int i = 0; i < kVector<T>; ++i) tile[lane.wave() * width + rows.access * kVector<T> + i] = share[i];
  }
  lane.barrier();
  for (Int32 column = lane.thread(); column < width; column += a.threads) {
    float total = tile[column];
    for (Int32 wave = 1; wave < a.threads / L::kWave; ++wave) total += tile[wave * width + column];
    shares[lane.block() * a.width + column] = total;
  }
}

// R rows for each lane, one access of each. The next ones are read as the present ones leave their registers.
template <typename T, int R, typename L>
KPT_DEVICE void norm_backward_narrow(const NormBackwardArgs& a, L& lane) {
  KPT_SHARED(lane, float, tile, kNarrowThreads* kVector<T>);
  const Int32 waves = a.threads / L::kWave;
  NarrowRows<R, L> rows(lane, lane.block() * waves + lane.wave(), a.row_threads, a.width / kVector<T>);
  const Int64 column = rows.access * kVector<T>;
  const Int64 step = a.blocks * waves * rows.at_once();
  NarrowGradients<T, R> r;
  load_narrow_parameters<T>(rows.has && a.weight != nullptr, a.weight, a.weight_is_float != 0, column, true, r.weight);
  KPT_UNROLL
  for (int i = 0; i < kVector<T>; ++i) r.weight_share[i] = r.bias_share[i] = 0;
  KPT_UNROLL
  for (int i = 0; i < R; ++i) r.load(i, rows.has, a, rows.row(i), column);
  for (; rows.first < a.rows; rows.first += step) {  // the same for the whole wave
    Words more[R];
    float first[R];
    float second[R];
    KPT_UNROLL
    for (int i = 0; i < R; ++i) {
      const bool wanted = rows.has && rows.row(i) < a.rows && a.sum_gradient != nullptr;
      more[i] = load_once(wanted, static_cast<const T*>(a.sum_gradient), rows.row(i) * a.width + column);
      first[i] = second[i] = 0;
    }
    KPT_UNROLL
    for (int i = 0; i < R; ++i) r.add_terms(i, r.gradient[i], r.input[i], first[i], second[i]);
    narrow_sums(lane, rows.lanes, first);
    narrow_sums(lane, rows.lanes, second);
    KPT_UNROLL
    for (int i = 0; i < R; ++i) {
      const Int64 row = rows.row(i);
      r.store(i, rows.has && row < a.rows, a, row * a.width + column, packed_again(r.gradient[i]),
              packed_again(r.input[i]), more[i], first[i], second[i]);
      r.load(i, rows.has, a, row + step, column);
    }
  }
  store_narrow_share<T>(a, lane, rows, tile, r.weight_share, a.weight_shares);
  store_narrow_share<T>(a, lane, rows, tile, r.bias_share, a.bias_shares);
}

}  // namespace kpt::gpu
