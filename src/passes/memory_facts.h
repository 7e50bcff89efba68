// Which values of a graph may share memory, who writes memory, and which nodes have effects beside their results. Known
// from operators' names alone, without libtorch: what is not listed as giving fresh memory is taken to share with all
// its inputs, and what is no operator of PyTorch's or ours to write all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/weights.h"
#include "ir/graph.h"

namespace kpt {

// An operator of aten whose result is another in each run. For dropout: where it drops, or may.
bool draws_at_random(const ir::Node& node);
// A node whose results nobody uses may go: no writes, no random numbers (the next ones would change), no checks.
bool is_removable(const ir::Node& node);
// The same arguments give the same results, in memory of the node's own or as views: two such nodes are one, and one
// whose arguments are constants is a constant. Never for what leaves memory uninitialised.
bool is_pure(const ir::Node& node);
// Its results never share memory with its arguments.
bool gives_fresh_memory(const ir::Node& node);
// aten.add_.Tensor and the like; their first argument is what is written.
bool is_in_place(const ir::Node& node);
// Whether it may write one of its arguments, itself or in a sub-graph.
bool may_write(const ir::Node& node);

class MemoryFacts {
 public:
  // Weights whose buffers are the same are taken to share memory.
  MemoryFacts(const ir::Graph& graph, const Weights& weights);

  bool may_share(ir::ValueId a, ir::ValueId b) const { return root(a) == root(b); }
  // By any node of the graph. Values added later count as not written.
  bool is_written(ir::ValueId id) const;
  // No node after `from` and before `to` (positions in graph.nodes when this was made) writes the value's memory: a
  // read at `from` may be done at `to` instead.
  bool is_steady(ir::ValueId id, std::size_t from, std::size_t to) const;

 private:
  std::uint32_t root(ir::ValueId id) const;
  void unite_weights(const ir::Graph& graph, const Weights& weights);
  void unite(ir::ValueId a, ir::ValueId b);
  void add_node(const ir::Graph& graph, std::size_t position);

  mutable std::vector<std::uint32_t> parent_;
  std::vector<std::vector<std::size_t>> writes_;  // positions, by root
};

// Whether the value is a weight that keeps its content: not written by a node and not replaced after a run.
class ConstantWeights {
 public:
  ConstantWeights(const ir::Graph& graph, const Weights& weights, const MemoryFacts& facts);
  // Null when it is none.
  const Tensor* find(ir::ValueId id) const;
  const std::string& name(ir::ValueId id) const { return names_[ir::index_of(id)]; }

 private:
  std::vector<std::string> names_;  // by value; empty: no constant weight
  const Weights* weights_;
};

}  // namespace kpt
