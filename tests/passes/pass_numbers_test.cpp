// What passes do to numbers: every golden pair is also run, on random weights and inputs, and held against the fp64 run
// of the graph before.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "base/files.h"
#include "ir/text.h"
#include "pass_runs.h"
#include "passes/graph_edit.h"
#include "passes/library_form.h"
#include "passes/pass_testing.h"
#include "passes/pipeline.h"
#include "runtime/generate_inputs.h"
#include "support/tree_paths.h"
#include "written_out.h"

namespace kpt {
namespace {

namespace fs = std::filesystem;

// Of the passes whose names start so.
std::vector<std::string> list_pairs(std::string_view start = "") {
  std::vector<std::string> pairs;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / "src/passes/test_data")) {
    const std::string pass = entry.path().parent_path().filename().string();
    if (entry.path().extension() == ".graph" && pass.starts_with(start)) {
      pairs.push_back(pass + "/" + entry.path().stem().string());
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Random numbers differ from run to run, and training changes its own statistics.
bool can_be_compared(const std::string& text) {
  return text.find("aten.rand.") == std::string::npos && text.find("train=true") == std::string::npos &&
         text.find("training=true") == std::string::npos && text.find("dropout_p=0.1") == std::string::npos;
}

// Outputs of the graph before that the pass cut down to their last position, cut down likewise.
void keep_last_positions(ImportedModel& before, const ir::Graph& after) {
  GraphEdit edit(before.graph, before.weights);
  for (std::size_t place = 0; place < after.outputs.size(); ++place) {
    const ir::ValueId whole = *before.graph.outputs[place].value.value_id();
    if (after.at(*after.outputs[place].value.value_id()).tensor.dims == edit.type(whole).dims) continue;
    ir::TensorType type = edit.type(whole);
    const ir::Expr before_last = ir::Expr::make(ir::ExprOp::kAdd, {type.dims[1], ir::Expr(-1)});
    type.storage_offset = ir::Expr::make(ir::ExprOp::kMul, {before_last, type.strides[1]});
    type.dims[1] = 1;
    const ir::ValueId last = edit.add_value("last", type);
    edit.insert_behind(edit.producer(whole), make_node(edit.graph().at(last).name, "aten.slice.Tensor",
                                                       {{"self", {whole}},
                                                        {"dim", {std::int64_t{1}}},
                                                        {"start", {std::int64_t{-1}}},
                                                        {"end", {std::numeric_limits<std::int64_t>::max()}}},
                                                       last));
    edit.replace_outputs(whole, last);
  }
}

class PassNumbers : public testing::TestWithParam<std::string> {};

TEST_P(PassNumbers, AnswersStayTheSame) {
  const std::string text =
      read_text_file(fs::path(source_dir()) / "src/passes/test_data" / (GetParam() + ".graph"), 1 << 20).value();
  if (!can_be_compared(text)) GTEST_SKIP() << "its answers differ by design";
  if (GetParam().find("/wrong_") != std::string::npos) GTEST_SKIP() << "PyTorch refuses its calls";
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  pass_runs::Cpu cpu;
  ImportedModel before;
  before.graph = ir::read_graph(text.substr(0, text.find("\n---\n") + 1)).value();
  before.weights = pass_testing::draw_weights(before.graph, seed);
  ImportedModel after = before;
  const std::string name = GetParam().substr(0, GetParam().find('/'));
  Capabilities capabilities = pass_testing::capabilities_for(name);
  const bool is_float16 = GetParam().substr(name.size()).starts_with("/float16");
  if (is_float16) capabilities.float16_operators = capabilities.own_operators;
  const auto records = pass_runs::optimize(cpu, std::vector{find_pass(name)}, after, capabilities);
  ASSERT_EQ(records.size(), 1U);
  ASSERT_EQ(records[0].changes > 0, !text.ends_with("---\nunchanged\n")) << records[0].skipped;
  if (name == "last_token_logits") keep_last_positions(before, after.graph);
  pass_runs::write_out_own_operators(before);
  pass_runs::write_out_own_operators(after);
  std::vector<std::vector<NamedTensor>> inputs;
  for (std::uint64_t draw = 0; draw < 3; ++draw) {
    inputs.push_back(generate_inputs(before.graph, {seed + draw, {}, {}}).value());
  }
  const bool coarse = name == "assign_bf16" || name == "narrow_results" || name.starts_with("quantize");
  pass_runs::expect_same_answers(cpu, before, after, inputs, is_float16 ? DType::kFloat16 : DType::kFloat32,
                                 coarse ? 0.98 : 1,
                                 name == "quantize_int4" ? 0.5 : 0);  // of a few numbers near 1, four bits leave this
}

std::string word(const testing::TestParamInfo<std::string>& each) {
  std::string name = each.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, PassNumbers, testing::ValuesIn(list_pairs()), word);

// The other form of our nodes, on the graphs that make them.
class LibraryForms : public testing::TestWithParam<std::string> {};

TEST_P(LibraryForms, AnswersAreTheSame) {
  const std::string name = GetParam().substr(0, GetParam().find('/'));
  const std::string text =
      read_text_file(fs::path(source_dir()) / "src/passes/test_data" / (GetParam() + ".graph"), 1 << 20).value();
  if (!can_be_compared(text)) GTEST_SKIP() << "its answers differ by design";
  if (GetParam().find("/wrong_") != std::string::npos) GTEST_SKIP() << "PyTorch refuses its calls";
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  pass_runs::Cpu cpu;
  ImportedModel before;
  before.graph = ir::read_graph(text.substr(0, text.find("\n---\n") + 1)).value();
  before.weights = pass_testing::draw_weights(before.graph, seed);
  ImportedModel after = before;
  pass_runs::optimize(cpu, std::vector{find_pass(name)}, after, pass_testing::full_capabilities());
  std::vector<std::string> nodes;
  std::size_t able = 0;
  for (const ir::Node& node : after.graph.nodes) {
    nodes.push_back(node.name);
    if (has_library_form(after.graph, node).supported) ++able;
  }
  EXPECT_EQ(use_library_forms(after.graph, after.weights, nodes).changes, able);
  if (able == 0) return;
  for (const ir::Node& node : after.graph.nodes) EXPECT_FALSE(has_library_form(after.graph, node).supported);
  pass_runs::write_out_own_operators(before);
  std::vector<std::vector<NamedTensor>> inputs;
  for (std::uint64_t draw = 0; draw < 3; ++draw) {
    inputs.push_back(generate_inputs(before.graph, {seed + draw, {}, {}}).value());
  }
  pass_runs::expect_same_answers(cpu, before, after, inputs, DType::kFloat32, name == "assign_bf16" ? 0.98 : 1, 0);
}

INSTANTIATE_TEST_SUITE_P(Golden, LibraryForms, testing::ValuesIn(list_pairs("fuse_")), word);
INSTANTIATE_TEST_SUITE_P(Bfloat16, LibraryForms, testing::ValuesIn(list_pairs("assign_bf16")), word);

TEST(FoldConstants, WhatNeedsNoInputIsComputedOnce) {
  constexpr const char* kText = R"(kpt_graph 1
parameter w: float32[4]
buffer cache: float32[4]
input x: float32[4]
arange: int64[4] = aten.arange.default(end=4)
to: float32[4] = aten.to.dtype(self=%arange, dtype=dtype(float32))
mul: float32[4] = aten.mul.Tensor(self=%to, other=%w)
view: float32[2, 2] = aten.view.default(self=%w, size=[2, 2])
exp: float32[4] = aten.exp.default(self=%cache)
rand: float32[4] = aten.rand.default(size=[4])
add: float32[4] = aten.add.Tensor(self=%mul, other=%x)
add_1: float32[4] = aten.add.Tensor(self=%add, other=%exp)
add_2: float32[4] = aten.add.Tensor(self=%add_1, other=%rand)
copy_: float32[4] = aten.copy_.default(self=%cache, src=%add)
output %add_2 "y"
output %view "v"
)";
  pass_runs::Cpu cpu;
  ImportedModel model;
  model.graph = ir::read_graph(kText).value();
  const float w[] = {1, -2, 3, -4};
  model.weights.emplace("w", Tensor::from_bytes(DType::kFloat32, Dims{4}, std::as_bytes(std::span(w))).value());
  model.weights.emplace("cache", Tensor::from_bytes(DType::kFloat32, Dims{4}, std::as_bytes(std::span(w))).value());
  const auto records = pass_runs::optimize(cpu, std::vector{find_pass("fold_constants")}, model, cpu.capabilities());
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].details, std::vector<std::string>{"mul"});
  // Only the product with the table: the written cache and the random numbers are no constants, the view is free.
  EXPECT_EQ(model.graph.nodes.size(), 7U);
  const Tensor folded = model.weights.at("folded_mul");
  EXPECT_EQ(std::vector<float>(folded.elements<float>().begin(), folded.elements<float>().end()),
            (std::vector<float>{0, -2, 6, -12}));
}

TEST(FoldConstants, LargeResultsOfNothingStayComputed) {
  constexpr const char* kText = R"(kpt_graph 1
input x: float32[1]
ones: float32[2048, 1024] = aten.ones.default(size=[2048, 1024])
arange: int64[8] = aten.arange.default(end=8)
add: float32[2048, 1024] = aten.add.Tensor(self=%ones, other=%x)
add_1: int64[8] = aten.add.Tensor(self=%arange, other=1)
output %add "y"
output %add_1 "z"
)";
  pass_runs::Cpu cpu;
  ImportedModel model;
  model.graph = ir::read_graph(kText).value();
  const auto records = pass_runs::optimize(cpu, std::vector{find_pass("fold_constants")}, model, cpu.capabilities());
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].details, std::vector<std::string>{"add_1"});
}

}  // namespace
}  // namespace kpt
