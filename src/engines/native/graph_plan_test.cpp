#include "engines/native/graph_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/native/host_machine.h"
#include "ir/text.h"

namespace kpt::native {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Graph read(const std::string& text) { return ir::read_graph(text).value(); }

Result<GraphPlan> plan(const ir::Graph& graph) {
  const testing::HostMachine machine(64);
  return plan_graph(graph, {}, machine.traits());
}

// All nodes without a kernel, each with its reason; what stands between them does not hide them.
TEST(GraphPlan, EveryNodeWithoutAKernelIsListed) {
  const ir::Graph graph = read(R"(kpt_graph 1
values x, atan, add, pow, out
input x: float32[2, 3]
atan: float32[2, 3] = aten.atan.default(self=%x)
add: float32[2, 3] = aten.add.Tensor(self=%atan, other=%x)
pow: float32[2, 3] = aten.pow.Tensor_Scalar(self=%add, exponent=3.5)
out: float64[2, 3] = aten.to.dtype(self=%pow, dtype=dtype(float64))
output %out "output"
)");
  const auto failed = plan(graph);
  ASSERT_EQ(failed.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(failed.status().message(),
            "3 of 4 nodes have no kernel of ours: 'atan' aten.atan.default: no kernel of ours computes it; "
            "'pow' aten.pow.Tensor_Scalar: there are powers of 2, 3, 0.5 and -0.5, not of 3.5; "
            "'out' aten.to.dtype: elementwise: no kernel for float64");
  const testing::HostMachine machine(64);
  const auto answers = check_nodes(graph, machine.traits());
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_FALSE(answers[0].supported);
  EXPECT_TRUE(answers[1].supported);
}

// Kernels write as many elements as the arguments say: results for which the file says another size are refused.
TEST(GraphPlan, ExtentsOfTheFileThatDoNotFitAreRefused) {
  const char* const inputs = R"(input x: float32[4, 6]
input w: float32[5, 6]
input b: float32[7]
input v: float32[6]
input i: int64[3]
input q: float32[2, 4, 8, 16]
input k: float32[1, 4, 8, 16]
)";
  const char* const nodes[] = {
      "float32[1, 1] = aten.linear.default(input=%x, weight=%w)",
      "float32[4, 5] = aten.linear.default(input=%x, weight=%w, bias=%b)",
      "float32[4, 4] = aten.addmm.default(self=%v, mat1=%x, mat2=%w)",
      "float32[1, 6] = aten.layer_norm.default(input=%x, normalized_shape=[6])",
      "float32[4, 6] = aten.layer_norm.default(input=%x, normalized_shape=[5])",
      "float32[4, 6] = aten.layer_norm.default(input=%x, normalized_shape=[6], weight=%b)",
      "float32[4, 2] = aten.softmax.int(self=%x, dim=-1)",
      "float32[2] = aten.sum.dim_IntList(self=%x, dim=[1])",
      "float32[3, 2] = aten.embedding.default(weight=%x, indices=%i)",
      "float32[3, 9] = aten.index_select.default(self=%x, dim=0, index=%i)",
      "float32[3, 9] = aten.index.Tensor(self=%x, indices=[%i])",
      "float32[4, 4] = aten.permute.default(self=%x, dims=[0, 0])",
      "float32[4, 5] = aten.slice.Tensor(self=%x, dim=1, start=0, end=6, step=-4)",
      "float32[4, 5] = aten.slice.Tensor(self=%x, dim=1, start=0, end=6, step=4611686018427387904)",
      "float32[2, 4, 8, 16] = aten.scaled_dot_product_attention.default(query=%q, key=%q, value=%k)",
  };
  for (const char* const node : nodes) {
    SCOPED_TRACE(node);
    const auto graph =
        ir::read_graph(std::string("kpt_graph 1\n") + inputs + "out: " + node + "\noutput %out \"output\"\n");
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(plan(*graph).status().code(), StatusCode::kUnsupported);
  }
}

TEST(GraphPlan, WrittenBuffersLieInTheArenaAndWrittenInputsAreRefused) {
  const std::string text = R"(kpt_graph 1
values b, x, sum
buffer b: float32[2] "count"
input x: float32[2]
sum: float32[2] = aten.add.Tensor(self=%b, other=%x)
KIND_mutation %sum "NAME"
output %sum "output"
)";
  const auto with = [&text](const std::string& kind, const std::string& name) {
    std::string changed = text;
    changed.replace(changed.find("KIND"), 4, kind);
    changed.replace(changed.find("NAME"), 4, name);
    return plan(read(changed));
  };
  const auto planned = with("buffer", "count");
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  ASSERT_EQ(planned->states.size(), 1U);
  EXPECT_EQ(planned->states[0].input, 0U);
  EXPECT_FALSE(planned->blocks[planned->states[0].before.block].weight);
  const auto failed = with("input", "x");
  EXPECT_EQ(failed.status().code(), StatusCode::kModelPreparation);
  EXPECT_THAT(failed.status().message(), HasSubstr("writes 'x'"));
}

TEST(GraphPlan, ViewsAreNoLaunchesAndMemoryIsUsedAgain) {
  const auto made = plan(read(R"(kpt_graph 1
values x, t, r, a, b, c, d
input x: float32[2, 64, 32]
t: float32[2, 32, 64]{strides=[2048, 1, 32]} = aten.transpose.int(self=%x, dim0=1, dim1=2)
r: float32[2, 64, 32] = aten.transpose.int(self=%t, dim0=1, dim1=2)
a: float32[2, 64, 32] = aten.relu.default(self=%r)
b: float32[2, 64, 32] = aten.tanh.default(self=%a)
c: float32[2, 64, 32] = aten.sigmoid.default(self=%b)
d: float32[2, 64, 32] = aten.relu.default(self=%c)
output %d "output"
)"));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(made->steps.size(), 4U);
  EXPECT_EQ(made->arena_bytes, 2U * 2 * 64 * 32 * 4);  // two at a time
  EXPECT_THAT(made->families, ElementsAre("activation"));
}

// The sanitizer would see an overflow: distances between neighbours that are not there, and beside an extent of zero.
TEST(GraphPlan, ArgumentsAndExtentsOfAnySizeDoNotOverflow) {
  const auto made = plan(read(R"(kpt_graph 1
input x: float32[1, 1, 2, 1099511627776]
input w: float32[1, 1, 1, 1]
s: float32[1, 1, 2, 1]{strides=[2199023255552, 2199023255552, 1099511627776, 1]} = aten.slice.Tensor(self=%x, dim=3, start=0, end=1)
p: float32[1, 1, 1, 1] = aten.max_pool2d.default(self=%s, kernel_size=[1, 1], stride=[2147483648, 2147483648], dilation=[2147483648, 2147483648])
c: float32[1, 1, 1, 1] = aten.conv2d.default(input=%s, weight=%w, stride=[2147483648, 1], dilation=[2147483648, 1])
output %p "p"
output %c "c"
)"));
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  const auto empty = plan(read(R"(kpt_graph 1
input x: float32[0, 1, 4611686018427387904, 1]
p: float32[0, 1, 4611686018427387904, 1] = aten.max_pool2d.default(self=%x, kernel_size=[1, 1], stride=[1, 1], padding=[1, 0])
output %p "p"
)"));
  EXPECT_EQ(empty.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(empty.status().message(), HasSubstr("a tensor is too large"));
}

// What follows from sizes is known before a run: a comparison needs no kernel, and sizes that the model asserts not to
// have are refused as such, with its own words.
TEST(GraphPlan, ComparisonsOfSizesAndWhatIsAssertedOfThem) {
  const ir::Graph graph = read(R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 2]
size: int(s0) = aten.sym_size.int(self=%x, dim=0)
rest: int(s0 % 3) = _operator.mod(a=%size, b=3)
eq: bool() = _operator.eq(a=%rest, b=0)
no: bool() = torch.sym_not(a=%eq)
lt: bool() = _operator.lt(a=%size, b=9.5)
le: bool() = _operator.le(a=%rest, b=%size)
ge: bool() = _operator.ge(a=%size, b=2)
gt: bool() = _operator.gt(a=%size, b=0)
ne: bool() = _operator.ne(a=%size, b=4)
both: bool() = _operator.and_(a=%no, b=%ne)
one: bool() = _operator.or_(a=%lt, b=%eq)
() = aten._assert_scalar.default(self=%both, assert_msg="no multiple of 3, and not 4") name="first"
() = aten._assert_scalar.default(self=%one, assert_msg="below 9.5") name="second"
() = aten._assert_scalar.default(self=%ge, assert_msg="2 or more") name="third"
() = aten._assert_scalar.default(self=%gt, assert_msg="some") name="fourth"
() = aten._assert_scalar.default(self=%le, assert_msg="arithmetic") name="fifth"
o: float32[s0, 2] = aten.mul.Tensor(self=%x, other=2)
output %o "output"
)");
  const testing::HostMachine machine(64);
  const auto refusal = [&](std::int64_t size) {
    ir::Bindings sizes;
    sizes.set("s0", size);
    const auto made = plan_graph(graph, sizes, machine.traits());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? std::string(made->sizes.message()) : "no plan";
  };
  for (const std::int64_t size : {2, 5, 7, 8}) EXPECT_EQ(refusal(size), "") << size;
  EXPECT_THAT(refusal(3), HasSubstr("these sizes break what the model asserts in 'first': no multiple of 3"));
  EXPECT_THAT(refusal(4), HasSubstr("'first'"));
  EXPECT_THAT(refusal(10), HasSubstr("'second': below 9.5"));
  EXPECT_THAT(refusal(1), HasSubstr("'third': 2 or more"));
  // Neither nodes nor the model are refused for sizes that were only tried.
  for (const Support& answer : check_nodes(graph, machine.traits())) EXPECT_TRUE(answer.supported) << answer.reason;
  const auto needed = find_needed_kernels(graph, machine.traits());
  ASSERT_TRUE(needed.ok()) << needed.status().to_string();
  EXPECT_FALSE(needed->kernels.empty());
}

TEST(GraphPlan, TruthsThatNoSizeTellsAreRefused) {
  const auto failed = plan(read(R"(kpt_graph 1
input x: float32[2]
yes: bool() = aten.is_nonzero.default(self=%x)
no: bool() = torch.sym_not(a=%yes)
() = aten._assert_scalar.default(self=%no, assert_msg="zero") name="assertion"
output %x "output"
)"));
  EXPECT_EQ(failed.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(failed.status().message(), HasSubstr("3 of 3 nodes have no kernel of ours"));
}

TEST(GraphPlan, TargetsAreSortedAndNoneTwice) {
  const auto targets = covered_targets();
  for (std::size_t i = 1; i < targets.size(); ++i) EXPECT_LT(targets[i - 1], targets[i]);
}

}  // namespace
}  // namespace kpt::native
