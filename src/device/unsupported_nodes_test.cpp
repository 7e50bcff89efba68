#include "device/unsupported_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ir::Graph make_graph(const std::vector<std::string>& targets) {
  ir::Graph graph;
  for (std::size_t index = 0; index < targets.size(); ++index) {
    ir::Node node;
    node.name = "n" + std::to_string(index);
    node.target = targets[index];
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

TEST(UnsupportedNodes, NothingIsSaidWhenAllCanRun) {
  const ir::Graph graph = make_graph({"aten.a.default", "aten.b.default"});
  EXPECT_TRUE(list_unsupported(graph, {{}, {}}, "cannot run").ok());
}

TEST(UnsupportedNodes, AnOperatorIsToldOnceWithItsFirstPlaceAndItsCount) {
  const ir::Graph graph = make_graph({"aten.a.default", "aten.b.default", "aten.a.default", "aten.c.default"});
  const Support refused{false, "no such operator"};
  const Status status = list_unsupported(graph, {refused, {}, refused, {false, "an argument is missing"}},
                                         "cannot run on cpu", [](const ir::Node& node) { return node.name + ".py"; });
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "3 of 4 nodes cannot run on cpu: 'n0' aten.a.default (first of 2): no such operator (n0.py); "
            "'n3' aten.c.default: an argument is missing (n3.py)");
}

TEST(UnsupportedNodes, OneOperatorRefusedForTwoReasonsHasBoth) {
  const ir::Graph graph = make_graph({"aten.a.default", "aten.a.default"});
  const Status status = list_unsupported(graph, {{false, "one"}, {false, "two"}}, "cannot run");
  EXPECT_EQ(status.message(), "2 of 2 nodes cannot run: 'n0' aten.a.default: one; 'n1' aten.a.default: two");
}

TEST(UnsupportedNodes, HundredsOfOperatorsAreAllNamed) {
  std::vector<std::string> targets;
  constexpr int kCount = 300;
  for (int index = 0; index < kCount; ++index) targets.push_back("lib.op" + std::to_string(index) + ".default");
  const ir::Graph graph = make_graph(targets);
  const Status status =
      list_unsupported(graph, std::vector<Support>(kCount, {false, "a custom operator"}), "cannot run");
  for (const std::string& target : targets) EXPECT_THAT(status.message(), HasSubstr(" " + target + ":"));
}

TEST(UnsupportedNodes, BeyondAThousandTheRestIsCounted) {
  std::vector<std::string> targets;
  constexpr int kCount = 1200;
  for (int index = 0; index < kCount; ++index) targets.push_back("lib.op" + std::to_string(index) + ".default");
  const ir::Graph graph = make_graph(targets);
  const Status status =
      list_unsupported(graph, std::vector<Support>(kCount, {false, "a custom operator"}), "cannot run");
  EXPECT_THAT(status.message(), StartsWith("1200 of 1200 nodes cannot run: "));
  EXPECT_THAT(status.message(), EndsWith("'n999' lib.op999.default: a custom operator; and 200 more operators"));
}

TEST(UnsupportedNodes, ForeignNamesStayOnTheirLine) {
  const ir::Graph graph = make_graph({"aten.\n\x1b[31m" + std::string(5000, 'x')});
  const Status status = list_unsupported(graph, {{false, "unknown"}}, "cannot run");
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  EXPECT_THAT(status.message(), Not(HasSubstr("\x1b")));
  EXPECT_LT(status.message().size(), 400U);
}

}  // namespace
}  // namespace kpt
