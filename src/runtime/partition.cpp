#include "runtime/partition.h"

#include <algorithm>

namespace kpt {
namespace {

// Takes everything that can run on one side, then on the other, and so on. After any number of turns no other order
// that begins on the same side can have run a node more, so none ends earlier.
std::vector<Part> take_turns(const std::vector<std::vector<std::size_t>>& needs, const std::vector<Side>& sides,
                             Side first) {
  std::vector<bool> done(sides.size(), false);
  std::vector<std::size_t> waiting;
  for (std::size_t node = 0; node < sides.size(); ++node) {
    if (sides[node] == Side::kNowhere) {
      done[node] = true;
    } else {
      waiting.push_back(node);
    }
  }
  std::vector<Part> parts;
  for (Side side = first; !waiting.empty(); side = side == Side::kDevice ? Side::kHost : Side::kDevice) {
    Part part{side, {}};
    std::vector<std::size_t> left;
    for (const std::size_t node : waiting) {  // in order: what a node of this turn needs was seen before it
      const bool ready =
          sides[node] == side && std::ranges::all_of(needs[node], [&done](std::size_t other) { return done[other]; });
      done[node] = ready;
      (ready ? part.nodes : left).push_back(node);
    }
    waiting = std::move(left);
    if (!part.nodes.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

std::vector<Part> make_parts(const std::vector<std::vector<std::size_t>>& needs, const std::vector<Side>& sides) {
  std::vector<Part> device_first = take_turns(needs, sides, Side::kDevice);
  std::vector<Part> host_first = take_turns(needs, sides, Side::kHost);
  return host_first.size() < device_first.size() ? host_first : device_first;
}

}  // namespace kpt
