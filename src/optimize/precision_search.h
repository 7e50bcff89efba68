// Which layers must stay precise for the gate to pass: a greedy search by the error that each adds.
#pragma once

#include <string>
#include <vector>

#include "validation/gate.h"

namespace kpt {

// Nodes of the candidate that compute in a narrower type than the model's own: 8-bit or 4-bit weights, 16-bit floats in
// a model of 32 bits.
std::vector<std::string> list_low_precision(const ImportedModel& model, const ir::Graph& candidate);

// Those nodes, the one that adds most to the relative error first: error of its result less that of what it takes, on
// the draw that failed. Nodes whose values the model does not have come last.
Result<std::vector<std::string>> rank_by_added_error(const ImportedModel& model, const ImportedModel& candidate,
                                                     const Gate& gate, std::size_t draw, const PlacedDevice& cpu);

}  // namespace kpt
