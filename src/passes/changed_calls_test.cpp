// Every pass over graphs whose calls are wrong: a status, or a graph that is whole. Also what counts and promotes them.
#include "ir/changed_calls.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "ir/figures.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/library_form.h"
#include "passes/pass_testing.h"
#include "passes/pipeline.h"
#include "passes/promote_to_fp64.h"
#include "passes/runner.h"
#include "support/rounds.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

namespace fs = std::filesystem;

std::vector<ir::Graph> graphs_before_passes() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / "src/passes/test_data")) {
    if (entry.path().extension() == ".graph") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<ir::Graph> graphs;
  for (const fs::path& file : files) {
    const std::string text = read_text_file(file, 1 << 20).value();
    graphs.push_back(ir::read_graph(text.substr(0, text.find("\n---\n") + 1)).value());
  }
  return graphs;
}

// What makes calls into others: the operators and names of all graphs.
ir::Graph words_of(const std::vector<ir::Graph>& graphs) {
  ir::Graph words;
  for (const ir::Graph& graph : graphs) words.nodes.insert(words.nodes.end(), graph.nodes.begin(), graph.nodes.end());
  return words;
}

// In FP8 goes all that would go in int8, and in int4 all that could go in anything else, so each of the three has
// rounds of its own.
struct Round {
  Capabilities capabilities = pass_testing::full_capabilities();
  std::vector<const Pass*> passes;
};

Round make_round(int round) {
  Round made;
  made.capabilities.weight_only_rows = 8;
  made.capabilities.attention_adds_masks = true;
  if (round % 4 == 1) made.capabilities.matrix_dtypes.push_back(DType::kFloat8E4M3FN);
  for (const PipelineRow& row : pipeline()) {
    const bool wanted = round % 4 == 2 ? row.is_in(Level::kBalanced) : row.is_in(Level::kAggressive);
    if (wanted || round % 4 == 3) made.passes.push_back(row.pass);
  }
  made.passes.push_back(find_pass("last_token_logits"));
  return made;
}

// Zeros of the types that the graph records, where those are small.
Result<std::vector<Tensor>> give_zeros(const ir::Graph& graph, const Weights& /*weights*/) {
  constexpr std::int64_t kMostElements = 1 << 16;
  std::vector<Tensor> results;
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::TensorType& type = graph.at(std::get<ir::ValueId>(output.value.value)).tensor;
    Dims dims;
    std::int64_t elements = 1;
    for (const ir::Expr& dim : type.dims) {
      const std::int64_t extent = dim.constant().value_or(kMostElements + 1);
      if (extent > kMostElements) return Status(StatusCode::kUnsupported, "too large");
      dims.push_back(extent);
      elements = std::min(elements * extent, kMostElements + 1);
    }
    if (elements > kMostElements) return Status(StatusCode::kUnsupported, "too large");
    KPT_ASSIGN_OR_RETURN(Tensor zeros, Tensor::empty(type.dtype, dims));
    if (zeros.bytes() != 0) std::memset(zeros.data(), 0, zeros.bytes());
    results.push_back(std::move(zeros));
  }
  return results;
}

TEST(ChangedCalls, PassesAnswerWithAStatusOrAWholeGraph) {
  const std::vector<ir::Graph> graphs = graphs_before_passes();
  const ir::Graph words = words_of(graphs);
  const std::uint64_t first_seed = std::random_device{}();
  std::cerr << "first seed " << first_seed << std::endl;  // a crash prints no trace
  int sound = 0;
  for (int round = 0; round < testing::rounds(20); ++round) {
    const Round made = make_round(round);
    for (std::size_t which = 0; which < graphs.size(); ++which) {
      const std::uint64_t seed = first_seed + (static_cast<std::uint64_t>(round) * graphs.size()) + which;
      ir::Graph graph = graphs[which];
      if (graph.nodes.empty()) continue;
      const std::string change = ir::CallChanger(words, seed).change(graph);
      if (!ir::verify(graph).ok()) continue;
      ++sound;
      SCOPED_TRACE(::testing::Message() << "graph " << which << ", seed " << seed << ", " << change);
      ir::count_figures(graph, {});
      if (ir::Graph promoted = graph; promote_to_fp64(promoted).ok()) {
        const Status whole = ir::verify(promoted);
        EXPECT_TRUE(whole.ok()) << whole.message();
      }
      Weights weights = pass_testing::draw_weights(graph, 7);
      PassContext context{weights, made.capabilities, give_zeros, {}};
      const auto records = run_passes(made.passes, graph, context);
      EXPECT_NE(records.status().code(), StatusCode::kInternal) << records.status().message();
      std::vector<std::string> names;
      for (const ir::Node& node : graph.nodes) names.push_back(node.name);
      use_library_forms(graph, weights, names);
      const Status whole = ir::verify(graph);
      EXPECT_TRUE(whole.ok()) << "in the library's forms: " << whole.message();
    }
  }
  EXPECT_GT(sound, 100);
}

}  // namespace
}  // namespace kpt
