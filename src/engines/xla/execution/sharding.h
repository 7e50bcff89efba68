// How a graph is spread over several devices of one plugin: which arguments and results are cut, and along which axis.
// The answers are those of one device whatever is cut: XLA puts in what the devices must exchange. What is cut decides
// about time and memory only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/xla/stablehlo/lower.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

// The axis along which each device has an equal part; nothing: each has all of it.
using Cut = std::optional<std::size_t>;

// What is cut.
enum class Sharding : std::uint8_t {
  kBatch,    // rows of inputs and outputs; every device has all weights
  kWeights,  // weights of products; every device has all inputs
};

// Of one module.
struct ModuleCuts {
  std::vector<Cut> arguments;  // as LoweredModule::arguments
  std::vector<Cut> results;    // as LoweredModule::results
};

class ShardPlan {
 public:
  // One device: nothing is cut.
  ShardPlan() = default;
  // Fails with kModelPreparation for Sharding::kWeights when no weight has an extent that the number divides. Products
  // with weights are taken in pairs: the first is cut along its outputs, the one behind it along its inputs, so that
  // the devices meet once for both. Buffers are never cut; parameters that the model writes are its user's to name.
  static Result<ShardPlan> make(const ir::Graph& graph, std::size_t devices, Sharding sharding);

  std::size_t devices() const { return devices_; }
  // What the rows of a batch must be a multiple of.
  std::int64_t row_multiple() const { return sharding_ == Sharding::kBatch ? static_cast<std::int64_t>(devices_) : 1; }
  // Of a weight, by its place among the graph's inputs.
  Cut weight(std::size_t input) const { return input < weights_.size() ? weights_[input] : std::nullopt; }
  // A weight that the model writes: its next value is made whole.
  void keep_whole(std::size_t input) {
    if (input < weights_.size()) weights_[input] = std::nullopt;
  }
  // Fails with kInvalidArgument for a batch that the devices cannot share evenly, and with kModelPreparation for a
  // module without a batch.
  Result<ModuleCuts> cut(const ir::Graph& graph, const xla::LoweredModule& module) const;
  // "on 4 devices, each with its part of the batch"; empty for one.
  std::string describe() const;

 private:
  std::size_t devices_ = 1;
  Sharding sharding_ = Sharding::kBatch;
  std::vector<Cut> weights_;  // by graph input
};

// As XLA's partitioner (Shardy) reads it: the devices in a row, and an argument or result of that rank on them.
std::string mesh_operation(std::size_t devices);
std::string sharding_attribute(std::size_t rank, Cut cut);

}  // namespace kpt
