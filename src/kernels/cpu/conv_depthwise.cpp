// PackedConv::run_depthwise(): every channel with its own filter. Memory bound, so plain vectors of the base
// architecture serve; a row of the result is summed in float and finished at once.
#include <algorithm>
#include <cstring>

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

// sums[c] += input[c] * filter[c]
void add_products(const std::byte* input, ElementType type, const float* filter, std::int64_t channels, float* sums) {
  std::int64_t c = 0;
  if (type == ElementType::kFloat32) {
    const auto* values = reinterpret_cast<const float*>(input);
    for (; c + 4 <= channels; c += 4) {
      Math::store(sums + c, Math::load(sums + c) + Math::load(values + c) * Math::load(filter + c));
    }
    for (; c < channels; ++c) sums[c] += values[c] * filter[c];
    return;
  }
  const auto* halves = reinterpret_cast<const std::uint16_t*>(input);
  for (; c + 4 <= channels; c += 4) {
    Math::store(sums + c, Math::load(sums + c) + Math::load_bfloat16(halves + c) * Math::load(filter + c));
  }
  for (; c < channels; ++c) sums[c] += widen(halves[c]) * filter[c];
}

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
    for (std::int64_t x = 0; x < size[1]; ++x) std::copy(bias_.begin(), bias_.end(), sums + x * channels);
    for (std::int64_t ky = 0; ky < shape_.kernel[0]; ++ky) {
      const std::int64_t y = top + ky * shape_.dilation[0];
      if (y < 0 || y >= call.height) continue;
      const std::byte* line =
          static_cast<const std::byte*>(call.input) + (image * call.height + y) * call.width * channels * input_bytes;
      for (std::int64_t x = 0; x < size[1]; ++x) {
        for (std::int64_t kx = 0; kx < shape_.kernel[1]; ++kx) {
          const std::int64_t column = x * shape_.stride[1] - shape_.padding[1] + kx * shape_.dilation[1];
          if (column < 0 || column >= call.width) continue;
          add_products(line + column * channels * input_bytes, call.input_type,
                       filters_.data() + (ky * shape_.kernel[1] + kx) * channels, channels, sums + x * channels);
        }
      }
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
