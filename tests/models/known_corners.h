// Where libtorch's operators on GPUs are known to differ from those on the CPU, which random graphs reach: found on an
// H200, docs/measurements/2026-11-15-nvidia-models.md. Everything else that differs is a finding.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "kpt/tensor.h"

namespace kpt::model_cases {

// Of the outputs of one file of random graphs this many may be right but for put_ones_for_nan(): one was seen in 600
// graphs.
inline constexpr std::size_t kMostNanForOne = 1;

// One file in so many may stop at find_known_failure(): one in twelve did.
inline constexpr std::size_t kFilesForOneStop = 3;

// Which corner the failure of a run is, in a clause; nothing where it is none of them.
std::optional<std::string_view> find_known_failure(std::string_view message);

// A copy of `given` with `expected`'s ones where it has NaN; nothing where there is no such element. Both are of one
// type and shape.
std::optional<Tensor> put_ones_for_nan(const Tensor& given, const Tensor& expected);

}  // namespace kpt::model_cases
