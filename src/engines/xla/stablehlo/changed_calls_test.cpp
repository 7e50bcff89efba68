// The lowering of graphs whose calls are wrong: a status, or text. The graph has every lowering once.
#include "ir/changed_calls.h"

#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "base/files.h"
#include "engines/xla/stablehlo/lower.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "support/rounds.h"
#include "support/tree_paths.h"

namespace kpt::xla {
namespace {

TEST(ChangedCalls, LoweringAnswersWithAStatusOrText) {
  const std::string text =
      read_text_file(source_dir() + "/tests/conformance/operators.graph", std::size_t{1} << 20U).value();
  const ir::Graph graph = ir::read_graph(text).value();
  const std::uint64_t first_seed = std::random_device{}();
  std::cerr << "first seed " << first_seed << std::endl;  // a crash prints no trace
  int sound = 0;
  int refused = 0;
  for (int round = 0; round < testing::rounds(10); ++round) {
    for (std::size_t place = 0; place < graph.nodes.size(); ++place) {
      const std::uint64_t seed = first_seed + (static_cast<std::uint64_t>(round) * graph.nodes.size()) + place;
      ir::Graph changed = ir::node_alone(graph, place);
      const std::string change = ir::CallChanger(graph, seed).change(changed);
      if (!ir::verify(changed).ok()) continue;
      ++sound;
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << change);
      const auto module = lower(changed, {});
      if (module.ok()) continue;
      ++refused;
      EXPECT_TRUE(module.status().code() == StatusCode::kUnsupported ||
                  module.status().code() == StatusCode::kInvalidArgument)
          << module.status().message();
      EXPECT_LT(module.status().message().size(), 2000U);
    }
  }
  EXPECT_GT(sound, 300);
  EXPECT_GT(refused, sound / 4);
}

}  // namespace
}  // namespace kpt::xla
