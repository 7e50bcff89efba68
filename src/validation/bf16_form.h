// The bf16 form of a model: what "a plain bf16 run" means where the accuracy gate speaks of one.
//
// Everything that depends on a parameter or on a floating input of the user becomes bfloat16: values, casts, weights.
// What comes from integers, buffers and constants alone (positions, rotary tables, masks) is computed in the model's
// own type and rounded where it meets the rest, as models for bf16 do; rounding positions would make the form so wrong
// that it forbids nothing. Constants beyond bfloat16's range become its largest number instead of infinity.
#pragma once

#include <cstdint>
#include <string_view>

#include "importer/model_file.h"
#include "kpt/status.h"

namespace kpt {

enum class Bf16Way : std::uint8_t {
  kReal,       // operators are given bfloat16 tensors
  kSimulated,  // operators compute in the model's own type; weights, inputs and every result are rounded to bfloat16
};

std::string_view bf16_way_name(Bf16Way way);  // "run in bfloat16", "simulated: every result rounded to bfloat16"

// Fails with kUnsupported for graphs that kReal cannot express: sub-graphs, operators that write their arguments.
Result<ImportedModel> make_bf16_form(const ImportedModel& model, Bf16Way way);

}  // namespace kpt
