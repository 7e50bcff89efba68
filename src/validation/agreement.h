// How far two results of one value are apart, where neither is the reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "kpt/tensor.h"

namespace kpt {

struct Agreement {
  double max_difference = INFINITY;       // infinite where they cannot be compared, or NaN is in one alone
  double cosine = 0;                      // of floating numbers; 1 for others that can be compared
  std::optional<std::int64_t> differing;  // of integers and truth values: how many elements are not equal
  std::int64_t elements = 0;              // of how many
};

// Floating numbers of any two types are compared as float64, others only with their own type; other extents cannot be
// compared. Both are on the host.
Agreement measure_agreement(const Tensor& first, const Tensor& second);

}  // namespace kpt
