// Every pass over its golden pairs. test_data/<pass>/<case>.graph holds the graph before, a line "---" and the graph
// after; a pair whose second half is the word "unchanged" must stay as it is. Weights get random contents. Cases that
// begin with "float16" are for a target whose operators take that type.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>

#include <gtest/gtest.h>

#include "base/files.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/pass_testing.h"
#include "passes/pipeline.h"
#include "passes/runner.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

namespace fs = std::filesystem;

struct Golden {
  std::string pass;
  fs::path file;
};

std::vector<Golden> list_golden() {
  std::vector<Golden> cases;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / "src/passes/test_data")) {
    if (entry.path().extension() != ".graph") continue;
    cases.push_back({entry.path().parent_path().filename().string(), entry.path()});
  }
  std::sort(cases.begin(), cases.end(), [](const Golden& a, const Golden& b) { return a.file < b.file; });
  return cases;
}

bool is_float16(const Golden& golden) { return golden.file.stem().string().starts_with("float16"); }

void PrintTo(const Golden& golden, std::ostream* stream) { *stream << golden.file.stem(); }

// Where a person looks at what came out, and takes it over if it is right.
void write_actual(const Golden& golden, const std::string& text) {
  const fs::path folder = fs::path(build_dir()) / "golden_actual" / golden.pass;
  fs::create_directories(folder);
  std::ofstream(folder / golden.file.filename()) << text;
  std::cout << "what came out: " << (folder / golden.file.filename()) << '\n';
}

// Knows products of two float32 tensors of one shape and nothing else.
Result<std::vector<Tensor>> multiply_constants(const ir::Graph& graph, const Weights& weights) {
  std::map<std::uint32_t, Tensor> known;
  for (const ir::GraphInput& input : graph.inputs) known.emplace(ir::index_of(input.value), weights.at(input.name));
  for (const ir::Node& node : graph.nodes) {
    if (node.target != "aten.mul.Tensor") return Status(StatusCode::kUnsupported, "not known here: " + node.target);
    const Tensor& left = known.at(ir::index_of(*node.arguments.at(0).value.value_id()));
    const Tensor& right = known.at(ir::index_of(*node.arguments.at(1).value.value_id()));
    Tensor product = Tensor::empty(DType::kFloat32, left.dims()).value();
    std::ranges::transform(left.elements<float>(), right.elements<float>(), product.elements<float>().begin(),
                           std::multiplies<>());
    known.emplace(ir::index_of(node.outputs.at(0).values.at(0)), std::move(product));
  }
  std::vector<Tensor> results;
  for (const ir::GraphOutput& output : graph.outputs)
    results.push_back(known.at(ir::index_of(*output.value.value_id())));
  return results;
}

class GoldenPair : public testing::TestWithParam<Golden> {};

TEST_P(GoldenPair, GraphAfterThePassIsTheRecordedOne) {
  const std::string text = read_text_file(GetParam().file, 1 << 20).value();
  const std::size_t border = text.find("\n---\n");
  ASSERT_NE(border, std::string::npos);
  const auto before = ir::read_graph(text.substr(0, border + 1));
  ASSERT_TRUE(before.ok()) << before.status().message();
  ASSERT_TRUE(ir::verify(*before).ok()) << ir::verify(*before).message();
  const std::string expected = text.substr(border + 5);
  const Pass* pass = find_pass(GetParam().pass);
  ASSERT_NE(pass, nullptr) << "the folder is not named after a pass";

  ir::Graph graph = *before;
  Weights weights = pass_testing::draw_weights(graph, 7);
  Capabilities capabilities = pass_testing::capabilities_for(GetParam().pass);
  if (is_float16(GetParam())) capabilities.float16_operators = capabilities.own_operators;
  PassContext context{weights, capabilities, multiply_constants, {}};
  const auto records = run_passes(std::vector{pass}, graph, context);
  ASSERT_TRUE(records.ok()) << records.status().message();
  if (expected == "unchanged\n") {
    EXPECT_EQ((*records)[0].changes, 0U);
    EXPECT_EQ(ir::print_graph(graph), ir::print_graph(*before));
    return;
  }
  EXPECT_GT((*records)[0].changes, 0U);
  const auto after = ir::read_graph(expected.empty() ? "kpt_graph 1\n" : expected);
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(ir::print_graph(graph), ir::print_graph(*after));
  if (HasFailure()) write_actual(GetParam(), text.substr(0, border + 1) + "---\n" + ir::print_graph(graph));
  // What it left behind has nothing more to do for it.
  const auto again = run_passes(std::vector{pass}, graph, context);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ((*again)[0].changes, 0U) << "the pass changes its own result";
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenPair, testing::ValuesIn(list_golden()),
                         [](const auto& each) { return each.param.pass + "_" + each.param.file.stem().string(); });

TEST(GoldenPairs, Float16StaysWhereTheOperatorsDoNotTakeIt) {
  int seen = 0;
  for (const Golden& golden : list_golden()) {
    if (!is_float16(golden)) continue;
    ++seen;
    const std::string text = read_text_file(golden.file, 1 << 20).value();
    ir::Graph graph = ir::read_graph(text.substr(0, text.find("\n---\n") + 1)).value();
    const std::string before = ir::print_graph(graph);
    Weights weights = pass_testing::draw_weights(graph, 7);
    Capabilities capabilities = pass_testing::capabilities_for(golden.pass);
    // As FP8 on NVIDIA GPUs: products may be float16, but not in this form.
    if (golden.pass.starts_with("quantize")) capabilities.float16_operators = {"kpt.linear.default"};
    PassContext context{weights, capabilities, multiply_constants, {}};
    const auto records = run_passes(std::vector{find_pass(golden.pass)}, graph, context);
    ASSERT_TRUE(records.ok()) << records.status().message();
    EXPECT_EQ((*records)[0].changes, 0U) << golden.file;
    EXPECT_EQ(ir::print_graph(graph), before) << golden.file;
  }
  EXPECT_EQ(seen, 7);
}

TEST(GoldenPairs, EveryPassHasOneThatChangesAndOneThatDoesNot) {
  for (const Pass* pass : all_passes()) {
    int changing = 0;
    int unchanged = 0;
    for (const Golden& golden : list_golden()) {
      if (golden.pass != pass->name) continue;
      const std::string text = read_text_file(golden.file, 1 << 20).value();
      (text.ends_with("---\nunchanged\n") ? unchanged : changing) += 1;
    }
    EXPECT_GT(changing, 0) << pass->name;
    EXPECT_GT(unchanged, 0) << pass->name;
  }
}

}  // namespace
}  // namespace kpt
