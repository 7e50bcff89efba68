// PackedConv::run_depthwise(): every channel with its own filter, row by row of the result. Sums are floats; where the
// result is float32 too and has no residual they are made where they belong.
#include <cstring>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/depthwise_row.h"
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
  const std::int64_t columns = size[1] * shape_.out_channels;
  const auto bytes_of = [](ElementType type) { return static_cast<std::int64_t>(element_bytes(type)); };
  const std::int64_t image_bytes = call.height * call.width * shape_.out_channels * bytes_of(call.input_type);
  const std::int64_t sums_stride = (columns + 15) / 16 * 16;
  const bool clamped = call.residual == nullptr && is_clamp(call.activation);
  const bool in_place = call.residual == nullptr && call.output_type == ElementType::kFloat32;
  DepthwiseRow all_rows;
  all_rows.is_bfloat16 = call.input_type == ElementType::kBfloat16;
  all_rows.height = call.height;
  all_rows.width = call.width;
  all_rows.channels = shape_.out_channels;
  all_rows.kernel = shape_.kernel;
  all_rows.dilation = shape_.dilation;
  all_rows.stride = shape_.stride[1];
  all_rows.left = -shape_.padding[1];
  all_rows.filters = filters_.data();
  all_rows.bias = bias_.data();
  all_rows.places = size[1];
  if (clamped) all_rows.limits = limits_of(call.activation);
  auto row_task = [&](std::int64_t index, int worker) {
    std::byte* output = static_cast<std::byte*>(call.output) + index * columns * bytes_of(call.output_type);
    DepthwiseRow row = all_rows;
    row.image = static_cast<const std::byte*>(call.input) + index / size[0] * image_bytes;
    row.top = index % size[0] * shape_.stride[0] - shape_.padding[0];
    row.sums = in_place ? reinterpret_cast<float*>(output) : static_cast<float*>(workspace) + worker * sums_stride;
    simd_->sum_depthwise(row);
    if (call.residual != nullptr) {
      const auto* residual =
          static_cast<const std::byte*>(call.residual) + index * columns * bytes_of(call.residual_type);
      add_residual(residual, call.residual_type, columns, row.sums);
    }
    if (!clamped) simd_->activate(call.activation, row.sums, columns);
    if (!in_place) store(row.sums, columns, call.output_type, output);
  };
  parallel.for_each(call.batch * size[0], row_task);
}

}  // namespace kpt::kernels
