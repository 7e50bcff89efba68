#include "engines/xla/stablehlo/promotion.h"

#include <fmt/format.h>

namespace kpt::xla {
namespace {

int kind_of(DType dtype) {
  if (dtype == DType::kBool) return 0;
  return is_integral(dtype) ? 1 : is_floating(dtype) ? 2 : 3;
}

DType promote_integers(DType a, DType b) {
  const bool a_byte = a == DType::kUInt8;
  const bool b_byte = b == DType::kUInt8;
  if (!a_byte && !b_byte) return element_bytes(a) >= element_bytes(b) ? a : b;
  const DType other = a_byte ? b : a;
  return other == DType::kInt8 ? DType::kInt16 : other;
}

std::optional<DType> join(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || kind_of(*lower) <= kind_of(*higher)) return higher;
  return promote(*higher, *lower);
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  const int a_kind = kind_of(a);
  const int b_kind = kind_of(b);
  if (a_kind == 3 || b_kind == 3) throw Refusal{"it computes with complex numbers"};
  if (a_kind != b_kind) return a_kind > b_kind ? a : b;
  if (a_kind == 2) {
    if (element_bytes(a) == element_bytes(b)) return DType::kFloat32;  // float16 with bfloat16
    return element_bytes(a) > element_bytes(b) ? a : b;
  }
  for (const DType dtype : {a, b}) {
    if (dtype == DType::kUInt16 || dtype == DType::kUInt32 || dtype == DType::kUInt64) {
      throw Refusal{fmt::format("PyTorch does not promote {} with {}", to_string(a), to_string(b))};
    }
  }
  return promote_integers(a, b);
}

DType promote_operands(std::span<const Operand> operands) {
  std::optional<DType> with_dims;
  std::optional<DType> without_dims;
  std::optional<DType> numbers;
  const auto add = [](std::optional<DType>& group, DType dtype) { group = group ? promote(*group, dtype) : dtype; };
  for (const Operand& operand : operands) {
    if (operand.tensor) {
      add(operand.tensor->dims.empty() ? without_dims : with_dims, operand.tensor->dtype);
    } else if (std::holds_alternative<double>(operand.number)) {
      add(numbers, DType::kFloat32);
    } else {
      add(numbers, std::holds_alternative<bool>(operand.number) ? DType::kBool : DType::kInt64);
    }
  }
  return join(with_dims, join(without_dims, numbers)).value_or(DType::kFloat32);
}

}  // namespace kpt::xla
