#include "kernels/cpu/rows.h"

#include <bit>
#include <cstring>

namespace kpt::kernels {
namespace {

float widen_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t narrow_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto quiet = static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const auto rounded = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  return (bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded;
}

float widen_float16(std::uint16_t bits) {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000U) << 16;
  const std::uint32_t magnitude = (static_cast<std::uint32_t>(bits) & 0x7fffU) << 13;
  // Read with float32's bias the number is too small by 2^112; the product is right for subnormal ones as well.
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const std::uint32_t special = magnitude | 0x7f800000U;
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000U ? special : finite));
}

std::uint16_t narrow_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Below 2^-14 the last bit stands for 2^-24: adding 0.5 (whose last bit that is) rounds there.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  std::uint32_t result = magnitude < 0x38800000U ? small : normal;
  if (magnitude >= 0x477ff000U) result = 0x7c00U;  // rounds beyond the greatest number
  if (magnitude > 0x7f800000U) result = 0x7e00U;
  return static_cast<std::uint16_t>(sign | result);
}

template <typename From, typename Convert>
void load(const From* source, std::int64_t step, std::int64_t count, float* target, const Convert& convert) {
  if (step == 1) {
    for (std::int64_t index = 0; index < count; ++index) target[index] = convert(source[index]);
    return;
  }
  for (std::int64_t index = 0; index < count; ++index) target[index] = convert(source[index * step]);
}

}  // namespace

bool is_row_type(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

std::int64_t Rows::count() const {
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis + 1 < rank; ++axis) product *= sizes[axis];
  return product;
}

const void* Rows::row(std::int64_t index) const {
  std::int64_t offset = 0;
  for (std::size_t axis = rank - 1; axis-- > 0;) {
    offset += index % sizes[axis] * strides[axis];
    index /= sizes[axis];
  }
  return static_cast<const char*>(data) + offset * static_cast<std::int64_t>(element_bytes(dtype));
}

void load_row(const void* source, DType dtype, std::int64_t step, std::int64_t count, float* target) {
  if (dtype == DType::kFloat32) {
    const auto* from = static_cast<const float*>(source);
    if (step == 1) {
      std::memcpy(target, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    }
    load(from, step, count, target, [](float value) { return value; });
    return;
  }
  const auto* from = static_cast<const std::uint16_t*>(source);
  if (dtype == DType::kBFloat16) {
    load(from, step, count, target, widen_bfloat16);
  } else {
    load(from, step, count, target, widen_float16);
  }
}

void store_row(const float* source, std::int64_t count, DType dtype, void* target) {
  if (dtype == DType::kFloat32) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  auto* to = static_cast<std::uint16_t*>(target);
  if (dtype == DType::kBFloat16) {
    for (std::int64_t index = 0; index < count; ++index) to[index] = narrow_bfloat16(source[index]);
  } else {
    for (std::int64_t index = 0; index < count; ++index) to[index] = narrow_float16(source[index]);
  }
}

}  // namespace kpt::kernels
