// Small models and runs for the tests of NVIDIA GPUs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "own_node_graph.h"

namespace kpt::execution_test {

// An option for what is made while it lives. No other thread may run.
// NOLINTBEGIN(concurrency-mt-unsafe)
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { EXPECT_EQ(setenv(name, value, 1), 0); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};
// NOLINTEND(concurrency-mt-unsafe)

inline std::vector<Tensor> run_once(Executable& executable, const std::vector<Tensor>& inputs, bool stay = false) {
  RunContext context;
  context.outputs_on_device = stay;
  std::vector<Tensor> outputs;
  const Status status = executable.run(context, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

// left + right, broadcast: [rows, 1] and [1, columns] give [rows, columns].
inline ImportedModel make_sum(std::int64_t rows, std::int64_t columns) {
  GraphBuilder builder(1);
  const auto left = builder.input("left", DType::kFloat32, {rows, 1});
  const auto right = builder.input("right", DType::kFloat32, {1, columns});
  builder.output(
      builder.node("aten.add.Tensor", {{"self", left}, {"other", right}}, {{DType::kFloat32, {rows, columns}}})[0]);
  return std::move(builder.model);
}

inline Tensor filled(const std::vector<std::int64_t>& sizes, float value) {
  Tensor tensor = Tensor::empty(DType::kFloat32, sizes).value();
  for (float& element : tensor.elements<float>()) element = value;
  return tensor;
}

}  // namespace kpt::execution_test
