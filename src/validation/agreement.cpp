#include "validation/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/accuracy.h"
#include "validation/model_run.h"

namespace kpt {
namespace {

template <typename T>
Agreement count_differing(const Tensor& first, const Tensor& second) {
  Agreement found{0, 1, 0, first.element_count()};
  const auto left = first.elements<T>();
  const auto right = second.elements<T>();
  for (std::size_t index = 0; index < left.size(); ++index) {
    if (left[index] == right[index]) continue;
    ++*found.differing;
    const double difference = std::fabs(static_cast<double>(left[index]) - static_cast<double>(right[index]));
    found.max_difference = std::max(found.max_difference, difference);
  }
  return found;
}

// Complex numbers: equal or not.
Agreement count_other(const Tensor& first, const Tensor& second) {
  Agreement found{0, 1, 0, first.element_count()};
  const std::size_t width = element_bytes(first.dtype());
  const auto* left = static_cast<const std::byte*>(first.data());
  const auto* right = static_cast<const std::byte*>(second.data());
  for (std::size_t at = 0; at < first.bytes(); at += width) {
    if (std::memcmp(left + at, right + at, width) != 0) ++*found.differing;
  }
  if (*found.differing > 0) found.max_difference = std::numeric_limits<double>::infinity();
  return found;
}

Agreement measure_integers(const Tensor& first, const Tensor& second) {
  const auto left = first.contiguous_copy();
  const auto right = second.contiguous_copy();
  if (!left.ok() || !right.ok() || first.dtype() != second.dtype()) return {};
  switch (first.dtype()) {
    case DType::kBool:
    case DType::kUInt8: return count_differing<std::uint8_t>(*left, *right);
    case DType::kInt8: return count_differing<std::int8_t>(*left, *right);
    case DType::kUInt16: return count_differing<std::uint16_t>(*left, *right);
    case DType::kInt16: return count_differing<std::int16_t>(*left, *right);
    case DType::kUInt32: return count_differing<std::uint32_t>(*left, *right);
    case DType::kInt32: return count_differing<std::int32_t>(*left, *right);
    case DType::kUInt64: return count_differing<std::uint64_t>(*left, *right);
    case DType::kInt64: return count_differing<std::int64_t>(*left, *right);
    default: return count_other(*left, *right);
  }
}

}  // namespace

Agreement measure_agreement(const Tensor& first, const Tensor& second) {
  if (!(first.dims() == second.dims())) return {};
  if (!is_floating(first.dtype()) && !is_floating(second.dtype())) return measure_integers(first, second);
  const auto left = convert_floating(first, DType::kFloat64);
  const auto right = convert_floating(second, DType::kFloat64);
  if (!left.ok() || !right.ok()) return {};
  const auto compared = compare(*right, *left, *left, {1e300, 1e300, 2});
  if (!compared.ok() || !compared->passed) return {};
  return {compared->max_absolute_difference, compared->cosine, std::nullopt, first.element_count()};
}

}  // namespace kpt
