// One test per operator of operators.graph, on any device: small, with random inputs, held against libtorch and fp64
// by the accuracy rule. A new backend needs no test of its own for them. Usage: kpt_conformance_test DEVICE
// LEAST [GoogleTest flags]. An operator that the device has no kernel for is skipped with the device's reason; LEAST
// says how many must run.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "base/files.h"
#include "ir/text.h"
#include "operator_run.h"
#include "passes/own_calls.h"
#include "runtime/loaded_model.h"
#include "support/tree_paths.h"

namespace kpt::conformance {
namespace {

// The nodes of `target` with what they are computed from, and those outputs that are theirs.
ir::Graph select_operator(const ir::Graph& all, const std::string& target) {
  ir::Graph graph = all;
  std::set<ir::ValueId> needed;
  std::set<ir::ValueId> results;
  std::vector<ir::Node> nodes;
  for (auto node = all.nodes.rbegin(); node != all.nodes.rend(); ++node) {
    bool is_needed = node->target == target;
    for (const ir::Output& output : node->outputs) {
      for (const ir::ValueId id : output.values) {
        if (node->target == target) results.insert(id);
        is_needed = is_needed || needed.contains(id);
      }
    }
    if (!is_needed) continue;
    for (const ir::NamedArgument& argument : node->arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { needed.insert(id); });
    }
    nodes.insert(nodes.begin(), *node);
  }
  graph.nodes = std::move(nodes);
  std::erase_if(graph.inputs, [&](const ir::GraphInput& input) { return !needed.contains(input.value); });
  std::erase_if(graph.outputs, [&](const ir::GraphOutput& output) {
    const ir::ValueId* const id = output.value.value_id();
    return id == nullptr || !results.contains(*id);
  });
  std::string text = ir::print_graph(graph);
  // Its line of all values names those that are gone.
  if (const std::size_t line = text.find("\nvalues "); line != std::string::npos) {
    text.erase(line, text.find('\n', line + 1) - line);
  }
  return ir::read_graph(text).value();
}

class OperatorTest : public testing::Test {
 public:
  OperatorTest(ir::Graph graph, const PlacedDevice& device, std::uint64_t seed, int& count)
      : graph_(std::move(graph)), device_(device), seed_(seed), count_(count) {}

  void TestBody() override {
    SCOPED_TRACE(testing::Message() << "seed " << seed_ << "\n" << ir::print_graph(graph_));
    std::mt19937_64 random(seed_);
    const auto run = OperatorRun::make(graph_, random);
    ASSERT_TRUE(run.ok()) << run.status().message();
    auto loaded = detail::LoadedModel::load(run->model(), *device_.backend, *device_.device);
    if (loaded.status().code() == StatusCode::kUnsupported) GTEST_SKIP() << loaded.status().message();
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    auto session = detail::start_session(*loaded);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ++count_;
    // Devices that capture a run for later ones must give the same answer from what they captured.
    for (int again = 0; again < 3 && !HasFailure(); ++again) {
      const auto outputs = session->run(run->inputs());
      ASSERT_TRUE(outputs.ok()) << outputs.status().message();
      run->judge(*outputs);
    }
  }

 private:
  ir::Graph graph_;
  const PlacedDevice& device_;
  std::uint64_t seed_;
  int& count_;
};

// Registers the tests; the seed of each is drawn. GoogleTest keeps them until the process ends, when libraries of
// vendors are gone: they hold no device.
void add_tests(const PlacedDevice& device, int& count) {
  const std::string text =
      read_text_file(source_dir() + "/tests/conformance/operators.graph", std::size_t{1} << 20U).value();
  const ir::Graph all = ir::read_graph(text).value();
  std::random_device random;
  std::set<std::string> targets;
  for (const ir::Node& node : all.nodes) {
    // Those that round their inputs to fewer bits have tests of their own: nothing of libtorch does the same.
    if (is_quantized_product(node.target) || !targets.insert(node.target).second) continue;
    std::string name = node.target;
    for (char& letter : name) letter = letter == '.' ? '_' : letter;
    const std::uint64_t seed = random();
    testing::RegisterTest("Operators", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [graph = select_operator(all, node.target), &device, seed, &count]() -> testing::Test* {
                            return new OperatorTest(graph, device, seed, count);
                          });
  }
}

int run_all(const std::string& device, int least) {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment);
  const auto placed = find_runnable_device(device, *context);
  if (!placed.ok()) {
    std::printf("%s\n", placed.status().message().c_str());
    return 77;  // skipped where ctest was told so: on GPUs
  }
  int count = 0;
  add_tests(*placed, count);
  const int failed = RUN_ALL_TESTS();
  std::printf("%d operators ran on %s, %d must\n", count, device.c_str(), least);
  return count < least ? 1 : failed;
}

}  // namespace
}  // namespace kpt::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: kpt_conformance_test DEVICE LEAST [GoogleTest flags]\n");
    return 2;
  }
  return kpt::conformance::run_all(argv[1], std::atoi(argv[2]));
}
