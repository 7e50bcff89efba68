// Which layers must stay precise for the gate to pass: a greedy search by the error that each adds.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/execution.h"
#include "validation/gate.h"

namespace kpt {

// Nodes of the candidate that compute in a narrower type than the model's own: weights of 8 bits (integers or FP8) or
// 4, 16-bit floats in a model of 32 bits.
std::vector<std::string> list_low_precision(const ImportedModel& model, const ir::Graph& candidate);

// The narrow types of weights that the model did not have, as ArtifactTarget::needs writes them: what the candidate
// gains by it depends on fast products in them. Only those that are fast on the target it was made on: elsewhere the
// gain was another.
std::vector<std::string> list_fast_types(const ImportedModel& model, const ir::Graph& candidate,
                                         const Capabilities& capabilities);

// What passes put between values of the model is compared with nothing; where only elements are moved, both sides of
// the move have one error, of several results the greatest. Adds those to `errors`, by value.
void follow_moves(const ir::Graph& graph, std::map<std::string, double, std::less<>>& errors);

// Those nodes, the one that adds most to the relative error first: error of its result less that of what it takes, on
// the draw that failed. Nodes whose values the model does not have come last.
Result<std::vector<std::string>> rank_by_added_error(const ImportedModel& model, const ImportedModel& candidate,
                                                     const Gate& gate, std::size_t draw, const PlacedDevice& cpu);

// Eight bits cost more than bfloat16: while quantized nodes are among these, only they stay in the list.
void keep_quantized_only(const ir::Graph& candidate, std::vector<std::string>& names);

// One step up for each node: quantized ones go to `not_quantized` and become what the level gives the rest, the others
// to `kept_precise`, the model's own precision. False when nothing is left to raise.
bool raise_precision(const ir::Graph& candidate, const std::vector<std::string>& names,
                     std::vector<std::string>& not_quantized, std::vector<std::string>& kept_precise);

}  // namespace kpt
