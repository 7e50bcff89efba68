// One module that holds every lowering once, at fixed sizes: complete, right on XLA's CPU plugin, and taken by the real
// compiler for TPUs. The graph is that of tests/conformance.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
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
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

std::string graph_text() {
  return read_text_file(source_dir() + "/tests/conformance/operators.graph", std::size_t{1} << 20U).value();
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
      EXPECT_TRUE(there.contains(rule.target)) << rule.target << " is missing in tests/conformance/write_operators.py";
    }
  }
  const auto module = xla::lower(*graph, {});
  EXPECT_TRUE(module.ok()) << module.status().message();
}

// LLVM's own reader of the generic form, which knows no StableHLO: so the text is what it should be, and not only what
// XLA's reader takes.
TEST(EveryLowering, IsReadByAnotherParser) {
  std::string program;
  for (const char* name : {"mlir-opt-22", "mlir-opt"}) {
    if (program.empty() && std::system(fmt::format("command -v {} >/dev/null", name).c_str()) == 0) program = name;
  }
  if (program.empty()) GTEST_SKIP() << "mlir-opt is not in PATH; it is a part of mlir-22-tools";
  const auto module = xla::lower(ir::read_graph(graph_text()).value(), {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  const testing::TemporaryFolder folder;
  const auto read = [&](std::string_view text) {
    const std::string path = (folder.path() / "module.mlir").string();
    std::ofstream(path) << text;
    const std::string command = program + " --allow-unregistered-dialect " + path + " -o " + path + ".out";
    return std::system(command.c_str());
  };
  EXPECT_EQ(read(module->text), 0);
  EXPECT_NE(read(module->text.substr(0, module->text.rfind('}'))), 0) << "it takes anything";
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

// The graph with a buffer that it writes: the module says that the new contents take the old ones' place.
std::string graph_with_buffer_text() {
  std::string text = graph_text();
  text.insert(text.find("\ninput ") + 1, "buffer kept: float32[4, 6] \"kept\"\n");
  text.insert(text.find("\noutput ") + 1,
              "kept_next: float32[4, 6] = aten.add.Tensor(self=%kept, other=%x)\n"
              "buffer_mutation %kept_next \"kept\"\n");
  return text;
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
  const auto graph = ir::read_graph(graph_with_buffer_text());
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto program = (*target)->compile(*graph);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_NE((*program)->figures(), nullptr);
  EXPECT_GE((*program)->figures()->alias_bytes.value_or(0), 4U * 6 * sizeof(float)) << "the buffer is there twice";
}

INSTANTIATE_TEST_SUITE_P(Generations, EveryLoweringForTpus, ::testing::Values("tpu:v5e:2x2", "tpu:v6e:2x2"),
                         [](const auto& target) { return target.param.substr(4, 3); });

}  // namespace
}  // namespace kpt
