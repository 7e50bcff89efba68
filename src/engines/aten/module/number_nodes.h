// Python's arithmetic on numbers: the nodes that compute sizes ("_operator.floordiv", "torch.sym_max", …).
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/ivalue.h>

namespace kpt::aten {

// Operands are int, float or bool IValues; the result is one. Python's semantics: floor division, the modulus has the
// sign of the divisor, integers never become floats by themselves. Throws CallFailure where Python raises (a
// division by zero), and for what Python would carry on with and nobody here can: integers beyond 64 bits, complex
// numbers.
using NumberFunction = c10::IValue (*)(std::span<const c10::IValue> operands);

struct NumberOperator {
  std::string_view target;
  int arity = 0;
  NumberFunction function = nullptr;
};

// Null when the target is not one of them.
const NumberOperator* find_number_operator(std::string_view target);

}  // namespace kpt::aten
