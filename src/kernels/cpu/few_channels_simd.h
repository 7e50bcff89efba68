// The loops of conv_few_channels.cpp, compiled once for each instruction set (simd_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/few_channels_row.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/unroll.h"

namespace kpt::kernels::KPT_SIMD {

// Sums of kPlaces neighbours and kVectors vectors of channels from `channel` on. A number of the input meets all the
// vectors, a vector of the filter all places.
template <std::size_t kPlaces, std::size_t kVectors>
inline void sum_places(const FewChannelsRow& row, std::int64_t place, std::int64_t channel) {
  Floats sums[kPlaces][kVectors];
  KPT_UNROLL for (std::size_t vector = 0; vector < kVectors; ++vector) {
    const Floats bias = load(row.bias + channel + static_cast<std::int64_t>(vector) * kLanes);
    KPT_UNROLL for (std::size_t at = 0; at < kPlaces; ++at) sums[at][vector] = bias;
  }
  const float* lines = row.lines + place * row.step;
  const std::int64_t group = channel / kFilterGroup * kFilterGroup;
  const std::int64_t width = row.channels - group < kFilterGroup ? row.channels - group : kFilterGroup;
  const float* filters = row.filters + group * row.tap_count + channel - group;
  for (std::int64_t tap = 0; tap < row.tap_count; ++tap, filters += width) {
    const float* input = lines + row.taps[tap];
    Floats filter[kVectors];
    KPT_UNROLL for (std::size_t vector = 0; vector < kVectors; ++vector) {
      filter[vector] = load(filters + static_cast<std::int64_t>(vector) * kLanes);
    }
    KPT_UNROLL for (std::size_t at = 0; at < kPlaces; ++at) {
      const Floats value = splat(input[static_cast<std::int64_t>(at) * row.step]);
      KPT_UNROLL for (std::size_t vector = 0; vector < kVectors; ++vector) sums[at][vector] += value * filter[vector];
    }
  }
  const Floats least = splat(row.limits.least);
  const Floats greatest = splat(row.limits.greatest);
  KPT_UNROLL for (std::size_t at = 0; at < kPlaces; ++at) {
    float* target = row.sums + (place + static_cast<std::int64_t>(at)) * row.channels + channel;
    KPT_UNROLL for (std::size_t vector = 0; vector < kVectors; ++vector) {
      Floats sum = sums[at][vector];
      sum = sum < least ? least : sum;
      store(target + static_cast<std::int64_t>(vector) * kLanes, sum > greatest ? greatest : sum);
    }
  }
}

template <std::size_t kVectors>
inline void sum_group(const FewChannelsRow& row, std::int64_t channel) {
  // With their vectors of the filter and one of the input they fit into the registers of AVX2 and AVX-512.
  constexpr std::int64_t kMost = kLanes == 16 ? 8 : 4;
  std::int64_t place = 0;
  for (; place + kMost <= row.places; place += kMost) {
    sum_places<static_cast<std::size_t>(kMost), kVectors>(row, place, channel);
  }
  for (; place + 2 <= row.places; place += 2) sum_places<2, kVectors>(row, place, channel);
  if (place < row.places) sum_places<1, kVectors>(row, place, channel);
}

static_assert(kFilterGroup % (2 * kLanes) == 0 && kLeastOutChannels % kLanes == 0);

// The filters of a group of channels meet the whole row: those of 7 x 7 places and three channels stay in L1.
inline void sum_few_channels(const FewChannelsRow& row) {
  std::int64_t channel = 0;
  for (; channel + 2 * kLanes <= row.channels; channel += 2 * kLanes) sum_group<2>(row, channel);
  for (; channel < row.channels; channel += kLanes) sum_group<1>(row, channel);
}

}  // namespace kpt::kernels::KPT_SIMD
