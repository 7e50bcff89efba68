// One module that holds every lowering once, at fixed sizes: complete, right on XLA's CPU plugin, and taken by the real
// compiler for TPUs. write_every_lowering.py makes the graph.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "backends/tpu/tpu_backend.h"
#include "base/files.h"
#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/lower.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "numbers_check.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

std::string graph_text() {
  return read_text_file(source_dir() + "/tests/xla/every_lowering.graph", std::size_t{1} << 20U).value();
}

TEST(EveryLowering, StandsInTheGraph) {
  const auto graph = ir::read_graph(graph_text());
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Status sound = ir::verify(*graph);
  ASSERT_TRUE(sound.ok()) << sound.message();
  std::set<std::string_view> there;
  for (const ir::Node& node : graph->nodes) there.insert(node.target);
  for (const std::span<const xla::Rule> family : xla::rule_families()) {
    for (const xla::Rule& rule : family) {
      EXPECT_TRUE(there.contains(rule.target)) << rule.target << " is missing in tests/xla/write_every_lowering.py";
    }
  }
  const auto module = xla::lower(*graph, {});
  EXPECT_TRUE(module.ok()) << module.status().message();
}

// Operators of ours that round their inputs to fewer bits are taken out: quantized_numbers_test.cpp has them.
std::string precise_graph_text() {
  ir::Graph graph = ir::read_graph(graph_text()).value();
  std::set<ir::ValueId> rounded;
  std::erase_if(graph.nodes, [&](const ir::Node& node) {
    const bool is_precise = !is_quantized_product(node.target);
    if (!is_precise) rounded.insert(result_at(node, 0));
    return !is_precise;
  });
  EXPECT_EQ(rounded.size(), 5U);
  std::erase_if(graph.outputs, [&](const ir::GraphOutput& output) {
    const ir::ValueId* const value = output.value.value_id();
    return value != nullptr && rounded.contains(*value);
  });
  return ir::print_graph(graph);
}

TEST(EveryLowering, GivesTheNumbersOfLibtorch) {
  const auto runner = xla_test::ModuleRunner::open();
  if (!runner.ok()) GTEST_SKIP() << runner.status().message();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  xla_test::check_numbers(**runner, precise_graph_text(), random);
}

class EveryLoweringForTpus : public ::testing::TestWithParam<std::string> {};

// TPU_LIBRARY_PATH is where `make tpu-check` puts libtpu.
TEST_P(EveryLoweringForTpus, IsCompiled) {
  const Environment environment = Environment::from_process();
  if (!environment.find("TPU_LIBRARY_PATH")) {
    GTEST_SKIP() << "TPU_LIBRARY_PATH is not set; make tpu-check gets libtpu and sets it";
  }
  auto context = make_backend_context(load_config({}, environment).value(), environment);
  ASSERT_TRUE(context.ok()) << context.status().message();
  context->compile_cache_folder.clear();  // it is the compiler that is asked
  const auto backend = make_tpu_backend(*context);
  const auto targets = backend->targets();
  const auto target = std::ranges::find(targets, GetParam(), [](const Target* one) { return one->name(); });
  ASSERT_NE(target, targets.end());
  const auto program = (*target)->compile(ir::read_graph(graph_text()).value());
  EXPECT_TRUE(program.ok()) << program.status().message();
}

INSTANTIATE_TEST_SUITE_P(Generations, EveryLoweringForTpus, ::testing::Values("tpu:v5e:2x2", "tpu:v6e:2x2"),
                         [](const auto& target) { return target.param.substr(4, 3); });

}  // namespace
}  // namespace kpt
