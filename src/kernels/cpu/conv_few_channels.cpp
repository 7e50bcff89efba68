// PackedConv::run_few_channels(): the first layer of an image network. Patches of one or a few channels are mostly
// copying, so no product is made of them: the input's lines below a row of the result are copied once, with the zeros
// around them, and every tap of the filter is a stretch of them. So it does not matter whether channels come first.
#include <algorithm>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/few_channels_row.h"

namespace kpt::kernels {
namespace {

constexpr std::int64_t kMostChannels = 4;
// Rows of the result are what threads share; below so many the product is cut into more tasks.
constexpr std::int64_t kLeastRows = 8;
// Of a thread's lines. Wider images, and filters that reach far, are better off with patches.
constexpr std::int64_t kMostLineFloats = 1 << 17;

std::int64_t round_up(std::int64_t floats) { return (floats + 15) / 16 * 16; }

// How a row of the result sees its lines.
struct Lines {
  std::int64_t places = 0;   // of the input along a line that the row meets, zeros included
  std::int64_t planes = 1;   // of which each has a line of its own
  std::int64_t between = 1;  // numbers from one place to the next

  Lines(const ConvWeights& shape, bool is_planar, std::int64_t width)
      : places((width - 1) * shape.stride[1] + (shape.kernel[1] - 1) * shape.dilation[1] + 1),
        planes(is_planar ? shape.in_channels : 1),
        between(is_planar ? 1 : shape.in_channels) {}
  std::int64_t floats() const { return places * between; }
};

}  // namespace

bool PackedConv::suits_few_channels(const ConvWeights& weights, const CpuFeatures& features) {
  return weights.form == LinearForm::kFloat32 && weights.groups == 1 && weights.in_channels <= kMostChannels &&
         weights.out_channels % kLeastOutChannels == 0 && weights.kernel[0] <= kMostTaps && weights.kernel[1] > 1 &&
         weights.kernel[1] <= kMostTaps && weights.in_channels * weights.kernel[0] * weights.kernel[1] <= kMostTaps &&
         features.avx2;
}

bool PackedConv::takes_few_channels(const ConvCall& call) const {
  if (few_channels_.empty() || call.input_type != ElementType::kFloat32 || call.output_type != ElementType::kFloat32 ||
      call.residual != nullptr) {
    return false;
  }
  const auto size = output_size(call.height, call.width);
  return size.ok() && (*size)[0] >= kLeastRows && few_channels_floats((*size)[1]) <= kMostLineFloats;
}

// As many in either memory format.
std::int64_t PackedConv::few_channels_floats(std::int64_t width) const {
  return round_up(shape_.kernel[0] * shape_.in_channels * Lines(shape_, true, width).places);
}

void PackedConv::run_few_channels(const ConvCall& call, std::array<std::int64_t, 2> size, void* workspace,
                                  const Parallel& parallel) const {
  const Lines lines(shape_, call.input_is_planar, size[1]);
  const std::int64_t line_floats = lines.floats();
  std::int64_t taps[kMostTaps];
  FewChannelsRow all_rows;
  for (std::int64_t ky = 0; ky < shape_.kernel[0]; ++ky) {
    for (std::int64_t kx = 0; kx < shape_.kernel[1]; ++kx) {
      for (std::int64_t c = 0; c < shape_.in_channels; ++c) {
        const std::int64_t channel = call.input_is_planar ? c * line_floats : c;
        taps[all_rows.tap_count++] =
            ky * lines.planes * line_floats + kx * shape_.dilation[1] * lines.between + channel;
      }
    }
  }
  all_rows.taps = taps;
  all_rows.step = shape_.stride[1] * lines.between;
  all_rows.filters = few_channels_.data();
  all_rows.bias = bias_.data();
  all_rows.channels = shape_.out_channels;
  all_rows.places = size[1];
  const bool clamped = is_clamp(call.activation);
  all_rows.limits = limits_of(call.activation);
  // The part of a line that is the input's; the rest is zeros.
  const std::int64_t begin = std::min(shape_.padding[1], lines.places) * lines.between;
  const std::int64_t count =
      std::min(call.width, std::max<std::int64_t>(lines.places - shape_.padding[1], 0)) * lines.between;
  const std::int64_t columns = size[1] * shape_.out_channels;
  const std::int64_t plane = call.height * call.width * lines.between;
  const std::int64_t memory_floats = few_channels_floats(size[1]);
  auto row_task = [&](std::int64_t index, int worker) {
    float* memory = static_cast<float*>(workspace) + worker * memory_floats;
    const auto* image = static_cast<const float*>(call.input) + index / size[0] * lines.planes * plane;
    const std::int64_t top = index % size[0] * shape_.stride[0] - shape_.padding[0];
    float* target = memory;
    for (std::int64_t ky = 0; ky < shape_.kernel[0]; ++ky) {
      const std::int64_t y = top + ky * shape_.dilation[0];
      const bool inside = y >= 0 && y < call.height;
      for (std::int64_t c = 0; c < lines.planes; ++c, target += line_floats) {
        const std::int64_t first = inside ? begin : line_floats;
        const std::int64_t end = inside ? begin + count : line_floats;
        std::fill(target, target + first, 0.0F);
        if (inside) std::copy_n(image + c * plane + y * call.width * lines.between, count, target + begin);
        std::fill(target + end, target + line_floats, 0.0F);
      }
    }
    FewChannelsRow row = all_rows;
    row.lines = memory;
    row.sums = static_cast<float*>(call.output) + index * columns;
    simd_->sum_few_channels(row);
    if (!clamped) simd_->activate(call.activation, row.sums, columns);
  };
  parallel.for_each(call.batch * size[0], row_task);
}

}  // namespace kpt::kernels
