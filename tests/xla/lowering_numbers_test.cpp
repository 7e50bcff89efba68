// Every family of the lowering with random sizes (0, 1 and odd ones among them) and types, on XLA's CPU plugin, held
// against libtorch and its fp64 run by the accuracy rule; integers and truth values must be equal.
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph_run.h"
#include "ir/text.h"
#include "lowering_cases.h"
#include "numbers_check.h"

namespace kpt {
namespace {

std::string fill_in(const char* text, std::mt19937_64& random) {
  const auto pick = [&](std::vector<std::int64_t> choices) { return choices[random() % choices.size()]; };
  const char* types[] = {"float32", "float32", "bfloat16", "float64"};
  return fmt::format(fmt::runtime(std::string("kpt_graph 1\n") + text), fmt::arg("a", pick({0, 1, 2, 3, 5})),
                     fmt::arg("p", pick({1, 2, 3, 5, 9})), fmt::arg("q", pick({1, 3, 4, 8})),
                     fmt::arg("t", types[random() % 4]));
}

class LoweringNumbers : public ::testing::TestWithParam<xla_test::LoweringCase> {
 protected:
  static xla_test::ModuleRunner* runner() {
    static const auto opened = xla_test::ModuleRunner::open();
    return opened.ok() ? opened->get() : nullptr;
  }
};

TEST_P(LoweringNumbers, AgreeWithLibtorch) {
  if (runner() == nullptr) GTEST_SKIP() << "XLA's CPU plugin cannot be used here; CMake's output says why";
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    const std::string text = fill_in(GetParam().text, random);
    SCOPED_TRACE(text);
    xla_test::check_numbers(*runner(), text, random);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LoweringNumbers, ::testing::ValuesIn(xla_test::kLoweringCases),
                         [](const auto& family) { return std::string(family.param.name); });

// PyTorch raises for these; a compiled program shows NaN instead of another row.
TEST(LoweringIndices, OutOfRangeShowsAsNan) {
  const auto opened = xla_test::ModuleRunner::open();
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto graph = ir::read_graph(
                         "kpt_graph 1\ninput table: float32[3, 2]\ninput ids: int64[5]\ninput place: int64[1]\n"
                         "e: float32[5, 2] = aten.embedding.default(weight=%table, indices=%ids)\n"
                         "n: int64[5] = aten.index_select.default(self=%ids, dim=0, index=%ids)\n"
                         "r: float32[1, 2] = aten.slice.Tensor(self=%table, dim=0, start=0, end=1)\n"
                         "c: float32[3, 2] = aten.index_copy.default(self=%table, dim=0, index=%place, source=%r)\n"
                         "output %e \"rows\"\noutput %n \"numbers\"\noutput %c \"written\"\n")
                         .value();
  const std::int64_t ids[] = {0, 3, -1, -4, 2};
  const std::int64_t place[] = {7};
  const float table[] = {1, 2, 3, 4, 5, 6};
  const auto make = [](DType dtype, std::vector<std::int64_t> dims, const void* data, std::size_t bytes) {
    return Tensor::from_bytes(dtype, dims, {static_cast<const std::byte*>(data), bytes}).value();
  };
  const Weights weights;
  xla_test::GraphRun run(**opened, graph, weights);
  const auto outputs = run.run({{"table", make(DType::kFloat32, {3, 2}, table, sizeof table)},
                                {"ids", make(DType::kInt64, {5}, ids, sizeof ids)},
                                {"place", make(DType::kInt64, {1}, place, sizeof place)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto rows = (*outputs)[0].tensor.elements<float>();
  EXPECT_EQ(rows[0], 1);
  EXPECT_TRUE(std::isnan(rows[2]) && std::isnan(rows[3]));
  EXPECT_EQ(rows[4], 5);  // -1 is the last row
  EXPECT_TRUE(std::isnan(rows[6]));
  EXPECT_EQ(rows[8], 5);
  const auto numbers = (*outputs)[1].tensor.elements<std::int64_t>();
  EXPECT_EQ(numbers[0], 0);
  EXPECT_EQ(numbers[1], -4);
  EXPECT_EQ(numbers[2], 2);
  const auto written = (*outputs)[2].tensor.elements<float>();
  EXPECT_EQ(written[0], 1);
  EXPECT_TRUE(std::isnan(written[4]) && std::isnan(written[5]));  // the nearest row
}

}  // namespace
}  // namespace kpt
