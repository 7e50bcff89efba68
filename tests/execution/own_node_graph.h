// Small graphs with nodes of our own, and how to run them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bert_graph.h"

namespace kpt::execution_test {

struct ResultType {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
};

// Builds `model` value by value; everything random follows from the seed.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::uint64_t seed) : random_(seed) {}

  ir::Argument input(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes);
  // Random elements of a normal distribution.
  ir::Argument weight(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes);
  // Nodes are named node_0, node_1, …
  std::vector<ir::Argument> node(const std::string& target, std::vector<ir::NamedArgument> arguments,
                                 const std::vector<ResultType>& results);
  // kpt.add_norm over float32 without weights.
  std::vector<ir::Argument> add_norm(const ir::Argument& input, const ir::Argument& residual,
                                     const std::vector<std::int64_t>& sizes);
  void output(const ir::Argument& value);
  // Changes what is recorded of a value.
  void set_sizes(const ir::Argument& value, const std::vector<std::int64_t>& sizes);

  // One tensor per input: normally distributed floats, random truth values.
  std::vector<Tensor> draw_inputs();
  Tensor draw(DType dtype, const std::vector<std::int64_t>& sizes);

  ImportedModel model;

 private:
  ir::ValueId add_value(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes);
  std::mt19937_64 random_;
  std::vector<ResultType> inputs_;
};

// Every kind of own node once, each result used by the next.
void add_block(GraphBuilder& builder);

Result<std::vector<Tensor>> run(const detail::LoadedModel& model, const std::vector<Tensor>& inputs);

}  // namespace kpt::execution_test
