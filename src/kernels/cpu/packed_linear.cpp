#include "kernels/cpu/packed_linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace kpt::kernels {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::int64_t kGreatestExtent = std::int64_t{1} << 31;
// Above this the sums of int8 products could leave int32.
constexpr std::int64_t kGreatestInt8Depth = 131072;
// Kernels read ahead of what they multiply; the last panel must not end at the end of a page.
constexpr std::size_t kSlack = kReadAhead;

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

Status invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
Status cannot_narrow(std::string message) { return {StatusCode::kPrecisionCompilation, std::move(message)}; }

Status check(const LinearWeights& weights) {
  const auto in_range = [](std::int64_t value) { return value >= 0 && value < kGreatestExtent; };
  if (!in_range(weights.rows) || !in_range(weights.columns)) {
    return invalid("weights of " + std::to_string(weights.rows) + " x " + std::to_string(weights.columns) +
                   " cannot be packed: each extent must be at least 0 and below 2^31");
  }
  const bool empty = weights.rows == 0 || weights.columns == 0;
  if (!empty && weights.data == nullptr) return invalid("weights to be packed have no memory");
  const std::int64_t row_elements = weights.form == LinearForm::kInt4 ? weights.columns / 2 : weights.columns;
  if (!empty && weights.rows > 1 && weights.row_stride < row_elements) {
    return invalid("rows of the weights overlap: the stride is " + std::to_string(weights.row_stride) +
                   " for rows of " + std::to_string(row_elements));
  }
  if (weights.form == LinearForm::kInt8 && weights.columns > kGreatestInt8Depth) {
    return cannot_narrow("int8 weights of " + std::to_string(weights.columns) +
                         " columns: sums fit into 32 bits only up to " + std::to_string(kGreatestInt8Depth));
  }
  const bool quantized = weights.form == LinearForm::kInt8 || has_scaled_codes(weights.form);
  if (quantized && !empty && weights.scale == nullptr) return invalid("quantized weights come without their scales");
  if (weights.form == LinearForm::kInt4) {
    if (weights.columns % 2 != 0) return cannot_narrow("int4 weights need an even number of columns");
    if (weights.group <= 0 || weights.columns % weights.group != 0) {
      return cannot_narrow("groups of " + std::to_string(weights.group) + " do not divide the " +
                           std::to_string(weights.columns) + " columns of int4 weights");
    }
  }
  return {};
}

Result<MatrixKernel> choose(LinearForm form, const CpuFeatures& features, std::string_view name) {
  for (const KernelCandidate& candidate : list_kernels(form, features)) {
    if (!name.empty() && candidate.kernel.name != name) continue;
    if (candidate.why_not.empty()) return candidate.kernel;
    if (!name.empty()) {
      return Status(StatusCode::kUnsupported,
                    "the kernel '" + std::string(name) + "' cannot run: " + candidate.why_not);
    }
  }
  return Status(StatusCode::kNotFound,
                "there is no kernel '" + std::string(name) + "' for " + std::string(to_string(form)) + " weights");
}

float to_float(const void* data, ElementType type, std::int64_t index) {
  if (type == ElementType::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint32_t word = static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(data)[index]) << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

std::uint16_t to_bfloat16(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  if ((word & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((word >> 16) | 0x40U);
  return static_cast<std::uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
}

}  // namespace

void PackedLinear::Free::operator()(std::byte* memory) const {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
}

// On huge pages where they are whole ones: a panel of pages of 4 KiB has a miss of the TLB in each.
PackedLinear::Memory PackedLinear::allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment) return nullptr;
  void* memory = std::aligned_alloc(alignment, round_up(bytes, alignment));  // NOLINT(cppcoreguidelines-no-malloc)
#if defined(MADV_HUGEPAGE)
  // Advice: nothing is lost where it is refused.
  if (memory != nullptr && alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return Memory(static_cast<std::byte*>(memory));
}

Result<PackedLinear> PackedLinear::pack(const LinearWeights& weights, const CpuFeatures& features,
                                        std::string_view kernel_name) {
  KPT_RETURN_IF_ERROR(check(weights));
  PackedLinear packed;
  KPT_ASSIGN_OR_RETURN(packed.kernel_, choose(weights.form, features, kernel_name));
  packed.form_ = weights.form;
  packed.out_features_ = weights.rows;
  packed.in_features_ = weights.columns;
  packed.group_ = weights.form == LinearForm::kWeightInt8 ? std::max<std::int64_t>(weights.columns, 1) : weights.group;
  KPT_RETURN_IF_ERROR(packed.lay_out(weights));
  std::memset(packed.weights_.get(), 0, packed.weights_bytes_);
  std::memset(packed.sides_.get(), 0, packed.sides_bytes_);
  for (std::int64_t panel = 0; panel < packed.panels_; ++panel) {
    if (weights.form == LinearForm::kInt4) {
      packed.fill_int4_panel(weights, panel);
    } else {
      packed.fill_panel(weights, panel);
    }
  }
  packed.fill_sides(weights);
  return packed;
}

Status PackedLinear::lay_out(const LinearWeights& weights) {
  // Extents are below 2^31 and an element takes at most 4 bytes: a panel fits 64 bits, the whole is checked.
  units_ = (in_features_ + kernel_.depth - 1) / kernel_.depth;
  panels_ = (out_features_ + kernel_.columns - 1) / kernel_.columns;
  const auto panel_elements = static_cast<std::size_t>(units_ * kernel_.depth * kernel_.columns);
  const bool bytes = form_ == LinearForm::kInt8 || form_ == LinearForm::kWeightInt8;
  const std::size_t half_bytes = form_ == LinearForm::kInt4 ? 1 : bytes ? 2 : form_ == LinearForm::kBfloat16 ? 4 : 8;
  panel_bytes_ = round_up(panel_elements * half_bytes / 2, kAlignment);
  const auto columns = static_cast<std::size_t>(panels_ * kernel_.columns);
  const auto groups = static_cast<std::size_t>(has_scaled_codes(form_) ? in_features_ / group_ : 1);
  std::size_t scale_bytes = 0;
  if (__builtin_mul_overflow(panel_bytes_, static_cast<std::size_t>(panels_), &weights_bytes_) ||
      __builtin_add_overflow(weights_bytes_, kSlack, &weights_bytes_) ||
      __builtin_mul_overflow(columns * 4, groups, &scale_bytes) ||
      weights_bytes_ > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) ||
      scale_bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 4) {
    return {StatusCode::kOutOfMemory, "packed weights would not fit into an address space"};
  }
  const bool quantized = form_ == LinearForm::kInt8 || has_scaled_codes(form_);
  const std::size_t bias_bytes = weights.bias != nullptr ? columns * 4 : 0;
  const std::size_t offset_bytes = kernel_.input_shift != 0 ? columns * 4 : 0;
  if (!quantized) scale_bytes = 0;
  sides_bytes_ = bias_bytes + offset_bytes + scale_bytes + kSlack;
  weights_ = allocate(weights_bytes_);
  sides_ = allocate(sides_bytes_);
  if (weights_ == nullptr || sides_ == nullptr) {
    return {StatusCode::kOutOfMemory,
            "no memory for " + std::to_string(weights_bytes_ + sides_bytes_) + " bytes of packed weights"};
  }
  if (bias_bytes > 0) bias_ = reinterpret_cast<float*>(sides_.get());
  if (offset_bytes > 0) offset_ = reinterpret_cast<std::int32_t*>(sides_.get() + bias_bytes);
  if (scale_bytes > 0) scale_ = reinterpret_cast<float*>(sides_.get() + bias_bytes + offset_bytes);
  return {};
}

// [K / weight_depth][column][weight_depth]; what lies beyond the weights' rows and columns stays zero.
void PackedLinear::fill_panel(const LinearWeights& weights, std::int64_t panel) {
  std::byte* target = weights_.get() + static_cast<std::size_t>(panel) * panel_bytes_;
  const std::int64_t first = panel * kernel_.columns;
  const auto count = static_cast<int>(std::min<std::int64_t>(kernel_.columns, out_features_ - first));
  const std::int64_t depth = kernel_.weight_depth > 0 ? kernel_.weight_depth : kernel_.depth;
  for (int column = 0; column < count; ++column) {
    const std::int64_t row = (first + column) * weights.row_stride;
    for (std::int64_t k = 0; k < in_features_; ++k) {
      const std::int64_t place = (k / depth * kernel_.columns + column) * depth + k % depth;
      if (form_ == LinearForm::kInt8 || form_ == LinearForm::kWeightInt8) {
        reinterpret_cast<std::int8_t*>(target)[place] = static_cast<const std::int8_t*>(weights.data)[row + k];
      } else if (form_ == LinearForm::kBfloat16) {
        reinterpret_cast<std::uint16_t*>(target)[place] =
            weights.type == ElementType::kBfloat16 ? static_cast<const std::uint16_t*>(weights.data)[row + k]
                                                   : to_bfloat16(static_cast<const float*>(weights.data)[row + k]);
      } else {
        reinterpret_cast<float*>(target)[place] = to_float(weights.data, weights.type, row + k);
      }
    }
  }
}

// [K / 2][column]: bytes keep the pairs they have. Missing rows get 8, the code of zero.
void PackedLinear::fill_int4_panel(const LinearWeights& weights, std::int64_t panel) {
  auto* target = reinterpret_cast<std::uint8_t*>(weights_.get()) + static_cast<std::size_t>(panel) * panel_bytes_;
  const auto* source = static_cast<const std::uint8_t*>(weights.data);
  for (int column = 0; column < kernel_.columns; ++column) {
    const std::int64_t row = panel * kernel_.columns + column;
    for (std::int64_t pair = 0; pair < in_features_ / 2; ++pair) {
      target[pair * kernel_.columns + column] =
          row < out_features_ ? source[row * weights.row_stride + pair] : std::uint8_t{0x88};
    }
  }
}

void PackedLinear::fill_sides(const LinearWeights& weights) {
  for (std::int64_t n = 0; n < out_features_; ++n) {
    if (bias_ != nullptr) bias_[n] = to_float(weights.bias, weights.bias_type, n);
    if (scale_ != nullptr && form_ == LinearForm::kInt8) scale_[n] = weights.scale[n];
    if (scale_ != nullptr && has_scaled_codes(form_)) {
      const std::int64_t groups = in_features_ / group_;
      const std::int64_t panel = n / kernel_.columns;
      for (std::int64_t g = 0; g < groups; ++g) {
        scale_[(panel * groups + g) * kernel_.columns + n % kernel_.columns] = weights.scale[n * groups + g];
      }
    }
    if (offset_ != nullptr) {
      std::int64_t sum = 0;
      const std::int8_t* row = static_cast<const std::int8_t*>(weights.data) + n * weights.row_stride;
      for (std::int64_t k = 0; k < in_features_; ++k) sum += row[k];
      offset_[n] = static_cast<std::int32_t>(-sum * kernel_.input_shift);
    }
  }
}

float PackedLinear::scale_row(const void* row, std::int64_t count, ElementType type) const {
  InputRows input;
  input.rows[0] = row;
  input.count = 1;
  input.depth = count;
  input.type = type;
  float scale = 0;
  kernel_.scale_rows(input, &scale);
  return scale;
}

void PackedLinear::quantize_row(const void* row, std::int64_t count, ElementType type, float scale,
                                std::int8_t* target) const {
  InputRows input;
  input.rows[0] = row;
  input.count = 1;
  input.depth = count;
  input.type = type;
  kernel_.quantize_row(input, scale, target);
}

}  // namespace kpt::kernels
