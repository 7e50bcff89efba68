// The gradients of norms over rows that come through shared memory; norm_backward_staged_kernels.h says what they are
// made for.
#pragma once

#include "kernels/gpu/norm_backward_narrow.h"
#include "kernels/gpu/norm_backward_rows.h"
#include "kernels/gpu/staged_copy.h"

namespace kpt::gpu {

inline constexpr Int32 kMostStages = 3;

// Tensors that a row is read from.
KPT_DEVICE Int32 staged_tensors(const NormBackwardArgs& a) { return a.sum_gradient == nullptr ? 2 : 3; }

// Starts to copy a lane's part of a row, one access of each tensor a wave's width apart.
template <typename T, int C, typename L>
KPT_DEVICE void start_pass(const NormBackwardArgs& a, bool wanted, Words* slots, int pass, Int64 place) {
  start_copy(wanted, slots + pass * L::kWave, static_cast<const T*>(a.gradient), place);
  start_copy(wanted, slots + (C + pass) * L::kWave, static_cast<const T*>(a.input), place);
  if (a.sum_gradient == nullptr) return;
  start_copy(wanted, slots + (2 * C + pass) * L::kWave, static_cast<const T*>(a.sum_gradient), place);
}

// A row whose copies have come; then its slots are filled with the row `ahead`.
template <typename P, typename T, int C, typename L>
KPT_DEVICE void staged_row(const NormBackwardArgs& a, L& lane, const RowPart<C, L>& part, Int64 row, Int64 ahead,
                           float* scratch, Words* slots, BackwardRow<T, C>& r) {
  Sums sums{0, 0};
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    r.gradient[pass] = read_slot(slots + pass * L::kWave);
    r.input[pass] = read_slot(slots + (C + pass) * L::kWave);
    add_terms<P>(a, pass, part.has(pass), part.access(pass) * kVector<T>, r, sums);
  }
  const GradientTerms terms = gradient_terms(a, lane, scratch, sums, r.mean, r.scale);
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 column = part.access(pass) * kVector<T>;
    const Words gradient = read_slot(slots + pass * L::kWave);
    const Words input = read_slot(slots + (C + pass) * L::kWave);
    Words more{};
    if (a.sum_gradient != nullptr) more = read_slot(slots + (2 * C + pass) * L::kWave);
    store_gradient<P, T>(a, row < a.rows && part.has(pass), column, row * a.width + column, gradient, input, more,
                         terms);
    start_pass<T, C, L>(a, ahead < a.rows && part.has(pass), slots, pass, ahead * a.width + column);
  }
  end_copy_group();
}

template <typename P, typename T, int C, typename L>
KPT_DEVICE void staged_rows(const NormBackwardArgs& a, L& lane, const RowPart<C, L>& part, Int32 group, Int32 groups,
                            float* scratch, Words* own, BackwardRow<T, C>& r) {
  const Int32 stage_words = staged_tensors(a) * C * L::kWave;
  const Int64 row_step = a.blocks * groups;
  const Int64 first = lane.block() * groups;
  Int64 ahead = first + group;
  for (Int32 stage = 0; stage < a.stages; ++stage) {
    KPT_UNROLL
    for (int pass = 0; pass < C; ++pass) {
      start_pass<T, C, L>(a, ahead < a.rows && part.has(pass), own + stage * stage_words, pass,
                          ahead * a.width + part.access(pass) * kVector<T>);
    }
    end_copy_group();
    ahead += row_step;
  }
  r.load_statistics(first + group < a.rows, a, first + group);
  Int32 turn = 0;
  Int32 stage = 0;
  for (Int64 row = first; row < a.rows; row += row_step) {
    // Those of the next row are under way while this one is computed.
    BackwardStatistics next;
    next.load(row + group + row_step < a.rows, a, row + group + row_step);
    wait_for_copies(a.stages - 1);
    staged_row<P>(a, lane, part, row + group, row + group + a.stages * row_step, scratch + turn * 2 * kMaxWaves,
                  own + stage * stage_words, r);
    r.mean = next.mean;
    r.scale = next.scale;
    stage = stage + 1 == a.stages ? 0 : stage + 1;
    turn ^= 1;
  }
  wait_for_copies(0);
}

// C accesses of a row for each lane, a.stages rows of which are under way or in use.
template <typename T, int C, typename L>
KPT_DEVICE void norm_backward_staged(const NormBackwardArgs& a, L& lane) {
  KPT_SHARED(lane, float, scratch, 4 * kMaxWaves);
  KPT_SHARED_AT_LAUNCH(lane, Words, slots, a.stages * staged_tensors(a) * C * a.threads);
  const Int32 waves = a.row_threads / L::kWave;
  const Int32 group = lane.wave() / waves;
  const Int32 groups = a.threads / L::kWave / waves;
  const RowPart<C, L> part(lane, lane.wave() - group * waves, a.width / kVector<T>);
  Words* own = slots + lane.wave() * (a.stages * staged_tensors(a) * C * L::kWave) + lane.lane();
  BackwardRow<T, C> r;
  r.clear_shares();
  if (a.weight_is_float != 0) {
    staged_rows<float>(a, lane, part, group, groups, scratch, own, r);
  } else {
    staged_rows<T>(a, lane, part, group, groups, scratch, own, r);
  }
  // A stage has room for the shares of all groups.
  auto* tile = reinterpret_cast<float*>(slots);
  const Int32 room = groups * static_cast<Int32>(a.width);
  store_share<T>(a, lane, part, group, groups, tile, room, r.weight_share, a.weight_shares);
  store_share<T>(a, lane, part, group, groups, tile, room, r.bias_share, a.bias_shares);
}

// Starts to copy a lane's part of a row.
template <typename T, int R, typename L>
KPT_DEVICE void start_narrow(const NormBackwardArgs& a, const NarrowRows<R, L>& rows, Words* slots, int r, Int64 row) {
  const bool wanted = rows.has && row < a.rows;
  const Int64 place = row * a.width + rows.access * kVector<T>;
  start_copy(wanted, slots + r * L::kWave, static_cast<const T*>(a.gradient), place);
  start_copy(wanted, slots + (R + r) * L::kWave, static_cast<const T*>(a.input), place);
  if (a.sum_gradient == nullptr) return;
  start_copy(wanted, slots + (2 * R + r) * L::kWave, static_cast<const T*>(a.sum_gradient), place);
}

// The rows whose copies have come; then their slots are filled with those that are `ahead` rows on.
template <typename T, int R, typename L>
KPT_DEVICE void staged_narrow_rows(const NormBackwardArgs& a, L& lane, const NarrowRows<R, L>& rows, Int64 ahead,
                                   Words* slots, NarrowGradients<T, R>& r) {
  float first[R];
  float second[R];
  KPT_UNROLL
  for (int i = 0; i < R; ++i) {
    first[i] = second[i] = 0;
    const Words gradient = read_slot(slots + i * L::kWave);
    r.add_terms(i, gradient, read_slot(slots + (R + i) * L::kWave), first[i], second[i]);
  }
  narrow_sums(lane, rows.lanes, first);
  narrow_sums(lane, rows.lanes, second);
  KPT_UNROLL
  for (int i = 0; i < R; ++i) {
    const Int64 row = rows.row(i);
    const Words gradient = read_slot(slots + i * L::kWave);
    const Words input = read_slot(slots + (R + i) * L::kWave);
    Words more{};
    if (a.sum_gradient != nullptr) more = read_slot(slots + (2 * R + i) * L::kWave);
    r.store(i, rows.has && row < a.rows, a, row * a.width + rows.access * kVector<T>, gradient, input, more, first[i],
            second[i]);
    start_narrow<T>(a, rows, slots, i, row + ahead);
  }
  end_copy_group();
}

// Like norm_backward_narrow, with the rows in shared memory or on their way there.
template <typename T, int R, typename L>
KPT_DEVICE void norm_backward_narrow_staged(const NormBackwardArgs& a, L& lane) {
  const Int32 tensors = staged_tensors(a);
  KPT_SHARED_AT_LAUNCH(lane, Words, slots, a.stages * tensors * R * a.threads);
  const Int32 waves = a.threads / L::kWave;
  NarrowRows<R, L> rows(lane, lane.block() * waves + lane.wave(), a.row_threads, a.width / kVector<T>);
  const Int64 column = rows.access * kVector<T>;
  const Int64 step = a.blocks * waves * rows.at_once();
  const Int32 stage_words = tensors * R * L::kWave;
  Words* own = slots + lane.wave() * (a.stages * stage_words) + lane.lane();
  NarrowGradients<T, R> r;
  for (Int32 stage = 0; stage < a.stages; ++stage) {
    KPT_UNROLL
    for (int i = 0; i < R; ++i) start_narrow<T>(a, rows, own + stage * stage_words, i, rows.row(i) + stage * step);
    end_copy_group();
  }
  load_narrow_parameters<T>(rows.has && a.weight != nullptr, a.weight, a.weight_is_float != 0, column, true, r.weight);
  KPT_UNROLL
  for (int i = 0; i < kVector<T>; ++i) r.weight_share[i] = r.bias_share[i] = 0;
  KPT_UNROLL
  for (int i = 0; i < R; ++i) r.of[i].load(rows.row(i) < a.rows, a, rows.row(i));
  Int32 stage = 0;
  for (; rows.first < a.rows; rows.first += step) {  // the same for the whole wave
    BackwardStatistics next[R];
    KPT_UNROLL
    for (int i = 0; i < R; ++i) next[i].load(rows.row(i) + step < a.rows, a, rows.row(i) + step);
    wait_for_copies(a.stages - 1);
    staged_narrow_rows(a, lane, rows, a.stages * step, own + stage * stage_words, r);
    KPT_UNROLL
    for (int i = 0; i < R; ++i) r.of[i] = next[i];
    stage = stage + 1 == a.stages ? 0 : stage + 1;
  }
  wait_for_copies(0);
  // A stage has room for the shares of all waves.
  auto* tile = reinterpret_cast<float*>(slots);
  store_narrow_share<T>(a, lane, rows, tile, r.weight_share, a.weight_shares);
  store_narrow_share<T>(a, lane, rows, tile, r.bias_share, a.bias_shares);
}

}  // namespace kpt::gpu
