// Which nodes of a graph run together, when some run on a device and some on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kpt {

enum class Side : std::uint8_t {
  kDevice,
  kHost,
  kNowhere,  // nobody runs the node, and nobody waits for it
};

// Nodes that run one after the other on one side.
struct Part {
  Side side = Side::kDevice;
  std::vector<std::size_t> nodes;  // positions, ascending
};

// `needs[i]`: the nodes, all before i, whose results node i reads. No part waits for a later one, sides alternate, and
// no order of the nodes has fewer parts.
std::vector<Part> make_parts(const std::vector<std::vector<std::size_t>>& needs, const std::vector<Side>& sides);

}  // namespace kpt
