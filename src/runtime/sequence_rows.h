// Whether a model's sequences can be run with further positions behind their end.
//
// That is read off the graph, along one symbol that is an extent of the inputs. A value may have it as extents; where
// all its coordinates along them are of the sequence's own positions, it must be what it is without padding. For most
// operators that holds of the result where it holds of the arguments. Those that go over all positions (attention,
// softmax, sums) need more: that what stands behind the end is known there, a mask that is false or -inf, or a zero.
// Such knowledge comes from comparing positions (key <= query), from tril and triu, or, in models that look both ways,
// from a mask among the inputs that is padded with zeros. What is not known is refused.
//
// The padded sequence is one that the model could be given: its first positions are the caller's. Kernels multiply by
// zero what they hide: keys and values behind the end, and what a mask of zeros is multiplied with. So these must be
// finite, as they are for a valid input. Everywhere else padding may hold anything, NaN too.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

struct SequenceRows {
  std::string symbol;
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  // Inputs of integers and truth values are padded with zeros, since a mask among them hides what is behind the end.
  // Otherwise, and in inputs of other types, the last position is repeated.
  bool masked = false;
};

// What weights without axes hold, by their names: constants of masks. Only 0, 1 and infinities, as the proof follows
// no others.
using WeightNumbers = std::map<std::string, double, std::less<>>;
WeightNumbers read_weight_numbers(const Weights& weights);

// Fails with kUnsupported and the reason, naming the node.
Result<SequenceRows> find_sequence_rows(const ir::Graph& graph, const WeightNumbers& numbers = {});

}  // namespace kpt
