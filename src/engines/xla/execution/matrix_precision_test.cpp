#include "engines/xla/execution/matrix_precision.h"

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(MatrixPrecision, EveryProductGetsTheWantedOne) {
  const std::string text =
      "a [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>] b [#stablehlo<precision DEFAULT>] HIGHEST";
  EXPECT_EQ(set_matrix_precision(text, "HIGHEST"), text);
  EXPECT_EQ(set_matrix_precision(text, "HIGH"),
            "a [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>] b [#stablehlo<precision DEFAULT>] HIGHEST");
}

}  // namespace
}  // namespace kpt
