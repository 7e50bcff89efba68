// Scores of attention become weights: the part of the softmax that a tile of keys allows. attention_forward.h has the
// kernel.
#pragma once

#include "kernels/gpu/attention_tile.h"

namespace kpt::gpu {

inline constexpr float kLog2E = 1.44269504F;

// Over the lanes that hold scores of one query.
template <typename L>
KPT_DEVICE float query_max(L& lane, float value) {
  KPT_UNROLL
  for (Int32 mask = 16; mask < L::kWave; mask *= 2) value = greater_of(value, lane.shuffle_xor(value, mask));
  return value;
}
template <typename L>
KPT_DEVICE float query_sum(L& lane, float value) {
  KPT_UNROLL
  for (Int32 mask = 16; mask < L::kWave; mask *= 2) value += lane.shuffle_xor(value, mask);
  return value;
}

// What a lane knows of one of its queries.
struct AttentionQuery {
  Int64 mask_place;  // of its row
  Int32 visible;     // keys before this one take part; 0 for queries that there are not
  float greatest, total;
};

// Adds the mask to scaled scores, or takes out what it leaves out. Beyond the last key it reads that one's again.
template <typename Unit, typename T, MaskKind Kind, int Tiles, typename L>
KPT_DEVICE void apply_mask(const AttentionArgs& a, Int64 place, Int32 first_key, L& lane,
                           float (&scores)[Tiles][Unit::kSums]) {
  const Int32 last = static_cast<Int32>(a.keys) - 1;
  KPT_UNROLL
  for (int t = 0; t < Tiles; ++t) {
    KPT_UNROLL
    for (int r = 0; r < Unit::kSums; ++r) {
      const Int32 key = first_key + 16 * t + Unit::row_of(lane.lane(), r);
      scores[t][r] = masked<T>(Kind, a.mask, place + (key < last ? key : last), scores[t][r]);
    }
  }
}

// Scores become weights; gives the factor of what was summed before.
template <typename Unit, typename T, int Tiles, typename L>
KPT_DEVICE float weigh(const AttentionArgs& a, Int32 first_key, L& lane, AttentionQuery& query,
                       float (&scores)[Tiles][Unit::kSums]) {
  KPT_UNROLL
  for (int t = 0; t < Tiles; ++t) {
    KPT_UNROLL
    for (int r = 0; r < Unit::kSums; ++r) scores[t][r] *= a.scale;
  }
  if (a.mask_kind == MaskKind::kKept) {
    apply_mask<Unit, T, MaskKind::kKept>(a, query.mask_place, first_key, lane, scores);
  } else if (a.mask_kind == MaskKind::kAdded) {
    apply_mask<Unit, T, MaskKind::kAdded>(a, query.mask_place, first_key, lane, scores);
  } else if (a.mask_kind == MaskKind::kAddedFloat) {
    apply_mask<Unit, T, MaskKind::kAddedFloat>(a, query.mask_place, first_key, lane, scores);
  }
  float greatest = query.greatest;
  KPT_UNROLL
  for (int t = 0; t < Tiles; ++t) {
    KPT_UNROLL
    for (int r = 0; r < Unit::kSums; ++r) {
      const bool visible = 16 * t + Unit::row_of(lane.lane(), r) < query.visible - first_key;
      scores[t][r] = visible ? scores[t][r] * kLog2E : -infinity();
      greatest = greater_of(greatest, scores[t][r]);
    }
  }
  greatest = query_max(lane, greatest);
  // Nothing takes part so far: any finite number makes every weight 0.
  const float base = greatest == -infinity() ? 0.0F : greatest;
  const float factor = power_2(query.greatest - base);
  float total = query.total * factor;
  KPT_UNROLL
  for (int t = 0; t < Tiles; ++t) {
    KPT_UNROLL
    for (int r = 0; r < Unit::kSums; ++r) {
      scores[t][r] = power_2(scores[t][r] - base);
      total += scores[t][r];
    }
  }
  query.greatest = greatest;
  query.total = total;
  return factor;
}

}  // namespace kpt::gpu
