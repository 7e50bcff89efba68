// Every family of the lowering with random sizes (0, 1 and odd ones among them) and types, on XLA's CPU plugin, held
// against libtorch and its fp64 run by the accuracy rule; integers and truth values must be equal.
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kpt
