// Type promotion as PyTorch does it: tensors with dimensions decide, then tensors without, then Python's numbers; a
// later group only counts when it is of a higher kind (bool < integer < float).
#pragma once

#include <optional>
#include <span>

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

// A tensor or a number in the place of one.
struct Operand {
  std::optional<Value> tensor;
  Number number = std::int64_t{0};  // when there is no tensor
};

// Throws Refusal for pairs that PyTorch does not promote (wide unsigned integers).
DType promote(DType a, DType b);
DType promote_operands(std::span<const Operand> operands);

}  // namespace kpt::xla
