// How a graph is split between a device that cannot run all of it and the host.
//
// Tensors go from part to part over the host. Sizes do not travel: an integer that follows from the sizes of the inputs
// is computed by whoever runs the parts. Nodes whose sizes only a run shows, and nodes that share a computed number or
// truth value with a node of the host, run on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/execution.h"
#include "ir/graph.h"
#include "kpt/status.h"
#include "runtime/partition.h"

namespace kpt {

struct SplitPlan {
  ir::Graph graph;          // with the nodes and values of the one that was split, none of which writes memory
  std::vector<Part> parts;  // at least one on each side
  std::vector<Side> sides;  // by node
};

// `kept`: positions of nodes that stay on the host whatever the device says. Fails with kUnsupported when the graph
// writes memory, reads it by strides, or has nodes that neither side runs, and when nothing is left for the device.
Result<SplitPlan> plan_split(const ir::Graph& graph, const Target& device, const Target& host,
                             const std::vector<std::size_t>& kept = {});

// find_shown_symbols() of the graph.
class ToldSymbols {
 public:
  explicit ToldSymbols(const ir::Graph& graph);
  bool contains(const std::string& symbol) const;
  // Whether the inputs show what it is.
  bool tell(const ir::Expr& expression) const;
  bool tell(const std::vector<ir::Expr>& expressions) const;
  // An integer that follows from them.
  bool is_size(const ir::Value& value) const { return value.kind == ir::ValueKind::kInt && tell(value.expression); }

 private:
  std::set<std::string, std::less<>> symbols_;
};

// "3 parts: 17 nodes on xla:cuda, 1 on cpu"
std::string describe_parts(const Placement& placement);
// Of what the part receives from others; nothing when a size is not known or the sum passes 64 bits.
std::optional<std::uint64_t> count_received_bytes(const ir::Graph& graph, const PlacedPart& part,
                                                  const ir::Bindings& sizes);

}  // namespace kpt
