#include "numerics/accuracy.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

Tensor floats(const std::vector<float>& values) {
  return *Tensor::from_bytes(DType::kFloat32, Dims{static_cast<std::int64_t>(values.size())},
                             std::as_bytes(std::span(values)));
}

Tensor doubles(const std::vector<double>& values) {
  return *Tensor::from_bytes(DType::kFloat64, Dims{static_cast<std::int64_t>(values.size())},
                             std::as_bytes(std::span(values)));
}

Comparison judge(const std::vector<float>& candidate, const std::vector<float>& baseline,
                 const std::vector<double>& reference) {
  return *compare(floats(candidate), floats(baseline), doubles(reference), default_tolerance(DType::kFloat32));
}

TEST(Accuracy, EqualPasses) {
  EXPECT_TRUE(judge({1, 2}, {1, 2}, {1, 2}).passed);
  EXPECT_TRUE(judge({}, {}, {}).passed);
}

TEST(Accuracy, MayBeAsWrongAsPyTorchButNotMuchMore) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> reference(4000);
  std::vector<float> baseline;
  std::vector<float> similar;
  std::vector<float> worse;
  for (double& value : reference) {
    value = 1000 * normal(random);
    baseline.push_back(static_cast<float>(value + 0.1 * normal(random)));
    similar.push_back(static_cast<float>(value + 0.15 * normal(random)));
    worse.push_back(static_cast<float>(value + 0.3 * normal(random)));
  }
  EXPECT_TRUE(judge(similar, baseline, reference).passed);
  const Comparison failed = judge(worse, baseline, reference);
  EXPECT_FALSE(failed.passed);
  EXPECT_THAT(failed.reason, testing::HasSubstr("the error against fp64"));
}

// Factor 3 below a thousand elements, 2 above, and the additive term.
TEST(Accuracy, TellsTheErrorThatItAllowed) {
  const auto judge_size = [](std::size_t size, float error) {
    std::vector<float> candidate(size, 100 + error);
    return judge(candidate, std::vector<float>(size, 100.5F), std::vector<double>(size, 100));
  };
  EXPECT_NEAR(judge_size(10, 1.25F).allowed_rmse.value(), 1.5 + 1.3e-7, 1e-9);
  EXPECT_TRUE(judge_size(10, 1.25F).passed);
  EXPECT_NEAR(judge_size(1000, 1.25F).allowed_rmse.value(), 1 + 1.3e-7, 1e-9);
  EXPECT_FALSE(judge_size(1000, 1.25F).passed);
  // Close to the plain run in every element, and beyond the bound: no bound decided.
  const Comparison close = judge({100.0001F}, {100}, {100});
  EXPECT_TRUE(close.passed);
  EXPECT_FALSE(close.allowed_rmse.has_value());
  EXPECT_FALSE(judge({NAN}, {1}, {1}).allowed_rmse.has_value());
}

TEST(Accuracy, NotANumberMustBeWhereTheOthersHaveIt) {
  EXPECT_TRUE(judge({NAN, 1}, {NAN, 1}, {NAN, 1}).passed);
  EXPECT_FALSE(judge({NAN, 1}, {2, 1}, {2, 1}).passed);
  EXPECT_FALSE(judge({INFINITY, 1}, {2, 1}, {2, 1}).passed);
  EXPECT_FALSE(judge({-INFINITY, 1}, {INFINITY, 1}, {INFINITY, 1}).passed);
  // PyTorch overflowed, we did not, and fp64 agrees with us.
  EXPECT_TRUE(judge({2, 1}, {NAN, 1}, {2, 1}).passed);
  EXPECT_FALSE(judge({9, 1}, {NAN, 1}, {2, 1}).passed);
}

TEST(Accuracy, WhereFp64HasNoNumberPyTorchsIsHeldAgainst) {
  for (const double none : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_TRUE(judge({2, 1}, {2, 1}, {none, 1}).passed);
    EXPECT_TRUE(judge({2.000001F, 1}, {2, 1}, {none, 1}).passed);
    const Comparison wild = judge({9, 1}, {2, 1}, {none, 1});
    EXPECT_FALSE(wild.passed);
    EXPECT_EQ(wild.reason.substr(0, 43), "element 0 is 9 where PyTorch has 2 and fp64");
    EXPECT_TRUE(judge({static_cast<float>(none), 1}, {2, 1}, {none, 1}).passed) << "it is as fp64 has it";
  }
  EXPECT_FALSE(judge({2, 1}, {NAN, 1}, {NAN, 1}).passed) << "a number where neither has one";
  const Tensor whole = doubles({1, 2});
  EXPECT_EQ(complete_reference(whole, floats({3, 4}))->buffer(), whole.buffer());
  const Tensor completed = *complete_reference(doubles({NAN, 2, INFINITY}), floats({3, 4, NAN}));
  EXPECT_EQ(completed.elements<double>()[0], 3);
  EXPECT_EQ(completed.elements<double>()[1], 2);
  EXPECT_EQ(completed.elements<double>()[2], INFINITY);
}

TEST(Accuracy, ErrorsWhoseSquaresLeaveFloat64AreNotWithinThemselves) {
  const auto judge_wide = [](double candidate, double baseline) {
    return compare(doubles({candidate}), doubles({baseline}), doubles({1e200}), default_tolerance(DType::kFloat64));
  };
  EXPECT_FALSE(judge_wide(-1e200, 0.5e200)->passed);
  EXPECT_TRUE(judge_wide(1e200, 1e200)->passed);
}

TEST(Accuracy, IntegersAndBoolsMustBeEqual) {
  const std::vector<std::int64_t> one = {1, 2, 3};
  const std::vector<std::int64_t> other = {1, 2, 4};
  const Tensor a = *Tensor::from_bytes(DType::kInt64, Dims{3}, std::as_bytes(std::span(one)));
  const Tensor b = *Tensor::from_bytes(DType::kInt64, Dims{3}, std::as_bytes(std::span(other)));
  EXPECT_TRUE(compare(a, a, Tensor(), {})->passed);
  EXPECT_THAT(compare(a, b, Tensor(), {})->reason, testing::HasSubstr("element 2 of int64[3] on cpu differs"));
}

TEST(Accuracy, EqualMeansEqualButForTheBitsOfNotANumber) {
  EXPECT_TRUE(compare_equal(floats({1, NAN, 0.0F}), floats({1, -NAN, -0.0F}))->passed);
  EXPECT_FALSE(compare_equal(floats({1, 2}), floats({1, std::nextafter(2.0F, 3.0F)}))->passed);
  EXPECT_FALSE(compare_equal(floats({NAN}), floats({1}))->passed);
}

TEST(Accuracy, OtherShapesAndTypesAreRefused) {
  const Tensor a = floats({1, 2});
  EXPECT_EQ(compare(a, floats({1}), doubles({1, 2}), {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(compare(a, a, doubles({1}), {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(compare(a, a, a, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kpt
