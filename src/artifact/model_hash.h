// What a model is, as one number: the key under which results of work on it are kept.
#pragma once

#include <string>

#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

// 64 hexadecimal digits: SHA-256 over the graph's text, the weights' names, types, extents, strides and sharing, and
// the hashes of their memory by mebibyte. Models that differ in one bit of one weight differ here. Uses several
// threads for large models. Fails with kInvalidArgument for a weight that the CPU cannot read.
Result<std::string> hash_model(const ir::Graph& graph, const Weights& weights);

// How this program names itself in the files it writes, version and commit: what read a model may change with each.
std::string this_producer();

}  // namespace kpt
