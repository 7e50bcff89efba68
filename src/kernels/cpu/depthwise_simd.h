// The loops of conv_depthwise.cpp, compiled once for each instruction set (simd_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/depthwise_row.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/unroll.h"
#include "kernels/cpu/vector_math.h"

namespace kpt::kernels::KPT_SIMD {

struct WideChannels {
  static constexpr int kWidth = static_cast<int>(kLanes);
};
// For what is left of the channels.
struct FourChannels {
  static constexpr int kWidth = 4;
};

template <typename Element>
class DepthwiseSum {
 public:
  explicit DepthwiseSum(const DepthwiseRow& row) : row_(row), channels_(static_cast<std::size_t>(row.channels)) {}

  // The places at which the filter lies within the input's width meet the same taps, each a step further.
  void run() const {
    const std::int64_t reach = (row_.kernel[1] - 1) * row_.dilation[1];
    const std::int64_t room = row_.width - 1 - reach - row_.left;  // from the first place to the last one inside
    const std::int64_t before = row_.left < 0 ? (-row_.left + row_.stride - 1) / row_.stride : 0;
    const std::int64_t begin = before < row_.places ? before : row_.places;
    std::int64_t end = room < 0 ? 0 : room / row_.stride + 1;
    end = end < begin ? begin : end > row_.places ? row_.places : end;
    for (std::int64_t x = 0; x < begin; ++x) sum(x, 1);
    if (end > begin) sum(begin, end - begin);
    for (std::int64_t x = end; x < row_.places; ++x) sum(x, 1);
  }

 private:
  // What one place of the filter meets, for a few places of it at a time.
  struct Taps {
    static constexpr std::size_t kMost = 64;  // a filter of 7 x 7 at once
    const Element* inputs[kMost];
    const float* filters[kMost];
    std::size_t count = 0;
  };

  // What the sums of a few taps begin and end with.
  struct Ends {
    const float* start;  // the same for all places; null: the sums themselves
    float least;
    float greatest;
  };

  // Calls `visit(input, filter)` for every tap of the filter at place x; `input` is its first pixel's channels. Taps
  // outside the input count nothing.
  template <typename Visit>
  void for_each_tap(std::int64_t x, const Visit& visit) const {
    for (std::int64_t ky = 0; ky < row_.kernel[0]; ++ky) {
      const std::int64_t y = row_.top + ky * row_.dilation[0];
      if (y < 0 || y >= row_.height) continue;
      for (std::int64_t kx = 0; kx < row_.kernel[1]; ++kx) {
        const std::int64_t column = row_.left + x * row_.stride + kx * row_.dilation[1];
        if (column < 0 || column >= row_.width) continue;
        visit(static_cast<const Element*>(row_.image) + (y * row_.width + column) * row_.channels,
              row_.filters + (ky * row_.kernel[1] + kx) * row_.channels);
      }
    }
  }

  // Sums of `places` neighbours. More than one place only where all of them lie inside.
  void sum(std::int64_t x, std::int64_t places) const {
    float* sums = row_.sums + x * row_.channels;
    Taps taps;
    Ends ends = {row_.bias, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
    for_each_tap(x, [&](const Element* input, const float* filter) {
      if (taps.count == Taps::kMost) {
        add_all(taps, ends, places, sums);
        ends.start = nullptr;
        taps.count = 0;
      }
      taps.inputs[taps.count] = input;
      taps.filters[taps.count++] = filter;
    });
    ends.least = row_.limits.least;
    ends.greatest = row_.limits.greatest;
    add_all(taps, ends, places, sums);
  }

  void add_all(const Taps& taps, const Ends& ends, std::int64_t places, float* sums) const {
    std::size_t place = 0;
    const auto count = static_cast<std::size_t>(places);
    for (; place + 8 <= count; place += 8) add<8>(taps, ends, place, sums);
    for (; place + 4 <= count; place += 4) add<4>(taps, ends, place, sums);
    for (; place < count; ++place) add<1>(taps, ends, place, sums);
  }

  // Places from `first` on: sums = start + products of the taps.
  template <std::size_t kPlaces>
  void add(const Taps& taps, const Ends& ends, std::size_t first, float* sums) const {
    const std::size_t step = static_cast<std::size_t>(row_.stride) * channels_;
    const std::size_t offset = first * step;
    sums += first * channels_;
    std::size_t c = add_vectors<WideChannels, kPlaces>(taps, ends, offset, 0, sums);
    if constexpr (kLanes > 4) c = add_vectors<FourChannels, kPlaces>(taps, ends, offset, c, sums);
    for (; c < channels_; ++c) {
      for (std::size_t place = 0; place < kPlaces; ++place) {
        float part = ends.start != nullptr ? ends.start[c] : sums[place * channels_ + c];
        for (std::size_t tap = 0; tap < taps.count; ++tap) {
          part += load_one(taps.inputs[tap] + offset + place * step + c) * taps.filters[tap][c];
        }
        part = part < ends.least ? ends.least : part;
        sums[place * channels_ + c] = part > ends.greatest ? ends.greatest : part;
      }
    }
  }

  // Whole vectors of channels from `c` on; a filter's value is loaded once for all places. Returns the channels done.
  template <typename Isa, std::size_t kPlaces>
  std::size_t add_vectors(const Taps& taps, const Ends& ends, std::size_t offset, std::size_t c, float* sums) const {
    using Math = VectorMath<Isa>;
    const std::size_t step = static_cast<std::size_t>(row_.stride) * channels_;
    const typename Math::Floats least = Math::fill(ends.least);
    const typename Math::Floats greatest = Math::fill(ends.greatest);
    for (; c + Isa::kWidth <= channels_; c += Isa::kWidth) {
      typename Math::Floats parts[kPlaces];
      KPT_UNROLL for (std::size_t place = 0; place < kPlaces; ++place) {
        parts[place] = Math::load(ends.start != nullptr ? ends.start + c : sums + place * channels_ + c);
      }
      for (std::size_t tap = 0; tap < taps.count; ++tap) {
        const typename Math::Floats filter = Math::load(taps.filters[tap] + c);
        const Element* input = taps.inputs[tap] + offset + c;
        KPT_UNROLL for (std::size_t place = 0; place < kPlaces; ++place) {
          parts[place] += load_vector<Math>(input + place * step) * filter;
        }
      }
      KPT_UNROLL for (std::size_t place = 0; place < kPlaces; ++place) {
        parts[place] = parts[place] < least ? least : parts[place];
        Math::store(sums + place * channels_ + c, parts[place] > greatest ? greatest : parts[place]);
      }
    }
    return c;
  }

  template <typename Math>
  static typename Math::Floats load_vector(const float* values) {
    return Math::load(values);
  }
  template <typename Math>
  static typename Math::Floats load_vector(const std::uint16_t* halves) {
    return Math::load_bfloat16(halves);
  }
  static float load_one(const float* value) { return *value; }
  static float load_one(const std::uint16_t* half) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(*half) << 16);
  }

  const DepthwiseRow& row_;
  std::size_t channels_;
};

inline void sum_depthwise(const DepthwiseRow& row) {
  if (row.is_bfloat16) {
    DepthwiseSum<std::uint16_t>(row).run();
  } else {
    DepthwiseSum<float>(row).run();
  }
}

}  // namespace kpt::kernels::KPT_SIMD
