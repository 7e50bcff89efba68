#include "runtime/split_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Answers, and compiles nothing.
class StubTarget final : public Target {
 public:
  StubTarget(std::string name, std::vector<std::string> refused)
      : name_(std::move(name)), refused_(std::move(refused)) {}
  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    std::vector<Support> answers;
    for (const ir::Node& node : graph.nodes) {
      const bool refuses = std::find(refused_.begin(), refused_.end(), node.target) != refused_.end();
      answers.push_back(refuses ? Support{false, "refused"} : Support{});
    }
    return answers;
  }
  Result<std::unique_ptr<Program>> compile(ir::Graph) const override { return nothing(); }
  Result<std::unique_ptr<Program>> deserialize(std::string_view) const override { return nothing(); }

 private:
  static Status nothing() { return {StatusCode::kUnsupported, "the stub compiles nothing"}; }
  std::string name_;
  std::vector<std::string> refused_;
  Capabilities capabilities_;
};

Result<SplitGraph> split(std::string_view text, const std::vector<std::string>& refused,
                         const std::vector<std::string>& by_host = {}) {
  const ir::Graph graph = ir::read_graph(text).value();
  KPT_ASSIGN_OR_RETURN(const SplitPlan plan, plan_split(graph, StubTarget("gpu", refused), StubTarget("cpu", by_host)));
  return build_parts(plan, "gpu:0", "cpu");
}

std::vector<std::string> received(const SplitGraph& split, const ir::Graph& graph, std::size_t part) {
  std::vector<std::string> names;
  for (const ir::ValueId id : split.placement.parts[part].received) names.push_back(graph.at(id).name);
  return names;
}

constexpr const char* kChain = R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 4]
parameter w: float32[4]
a: float32[s0, 4] = aten.mul.Tensor(self=%x, other=%w)
b: float32[s0, 4] = aten.erfinv.default(self=%a)
c: float32[s0, 4] = aten.add.Tensor(self=%b, other=%a)
d: float32[s0, 4] = aten.mul.Tensor(self=%c, other=%w)
output %d "out"
output %b "middle"
output %x "same"
output %w "weight"
)";

TEST(SplitGraph, PartsAreGraphsThatTakeWhatOthersGive) {
  const auto made = split(kChain, {"aten.erfinv.default"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->parts.size(), 3U);
  EXPECT_EQ(ir::print_graph(made->parts[0].graph),
            "kpt_graph 1\nsymbol s0 in 1..64\ninput x: float32[s0, 4]\nparameter w: float32[4]\n"
            "a: float32[s0, 4] = aten.mul.Tensor(self=%x, other=%w)\noutput %a \"a\"\n");
  EXPECT_EQ(ir::print_graph(made->parts[1].graph),
            "kpt_graph 1\nsymbol s0 in 1..64\ninput a: float32[s0, 4]\n"
            "b: float32[s0, 4] = aten.erfinv.default(self=%a)\noutput %b \"b\"\n");
  const ir::Graph whole = ir::read_graph(kChain).value();
  EXPECT_THAT(received(*made, whole, 0), IsEmpty());
  EXPECT_THAT(received(*made, whole, 2), ElementsAre("b", "a"));
  EXPECT_EQ(describe_parts(made->placement), "3 parts: 3 nodes on gpu:0, 1 on cpu");
  ir::Bindings sizes;
  sizes.set("s0", 8);
  EXPECT_EQ(count_received_bytes(whole, made->placement.parts[2], sizes), 2U * 8 * 4 * 4);
  EXPECT_EQ(count_received_bytes(whole, made->placement.parts[2], {}), std::nullopt);
  ASSERT_EQ(made->outputs.size(), 4U);
  EXPECT_EQ(made->slots[made->outputs[2].slot].user, 0U);
  EXPECT_EQ(made->outputs[3].weight, "w");
}

TEST(SplitGraph, WhatIsReadNoMoreIsLetGo) {
  const auto made = split(kChain, {"aten.erfinv.default"});
  ASSERT_TRUE(made.ok());
  for (const SplitSlot& slot : made->slots) {
    const std::string name = slot.value == ir::kNoValue ? "" : ir::read_graph(kChain)->at(slot.value).name;
    EXPECT_EQ(slot.last_reader, name == "a" ? 2U : kNoSlot) << name << "; callers receive the others";
  }
}

TEST(SplitGraph, SizesAreComputedByNobodyAndToldWhereTheyAreNeeded) {
  constexpr const char* kText = R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 4]
twice: float32[2 * s0, 4] = aten.erfinv.default(self=%x)
n: int(2 * s0) = aten.sym_size.int(self=%twice, dim=0)
half: int(s0) = _operator.floordiv(%n, 2)
flat: float32[8 * s0] = aten.view.default(self=%twice, size=int[%n])
last: float32[8 * s0] = aten.add.Tensor(self=%flat, other=%half)
output %last "out"
output %n "rows"
)";
  const auto read = ir::read_graph(kText);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const auto made = split(kText, {"aten.erfinv.default"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->parts.size(), 2U);
  EXPECT_EQ(made->parts[0].side, Side::kHost);
  EXPECT_THAT(made->placement.size_nodes, ElementsAre(1, 2));
  // Three inputs: the tensor, n, and half, which also shows s0.
  EXPECT_EQ(made->parts[1].inputs.size(), 3U);
  EXPECT_TRUE(made->slots[made->outputs[1].slot].is_size);
  // Without `half`, 2 * s0 shows s0 all the same. Nothing that the device is given shows it by its square.
  constexpr const char* kSquare = R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 4]
square: float32[s0 * s0, 4] = aten.erfinv.default(self=%x)
n: int(s0 * s0) = aten.sym_size.int(self=%square, dim=0)
flat: float32[4 * s0 * s0] = aten.view.default(self=%square, size=int[%n])
last: float32[4 * s0 * s0] = aten.add.Tensor(self=%flat, other=1.0)
output %last "out"
output %n "rows"
)";
  std::string without = kText;
  without.replace(without.find("other=%half"), 11, "other=1.0");
  const auto shown = split(without, {"aten.erfinv.default"});
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  EXPECT_THAT(ir::print_graph(shown->parts[1].graph), Not(HasSubstr("size_s0")));
  const auto told = split(kSquare, {"aten.erfinv.default"});
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_THAT(ir::print_graph(told->parts[1].graph), HasSubstr("size_s0"));
}

TEST(SplitGraph, NodesWhoseSizesOnlyARunShowsStayOnTheHost) {
  constexpr const char* kText = R"(kpt_graph 1
symbol u0 in 0..64
input x: float32[8]
a: float32[8] = aten.mul.Tensor(self=%x, other=%x)
where: int64[u0, 1] = aten.nonzero.default(self=%a)
more: int64[u0, 1] = aten.add.Tensor(self=%where, other=%where)
output %more "out"
)";
  const auto made = split(kText, {"aten.nonzero.default"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(describe_parts(made->placement), "2 parts: 1 node on gpu:0, 2 on cpu");
}

TEST(SplitGraph, ComputedNumbersStayOnOneSide) {
  constexpr const char* kText = R"(kpt_graph 1
input x: float32[8]
a: float32[8] = aten.mul.Tensor(self=%x, other=%x)
n: float() = aten.item.default(self=%a)
m: float() = _operator.mul(%n, 2)
b: float32[8] = aten.mul.Scalar(self=%a, other=%m)
c: float32[8] = aten.mul.Tensor(self=%b, other=%x)
output %c "out"
)";
  const auto made = split(kText, {"aten.item.default"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(describe_parts(made->placement), "3 parts: 2 nodes on gpu:0, 3 on cpu");
}

TEST(SplitGraph, RandomNumbersComeInTheOrderOfTheirNodes) {
  constexpr const char* kText = R"(kpt_graph 1
input x: float32[8]
a: float32[8] = aten.mul.Tensor(self=%x, other=%x)
b: float32[8] = aten.erfinv.default(self=%a)
c: float32[8] = aten.mul.Tensor(self=%b, other=%x)
first: float32[8] = aten.rand_like.default(self=%c)
second: float32[8] = aten.rand_like.default(self=%x)
d: float32[8] = aten.add.Tensor(self=%first, other=%second)
output %d "out"
)";
  const auto made = split(kText, {"aten.erfinv.default", "aten.rand_like.default"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->parts.size(), 5U);
  EXPECT_THAT(made->parts[1].nodes, ElementsAre(1)) << "the second random node could run here";
  EXPECT_THAT(made->parts[3].nodes, ElementsAre(3, 4));
}

TEST(SplitGraph, WritesThatNobodyCouldSeeAreTakenOut) {
  constexpr const char* kText = R"(kpt_graph 1
input x: float32[8]
a: float32[8] = aten.mul.Tensor(self=%x, other=%x)
b: float32[8] = aten.relu_.default(self=%a)
c: float32[8] = aten.erfinv.default(self=%b)
output %c "out"
)";
  const auto made = split(kText, {"aten.erfinv.default"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_THAT(ir::print_graph(made->parts[0].graph), HasSubstr("aten.relu.default"));
}

TEST(SplitGraph, WhatCannotBeSplitIsOneTypedSentence) {
  const auto refusal = [](const std::string& lines, const std::vector<std::string>& by_host = {}) {
    const auto made =
        split("kpt_graph 1\nbuffer state: float32[8]\ninput x: float32[8]\n" + lines, {"aten.erfinv.default"}, by_host);
    EXPECT_EQ(made.status().code(), StatusCode::kUnsupported) << lines;
    return made.status().message();
  };
  const std::string node = "a: float32[8] = aten.erfinv.default(self=%x)\n";
  const std::string sum = "b: float32[8] = aten.add.Tensor(self=%a, other=%x)\n";
  EXPECT_THAT(refusal(node + sum + "output %b \"out\"\nbuffer_mutation %b \"state\"\n"),
              HasSubstr("the model writes 'state'"));
  EXPECT_THAT(refusal(node + sum + "c: float32[8] = aten.add_.Tensor(self=%x, other=%b)\noutput %c \"out\"\n"),
              HasSubstr("node 'c' (aten.add_.Tensor) writes memory in place"));
  EXPECT_THAT(refusal(node + sum + "c: float32[8] = my.op.default(self=%b)\noutput %c \"out\"\n"),
              HasSubstr("node 'c' (my.op.default) writes memory in place or may do so"));
  EXPECT_THAT(refusal(node + sum +
                      "c: float32[4] = aten.as_strided.default(self=%b, size=[4], stride=[2])\noutput %c \"out\"\n"),
              HasSubstr("reads memory by strides"));
  EXPECT_THAT(refusal(node + sum + "output %b \"out\"\n", {"aten.erfinv.default"}),
              HasSubstr("1 of 2 nodes can run neither on gpu nor on cpu: 'a' aten.erfinv.default: refused"));
  EXPECT_THAT(refusal(node + "output %a \"out\"\n"), HasSubstr("no node would be left for gpu"));
}

}  // namespace
}  // namespace kpt
