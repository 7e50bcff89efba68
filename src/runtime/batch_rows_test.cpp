#include "runtime/batch_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "runtime/row_parts.h"

namespace kpt {
namespace {

using testing::HasSubstr;

ir::Graph read(const std::string& body) {
  auto graph = ir::read_graph("kpt_graph 1\nsymbol s0 in 2..64\nsymbol s1 in 1..512\n" + body);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return std::move(graph).value();
}

std::string reason(const std::string& body) {
  const auto rows = find_batch_rows(read(body));
  return rows.ok() ? "rows of " + rows->symbol : rows.status().message();
}

TEST(BatchRows, AnAttentionBlockKeepsItsRowsApart) {
  const auto rows = find_batch_rows(read(R"(input x: float32[s0, s1, 64]
input mask: bool[s0, 1, 1, s1]
parameter w: float32[64, 64] "w"
q: float32[s0, s1, 64] = aten.linear.default(input=%x, weight=%w, bias=none)
flat: float32[s0 * s1, 64] = aten.view.default(self=%q, size=[-1, 64])
product: float32[s0 * s1, 64] = aten.mm.default(self=%flat, mat2=%w)
heads: float32[s0, s1, 4, 16] = aten.view.default(self=%product, size=[-1, 1, 4, 16])
turned: float32[s0, 4, s1, 16] = aten.transpose.int(self=%heads, dim0=1, dim1=2)
mixed: float32[s0, 4, s1, 16] = aten.scaled_dot_product_attention.default(query=%turned, key=%turned, value=%turned, attn_mask=%mask, dropout_p=0.0)
scores: float32[s0, 4, s1, 16] = aten.softmax.int(self=%mixed, dim=-1)
pooled: float32[s0, 4, 16] = aten.mean.dim(self=%scores, dim=[2])
output %pooled "out"
)"));
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->symbol, "s0");
  EXPECT_EQ(rows->least, 2);
}

// How Hugging Face's models look up their masks: by the number of the row and the position.
TEST(BatchRows, NumbersOfRowsMayChooseTheirOwnRowsAndNothingElse) {
  const std::string start = R"(input mask: bool[s0, s1]
size: int(s0) = aten.sym_size.int(self=%mask, dim=0)
length: int(s1) = aten.sym_size.int(self=%mask, dim=1)
numbers: int64[s0] = aten.arange.default(end=%size)
positions: int64[s1] = aten.arange.default(end=%length)
column: int64[s0, 1] = aten.unsqueeze.default(self=%numbers, dim=1)
line: int64[1, s1] = aten.unsqueeze.default(self=%positions, dim=0)
)";
  const auto with = [&](const std::string& nodes) { return reason(start + nodes + "output %y \"out\"\n"); };
  EXPECT_EQ(with("y: bool[s0, s1] = aten.index.Tensor(self=%mask, indices=[%column, %line])\n"), "rows of s0");
  // Chosen rows of others, the numbers themselves, and rows that another mask chooses.
  EXPECT_THAT(with("y: bool[s0, s1] = aten.index.Tensor(self=%mask, indices=[%line, %column])\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("y: int64[s0, s1] = aten.add.Tensor(self=%column, other=%mask)\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("next: int64[s0, 1] = aten.add.Tensor(self=%column, other=1)\n"
                   "y: bool[s0, s1] = aten.index.Tensor(self=%mask, indices=[%next, %line])\n"),
              HasSubstr("'next'"));
  EXPECT_THAT(with("other: int64[1, s0] = aten.unsqueeze.default(self=%numbers, dim=0)\n"
                   "y: bool[s0, s1] = aten.index.Tensor(self=%mask, indices=[%other, %line])\n"),
              HasSubstr("'other'"));
  EXPECT_THAT(reason(R"(input mask: bool[s0, s1]
size: int(s0) = aten.sym_size.int(self=%mask, dim=0)
numbers: int64[s0] = aten.arange.start_step(start=1, end=%size, step=1)
y: bool[s0, s1] = aten.index.Tensor(self=%mask, indices=[%numbers])
output %y "out"
)"),
              HasSubstr("'numbers'"));
}

TEST(BatchRows, TheSizeOfTheBatchIsNoNumberToComputeWith) {
  const std::string start = "input x: float32[s0, 8]\nsize: int(s0) = aten.sym_size.int(self=%x, dim=0)\n";
  const auto with = [&](const std::string& nodes) { return reason(start + nodes + "output %y \"out\"\n"); };
  EXPECT_EQ(with("f: float32[s0, 8] = aten.full.default(size=[%size, 8], fill_value=2.0)\n"
                 "y: float32[s0, 8] = aten.div.Tensor(self=%x, other=%f)\n"),
            "rows of s0");
  EXPECT_THAT(with("f: float32[s0, 8] = aten.full.default(size=[%size, 8], fill_value=%size)\n"
                   "y: float32[s0, 8] = aten.div.Tensor(self=%x, other=%f)\n"),
              HasSubstr("'f'"));
  EXPECT_THAT(with("y: int64[s0] = aten.arange.default(end=%size)\n"), HasSubstr("'out'"));
  EXPECT_THAT(with("r: float32[8] = aten.rand.default(size=[8])\n"
                   "y: float32[s0, 8] = aten.add.Tensor(self=%x, other=%r)\n"),
              HasSubstr("'r'"));
  EXPECT_THAT(with("z: float32[8] = aten.full.default(size=[8], fill_value=1.0)\n"
                   "r: float32[8] = aten.log_normal.default(self=%z)\n"
                   "y: float32[s0, 8] = aten.add.Tensor(self=%x, other=%r)\n"),
              HasSubstr("'r'"));
}

TEST(BatchRows, InputsMustNotBeWritten) {
  const std::string input = "input x: float32[s0, 8]\n";
  const auto with = [&](const std::string& nodes) { return reason(input + nodes + "output %y \"out\"\n"); };
  EXPECT_THAT(with("y: float32[s0, 8] = aten.add_.Tensor(self=%x, other=1.0)\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("v: float32[s0, 2, 4] = aten.view.default(self=%x, size=[-1, 2, 4])\n"
                   "p: float32[s0, 2, 4] = aten.relu_.default(self=%v)\n"
                   "y: float32[s0, 2, 4] = aten.cos.default(self=%p)\n"),
              HasSubstr("'p'"));
  EXPECT_EQ(with("n: float32[s0, 8] = aten.layer_norm.default(input=%x, normalized_shape=[8])\n"
                 "y: float32[s0, 8] = aten.relu_.default(self=%n)\n"),
            "rows of s0");
}

TEST(BatchRows, RowsOfOneTensorAreNotRowsOfAnother) {
  EXPECT_THAT(reason("input x: float32[s0, 8]\ninput i: int64[s0, 3]\n"
                     "v: float32[s0 * 2, 4] = aten.view.default(self=%x, size=[-1, 4])\n"
                     "y: float32[s0, 3] = aten.gather.default(self=%v, dim=1, index=%i)\noutput %y \"out\"\n"),
              HasSubstr("'y'"));
}

TEST(BatchRows, PaddingAndDropoutAreLookedInto) {
  const std::string input = "input x: float32[s0, 8]\n";
  const auto with = [&](const std::string& nodes) { return reason(input + nodes + "output %y \"out\"\n"); };
  EXPECT_EQ(with("y: float32[s0, 10] = aten.constant_pad_nd.default(self=%x, pad=[1, 1], value=0.0)\n"), "rows of s0");
  EXPECT_THAT(with("y: float32[s0, 8] = aten.constant_pad_nd.default(self=%x, pad=[0, 0, 1, -1], value=0.0)\n"),
              HasSubstr("'y'"));
  EXPECT_EQ(with("y: float32[s0, 8] = aten.dropout.default(input=%x, p=0.1, train=false)\n"), "rows of s0");
  EXPECT_THAT(with("y: float32[s0, 8] = aten.dropout.default(input=%x, p=0.1, train=true)\n"), HasSubstr("'y'"));
}

TEST(BatchRows, WhatMixesRowsIsNamed) {
  const std::string input = "input x: float32[s0, 8]\n";
  const auto with = [&](const std::string& nodes) { return reason(input + nodes + "output %y \"out\"\n"); };
  EXPECT_THAT(with("y: float32[s0, 8] = aten.softmax.int(self=%x, dim=0)\n"), HasSubstr("'y' (aten.softmax.int)"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.softmax.int(self=%x, dim=-2)\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.cumsum.default(self=%x, dim=0)\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.flip.default(self=%x, dims=[0])\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("m: float32[8] = aten.mean.dim(self=%x, dim=[0])\n"
                   "y: float32[s0, 8] = aten.sub.Tensor(self=%x, other=%m)\n"),
              HasSubstr("'m'"));
  EXPECT_THAT(with("t: float32[8, s0] = aten.permute.default(self=%x, dims=[1, 0])\n"
                   "y: float32[s0, 8] = aten.permute.default(self=%t, dims=[1, 0])\n"),
              HasSubstr("'t'"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.layer_norm.default(input=%x, normalized_shape=[4, 8])\n"),
              HasSubstr("'y'"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.slice.Tensor(self=%x)\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.relu.default(self=%x)\n"), "rows of s0");
}

TEST(BatchRows, ANormThatLooksAtTheBatchMixesRows) {
  const auto with = [](const std::string& training) {
    return reason(
        "input x: float32[s0, 3, 8, 8]\ny: float32[s0, 3, 8, 8] = aten.batch_norm.default(input=%x, "
        "weight=none, bias=none, running_mean=none, running_var=none, training=" +
        training + ", momentum=0.1, eps=1e-05, cudnn_enabled=true)\noutput %y \"y\"\n");
  };
  EXPECT_THAT(with("true"), HasSubstr("'y'"));
  EXPECT_THAT(with("false"), "rows of s0");
}

TEST(BatchRows, SizesOfTheBatchMayMakeSizesOnly) {
  const std::string head = "input x: float32[s0, 8]\nn: int(s0) = aten.sym_size.int(self=%x, dim=0)\n";
  EXPECT_THAT(reason(head + "y: float32[s0, 2, 4] = aten.view.default(self=%x, size=[%n, 2, 4])\noutput %y \"y\"\n"),
              "rows of s0");
  EXPECT_THAT(reason(head + "y: float32[s0, 8] = aten.div.Tensor(self=%x, other=%n)\noutput %y \"y\"\n"),
              HasSubstr("'y'"));
}

TEST(BatchRows, InputsAndOutputsMustBeRows) {
  EXPECT_THAT(reason("input x: float32[4, 8]\ny: float32[4, 8] = aten.relu.default(self=%x)\noutput %y \"y\"\n"),
              HasSubstr("input 'x' has no first extent that may vary"));
  EXPECT_THAT(reason("input x: float32[s0, 8]\ninput z: float32[s1, 8]\noutput %x \"y\"\n"),
              HasSubstr("input 'z' has s1 rows and others have s0"));
  EXPECT_THAT(reason("input x: float32[s0, s0]\noutput %x \"y\"\n"), HasSubstr("more than its first extent"));
  EXPECT_THAT(reason("input x: float32[s0, 8]\ny: float32[8] = aten.sum.dim_IntList(self=%x, dim=[0])\n"
                     "output %y \"total\"\n"),
              HasSubstr("output 'total' does not have s0 rows"));
}

TEST(BatchRows, PartsNeverLeaveTooFewRowsBehind) {
  for (std::int64_t rows = 1; rows <= 40; ++rows) {
    for (std::int64_t wanted = 1; wanted <= rows; ++wanted) {
      for (std::int64_t least = 1; least <= 4; ++least) {
        std::int64_t left = rows;
        while (left > 0) {
          const std::int64_t next = next_rows(left, wanted, least);
          ASSERT_GT(next, 0);
          ASSERT_LE(next, left);
          ASSERT_TRUE(next >= least || rows < least) << rows << " " << wanted << " " << least;
          left -= next;
        }
      }
    }
  }
  EXPECT_EQ(next_rows(10, 4, 1), 4);
  EXPECT_EQ(next_rows(5, 4, 2), 3);
  EXPECT_EQ(next_rows(3, 2, 2), 3);
}

TEST(BatchRows, RowsAreTakenAndJoinedAsTheyWere) {
  Tensor whole = Tensor::empty(DType::kFloat32, Dims{5, 3}).value();
  for (std::size_t index = 0; index < 15; ++index) whole.elements<float>()[index] = static_cast<float>(index);
  const std::vector<Tensor> parts = {take_rows(whole, 0, 2), take_rows(whole, 2, 2), take_rows(whole, 4, 1)};
  const Tensor joined = join_rows(parts).value();
  ASSERT_EQ(joined.dims(), whole.dims());
  for (std::size_t index = 0; index < 15; ++index)
    EXPECT_EQ(joined.elements<float>()[index], static_cast<float>(index));
  const std::vector<Tensor> others = {whole, Tensor::empty(DType::kFloat32, Dims{5, 4}).value()};
  EXPECT_EQ(join_rows(others).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(join_rows({}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kpt
