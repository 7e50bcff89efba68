#include "ir/text.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph_sampling.h"
#include "ir/scanner.h"
#include "ir/verifier.h"

namespace kpt::ir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kExample = R"(kpt_graph 1
symbol s0 in 1..128
symbol u1 in ..
input x: float32[s0, 768]
parameter p_weight: float32[768, 768]{requires_grad} "layer.weight"
buffer b_count: int64[] "count" not_persistent
fixed none "use_cache" = true
linear: float32[s0, 768] = aten.linear.default(input=%x, weight=%p_weight, bias=none)
sym_size: int(s0) = aten.sym_size.int(self=%x, dim=0)
t: float32[768, s0]{strides=[1, 768]} = aten.t.default(self=%linear) no_grad
[split_0: float32[s0, 384]{strides=[768, 1]}, split_1: float32[s0, 384]{strides=[768, 1], offset=384}] = aten.split.Tensor(self=%linear, split_size=384) name="split"
index: float32[2] = aten.index.Tensor(self=%t, indices=[none, %b_count])
view: float32[s0] = aten.view.default(self=%x, size=[%sym_size, -1])
full: float32[s0]{device=cuda:0} = aten.full.default(size=int[%sym_size], fill_value=-inf, dtype=dtype(float32), layout=layout(strided), device=device(cuda:0), memory_format=memory_format(preserve))
() = aten._assert_scalar.default(self=true, assert_msg="a \"b\"\n") name="assert_1"
cond: float32[s0] = higher_order.cond(true, graph "true_graph_0" {
  input arg0: float32[s0]
  sin: float32[s0] = aten.sin.default(self=%arg0)
  output %sin
}, graph "false_graph_0" {
  input arg0: float32[s0]
  output %arg0
}, [%view])
output %cond "logits"
output 1 "past.0"
buffer_mutation %b_count "count"
)";

TEST(GraphText, AGraphOfEverythingIsWrittenAsItWasRead) {
  const auto graph = read_graph(kExample);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Status status = verify(*graph);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(print_graph(*graph), kExample);
  EXPECT_EQ(graph->inputs[2].persistent, false);
  EXPECT_EQ(graph->inputs[3].value, kNoValue);
  EXPECT_EQ(graph->nodes[2].grad_enabled, false);
  EXPECT_EQ(graph->nodes[3].name, "split");
  EXPECT_EQ(graph->nodes[3].outputs[0].values.size(), 2U);
  EXPECT_EQ(graph->nodes[4].arguments[1].value.list()->element, ElementKind::kOptionalTensor);
  EXPECT_EQ(graph->nodes[5].arguments[1].value.list()->element, ElementKind::kInt);
  EXPECT_EQ(print_node(*graph, graph->nodes[0]),
            "linear: float32[s0, 768] = aten.linear.default(input=%x, weight=%p_weight, bias=none)");
}

TEST(GraphText, GivesEveryGraphBack) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  GraphSampler sampler(random);
  for (int round = 0; round < 3000; ++round) {
    const Graph graph = sampler.graph(2);
    const Status status = verify(graph);
    const std::string text = print_graph(graph);
    ASSERT_TRUE(status.ok()) << status.message() << "\n" << text;
    const auto again = read_graph(text);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    ASSERT_EQ(*again == graph, true) << text;
    ASSERT_EQ(print_graph(*again), text);
  }
}

TEST(GraphText, TellsGraphsApartThatDifferInOnePlace) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  GraphSampler sampler(random);
  std::string last;
  Graph last_graph;
  for (int round = 0; round < 500; ++round) {
    Graph graph = sampler.graph(1);
    const std::string text = print_graph(graph);
    ASSERT_EQ(text == last, graph == last_graph) << text;
    last = text;
    last_graph = std::move(graph);
  }
}

TEST(GraphText, KeepsUsesThatComeTooEarly) {
  const std::string text =
      "kpt_graph 1\n"
      "values x, y, z\n"
      "x: int(0) = op(%y, %x)\n"
      "y: int(0) = op()\n"
      "z: int(0) = op()\n";
  const auto graph = read_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(print_graph(*graph), text);
  EXPECT_FALSE(verify(*graph).ok());
}

TEST(GraphText, CutOrChangedTextNeverCrashes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string text = kExample;
  for (std::size_t length = 0; length < text.size(); ++length) (void)read_graph(text.substr(0, length));
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    changed[random() % changed.size()] = static_cast<char>(random());
    const auto graph = read_graph(changed);
    if (graph.ok()) (void)verify(*graph);
  }
}

TEST(GraphText, BadTextIsRefusedWithItsLine) {
  const auto message = [](const std::string& statements) {
    const auto graph = read_graph("kpt_graph 1\n" + statements);
    EXPECT_EQ(graph.status().code(), StatusCode::kCorruptData) << statements;
    return graph.status().message();
  };
  EXPECT_THAT(read_graph("").status().message(), StartsWith("line 1 "));
  EXPECT_THAT(read_graph("kpt_graph 2\n").status().message(), StartsWith("line 1 "));
  EXPECT_THAT(message("input x: float32[]\ninput x: float32[]\n"), StartsWith("line 3 "));
  EXPECT_THAT(message("\n\ny: float32[] = op(%x)\n"), HasSubstr("\"x\" is not defined above"));
  EXPECT_THAT(message("values x\n"), HasSubstr("named but not defined"));
  EXPECT_THAT(message("values x\ninput y: int(1)\n"), HasSubstr("not in the list"));
  EXPECT_THAT(message("values x, x\n"), HasSubstr("twice"));
  EXPECT_THAT(message("input x: float33[]\n"), HasSubstr("'float33' is no element type"));
  EXPECT_THAT(message("input x: float32[1\n"), HasSubstr("']' is missing"));
  EXPECT_THAT(message("input x: float32[1 +]\n"), HasSubstr("line 2 "));
  EXPECT_THAT(message("}\n"), HasSubstr("closes nothing"));
  EXPECT_THAT(message("output\n"), HasSubstr("argument is missing"));
  for (const char* bad : {"nonsense\n",
                          "symbol in 1..2\n",
                          "symbol s0 in 1.5..2\n",
                          "symbol s0 in 1..99999999999999999999\n",
                          "x: int() = \n",
                          "x: long(1) = op()\n",
                          "() = op(\n",
                          "() = op(1,)\n",
                          "() = op(dtype(float33))\n",
                          "() = op(complex(1, 2))\n",
                          "() = op(\"text)\n",
                          "() = op(graph)\n",
                          "() = op(graph \"x\" {)\n",
                          "() = op(tensor?)\n",
                          "() = op(device(cuda:x))\n",
                          "() = op() name=x\n",
                          "unused none\n",
                          "input %x: float32[]\n",
                          "input x: float32[]{speed=3}\n",
                          "input x: float32[]{layout=odd}\n"}) {
    EXPECT_FALSE(message(bad).empty());
  }
}

TEST(GraphText, DepthIsBounded) {
  const std::string head = "kpt_graph 1\n() = op(";
  EXPECT_TRUE(read_graph(head + std::string(64, '[') + std::string(64, ']') + ")").ok());
  EXPECT_FALSE(read_graph(head + std::string(65, '[') + std::string(65, ']') + ")").ok());
  EXPECT_FALSE(read_graph(head + std::string(1000000, '[')).ok());
  std::string graphs = "kpt_graph 1\n";
  for (int i = 0; i < 10000; ++i) graphs += "() = op(graph \"g\" {";
  EXPECT_FALSE(read_graph(graphs).ok());
  EXPECT_FALSE(read_graph("kpt_graph 1\ninput x: float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]").ok());
  EXPECT_FALSE(read_graph("kpt_graph 1\ninput x: float32[" + std::string(1000000, '(')).ok());
}

TEST(QuotedText, HoldsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string quoted = quote(bytes);
  for (const char c : quoted) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  Scanner scanner(quoted);
  EXPECT_EQ(scanner.quoted(), bytes);
  EXPECT_TRUE(scanner.at_end());
  for (const char* bad : {"", "x", "\"", "\"\\\"", "\"\\q\"", "\"\\x1\"", "\"\\xgg\"", "\"\n\""}) {
    Scanner broken(bad);
    EXPECT_EQ(broken.quoted(), std::nullopt) << bad;
    EXPECT_EQ(broken.position(), 0U);
  }
}

TEST(NumberText, ReadsBackAsTheSameNumber) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const auto bits = random();
    double value = 0;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    const std::string text = format_double(value);
    Scanner scanner(text);
    const auto number = scanner.number();
    ASSERT_TRUE(number.has_value()) << text;
    ASSERT_EQ(std::get<double>(*number), value) << text;
    ASSERT_TRUE(scanner.at_end()) << text;
  }
  EXPECT_EQ(format_double(3), "3.0");
  EXPECT_EQ(format_double(1e22), "1e+22");
  EXPECT_EQ(format_double(-0.0), "-0.0");
}

}  // namespace
}  // namespace kpt::ir
