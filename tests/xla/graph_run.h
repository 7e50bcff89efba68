// A graph with its weights on XLA, run by run, keeping what it writes: the lowering and the plugin without a backend
// around them. Parts of a graph that have no lowering can be cut off and named.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/tensor.h"
#include "module_runner.h"

namespace kpt::xla_test {

// Takes nodes without lowering out of the graph, with all that depends on them, and the outputs that are gone with
// them. Gives the targets that had no lowering, each with its reason.
std::set<std::string> cut_unsupported(ir::Graph& graph);

class GraphRun {
 public:
  GraphRun(ModuleRunner& runner, const ir::Graph& graph, const Weights& weights);

  // `inputs` by name. Gives the user outputs by name.
  Result<std::vector<NamedTensor>> run(const std::map<std::string, Tensor>& inputs);

 private:
  Result<xla::LoweredModule> get_module(const std::map<std::string, Tensor>& inputs);

  ModuleRunner& runner_;
  const ir::Graph& graph_;
  const Weights& weights_;
  std::map<std::uint32_t, Tensor> state_;  // by graph input: what the last run wrote
  std::map<std::vector<std::int64_t>, xla::LoweredModule> modules_;
};

}  // namespace kpt::xla_test
