// Plans of graphs whose calls are wrong: a status, or launches that stay within their memory, run here on the host.
#include "ir/changed_calls.h"

#include <cstring>
#include <iostream>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "base/files.h"
#include "engines/native/host_machine.h"
#include "engines/native/native_executable.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "support/rounds.h"
#include "support/tree_paths.h"

namespace kpt::native {
namespace {

// Zeros, as the recorded types of the inputs have them; they are not changed, so extents are small constants.
std::vector<Tensor> make_inputs(const ir::Graph& graph) {
  std::vector<Tensor> inputs;
  for (const ir::GraphInput& input : graph.inputs) {
    const ir::TensorType& type = graph.at(input.value).tensor;
    Dims dims;
    for (const ir::Expr& dim : type.dims) dims.push_back(*dim.constant());
    inputs.push_back(Tensor::empty(type.dtype, dims).value());
    if (inputs.back().bytes() != 0) std::memset(inputs.back().data(), 0, inputs.back().bytes());
  }
  return inputs;
}

TEST(ChangedCalls, PlansAnswerWithAStatusOrRunWithinTheirMemory) {
  const std::string text =
      read_text_file(source_dir() + "/tests/conformance/operators.graph", std::size_t{1} << 20U).value();
  const ir::Graph graph = ir::read_graph(text).value();
  const auto machine = std::make_shared<testing::HostMachine>(32);
  machine->limit_memory(std::size_t{1} << 24U);
  const std::uint64_t first_seed = std::random_device{}();
  std::cerr << "first seed " << first_seed << std::endl;  // a crash prints no trace
  int sound = 0;
  int run = 0;
  for (int round = 0; round < kpt::testing::rounds(4); ++round) {
    for (std::size_t place = 0; place < graph.nodes.size(); ++place) {
      const std::uint64_t seed = first_seed + (static_cast<std::uint64_t>(round) * graph.nodes.size()) + place;
      auto changed = std::make_shared<ir::Graph>(ir::node_alone(graph, place));
      const auto inputs = make_inputs(*changed);
      const std::string change = ir::CallChanger(graph, seed).change(*changed);
      if (!ir::verify(*changed).ok()) continue;
      ++sound;
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << change);
      const auto executable = NativeExecutable::load(changed, {}, machine);
      EXPECT_NE(executable.status().code(), StatusCode::kInternal) << executable.status().message();
      if (!executable.ok()) continue;
      RunContext context;
      std::vector<Tensor> outputs;
      const Status status = (*executable)->run(context, inputs, outputs, nullptr);
      EXPECT_NE(status.code(), StatusCode::kInternal) << status.message();
      run += status.ok() ? 1 : 0;
    }
  }
  EXPECT_GT(sound, 150);
  EXPECT_GT(run, 5);
}

}  // namespace
}  // namespace kpt::native
