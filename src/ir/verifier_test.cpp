#include "ir/verifier.h"

#include <functional>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt::ir {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGood = R"(kpt_graph 1
symbol s0 in 1..8
input x: float32[s0, 4]
buffer b: float32[4] "count"
fixed none "flag" = true
size: int(s0) = aten.sym_size.int(self=%x, dim=0)
add: float32[s0, 4] = aten.add.Tensor(self=%x, other=%b)
cat: float32[s0, 4] = aten.cat.default(tensors=[%x, %add], dims=[%size, 4])
cond: float32[s0] = higher_order.cond(true, graph "body" {
  input y: float32[s0]
  output %y
}, [%x])
output %cat "out"
buffer_mutation %b "count"
)";

Graph good() {
  auto graph = read_graph(kGood);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return *std::move(graph);
}

ValueId find(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

// The message of the verifier for the good graph after one change.
std::string refusal(const std::function<void(Graph&)>& spoil) {
  Graph graph = good();
  spoil(graph);
  const Status status = verify(graph);
  EXPECT_EQ(status.code(), StatusCode::kCorruptData);
  return status.message();
}

Node node_with(Argument argument) {
  Node node;
  node.target = "op";
  node.arguments.push_back({"", std::move(argument)});
  return node;
}

List& list_of(Argument& argument) { return std::get<List>(argument.value); }

TEST(Verifier, AcceptsGoodGraphs) {
  EXPECT_TRUE(verify(Graph()).ok());
  const Status status = verify(good());
  EXPECT_TRUE(status.ok()) << status.message();
  Graph with_leftover = good();
  with_leftover.values.emplace_back().name = "left over";
  EXPECT_TRUE(verify(with_leftover).ok());
}

TEST(Verifier, ValuesAreDefinedOnceAndBeforeTheirUse) {
  EXPECT_THAT(refusal([](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); }),
              HasSubstr("the node 'cat' (aten.cat.default) uses the value 'add' before it is defined"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].arguments[0].value = {find(g, "add")}; }), HasSubstr("before"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].outputs[0].values[0] = find(g, "x"); }),
              HasSubstr("the node 'add' (aten.add.Tensor) defines the value 'x' a second time"));
  EXPECT_THAT(refusal([](Graph& g) { g.inputs[0].value = g.inputs[1].value; }), HasSubstr("a second time"));
  EXPECT_THAT(refusal([](Graph& g) { g.inputs.erase(g.inputs.begin()); }), HasSubstr("'x' before it is defined"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].arguments[0].value = {ValueId{1000}}; }), HasSubstr("does not have"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].arguments[0].value = {kNoValue}; }), HasSubstr("does not have"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].outputs[0].values[0] = ValueId{1000}; }), HasSubstr("does not have"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].outputs[0].values.clear(); }), HasSubstr("exactly one"));
  EXPECT_THAT(refusal([](Graph& g) { g.outputs[0].value = {ValueId{1000}}; }), HasSubstr("the output 'out'"));
  EXPECT_THAT(refusal([](Graph& g) { list_of(g.nodes[2].arguments[0].value).items[1] = {ValueId{1000}}; }),
              HasSubstr("does not have"));
}

TEST(Verifier, NamesAreUnique) {
  EXPECT_THAT(refusal([](Graph& g) { g.values[1].name = "x"; }), HasSubstr("two values have the name 'x'"));
  EXPECT_THAT(refusal([](Graph& g) { g.values[1].name.clear(); }), HasSubstr("no name"));
  EXPECT_THAT(refusal([](Graph& g) { g.inputs[2].name = "x"; }), HasSubstr("two inputs have the name 'x'"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].arguments[1].name = "self"; }), HasSubstr("'self' twice"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[1].target.clear(); }), HasSubstr("no operator"));
}

TEST(Verifier, KindsFitTheirPlace) {
  EXPECT_THAT(refusal([](Graph& g) { list_of(g.nodes[2].arguments[0].value).items[1] = {find(g, "size")}; }),
              HasSubstr("item 1 is not of the list's kind"));
  EXPECT_THAT(refusal([](Graph& g) { list_of(g.nodes[2].arguments[1].value).items[0] = {find(g, "x")}; }),
              HasSubstr("item 0 is not"));
  EXPECT_THAT(refusal([](Graph& g) { list_of(g.nodes[2].arguments[1].value).items[1] = {4.0}; }), HasSubstr("item 1"));
  EXPECT_THAT(refusal([](Graph& g) { list_of(g.nodes[2].arguments[1].value).items[1] = {}; }), HasSubstr("item 1"));
  EXPECT_THAT(refusal([](Graph& g) { g.at(find(g, "size")).tensor.dims = {4}; }), HasSubstr("is no tensor"));
  EXPECT_THAT(refusal([](Graph& g) { g.at(find(g, "x")).expression = 4; }), HasSubstr("has an expression"));
}

TEST(Verifier, TypesAreConsistent) {
  const auto x = [](Graph& g) -> TensorType& { return g.at(find(g, "x")).tensor; };
  EXPECT_THAT(refusal([&](Graph& g) { x(g).strides.pop_back(); }), HasSubstr("2 extents and 1 strides"));
  EXPECT_THAT(refusal([&](Graph& g) { x(g).dims[1] = -1; }), HasSubstr("negative extent"));
  EXPECT_THAT(refusal([&](Graph& g) { x(g).dims.assign(17, 1); }), HasSubstr("rank 17"));
  EXPECT_THAT(refusal([&](Graph& g) { x(g).dims[0] = Expr::symbol("s1"); }),
              HasSubstr("the value 'x' uses the symbol 's1', which is not declared"));
  EXPECT_THAT(refusal([&](Graph& g) { x(g).storage_offset = Expr::symbol("s1"); }), HasSubstr("'s1'"));
  EXPECT_THAT(refusal([&](Graph& g) { x(g).strides[0] = Expr::symbol("s1"); }), HasSubstr("'s1'"));
  EXPECT_THAT(refusal([](Graph& g) { g.at(find(g, "size")).expression = Expr::symbol("s1"); }), HasSubstr("'s1'"));
  EXPECT_THAT(refusal([](Graph& g) { g.symbols.push_back(g.symbols[0]); }), HasSubstr("declared twice"));
  EXPECT_THAT(refusal([](Graph& g) { g.symbols[0].min = 9; }), HasSubstr("is empty"));
  EXPECT_THAT(refusal([](Graph& g) { g.symbols[0].name.clear(); }), HasSubstr("no name"));
  EXPECT_THAT(refusal([&](Graph& g) { x(g).dtype = static_cast<DType>(200); }), HasSubstr("element type"));
}

TEST(Verifier, InputsAndOutputsAreConsistent) {
  EXPECT_THAT(refusal([](Graph& g) { g.inputs[0].value = kNoValue; }), HasSubstr("the input 'x' has no value"));
  EXPECT_THAT(refusal([](Graph& g) { g.inputs[0].fixed = {true}; }), HasSubstr("fixed value"));
  EXPECT_THAT(refusal([](Graph& g) { g.inputs[1].name.clear(); }), HasSubstr("does not name it"));
  EXPECT_THAT(refusal([](Graph& g) { g.outputs[1].name = "other"; }), HasSubstr("does not have"));
  EXPECT_THAT(refusal([](Graph& g) { g.outputs[1].kind = OutputKind::kParameterMutation; }),
              HasSubstr("does not have"));
  EXPECT_THAT(refusal([](Graph& g) { g.outputs[1].value = {find(g, "size")}; }), HasSubstr("but is none"));
  EXPECT_THAT(refusal([](Graph& g) { g.outputs[1].value = {None{}}; }), HasSubstr("but is none"));
}

TEST(Verifier, SubgraphsAreCheckedToo) {
  const auto body = [](Graph& g) -> Subgraph& { return std::get<Subgraph>(g.nodes[3].arguments[1].value.value); };
  EXPECT_THAT(refusal([&](Graph& g) { body(g).graph = nullptr; }), HasSubstr("no body for the graph 'body'"));
  const auto spoil_body = [&](const std::function<void(Graph&)>& spoil) {
    return refusal([&](Graph& g) {
      Graph inner = *body(g).graph;
      spoil(inner);
      body(g).graph = std::make_shared<const Graph>(std::move(inner));
    });
  };
  EXPECT_THAT(spoil_body([](Graph& g) { g.inputs.clear(); }),
              HasSubstr("in the graph 'body': the output '' uses the value 'y' before it is defined"));
  EXPECT_THAT(spoil_body([](Graph& g) { g.values[0].tensor.dims[0] = Expr::symbol("s1"); }), HasSubstr("'s1'"));
}

TEST(Verifier, SubgraphsTakeNumbersBesideTensors) {
  const auto operands = [](Graph& g) -> List& { return list_of(g.nodes[3].arguments[2].value); };
  Graph graph = good();
  operands(graph).items.push_back({find(graph, "size")});
  const Status status = verify(graph);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(refusal([&](Graph& g) { operands(g).items.push_back({4.0}); }), HasSubstr("no value"));
  EXPECT_THAT(refusal([&](Graph& g) { operands(g).items.push_back({find(g, "cond")}); }), HasSubstr("before it is"));
}

TEST(Verifier, NestingIsBounded) {
  const auto nested = [](std::size_t depth) {
    Argument argument{List{ElementKind::kList, {}}};
    for (std::size_t i = 1; i < depth; ++i) {
      List outer{ElementKind::kList, {}};
      outer.items.push_back(std::move(argument));
      argument = {std::move(outer)};
    }
    Graph graph;
    graph.nodes.push_back(node_with(std::move(argument)));
    return graph;
  };
  EXPECT_TRUE(verify(nested(kMaxNesting)).ok());
  EXPECT_EQ(verify(nested(kMaxNesting + 1)).code(), StatusCode::kCorruptData);
  Graph graph;
  for (int i = 0; i < 100; ++i) {
    Graph outer;
    outer.nodes.push_back(node_with({Subgraph{"g", std::make_shared<const Graph>(graph)}}));
    graph = outer;
  }
  EXPECT_THAT(verify(graph).message(), HasSubstr("too deeply"));
}

}  // namespace
}  // namespace kpt::ir
