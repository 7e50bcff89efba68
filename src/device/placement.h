// Where the parts of a graph run, when no single device runs all of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace kpt {

// Nodes that run together on one device.
struct PlacedPart {
  std::string device;                 // "xla:cuda", "cpu"
  std::vector<std::size_t> nodes;     // positions in the graph, in the order they run
  std::vector<ir::ValueId> received;  // what other parts computed and this one reads; it comes over the host
};

struct Placement {
  std::vector<PlacedPart> parts;        // in the order they run; empty: the whole graph on one device
  std::vector<std::size_t> size_nodes;  // nodes that give sizes only: known from the inputs, so no device runs them
  // Where nodes cannot run: what would let them, or why nothing does; one clause. Empty: nothing to say.
  std::string advice;
};

}  // namespace kpt
