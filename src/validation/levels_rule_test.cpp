// The page on levels stands below the accuracy rule in the layers: its figures are held against the rule here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "numerics/accuracy.h"
#include "passes/levels_page.h"

namespace kpt {
namespace {

using testing::HasSubstr;

TEST(LevelsPage, TolerancesAreThoseOfTheRule) {
  const std::string page = levels_page();
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const Tolerance tolerance = default_tolerance(dtype);
    EXPECT_THAT(page, HasSubstr(fmt::format("| {} | {} | {} | {} |", to_string(dtype), tolerance.relative,
                                            tolerance.absolute, tolerance.multiplier)));
  }
}

}  // namespace
}  // namespace kpt
