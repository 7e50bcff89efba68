#include "runtime/sequence_rows.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/weight_values.h"
#include "runtime/row_parts.h"
#include "runtime/sequence_facts.h"

namespace kpt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

ir::Graph read_sequence_graph(const std::string& body) {
  auto graph = ir::read_graph("kpt_graph 1\nsymbol s0 in 1..64\nsymbol s1 in 2..512\n" + body);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return std::move(graph).value();
}

// "causal along s1", "masked along s1", or why not.
std::string verdict(const std::string& body, const WeightNumbers& numbers = {}) {
  const auto rows = find_sequence_rows(read_sequence_graph(body), numbers);
  if (!rows.ok()) return rows.status().message();
  return (rows->masked ? "masked along " : "causal along ") + rows->symbol;
}

// Positions as Hugging Face's models make them: keys [1, 1, 1, s1], queries [1, 1, s1, 1], the batch's rows [s0, 1, 1,
// 1].
const std::string kPositions = R"(input ids: int64[s0, s1]
input attention_mask: int64[s0, s1]
parameter table: float32[100, 64] "table"
parameter w: float32[64, 64] "w"
size: int(s0) = aten.sym_size.int(self=%ids, dim=0)
length: int(s1) = aten.sym_size.int(self=%ids, dim=1)
x: float32[s0, s1, 64] = aten.embedding.default(weight=%table, indices=%ids)
numbers: int64[s0] = aten.arange.default(end=%size)
positions: int64[s1] = aten.arange.default(end=%length)
shifted: int64[s1] = aten.add.Tensor(self=%positions, other=0)
rows: int64[s0, 1, 1, 1] = aten.view.default(self=%numbers, size=[-1, 1, 1, 1])
queries: int64[1, 1, s1, 1] = aten.view.default(self=%shifted, size=[1, 1, -1, 1])
keys: int64[1, 1, 1, s1] = aten.view.default(self=%positions, size=[1, 1, 1, -1])
)";
const std::string kAttention = R"(flat: float32[s0 * s1, 64] = aten.view.default(self=%x, size=[-1, 64])
product: float32[s0 * s1, 64] = aten.mm.default(self=%flat, mat2=%w)
heads: float32[s0, s1, 4, 16] = aten.view.default(self=%product, size=[%size, %length, 4, 16])
q: float32[s0, 4, s1, 16] = aten.transpose.int(self=%heads, dim0=1, dim1=2)
)";
const std::string kBoth =
    "padding: bool[s0, s1] = aten.to.dtype(self=%attention_mask, dtype=dtype(bool))\n"
    "chosen: bool[s0, 1, 1, s1] = aten.index.Tensor(self=%padding, indices=[%rows, %keys])\n";

std::string attend(const std::string& mask_nodes, const std::string& weights = "", const WeightNumbers& numbers = {}) {
  return verdict(weights + kPositions + kAttention + kBoth + mask_nodes +
                     "y: float32[s0, 4, s1, 16] = aten.scaled_dot_product_attention.default(query=%q, key=%q, "
                     "value=%q, attn_mask=%mask)\noutput %y \"out\"\n",
                 numbers);
}

TEST(SequenceRows, KeysAreHiddenBehindQueriesHoweverPositionsAreCompared) {
  const std::string type = "bool[1, 1, s1, s1]";
  EXPECT_EQ(attend("mask: " + type + " = aten.le.Tensor(self=%keys, other=%queries)\n"), "causal along s1");
  EXPECT_EQ(attend("mask: " + type + " = aten.lt.Tensor(self=%keys, other=%queries)\n"), "causal along s1");
  EXPECT_EQ(attend("mask: " + type + " = aten.ge.Tensor(self=%queries, other=%keys)\n"), "causal along s1");
  EXPECT_EQ(attend("later: " + type + " = aten.gt.Tensor(self=%keys, other=%queries)\n" + "mask: " + type +
                   " = aten.logical_not.default(self=%later)\n"),
            "causal along s1");
  // With a mask of the caller's and a window.
  EXPECT_EQ(attend("causal: " + type + " = aten.le.Tensor(self=%keys, other=%queries)\n" +
                   "far: int64[1, 1, s1, 1] = aten.sub.Tensor(self=%queries, other=8)\n" + "near: " + type +
                   " = aten.gt.Tensor(self=%keys, other=%far)\n" + "window: " + type +
                   " = aten.__and__.Tensor(self=%near, other=%causal)\n"
                   "mask: bool[s0, 1, s1, s1] = aten.__and__.Tensor(self=%window, other=%chosen)\n"),
            "causal along s1");
  // One key further is one too far; a key that is one back counts as hidden in `<`.
  EXPECT_EQ(attend("next: int64[1, 1, s1, 1] = aten.add.Tensor(self=%queries, other=1)\nmask: " + type +
                   " = aten.lt.Tensor(self=%keys, other=%next)\n"),
            "causal along s1");
  EXPECT_THAT(attend("next: int64[1, 1, s1, 1] = aten.add.Tensor(self=%queries, other=1)\nmask: " + type +
                     " = aten.le.Tensor(self=%keys, other=%next)\n"),
              HasSubstr("'y' (aten.scaled_dot_product_attention.default) looks at keys behind the end"));
}

// As the pass share_masks writes it: truth values become numbers to add, and these are weights.
TEST(SequenceRows, NumbersThatWeightsHoldAreKnown) {
  const std::string weights = "constant zero: float32[] \"zero\"\nconstant never: float32[] \"never\"\n";
  const std::string nodes =
      "causal: bool[1, 1, s1, s1] = aten.le.Tensor(self=%keys, other=%queries)\n"
      "mask: float32[1, 1, s1, s1] = aten.where.self(condition=%causal, self=%zero, other=%never)\n";
  const double infinity = std::numeric_limits<double>::infinity();
  const auto known = [&](double never) {
    const double zeros[] = {0, 0};
    Weights values;
    values.emplace("zero", make_weight(DType::kFloat32, {}, std::span(zeros, 1)).value());
    values.emplace("never", make_weight(DType::kBFloat16, {}, std::span(&never, 1)).value());
    values.emplace("table", make_weight(DType::kFloat32, Dims{2}, zeros).value());
    return read_weight_numbers(values);
  };
  EXPECT_THAT(known(-infinity), ElementsAre(Pair("never", -infinity), Pair("zero", 0.0)));
  EXPECT_THAT(known(-3e4), ElementsAre(Pair("zero", 0.0)));
  EXPECT_EQ(attend(nodes, weights, known(-infinity)), "causal along s1");
  for (const WeightNumbers& other : {known(-3e4), known(infinity), known(0), WeightNumbers{}}) {
    EXPECT_THAT(attend(nodes, weights, other), HasSubstr("looks at keys behind the end"));
  }
}

// A row that is not there ends a GPU's process, so a longer sequence must not ask for one.
TEST(SequenceRows, RowsOfTablesBoundTheLength) {
  const std::string head = R"(input ids: int64[s0, s1]
input attention_mask: int64[s0, s1]
parameter places: float32[120, 64] "places"
parameter stored: int64[1, 96] "stored"
length: int(s1) = aten.sym_size.int(self=%ids, dim=1)
)";
  const auto look_up = [&](const std::string& nodes, const std::string& extents) {
    return head + nodes + "x: float32[" + extents +
           ", 64] = aten.embedding.default(weight=%places, indices=%index)\noutput %x \"out\"\n";
  };
  const auto most = [&](const std::string& nodes, const std::string& extents) {
    const auto rows = find_sequence_rows(read_sequence_graph(look_up(nodes, extents)));
    return rows.ok() ? rows->most : -1;
  };
  EXPECT_EQ(most("index: int64[s0, s1] = aten.clone.default(self=%ids)\n", "s0, s1"), 512);
  EXPECT_EQ(most("positions: int64[s1] = aten.arange.default(end=%length)\n"
                 "index: int64[s1] = aten.add.Tensor(self=%positions, other=2)\n",
                 "s1"),
            118);
  EXPECT_EQ(most("index: int64[1, s1] = aten.slice.Tensor(self=%stored, dim=1, start=0, end=%length)\n", "1, s1"), 96);
  const std::string sums = "sums: int64[s0, s1] = aten.cumsum.default(self=%attention_mask, dim=1)\n";
  EXPECT_THAT(verdict(look_up(sums + "index: int64[s0, s1] = aten.clone.default(self=%sums)\n", "s0, s1")),
              HasSubstr("'x' (aten.embedding.default) looks up rows that may not be there"));
  EXPECT_EQ(verdict(look_up(sums + "own: int64[s0, s1] = aten.mul.Tensor(self=%sums, other=%attention_mask)\n"
                                   "index: int64[s0, s1] = aten.add.Tensor(self=%own, other=1)\n",
                            "s0, s1")),
            "masked along s1");
}

TEST(SequenceRows, OtherMasksLookBehindTheEnd) {
  const std::string type = "bool[1, 1, s1, s1]";
  EXPECT_THAT(attend("mask: " + type + " = aten.ge.Tensor(self=%keys, other=%queries)\n"), HasSubstr("'y'"));
  EXPECT_THAT(attend("mask: " + type + " = aten.ne.Tensor(self=%keys, other=%queries)\n"), HasSubstr("'y'"));
  EXPECT_THAT(attend("causal: " + type + " = aten.le.Tensor(self=%keys, other=%queries)\nother: " + type +
                     " = aten.ne.Tensor(self=%keys, other=%queries)\nmask: " + type +
                     " = aten.logical_or.default(self=%causal, other=%other)\n"),
              HasSubstr("'y'"));
  EXPECT_THAT(attend("mask: bool[1, 1, s1, 1] = aten.ge.Scalar(self=%queries, other=0)\n"), HasSubstr("'y'"));
  // Positions in 16 bits of which are not exact.
  EXPECT_THAT(attend("k: float16[1, 1, 1, s1] = aten.to.dtype(self=%keys, dtype=dtype(float16))\nmask: " + type +
                     " = aten.le.Tensor(self=%k, other=%queries)\n"),
              HasSubstr("'y'"));
  // A large number is no infinity: a query that may look nowhere would look everywhere.
  const std::string causal = "causal: " + type + " = aten.le.Tensor(self=%keys, other=%queries)\n";
  EXPECT_THAT(attend(causal + "mask: float32[1, 1, s1, s1] = aten.where.Scalar(condition=%causal, self=0.0, "
                              "other=-3.4028234663852886e+38)\n"),
              HasSubstr("'mask' (aten.where.Scalar) is not known"));
  const std::string zero = "zero: float32[] = aten.scalar_tensor.default(s=0.0, dtype=dtype(float32))\n";
  EXPECT_THAT(attend(causal + zero +
                     "mask: float32[1, 1, s1, s1] = aten.where.ScalarOther(condition=%causal, "
                     "self=%zero, other=-3.4028234663852886e+38)\n"),
              HasSubstr("'y'"));
  EXPECT_EQ(attend(causal + zero +
                   "mask: float32[1, 1, s1, s1] = aten.where.ScalarOther(condition=%causal, "
                   "self=%zero, other=-inf)\n"),
            "causal along s1");
  EXPECT_THAT(verdict(kPositions + kAttention +
                      "y: float32[s0, 4, s1, 16] = aten.scaled_dot_product_attention.default(query=%q, key=%q, "
                      "value=%q)\noutput %y \"out\"\n"),
              HasSubstr("no mask is known"));
}

TEST(SequenceRows, AMaskAmongTheInputsHidesWhatIsPaddedWithZeros) {
  EXPECT_EQ(attend("seen: bool[1, 1, s1, 1] = aten.ge.Scalar(self=%queries, other=0)\n"
                   "mask: bool[s0, 1, s1, s1] = aten.logical_and.default(self=%seen, other=%chosen)\n"),
            "masked along s1");
  EXPECT_THAT(attend("mask: bool[s0, 1, 1, s1] = aten.logical_not.default(self=%chosen)\n"), HasSubstr("'y'"));
  EXPECT_THAT(attend("next: int64[1, 1, 1, s1] = aten.add.Tensor(self=%keys, other=-1)\n"
                     "mask: bool[s0, 1, 1, s1] = aten.index.Tensor(self=%padding, indices=[%rows, %next])\n"),
              HasSubstr("'mask'"));
  // Means over the mask's positions.
  const std::string mean =
      "wide: int64[s0, s1, 1] = aten.unsqueeze.default(self=%attention_mask, dim=-1)\n"
      "weights: float32[s0, s1, 1] = aten.to.dtype(self=%wide, dtype=dtype(float32))\n"
      "own: float32[s0, s1, 64] = aten.mul.Tensor(self=%x, other=%weights)\n"
      "sum: float32[s0, 64] = aten.sum.dim_IntList(self=%own, dim=[1])\n"
      "count: float32[s0, 1] = aten.sum.dim_IntList(self=%weights, dim=[1])\n"
      "y: float32[s0, 64] = aten.div.Tensor(self=%sum, other=%count)\noutput %y \"out\"\n";
  EXPECT_EQ(verdict(kPositions + mean), "masked along s1");
}

TEST(SequenceRows, OursOperatorsAndTrianglesAreKnown) {
  const std::string own = kPositions + kAttention +
                          "c: float32[1, 1, s1, 16] = aten.cos.default(self=%angles)\n"
                          "r: float32[s0, 4, s1, 16] = kpt.rotary.default(input=%q, cos=%c, sin=%c)\n";
  const std::string angles =
      "wide: float32[1, 1, s1, 1] = aten.to.dtype(self=%queries, dtype=dtype(float32))\n"
      "angles: float32[1, 1, s1, 16] = aten.expand.default(self=%wide, size=[1, 1, %length, 16])\n";
  const auto with = [&](const std::string& arguments, const std::string& nodes = "") {
    std::string body = own;
    body.insert(kPositions.size(), angles);
    return verdict(body + nodes + "a: float32[s0, s1, 4, 16] = kpt.attention.default(query=%r, key=%r, value=%q, " +
                   arguments +
                   ")\nflat_a: float32[s0, s1, 64] = aten.view.default(self=%a, size=[%size, %length, 64])\n" +
                   "p: float32[s0, s1, 64] = kpt.linear.default(input=%flat_a, weight=%w, bias=none, residual=%x, "
                   "activation=\"gelu\")\n"
                   "n: float32[s0, s1, 64], m: float32[s0, s1, 64] = kpt.add_norm.default(input=%p, residual=%x, "
                   "weight=none, bias=none, epsilon=1e-05, kind=\"rms\")\n"
                   "y: float32[s0, s1, 32] = kpt.glu.default(input=%n, activation=\"silu\")\noutput %y \"out\"\n");
  };
  EXPECT_EQ(with("mask=none, scale=0.25, causal=true"), "causal along s1");
  EXPECT_THAT(with("mask=none, scale=0.25, causal=false"), HasSubstr("'a' (kpt.attention.default) looks at keys"));
  EXPECT_EQ(with("mask=%t, scale=0.25, causal=false",
                 "o: bool[s1, s1] = aten.ones.default(size=[%length, %length], dtype=dtype(bool))\n"
                 "t: bool[s1, s1] = aten.tril.default(self=%o)\n"),
            "causal along s1");
  EXPECT_THAT(with("mask=%t, scale=0.25, causal=false",
                   "o: bool[s1, s1] = aten.ones.default(size=[%length, %length], dtype=dtype(bool))\n"
                   "t: bool[s1, s1] = aten.tril.default(self=%o, diagonal=1)\n"),
              HasSubstr("'a'"));
  EXPECT_EQ(with("mask=%t, scale=0.25, causal=false",
                 "o: float32[s1, s1] = aten.full.default(size=[%length, %length], fill_value=-inf)\n"
                 "t: float32[s1, s1] = aten.triu.default(self=%o, diagonal=1)\n"),
            "causal along s1");
  EXPECT_THAT(with("mask=%t, scale=0.25, causal=false",
                   "o: float32[s1, s1] = aten.full.default(size=[%length, %length], fill_value=-inf)\n"
                   "t: float32[s1, s1] = aten.triu.default(self=%o, diagonal=2)\n"),
              HasSubstr("'a'"));
}

TEST(SequenceRows, AttentionInSingleStepsNeedsItsMaskAndItsZeros) {
  const auto with = [](const std::string& scores, const std::string& mixed) {
    return verdict(kPositions + kAttention +
                   "turned: float32[s0, 4, 16, s1] = aten.transpose.int(self=%q, dim0=2, dim1=3)\n"
                   "products: float32[s0, 4, s1, s1] = aten.matmul.default(self=%q, other=%turned)\n"
                   "causal: bool[1, 1, s1, s1] = aten.le.Tensor(self=%keys, other=%queries)\n"
                   "hidden: bool[1, 1, s1, s1] = aten.logical_not.default(self=%causal)\n" +
                   scores +
                   "shares: float32[s0, 4, s1, s1] = aten._softmax.default(self=%scores, dim=-1, "
                   "half_to_float=false)\n" +
                   mixed + "output %y \"out\"\n");
  };
  const std::string masked =
      "scores: float32[s0, 4, s1, s1] = aten.masked_fill.Scalar(self=%products, mask=%hidden, "
      "value=-inf)\n";
  const std::string joined = "y: float32[s0, 4, s1, 16] = aten.matmul.default(self=%shares, other=%q)\n";
  EXPECT_EQ(with(masked, joined), "causal along s1");
  EXPECT_THAT(with("scores: float32[s0, 4, s1, s1] = aten.alias.default(self=%products)\n", joined),
              HasSubstr("'shares' (aten._softmax.default) looks at keys"));
  EXPECT_THAT(with("scores: float32[s0, 4, s1, s1] = aten.masked_fill.Scalar(self=%products, mask=%causal, "
                   "value=-inf)\n",
                   joined),
              HasSubstr("'shares'"));
  EXPECT_THAT(with("scores: float32[s0, 4, s1, s1] = aten.masked_fill.Scalar(self=%products, mask=%hidden, "
                   "value=-10000.0)\n",
                   joined),
              HasSubstr("'shares'"));
  // Along queries, and the shares of queries in a key.
  EXPECT_THAT(with(masked,
                   "back: float32[s0, 4, s1, s1] = aten.transpose.int(self=%shares, dim0=2, dim1=3)\n"
                   "y: float32[s0, 4, s1, 16] = aten.matmul.default(self=%back, other=%q)\n"),
              HasSubstr("'y' (aten.matmul.default) adds up what is behind the end"));
}

TEST(SequenceRows, SumsDifferencesAndCutsThatStartAtTheFrontAreKnown) {
  const std::string input =
      "input x: float32[s0, s1, 8]\ninput i: int64[s0, s1]\n"
      "length: int(s1) = aten.sym_size.int(self=%x, dim=1)\n";
  const auto with = [&](const std::string& nodes) { return verdict(input + nodes + "output %y \"out\"\n"); };
  EXPECT_EQ(with("y: float32[s0, s1, 8] = aten.cumsum.default(self=%x, dim=1)\n"), "causal along s1");
  EXPECT_EQ(with("first: int64[s0, 1] = aten.slice.Tensor(self=%i, dim=1, start=0, end=1)\n"
                 "y: int64[s0, s1] = aten.diff.default(self=%i, n=1, dim=-1, prepend=%first)\n"),
            "causal along s1");
  EXPECT_THAT(with("first: int64[s0, 1] = aten.slice.Tensor(self=%i, dim=1, start=0, end=1)\n"
                   "y: int64[s0, s1] = aten.diff.default(self=%i, n=1, dim=-1, append=%first)\n"),
              HasSubstr("'y'"));
  EXPECT_EQ(with("y: float32[s0, 8] = aten.select.int(self=%x, dim=1, index=1)\n"), "causal along s1");
  EXPECT_THAT(with("y: float32[s0, 8] = aten.select.int(self=%x, dim=1, index=2)\n"),
              HasSubstr("may be behind the end"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.select.int(self=%x, dim=1, index=-1)\n"),
              HasSubstr("'y' (aten.select.int) takes a position counted from the end"));
  EXPECT_THAT(with("y: float32[s0, 1, 8] = aten.slice.Tensor(self=%x, dim=1, start=-1, end=9223372036854775807)\n"),
              HasSubstr("from the end"));
  EXPECT_THAT(with("y: float32[s0, 3, 8] = aten.slice.Tensor(self=%x, dim=1, start=0, end=3)\n"), HasSubstr("'y'"));
  EXPECT_EQ(with("y: float32[s0, s1, 4] = aten.slice.Tensor(self=%x, dim=2, start=-4, end=9223372036854775807)\n"),
            "causal along s1");
}

// As PyTorch 2.11 writes them. What only some lengths meet may be broken by the given one and met by the padded one.
TEST(SequenceRows, AssertionsThatEveryLengthMeetsMayStay) {
  const auto with = [](const std::string& left, const std::string& compared, const std::string& right) {
    return verdict(
        "input x: float32[s0, s1, 8]\nlength: int(s1) = aten.sym_size.int(self=%x, dim=1)\n"
        "left: int(" +
        left + ") = _operator.add(a=%length, b=%length)\nright: int(" + right +
        ") = _operator.add(a=%length, b=%length)\nheld: bool() = _operator." + compared +
        "(a=%left, b=%right)\n() = aten._assert_scalar.default(self=%held, assert_msg=\"sizes\")\n"
        "y: float32[s0, s1, 8] = aten.relu.default(self=%x)\noutput %y \"out\"\n");
  };
  EXPECT_EQ(with("min(s1 * 4, s1 * 8)", "eq", "s1 * 4"), "causal along s1");
  EXPECT_EQ(with("s1 * 2", "ge", "s1"), "causal along s1");
  EXPECT_EQ(with("max(s1, s1 * 3)", "le", "s1 * 3"), "causal along s1");
  EXPECT_THAT(with("min(s1 * 4, s1 * 8)", "eq", "s1 * 8"), HasSubstr("computes with the length"));
  EXPECT_THAT(with("s1 % 2", "eq", "0"), HasSubstr("computes with the length"));
  EXPECT_THAT(with("s1 * s0", "ge", "12"), HasSubstr("computes with the length"));
  EXPECT_THAT(with("s1", "ge", "4"), HasSubstr("computes with the length"));
  EXPECT_THAT(with("s1 * 2", "gt", "s1"), HasSubstr("computes with the length"));  // not of none
  EXPECT_THAT(with("s1 ** 2", "ge", "s1"), HasSubstr("computes with the length"));
}

TEST(SequenceRows, NumbersOfLengthsAreNotComputedWith) {
  EXPECT_THAT(verdict("input x: float32[s0, s1, 8]\nlength: int(s1) = aten.sym_size.int(self=%x, dim=1)\n"
                      "few: int(s1 * 4) = _operator.mul(a=4, b=%length)\n"
                      "least: int(min(s1 * 4, s1)) = torch.sym_min(a=%few, b=%length)\n"
                      "y: float32[s0, s1, 8] = aten.mul.Scalar(self=%x, other=%least)\noutput %y \"out\"\n"),
              HasSubstr("'y'"));
}

TEST(SequenceRows, WhatMixesPositionsIsNamed) {
  const std::string input = "input x: float32[s0, s1, 8]\nlength: int(s1) = aten.sym_size.int(self=%x, dim=1)\n";
  const auto with = [&](const std::string& nodes) { return verdict(input + nodes + "output %y \"out\"\n"); };
  EXPECT_THAT(with("y: float32[s0, 8] = aten.mean.dim(self=%x, dim=[1])\n"),
              HasSubstr("'y' (aten.mean.dim) works along the sequence"));
  EXPECT_THAT(with("y: float32[s0, 8] = aten.sum.dim_IntList(self=%x, dim=[1])\n"), HasSubstr("adds up"));
  EXPECT_THAT(with("y: float32[s0, s1, 8] = aten.softmax.int(self=%x, dim=1)\n"), HasSubstr("'y'"));
  EXPECT_THAT(with("y: float32[s0, s1, 8] = aten.flip.default(self=%x, dims=[1])\n"),
              HasSubstr("is not known to keep positions apart"));
  EXPECT_THAT(with("y: float32[s0, s1, 8] = aten.div.Tensor(self=%x, other=%length)\n"),
              HasSubstr("computes with the length"));
  EXPECT_THAT(with("y: float32[s1, s0, 8] = aten.view.default(self=%x, size=[%length, -1, 8])\n"),
              HasSubstr("puts positions elsewhere"));
  EXPECT_THAT(with("v: float32[s0 * s1 * 8] = aten.view.default(self=%x, size=[-1])\n"
                   "y: float32[s0, 8, s1] = aten.view.default(self=%v, size=[-1, 8, %length])\n"),
              HasSubstr("'y'"));
  EXPECT_THAT(with("t: float32[s0, 8, s1] = aten.transpose.int(self=%x, dim0=1, dim1=2)\n"
                   "y: float32[s0, 8, s1] = aten.layer_norm.default(input=%t, normalized_shape=[%length])\n"),
              HasSubstr("'y'"));
  EXPECT_THAT(with("y: float32[s0, s1 + 1, 8] = aten.constant_pad_nd.default(self=%x, pad=[0, 0, 1, 0], value=0.0)\n"),
              HasSubstr("'out' is not cut along s1"));
  EXPECT_THAT(with("r: float32[8] = aten.rand.default(size=[8])\ny: float32[s0, s1, 8] = aten.add.Tensor(self=%x, "
                   "other=%r)\n"),
              HasSubstr("draws at random"));
  EXPECT_THAT(with("z: float32[8] = aten.full.default(size=[8], fill_value=1.0)\n"
                   "r: float32[8] = aten.log_normal.default(self=%z)\n"
                   "y: float32[s0, s1, 8] = aten.add.Tensor(self=%x, other=%r)\n"),
              HasSubstr("draws at random"));
  EXPECT_THAT(with("y: float32[s0, s1, 8] = aten.add_.Tensor(self=%x, other=1.0)\n"), HasSubstr("writes its argument"));
  EXPECT_THAT(verdict("input x: float32[s0, 8]\noutput %x \"out\"\n"), HasSubstr("no input has an extent"));
  EXPECT_THAT(verdict("input x: float32[s0, s1]\ninput z: float32[s0, s1 * 2]\noutput %x \"out\"\n"),
              HasSubstr("input 'z'"));
}

TEST(SequenceRows, AxesMayBeMergedAndTakenApartAgain) {
  using detail::AxisFacts;
  const ir::Expr s = ir::Expr::symbol("s");
  const ir::Expr b = ir::Expr::symbol("b");
  const auto product = [](std::vector<ir::Expr> of) { return ir::Expr::make(ir::ExprOp::kMul, std::move(of)); };
  const auto move = [&](const std::vector<ir::Expr>& from, const std::vector<ir::Expr>& to,
                        std::vector<AxisFacts> facts = {}) {
    facts.resize(from.size());
    return detail::move_axes(from, facts, to, "s");
  };
  const auto merged = move({b, s, 12}, {product({b, s}), 12});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->front().outer.symbols, std::vector<std::string>{"b"});
  AxisFacts outer;
  outer.outer = merged->front().outer;
  EXPECT_TRUE(move({product({b, s}), 12}, {b, s, 4, 3}, {outer, {}}));
  EXPECT_FALSE(move({product({b, s}), 12}, {s, b, 12}, {outer, {}}));
  EXPECT_TRUE(move({s, b, 12}, {product({b, s}), 12})) << "the order of factors is not that of axes";
  EXPECT_FALSE(move({b, s, 12}, {b, 12, s}));
  EXPECT_FALSE(move({b, s, 12}, {b, 3, product({s, 4})}));
  EXPECT_TRUE(move({b, 4, s, s}, {product({b, 4}), s, s}));
}

TEST(RowParts, AnyAxisIsPaddedAndCut) {
  const Tensor x = Tensor::empty(DType::kInt64, Dims{2, 2, 1}).value();
  for (std::size_t index = 0; index < 4; ++index)
    x.elements<std::int64_t>()[index] = static_cast<std::int64_t>(index) + 1;
  const auto values = [](const Tensor& tensor) {
    return std::vector<std::int64_t>(tensor.elements<std::int64_t>().begin(), tensor.elements<std::int64_t>().end());
  };
  EXPECT_THAT(values(pad_axis(x, 1, 4, Padding::kLast).value()), testing::ElementsAre(1, 2, 2, 2, 3, 4, 4, 4));
  EXPECT_THAT(values(pad_axis(x, 1, 3, Padding::kZero).value()), testing::ElementsAre(1, 2, 0, 3, 4, 0));
  EXPECT_THAT(values(pad_axis(x, 0, 3, Padding::kLast).value()), testing::ElementsAre(1, 2, 3, 4, 3, 4));
  EXPECT_THAT(values(cut_axis(x, 1, 1).value()), testing::ElementsAre(1, 3));
}

}  // namespace
}  // namespace kpt
