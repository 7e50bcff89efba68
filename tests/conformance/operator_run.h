// A graph of fixed sizes with random inputs and what libtorch answers on the CPU, as it is and in fp64: what another
// device is held against.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "importer/model_file.h"
#include "ir/graph.h"
#include "kpt/model.h"

namespace kpt::conformance {

class OperatorRun {
 public:
  // All that `graph` reads are inputs of callers.
  static Result<OperatorRun> make(const ir::Graph& graph, std::mt19937_64& random);

  const ImportedModel& model() const { return model_; }
  const std::vector<NamedTensor>& inputs() const { return inputs_; }

  // Reports every output that differs by more than the accuracy rule allows as a failure of the running test.
  void judge(std::span<const NamedTensor> outputs) const;

 private:
  ImportedModel model_;
  std::vector<NamedTensor> inputs_;
  std::vector<NamedTensor> plain_;
  std::vector<NamedTensor> exact_;
};

}  // namespace kpt::conformance
