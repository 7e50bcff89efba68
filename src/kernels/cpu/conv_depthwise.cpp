// PackedConv::run_depthwise(): every channel with its own filter. Bound by loads, so plain vectors of the base
// architecture serve; a row of the result is summed in float and finished at once.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/vector_math.h"

namespace kpt::kernels {
namespace {

struct Baseline {
  static constexpr int kWidth = 4;
};
using Math = VectorMath<Baseline>;

float widen(std::uint16_t half) {
  const std::uint32_t word = static_cast<std::uint32_t>(half) << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

Math::Floats load_four(const float* values) { return Math::load(values); }
Math::Floats load_four(const std::uint16_t* halves) { return Math::load_bfloat16(halves); }
float load_one(const float* value) { return *value; }
float load_one(const std::uint16_t* half) { return widen(*half); }

// One row of the result: what its sums are made of.
template <typename Element>
struct Row {
  const ConvWeights& shape;
  const Element* image;  // [height][width][channels]
  std::int64_t height;
  std::int64_t width;
  const float* filters;  // [kernel height][kernel width][channels]
  const float* bias;
  std::int64_t top;  // of the filter in the input

  // Whether the filter lies within the input's width at all of these places.
  bool is_inside(std::int64_t x, std::int64_t count) const {
    const std::int64_t reach = (shape.kernel[1] - 1) * shape.dilation[1];
    return x * shape.stride[1] >= shape.padding[1] &&
           (x + count - 1) * shape.stride[1] - shape.padding[1] + reach < width;
  }

  // Calls `visit(input, filter)` for every tap of the filter at place x; `input` is its first pixel's channels. Taps
  // outside the input count nothing.
  template <typename Visit>
  void for_each_tap(std::int64_t x, const Visit& visit) const {
    const std::int64_t channels = shape.out_channels;
    for (std::int64_t ky = 0; ky < shape.kernel[0]; ++ky) {
      const std::int64_t y = top + ky * shape.dilation[0];
      if (y < 0 || y >= height) continue;
      for (std::int64_t kx = 0; kx < shape.kernel[1]; ++kx) {
        const std::int64_t column = x * shape.stride[1] - shape.padding[1] + kx * shape.dilation[1];
        if (column < 0 || column >= width) continue;
        visit(image + (y * width + column) * channels, filters + (ky * shape.kernel[1] + kx) * channels);
      }
    }
  }

  // What one place of the filter meets, for a few places of it at a time.
  struct Taps {
    static constexpr std::size_t kMost = 64;  // a filter of 7 x 7 at once
    const Element* inputs[kMost];
    const float* filters[kMost];
    std::size_t count = 0;
  };

  // Sums of kPlaces neighbours. More than one place only where is_inside() holds.
  template <std::size_t kPlaces>
  void sum(std::int64_t x, float* sums) const {
    Taps taps;
    const float* start = bias;
    for_each_tap(x, [&](const Element* input, const float* filter) {
      if (taps.count == Taps::kMost) {
        add<kPlaces>(taps, start, sums);
        start = nullptr;
        taps.count = 0;
      }
      taps.inputs[taps.count] = input;
      taps.filters[taps.count++] = filter;
    });
    add<kPlaces>(taps, start, sums);
  }

  // sums = start + products of the taps, eight channels at a time: a filter's value is loaded once for all places.
  // `start` is the same for all places; null: the sums themselves.
  template <std::size_t kPlaces>
  void add(const Taps& taps, const float* start, float* sums) const {
    const auto channels = static_cast<std::size_t>(shape.out_channels);
    const std::size_t step = static_cast<std::size_t>(shape.stride[1]) * channels;
    std::size_t c = 0;
    for (; c + 8 <= channels; c += 8) {
      Math::Floats parts[kPlaces][2];
      for (std::size_t place = 0; place < kPlaces; ++place) {
        const float* first = start != nullptr ? start + c : sums + place * channels + c;
        parts[place][0] = Math::load(first);
        parts[place][1] = Math::load(first + 4);
      }
      for (std::size_t tap = 0; tap < taps.count; ++tap) {
        const Math::Floats first = Math::load(taps.filters[tap] + c);
        const Math::Floats second = Math::load(taps.filters[tap] + c + 4);
        const Element* input = taps.inputs[tap] + c;
        for (std::size_t place = 0; place < kPlaces; ++place) {
          parts[place][0] += load_four(input + place * step) * first;
          parts[place][1] += load_four(input + place * step + 4) * second;
        }
      }
      for (std::size_t place = 0; place < kPlaces; ++place) {
        Math::store(sums + place * channels + c, parts[place][0]);
        Math::store(sums + place * channels + c + 4, parts[place][1]);
      }
    }
    for (; c < channels; ++c) {
      for (std::size_t place = 0; place < kPlaces; ++place) {
        float part = start != nullptr ? start[c] : sums[place * channels + c];
        for (std::size_t tap = 0; tap < taps.count; ++tap) {
          part += load_one(taps.inputs[tap] + place * step + c) * taps.filters[tap][c];
        }
        sums[place * channels + c] = part;
      }
    }
  }

  void sum_all(std::int64_t count, float* sums) const {
    constexpr std::int64_t kTogether = 4;
    for (std::int64_t x = 0; x < count;) {
      if (x + kTogether <= count && is_inside(x, kTogether)) {
        sum<kTogether>(x, sums + x * shape.out_channels);
        x += kTogether;
      } else {
        sum<1>(x, sums + x * shape.out_channels);
        ++x;
      }
    }
  }
};

void add_residual(const std::byte* residual, ElementType type, std::int64_t count, float* sums) {
  if (type == ElementType::kFloat32) {
    const auto* values = reinterpret_cast<const float*>(residual);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += values[i];
  } else {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(residual);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += widen(halves[i]);
  }
}

void store(const float* sums, std::int64_t count, ElementType type, std::byte* output) {
  if (type == ElementType::kFloat32) {
    std::memcpy(output, sums, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  auto* halves = reinterpret_cast<std::uint16_t*>(output);
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) Math::store_bfloat16(halves + i, Math::load(sums + i));
  for (; i < count; ++i) {
    std::uint16_t four[4];
    Math::store_bfloat16(four, Math::fill(sums[i]));
    halves[i] = four[0];
  }
}

}  // namespace

void PackedConv::run_depthwise(const ConvCall& call, std::array<std::int64_t, 2> size, void* workspace,
                               const Parallel& parallel) const {
  const std::int64_t channels = shape_.out_channels;
  const std::int64_t columns = size[1] * channels;
  const auto input_bytes = static_cast<std::int64_t>(element_bytes(call.input_type));
  const std::int64_t sums_stride = (columns + 15) / 16 * 16;
  auto row_task = [&](std::int64_t index, int worker) {
    float* sums = static_cast<float*>(workspace) + worker * sums_stride;
    const std::int64_t image = index / size[0];
    const std::int64_t top = index % size[0] * shape_.stride[0] - shape_.padding[0];
    const std::byte* pixels =
        static_cast<const std::byte*>(call.input) + image * call.height * call.width * channels * input_bytes;
    const auto sum_row = [&](const auto* typed) {
      Row<std::remove_cvref_t<decltype(*typed)>>{shape_,          typed,        call.height, call.width,
                                                 filters_.data(), bias_.data(), top}
          .sum_all(size[1], sums);
    };
    if (call.input_type == ElementType::kFloat32) {
      sum_row(reinterpret_cast<const float*>(pixels));
    } else {
      sum_row(reinterpret_cast<const std::uint16_t*>(pixels));
    }
    if (call.residual != nullptr) {
      const auto bytes = static_cast<std::int64_t>(element_bytes(call.residual_type));
      add_residual(static_cast<const std::byte*>(call.residual) + index * columns * bytes, call.residual_type, columns,
                   sums);
    }
    apply(call.activation, sums, columns);
    store(sums, columns, call.output_type,
          static_cast<std::byte*>(call.output) +
              index * columns * static_cast<std::int64_t>(element_bytes(call.output_type)));
  };
  parallel.for_each(call.batch * size[0], row_task);
}

}  // namespace kpt::kernels
