// Which of the two FP8 types keeps more of a product's input: float8_e4m3fn has a bit more of each number, float8_e5m2
// keeps numbers that are 2^13 times smaller beside the greatest.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "validation/gate.h"

namespace kpt {

// What rounding the input to each type adds to a product's results: squares relative to those of the results, the mean
// over the rows, where errors and elements of a row are taken as independent of each other. At most 1 for a row.
struct Fp8InputError {
  double e4m3 = 0;
  double e5m2 = 0;
  std::size_t rows = 0;  // that are not zero
};

// `input`: rows of `column_squares.size()` elements; elements that are no finite numbers do not count.
// `column_squares`: for each column of the weight, the sum of its squares: how much an element of that column counts.
// `row_scales`: each row is scaled by its own greatest magnitude, else all by that of the tensor.
Fp8InputError measure_fp8_input(std::span<const double> input, std::span<const double> column_squares, bool row_scales);

// The FP8 products of the candidate whose inputs on the gate's draws float8_e5m2 keeps better, by name. Runs the
// candidate on the gate's device.
Result<std::vector<std::string>> find_wide_inputs(const ImportedModel& candidate, const Gate& gate);

}  // namespace kpt
