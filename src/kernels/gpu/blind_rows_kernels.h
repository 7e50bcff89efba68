// Rows of attention that may look nowhere become zeros, in place.
//
// Intensity: a comparison for each code of 2 bytes, with its wave's vote 1.3 instructions a byte by gfx942's code. An
// MI300X has 7.7 for each byte that it can move (5.3 TB/s): memory and its latency are the limit. A wave looks at a row
// of the mask until it finds a key that takes part, which most rows have among the first, and writes only where it
// finds none. Heads that share the mask are one wave's; queries and batches that share it are not, so that many waves
// write where a whole batch is hidden.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

// Rows of the mask are [batches, heads of the mask, queries], the last fastest.
struct BlindRowsArgs {
  const UInt16* mask;
  UInt16* result;
  Int64 rows, keys, width;
  Int64 mask_heads, queries;
  Int64 shared_heads;                                                             // that one row of the mask is for
  Int64 mask_batch_stride, mask_head_stride, mask_query_stride, mask_key_stride;  // 0 where the mask is broadcast
  Int64 result_batch_stride, result_head_stride, result_query_stride;
  Int32 hidden;          // the code of -infinity
  Int32 mask_vectors;    // 16 bytes at a time
  Int32 result_vectors;  // likewise
  Int32 threads;
};

// Whether a lane's keys of one turn of the wave have one that takes part.
template <int V, int C, typename L>
KPT_DEVICE bool sees_a_key(const BlindRowsArgs& a, const UInt16* mask, Int64 first, L& lane) {
  bool sees = false;
  KPT_UNROLL
  for (int pass = 0; pass < C; ++pass) {
    const Int64 key = first + (pass * L::kWave + lane.lane()) * V;
    if (key >= a.keys) continue;
    UInt16 codes[V];
    if constexpr (V == 1) {
      codes[0] = mask[key * a.mask_key_stride];
    } else {
      load_values<V>(mask + key, codes);
    }
    KPT_UNROLL
    for (int i = 0; i < V; ++i) sees = sees || codes[i] != static_cast<UInt16>(a.hidden);
  }
  return sees;
}

// The same answer in every lane of the wave.
template <int V, int C, typename L>
KPT_DEVICE bool is_blind(const BlindRowsArgs& a, const UInt16* mask, L& lane) {
  for (Int64 first = 0; first < a.keys; first += C * L::kWave * V) {
    if (wave_max(lane, sees_a_key<V, C>(a, mask, first, lane) ? 1.0F : 0.0F) > 0) return false;
  }
  return true;
}

template <int V, typename L>
KPT_DEVICE void clear_heads(const BlindRowsArgs& a, UInt16* result, L& lane) {
  const Int64 per_head = divide(a.width, V);
  const UInt16 zeros[V] = {};
  for (Int64 item = lane.lane(); item < a.shared_heads * per_head; item += L::kWave) {
    const Int64 head = divide(item, per_head);
    store_values<V>(result + head * a.result_head_stride + (item - head * per_head) * V, zeros);
  }
}

template <typename L>
KPT_DEVICE void clear_blind_rows(const BlindRowsArgs& a, L& lane) {
  constexpr int kWide = kVector<UInt16>;
  const Int64 row = lane.block() * (a.threads / L::kWave) + lane.wave();
  if (row >= a.rows) return;  // the same for the wave
  const Int64 outer = divide(row, a.queries);
  const Int64 query = row - outer * a.queries;
  const Int64 batch = divide(outer, a.mask_heads);
  const Int64 head = outer - batch * a.mask_heads;
  const UInt16* mask = a.mask + batch * a.mask_batch_stride + head * a.mask_head_stride + query * a.mask_query_stride;
  if (!(a.mask_vectors != 0 ? is_blind<kWide, 2>(a, mask, lane) : is_blind<1, 4>(a, mask, lane))) return;
  UInt16* result =
      a.result + batch * a.result_batch_stride + head * a.result_head_stride + query * a.result_query_stride;
  if (a.result_vectors != 0) {
    clear_heads<kWide>(a, result, lane);
  } else {
    clear_heads<1>(a, result, lane);
  }
}

// X(name, arguments, most threads in a block, body)
#define KPT_BLIND_ROWS_KERNELS(X) X(blind_rows_b16, BlindRowsArgs, 256, clear_blind_rows)

}  // namespace kpt::gpu
