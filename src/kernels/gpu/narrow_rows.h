// Rows that some of a wave's lanes hold, one access each, several rows for each lane at once.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// `lanes` (a power of two) share a row; a lane has R rows, which lie so that a wave reads one piece of memory at once.
template <int R, typename L>
struct NarrowRows {
  Int32 lanes, access, of_wave;
  Int64 first;  // the wave's first row, this lane's of R rows stand of_wave apart from first + own
  Int32 own;
  bool has;  // whether the row reaches to this lane
  // `wave`: of all waves of all blocks.
  KPT_DEVICE NarrowRows(L& lane, Int64 wave, Int32 row_lanes, Int64 accesses)
      : lanes(row_lanes),
        access(lane.lane() & (row_lanes - 1)),
        of_wave(L::kWave / row_lanes),
        first(wave * (L::kWave / row_lanes) * R),
        own(lane.lane() / row_lanes),
        has(access < accesses) {}
  KPT_DEVICE Int32 at_once() const { return of_wave * R; }  // rows of a wave
  KPT_DEVICE Int64 row(int index) const { return first + own + index * of_wave; }
};

// Of each of R values, its sum over the lanes that share a row.
template <int R, typename L>
KPT_DEVICE void narrow_sums(L& lane, Int32 lanes, float (&values)[R]) {
  KPT_UNROLL
  for (Int32 mask = L::kWave / 2; mask > 0; mask /= 2) {
    if (mask >= lanes) continue;
    float others[R];
    KPT_UNROLL
    for (int r = 0; r < R; ++r) others[r] = lane.shuffle_xor(values[r], mask);
    KPT_UNROLL
    for (int r = 0; r < R; ++r) values[r] += others[r];
  }
}

// Weight or bias of a lane's columns, of type T or float32.
template <typename T>
KPT_DEVICE void load_narrow_parameters(bool wanted, const void* source, bool is_float, Int64 column, bool ones,
                                       float (&values)[kVector<T>]) {
  if (is_float) {
    load_of_all_rows(wanted, static_cast<const float*>(source), column, ones ? word_of_ones(float{}) : 0U, values);
  } else {
    load_of_all_rows(wanted, static_cast<const T*>(source), column, ones ? word_of_ones(T{}) : 0U, values);
  }
}

}  // namespace kpt::gpu
