// A model of FP8 weights with scales, as PyTorch exports one.
#pragma once

#include <cstdint>
#include <string>

#include "importer/model_file.h"

namespace kpt::execution_test {

// Two layers on `rows` rows (a number, or "s0": 2 to 64 of them): the first rounds its input to float8_e4m3fn and
// multiplies by aten._scaled_mm, with one scale of the input for all rows and a scale for each column of the weight; of
// the second the graph widens the weight. Every code but NaN is among the weights, and the scales differ by up to eight
// times.
ImportedModel make_fp8_checkpoint(std::uint64_t seed, const std::string& rows);

// Weights at random: every code of FP8 but NaN and infinity, float32 from 1/128 to 1/16, bfloat16 normal.
void draw_fp8_weights(ImportedModel& model, std::uint64_t seed);

}  // namespace kpt::execution_test
