#include "passes/weight_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

template <typename T>
std::vector<double> widen(const Tensor& tensor) {
  const auto elements = tensor.elements<T>();
  std::vector<double> values(elements.size());
  for (std::size_t index = 0; index < elements.size(); ++index) values[index] = static_cast<double>(elements[index]);
  return values;
}

// A double rounded once to a 16-bit format: going through float first could round twice.
std::uint16_t round_to_16_bits(double value, int exponent_bits, int mantissa_bits) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  const int top = (1 << exponent_bits) - 1;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | (top << mantissa_bits) | (1 << (mantissa_bits - 1)));
  const int bias = top / 2;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);                                   // magnitude = f * 2^exponent, f in [0.5, 1)
  const int unit = std::max(exponent - 1, 1 - bias) - mantissa_bits;  // exponent of the last place
  const double steps = std::isinf(magnitude) ? HUGE_VAL : std::nearbyint(std::ldexp(magnitude, -unit));
  if (std::isinf(steps)) return static_cast<std::uint16_t>(sign | (top << mantissa_bits));
  // Subnormals count from zero; a carry into the next exponent is what the addition does by itself.
  const auto whole = static_cast<std::int64_t>(steps);
  const std::int64_t hidden = std::int64_t{1} << mantissa_bits;
  std::int64_t bits = whole;
  if (whole >= hidden)
    bits = (static_cast<std::int64_t>(unit + mantissa_bits + bias) << mantissa_bits) + whole - hidden;
  const std::int64_t infinity = static_cast<std::int64_t>(top) << mantissa_bits;
  return static_cast<std::uint16_t>(sign | std::min(bits, infinity));
}

}  // namespace

Result<std::vector<double>> read_as_double(const Tensor& tensor) {
  Tensor source = tensor;
  if (is_floating(tensor.dtype())) {
    KPT_ASSIGN_OR_RETURN(source, promote_to_fp64(tensor));
  }
  if (!source.is_contiguous()) {
    KPT_ASSIGN_OR_RETURN(source, source.contiguous_copy());
  }
  switch (source.dtype()) {
    case DType::kFloat64: return widen<double>(source);
    case DType::kInt64: return widen<std::int64_t>(source);
    case DType::kInt32: return widen<std::int32_t>(source);
    case DType::kInt16: return widen<std::int16_t>(source);
    case DType::kInt8: return widen<std::int8_t>(source);
    case DType::kUInt8:
    case DType::kBool: return widen<std::uint8_t>(source);
    default: break;
  }
  return Status(StatusCode::kUnsupported,
                fmt::format("{} numbers cannot be read as double", to_string(tensor.dtype())));
}

Result<Tensor> make_weight(DType dtype, std::span<const std::int64_t> dims, std::span<const double> values) {
  KPT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::empty(dtype, dims));
  if (static_cast<std::size_t>(tensor.element_count()) != values.size()) {
    return Status(StatusCode::kInternal, "a weight has another number of elements than its extents say");
  }
  switch (dtype) {
    case DType::kFloat64: std::memcpy(tensor.data(), values.data(), tensor.bytes()); return tensor;
    case DType::kFloat32:
      for (std::size_t index = 0; index < values.size(); ++index) {
        tensor.elements<float>()[index] = static_cast<float>(values[index]);
      }
      return tensor;
    case DType::kFloat16:
    case DType::kBFloat16: {
      const bool half = dtype == DType::kFloat16;
      const auto elements = tensor.elements<std::uint16_t>();
      for (std::size_t index = 0; index < values.size(); ++index) {
        elements[index] = round_to_16_bits(values[index], half ? 5 : 8, half ? 10 : 7);
      }
      return tensor;
    }
    default: break;
  }
  return Status(StatusCode::kUnsupported, fmt::format("weights are not made in {}", to_string(dtype)));
}

Result<Tensor> round_to_bfloat16(const Tensor& tensor) {
  KPT_ASSIGN_OR_RETURN(const Tensor source, tensor.is_contiguous() ? tensor : tensor.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(Tensor result, Tensor::empty(DType::kBFloat16, tensor.dims()));
  const auto from = source.elements<float>();
  const auto to = result.elements<std::uint16_t>();
  for (std::size_t index = 0; index < from.size(); ++index) {
    const auto bits = std::bit_cast<std::uint32_t>(from[index]);
    const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
    to[index] = static_cast<std::uint16_t>((std::isnan(from[index]) ? bits | 0x400000U : rounded) >> 16U);
  }
  return result;
}

std::uint8_t to_float8_e4m3fn(double value) {
  constexpr double kGreatest = 448;
  constexpr double kLeastNormal = 0x1p-6;
  constexpr int kCut = 52 - 3;  // of a double's fraction, so that three bits stay
  const double size = std::min(std::fabs(value), kGreatest);
  // From 2^-6 on: the exponent and three bits behind it, to the nearest; a carry goes into the exponent by itself.
  const auto bits = std::bit_cast<std::uint64_t>(size);
  const std::uint64_t rounded = bits + (std::uint64_t{1} << (kCut - 1)) - 1 + ((bits >> kCut) & 1U);
  constexpr std::int64_t kLeastExponent = std::int64_t{1023 - 7} * 8;
  const auto normal = static_cast<std::int32_t>(static_cast<std::int64_t>(rounded >> kCut) - kLeastExponent);
  // Below, codes count steps of 2^-9. The sum has no bits behind the point.
  constexpr double kNoFraction = 0x1.8p52;
  const auto steps = static_cast<std::int32_t>((size * 0x1p9 + kNoFraction) - kNoFraction);
  const std::int32_t code = size < kLeastNormal ? steps : normal;
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

Result<Tensor> concatenate_rows(std::span<const Tensor> tensors) {
  Dims dims = tensors[0].dims();
  dims[0] = 0;
  for (const Tensor& tensor : tensors) dims[0] += tensor.dims()[0];
  KPT_ASSIGN_OR_RETURN(Tensor result, Tensor::empty(tensors[0].dtype(), dims));
  auto* place = static_cast<std::byte*>(result.data());
  for (const Tensor& tensor : tensors) {
    KPT_ASSIGN_OR_RETURN(const Tensor source, tensor.is_contiguous() ? tensor : tensor.contiguous_copy());
    if (source.bytes() != 0) std::memcpy(place, source.data(), source.bytes());
    place += source.bytes();
  }
  return result;
}

Result<Tensor> transpose_matrix(const Tensor& tensor) {
  const Dims dims = {tensor.dims()[1], tensor.dims()[0]};
  const Dims strides = {tensor.strides()[1], tensor.strides()[0]};
  return Tensor::unchecked(tensor.buffer(), tensor.dtype(), dims, strides, tensor.offset()).contiguous_copy();
}

}  // namespace kpt
