#include "kernels/cpu/conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "kernels/cpu/few_channels_row.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_run.h"

namespace kpt::kernels {
namespace {

constexpr std::int64_t kGreatestExtent = std::int64_t{1} << 31;

Status invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

bool is_per_channel(const ConvWeights& weights) {
  return weights.groups > 1 || (weights.in_channels == 1 && weights.out_channels == 1);
}

Status check(const ConvWeights& weights) {
  if (has_scaled_codes(weights.form)) {
    return {StatusCode::kPrecisionCompilation, "convolutions have float32, bfloat16 and int8 weights only"};
  }
  if (weights.in_channels < 1 || weights.out_channels < 1 || weights.in_channels >= kGreatestExtent ||
      weights.out_channels >= kGreatestExtent) {
    return invalid("a convolution needs at least one channel on each side");
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (weights.kernel[axis] < 1 || weights.stride[axis] < 1 || weights.dilation[axis] < 1 ||
        weights.padding[axis] < 0 || weights.end_padding[axis] < 0 || weights.end_padding[axis] >= kGreatestExtent ||
        weights.kernel[axis] >= kGreatestExtent || weights.stride[axis] >= kGreatestExtent ||
        weights.dilation[axis] >= kGreatestExtent || weights.padding[axis] >= kGreatestExtent) {
      return invalid("kernel, stride and dilation of a convolution are at least 1, its padding at least 0");
    }
  }
  if (weights.data == nullptr) return invalid("weights of a convolution have no memory");
  const bool quantized = weights.form == LinearForm::kInt8;
  if (quantized && weights.scale == nullptr) return invalid("int8 weights of a convolution come without their scales");
  if (quantized && is_per_channel(weights)) {
    return {StatusCode::kPrecisionCompilation, "a convolution of each channel by itself has no int8 weights"};
  }
  if (weights.groups == 1) return {};
  if (weights.groups != weights.in_channels || weights.groups != weights.out_channels) {
    return {StatusCode::kUnsupported, "convolutions with " + std::to_string(weights.groups) +
                                          " groups: only one group, or one channel and filter in each"};
  }
  return {};
}

float to_float(const void* data, ElementType type, std::int64_t index) {
  if (type == ElementType::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint32_t word = static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(data)[index]) << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

// [out][channel][place] to [out][place][channel], or for filters of one channel each to [place][out].
template <typename Element, typename Get>
Result<std::vector<Element>> reorder(const ConvWeights& weights, std::int64_t count, Get get) {
  std::vector<Element> reordered;
  try {
    reordered.resize(static_cast<std::size_t>(count));
  } catch (const std::exception&) {
    return Status(StatusCode::kOutOfMemory, "no memory for the filters of a convolution");
  }
  const std::int64_t area = weights.kernel[0] * weights.kernel[1];
  const std::int64_t channels = weights.in_channels / weights.groups;
  const bool per_channel = is_per_channel(weights);
  for (std::int64_t out = 0; out < weights.out_channels; ++out) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t place = 0; place < area; ++place) {
        const std::int64_t target =
            per_channel ? place * weights.out_channels + out : (out * area + place) * channels + c;
        reordered[static_cast<std::size_t>(target)] = get((out * channels + c) * area + place);
      }
    }
  }
  return reordered;
}

// [out][tap] to groups of filters side by side, as FewChannelsRow has them.
Result<std::vector<float>> group_filters(const std::vector<float>& values, std::int64_t out_channels,
                                         std::int64_t taps) {
  std::vector<float> grouped;
  try {
    grouped.reserve(values.size());
  } catch (const std::exception&) {
    return Status(StatusCode::kOutOfMemory, "no memory for the filters of a convolution");
  }
  for (std::int64_t first = 0; first < out_channels; first += kFilterGroup) {
    const std::int64_t end = std::min(first + kFilterGroup, out_channels);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t out = first; out < end; ++out)
        grouped.push_back(values[static_cast<std::size_t>(out * taps + tap)]);
    }
  }
  return grouped;
}

// A few dozen bytes, the usual line of few channels, without a call: the last vector overlaps the one before.
void copy_bytes(std::byte* target, const std::byte* source, std::int64_t count) {
  constexpr std::int64_t kVector = 16;
  if (count < kVector || count > 8 * kVector) {
    std::memcpy(target, source, static_cast<std::size_t>(count));
    return;
  }
  for (std::int64_t i = 0; i < count - kVector; i += kVector) std::memcpy(target + i, source + i, kVector);
  std::memcpy(target + count - kVector, source + count - kVector, kVector);
}

// The patches of one call as rows.
struct PatchSource {
  const ConvWeights& shape;
  const ConvCall& call;  // its input of the type that patches have
  std::array<std::int64_t, 2> size;
  const float* scales = nullptr;  // int8: one per image

  static void get(const void* context, std::int64_t first, void* scratch, InputRows* rows) {
    const auto& self = *static_cast<const PatchSource*>(context);
    const auto row_bytes = rows->depth * static_cast<std::int64_t>(element_bytes(self.call.input_type));
    auto* target = static_cast<std::byte*>(scratch);
    for (int row = 0; row < rows->count;) {
      const std::int64_t line = (first + row) / self.size[1];
      const std::int64_t x = (first + row) % self.size[1];
      const std::int64_t run = std::min<std::int64_t>(rows->count - row, self.size[1] - x);
      self.gather(line, x, run, row_bytes, target + row * row_bytes);
      for (const std::int64_t end = row + run; row < end; ++row) {
        rows->rows[row] = target + row * row_bytes;
        if (self.scales != nullptr) rows->scales[row] = self.scales[line / self.size[0]];
      }
    }
    rows->type = self.call.input_type;
  }

  // Copies the patches of `run` neighbours in one line of the result, from place x on: [kernel height][kernel
  // width][channels] each, zeros outside the input. In the order of the input's lines, so that little is left to do for
  // each patch of few channels.
  void gather(std::int64_t line, std::int64_t x, std::int64_t run, std::int64_t row_bytes, std::byte* target) const {
    const auto pixel = static_cast<std::int64_t>(element_bytes(call.input_type)) * shape.in_channels;
    const std::int64_t left = x * shape.stride[1] - shape.padding[1];
    const std::int64_t top = line % size[0] * shape.stride[0] - shape.padding[0];
    const auto* image = static_cast<const std::byte*>(call.input) + line / size[0] * call.height * call.width * pixel;
    for (std::int64_t ky = 0; ky < shape.kernel[0]; ++ky, target += shape.kernel[1] * pixel) {
      const std::int64_t row = top + ky * shape.dilation[0];
      const bool inside = row >= 0 && row < call.height;
      for (std::int64_t i = 0; i < run; ++i) {
        std::byte* part = target + i * row_bytes;
        if (inside) {
          gather_line(image + row * call.width * pixel, left + i * shape.stride[1], pixel, part);
        } else {
          std::memset(part, 0, static_cast<std::size_t>(shape.kernel[1] * pixel));
        }
      }
    }
  }

  void gather_line(const std::byte* source, std::int64_t left, std::int64_t pixel, std::byte* line) const {
    const std::int64_t count = shape.kernel[1];
    if (shape.dilation[1] == 1) {  // neighbours in the filter are neighbours in memory
      if (left >= 0 && left + count <= call.width) return copy_bytes(line, source + left * pixel, count * pixel);
      const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, count);
      const std::int64_t end = std::clamp<std::int64_t>(call.width - left, begin, count);
      if (begin > 0) std::memset(line, 0, static_cast<std::size_t>(begin * pixel));
      if (end > begin) copy_bytes(line + begin * pixel, source + (left + begin) * pixel, (end - begin) * pixel);
      if (count > end) std::memset(line + end * pixel, 0, static_cast<std::size_t>((count - end) * pixel));
      return;
    }
    for (std::int64_t kx = 0; kx < count; ++kx) {
      const std::int64_t column = left + kx * shape.dilation[1];
      if (column < 0 || column >= call.width) {
        std::memset(line + kx * pixel, 0, static_cast<std::size_t>(pixel));
      } else {
        copy_bytes(line + kx * pixel, source + column * pixel, pixel);
      }
    }
  }
};

// The patches of one call as pieces, one for each place of the filter: its pixel below every patch, where it lies.
struct PieceSource {
  const ConvWeights& shape;
  const ConvCall& call;
  std::array<std::int64_t, 2> size;

  // What get() finds out about its patches; then come the zeros that stand for a pixel outside.
  struct Patches {
    std::int64_t offsets[kGreatestTileRows];  // in bytes, of the pixel below the first place of the filter
    std::int64_t tops[kGreatestTileRows];
    std::int64_t lefts[kGreatestTileRows];
    bool inside = true;
  };
  static constexpr std::size_t kPatchesBytes = (sizeof(Patches) + 63) / 64 * 64;

  std::int64_t pixel_bytes() const {
    return static_cast<std::int64_t>(element_bytes(call.input_type)) * shape.in_channels;
  }

  static void get(const void* context, std::int64_t first, void* scratch, InputRows* rows) {
    const auto& self = *static_cast<const PieceSource*>(context);
    auto* patches = new (scratch) Patches;
    std::int64_t line = first / self.size[1];
    std::int64_t x = first - line * self.size[1];
    std::int64_t image = line / self.size[0];
    std::int64_t y = line - image * self.size[0];
    const std::int64_t pixel = self.pixel_bytes();
    const std::int64_t last_top = self.call.height - 1 - (self.shape.kernel[0] - 1) * self.shape.dilation[0];
    const std::int64_t last_left = self.call.width - 1 - (self.shape.kernel[1] - 1) * self.shape.dilation[1];
    for (int row = 0; row < rows->count; ++row) {
      const std::int64_t top = y * self.shape.stride[0] - self.shape.padding[0];
      const std::int64_t left = x * self.shape.stride[1] - self.shape.padding[1];
      patches->tops[row] = top;
      patches->lefts[row] = left;
      patches->offsets[row] = ((image * self.call.height + top) * self.call.width + left) * pixel;
      if (top < 0 || left < 0 || top > last_top || left > last_left) patches->inside = false;
      if (++x < self.size[1]) continue;
      x = 0;
      if (++y < self.size[0]) continue;
      y = 0;
      ++image;
    }
    if (!patches->inside)
      std::memset(static_cast<std::byte*>(scratch) + kPatchesBytes, 0, static_cast<std::size_t>(pixel));
    rows->type = self.call.input_type;
  }

  static void set_piece(const void* context, std::int64_t index, const void* scratch, InputRows* rows) {
    const auto& self = *static_cast<const PieceSource*>(context);
    const auto& patches = *static_cast<const Patches*>(scratch);
    const std::int64_t ky = index / self.shape.kernel[1];
    const std::int64_t down = ky * self.shape.dilation[0];
    const std::int64_t right = (index - ky * self.shape.kernel[1]) * self.shape.dilation[1];
    const std::int64_t offset = (down * self.call.width + right) * self.pixel_bytes();
    const auto* input = static_cast<const std::byte*>(self.call.input);
    const auto* zeros = static_cast<const std::byte*>(scratch) + kPatchesBytes;
    for (int row = 0; row < rows->count; ++row) {
      const std::int64_t y = patches.tops[row] + down;
      const std::int64_t x = patches.lefts[row] + right;
      const bool inside = patches.inside || (y >= 0 && y < self.call.height && x >= 0 && x < self.call.width);
      rows->rows[row] = inside ? input + patches.offsets[row] + offset : zeros;
    }
  }
};

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Of the patches that are gathered at a time.
std::size_t patch_bytes(const PackedLinear& product, std::size_t element) {
  return static_cast<std::size_t>(product.in_features() * product.rows_at_once()) * element;
}

// The kernel that packs patches just before it multiplies them, where the processor has one. Empty: the best.
std::string_view choose_kernel(LinearForm form, const CpuFeatures& features) {
  if (form != LinearForm::kFloat32) return {};
  for (const KernelCandidate& candidate : list_kernels(form, features)) {
    if (candidate.why_not.empty() && candidate.kernel.multiply_streamed != nullptr) return candidate.kernel.name;
  }
  return {};
}

bool has_transforms(const CpuFeatures& features) {
  const std::string_view chosen = choose_kernel(LinearForm::kFloat32, features);
  return std::ranges::any_of(list_kernels(LinearForm::kFloat32, features), [&](const KernelCandidate& candidate) {
    return candidate.kernel.name == chosen && candidate.kernel.transform_input != nullptr;
  });
}

// Below so many tiles the filters are what takes time, and they have 16 places instead of 9.
constexpr std::int64_t kLeastTiles = 32;

bool suits_winograd(const ConvWeights& weights, std::array<std::int64_t, 2> size, const CpuFeatures& features) {
  using Two = std::array<std::int64_t, 2>;
  if (weights.form != LinearForm::kFloat32 || weights.groups != 1 || weights.kernel != Two{3, 3} ||
      weights.stride != Two{1, 1} || weights.dilation != Two{1, 1} || weights.in_channels % kWinogradChannels != 0 ||
      weights.out_channels % kWinogradChannels != 0 || weights.in_channels < 2 * kWinogradChannels) {
    return false;
  }
  const std::int64_t tiles = (size[0] + 1) / 2 * ((size[1] + 1) / 2);
  return tiles >= kLeastTiles && std::int64_t{2} * kWinogradPlaces * tiles <= 9 * size[0] * size[1] &&
         has_transforms(features);
}

// An image is quantized in stretches of so many elements.
constexpr std::int64_t kStretch = 16384;
std::int64_t stretches_of(std::int64_t elements) { return (elements + kStretch - 1) / kStretch; }
std::size_t image_elements(const ConvWeights& shape, const ConvCall& call) {
  return static_cast<std::size_t>(call.height * call.width * shape.in_channels);
}
std::size_t scale_bytes(const ConvWeights& shape, const ConvCall& call) {
  const std::int64_t stretches = stretches_of(static_cast<std::int64_t>(image_elements(shape, call)));
  return static_cast<std::size_t>(call.batch * (1 + stretches)) * sizeof(float);
}

}  // namespace

Result<PackedConv> PackedConv::pack(const ConvWeights& weights, const CpuFeatures& features) {
  KPT_RETURN_IF_ERROR(check(weights));
  PackedConv conv;
  conv.shape_ = weights;
  conv.shape_.data = nullptr;
  conv.shape_.bias = nullptr;
  conv.shape_.scale = nullptr;
  const std::int64_t area = weights.kernel[0] * weights.kernel[1];  // below 2^62
  const std::int64_t channels = weights.in_channels / weights.groups;
  std::int64_t depth = 0;
  std::int64_t count = 0;
  if (__builtin_mul_overflow(area, channels, &depth) || __builtin_mul_overflow(depth, weights.out_channels, &count) ||
      count > (std::int64_t{1} << 60)) {
    return Status(StatusCode::kOutOfMemory, "the filters of a convolution would not fit into an address space");
  }
  std::vector<float> bias(static_cast<std::size_t>(weights.out_channels), 0.0F);
  for (std::int64_t out = 0; weights.bias != nullptr && out < weights.out_channels; ++out) {
    bias[static_cast<std::size_t>(out)] = to_float(weights.bias, weights.bias_type, out);
  }
  LinearWeights linear;
  linear.form = weights.form;
  linear.rows = weights.out_channels;
  linear.columns = depth;
  linear.row_stride = depth;
  linear.scale = weights.scale;
  linear.bias = weights.bias == nullptr ? nullptr : bias.data();
  if (weights.form == LinearForm::kInt8) {
    const auto* data = static_cast<const std::int8_t*>(weights.data);
    KPT_ASSIGN_OR_RETURN(const std::vector<std::int8_t> filters,
                         reorder<std::int8_t>(weights, count, [&](std::int64_t at) { return data[at]; }));
    linear.data = filters.data();
    KPT_ASSIGN_OR_RETURN(conv.product_, PackedLinear::pack(linear, features));
    return conv;
  }
  KPT_ASSIGN_OR_RETURN(std::vector<float> filters, reorder<float>(weights, count, [&](std::int64_t at) {
                         return to_float(weights.data, weights.type, at);
                       }));
  if (is_per_channel(weights)) {
    conv.filters_ = std::move(filters);
    conv.bias_ = std::move(bias);
    conv.simd_ = &simd_kernels(features);
    return conv;
  }
  const auto expected = conv.output_size(weights.expected[0], weights.expected[1]);
  if (expected.ok() && suits_winograd(weights, *expected, features)) {
    KPT_RETURN_IF_ERROR(conv.pack_winograd(weights, linear, features));
    return conv;
  }
  linear.data = filters.data();
  KPT_ASSIGN_OR_RETURN(conv.product_, PackedLinear::pack(linear, features, choose_kernel(weights.form, features)));
  if (suits_few_channels(weights, features)) {
    KPT_ASSIGN_OR_RETURN(conv.few_channels_, group_filters(filters, weights.out_channels, depth));
    conv.bias_ = std::move(bias);
    conv.simd_ = &simd_kernels(features);
  }
  return conv;
}

Status PackedConv::pack_winograd(const ConvWeights& weights, LinearWeights linear, const CpuFeatures& features) {
  linear.columns = linear.row_stride = weights.in_channels * kWinogradPlaces;
  std::vector<float> transformed;
  try {
    transformed.resize(static_cast<std::size_t>(weights.out_channels * linear.columns));
  } catch (const std::exception&) {
    return {StatusCode::kOutOfMemory, "no memory for the filters of a convolution"};
  }
  WinogradRun::transform_filters(weights, transformed.data());
  linear.data = transformed.data();
  KPT_ASSIGN_OR_RETURN(product_, PackedLinear::pack(linear, features, choose_kernel(weights.form, features)));
  winograd_ = true;
  return {};
}

std::string PackedConv::kernel_name() const {
  if (!product_) return std::string("depthwise float32 ") + simd_->name;
  if (!few_channels_.empty()) {
    return std::string("few channels float32 ") + simd_->name +
           " (other sizes and types, and residuals: " + std::string(product_->kernel_name()) + ")";
  }
  return std::string(product_->kernel_name()) + (winograd_ ? ", Winograd's tiles of 2x2" : "");
}

std::string PackedConv::reason() const {
  if (!product_) return "each channel has its own filter, so that there is no product";
  if (!few_channels_.empty()) return "patches of so few channels are mostly copying";
  if (winograd_) return "16 products of a filter of 3 x 3 instead of 36";
  if (shape_.form == LinearForm::kFloat32 && shape_.kernel == std::array<std::int64_t, 2>{3, 3}) {
    return "not Winograd's tiles: the processor, stride, dilation, channels or size of the image do not suit them";
  }
  return takes_input_as_it_lies() ? "a product of the input where it lies" : "";
}

Result<std::array<std::int64_t, 2>> PackedConv::output_size(std::int64_t height, std::int64_t width) const {
  const std::array<std::int64_t, 2> given = {height, width};
  std::array<std::int64_t, 2> size = {};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    // All terms are below 2^31 but the product of the filter's reach, which is below 2^62.
    const std::int64_t reach = shape_.dilation[axis] * (shape_.kernel[axis] - 1) + 1;
    const std::int64_t padded = given[axis] + shape_.padding[axis] + shape_.end_padding[axis];
    if (given[axis] < 0 || given[axis] >= kGreatestExtent || padded < reach) {
      return invalid("a filter that reaches over " + std::to_string(reach) + " does not fit into " +
                     std::to_string(given[axis]) + " with paddings of " + std::to_string(shape_.padding[axis]) +
                     " and " + std::to_string(shape_.end_padding[axis]));
    }
    size[axis] = (padded - reach) / shape_.stride[axis] + 1;
  }
  return size;
}

bool PackedConv::takes_input_as_it_lies() const {
  using Two = std::array<std::int64_t, 2>;
  return shape_.kernel == Two{1, 1} && shape_.stride == Two{1, 1} && shape_.padding == Two{0, 0} &&
         shape_.end_padding == Two{0, 0};
}

std::size_t PackedConv::workspace_bytes(const ConvCall& call, int threads) const {
  const auto size = output_size(call.height, call.width);
  if (!size.ok()) return 0;
  if (is_depthwise()) {
    // One row of sums per worker.
    const auto columns = static_cast<std::size_t>((*size)[1] * shape_.out_channels);
    return (columns * sizeof(float) + 63) / 64 * 64 * static_cast<std::size_t>(std::max(threads, 1));
  }
  if (winograd_) return WinogradRun(*product_, shape_, call, threads).workspace_bytes(threads);
  if (takes_few_channels(call)) {
    const auto floats = static_cast<std::size_t>(few_channels_floats((*size)[1]));
    return floats * sizeof(float) * static_cast<std::size_t>(std::max(threads, 1));
  }
  const std::size_t bytes = product_bytes(call, *size, threads);
  if (!quantizes_images()) return bytes;
  return bytes + round_up(image_elements(shape_, call) * static_cast<std::size_t>(call.batch)) +
         scale_bytes(shape_, call);
}

std::size_t PackedConv::product_bytes(const ConvCall& call, std::array<std::int64_t, 2> size, int threads) const {
  const std::size_t element = quantizes_images() ? 1 : element_bytes(call.input_type);
  const bool in_pieces = takes_pieces();
  const std::size_t scratch = takes_input_as_it_lies() ? 0
                              : in_pieces
                                  ? PieceSource::kPatchesBytes + static_cast<std::size_t>(shape_.in_channels) * element
                                  : patch_bytes(*product_, element);
  return round_up(product_->workspace_bytes(call.batch * size[0] * size[1], threads, scratch, in_pieces));
}

bool PackedConv::takes_pieces() const {
  return !takes_input_as_it_lies() && product_->takes_pieces_of(shape_.in_channels);
}

bool PackedConv::quantizes_images() const {
  return product_.has_value() && product_->form() == LinearForm::kInt8 && !takes_input_as_it_lies();
}

// In two steps, because the scale of an image is known when all of it was seen. `scales` has scale_bytes(): one per
// image, then one per stretch.
void PackedConv::quantize_images(const ConvCall& call, std::int8_t* images, float* scales,
                                 const Parallel& parallel) const {
  const auto elements = static_cast<std::int64_t>(image_elements(shape_, call));
  const std::int64_t stretches = stretches_of(elements);
  float* parts = scales + call.batch;
  const auto element = static_cast<std::int64_t>(element_bytes(call.input_type));
  const auto stretch = [&](std::int64_t index, auto&& body) {
    const std::int64_t first = index % stretches * kStretch;
    const std::int64_t at = index / stretches * elements + first;
    body(at, static_cast<const std::byte*>(call.input) + at * element, std::min(kStretch, elements - first));
  };
  auto scale = [&](std::int64_t index, int /*worker*/) {
    stretch(index, [&](std::int64_t /*at*/, const std::byte* source, std::int64_t count) {
      parts[index] = product_->scale_row(source, count, call.input_type);
    });
  };
  parallel.for_each(call.batch * stretches, scale);
  for (std::int64_t image = 0; image < call.batch; ++image) {
    float greatest = 0;
    for (std::int64_t index = image * stretches; index < (image + 1) * stretches; ++index) {
      if (std::isnan(parts[index]) || parts[index] > greatest) greatest = parts[index];
      if (std::isnan(greatest)) break;
    }
    scales[image] = greatest;
  }
  auto quantize = [&](std::int64_t index, int /*worker*/) {
    stretch(index, [&](std::int64_t at, const std::byte* source, std::int64_t count) {
      product_->quantize_row(source, count, call.input_type, scales[index / stretches], images + at);
    });
  };
  parallel.for_each(call.batch * stretches, quantize);
}

void PackedConv::run(const ConvCall& call, void* workspace, const Parallel& parallel) const {
  const auto found = output_size(call.height, call.width);
  if (!found.ok()) return;
  const std::array<std::int64_t, 2> size = *found;
  if (is_depthwise()) return run_depthwise(call, size, workspace, parallel);
  if (winograd_) return WinogradRun(*product_, shape_, call, parallel.threads).run(workspace, parallel);
  if (takes_few_channels(call)) return run_few_channels(call, size, workspace, parallel);
  LinearCall product;
  product.rows = call.batch * size[0] * size[1];
  product.input = call.input;
  product.input_stride = shape_.in_channels;
  product.input_type = call.input_type;
  product.residual = call.residual;
  product.residual_stride = shape_.out_channels;
  product.residual_type = call.residual_type;
  product.output = call.output;
  product.output_stride = shape_.out_channels;
  product.output_type = call.output_type;
  product.activation = call.activation;
  if (takes_input_as_it_lies()) return product_->run(product, workspace, parallel);
  RowSource source;
  if (takes_pieces()) {
    const PieceSource pieces = {shape_, call, size};
    source.get = &PieceSource::get;
    source.piece = &PieceSource::set_piece;
    source.piece_depth = shape_.in_channels;
    source.context = &pieces;
    source.scratch_bytes = PieceSource::kPatchesBytes + static_cast<std::size_t>(pieces.pixel_bytes());
    return product_->run(product, source, workspace, parallel);
  }
  ConvCall gathered = call;
  float* scales = nullptr;
  if (quantizes_images()) {
    std::byte* images = static_cast<std::byte*>(workspace) + product_bytes(call, size, parallel.threads);
    scales = reinterpret_cast<float*>(images +
                                      round_up(image_elements(shape_, call) * static_cast<std::size_t>(call.batch)));
    quantize_images(call, reinterpret_cast<std::int8_t*>(images), scales, parallel);
    gathered.input = images;
    gathered.input_type = ElementType::kInt8;
  }
  const PatchSource patches = {shape_, gathered, size, scales};
  source.get = &PatchSource::get;
  source.context = &patches;
  source.scratch_bytes = patch_bytes(*product_, element_bytes(gathered.input_type));
  product_->run(product, source, workspace, parallel);
}

}  // namespace kpt::kernels
