#include "ir/arithmetic.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace kpt::ir {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(FloorDivision, RoundsDownAndTheModulusHasTheSignOfTheDivisor) {
  for (std::int64_t a = -30; a <= 30; ++a) {
    for (std::int64_t b = -7; b <= 7; ++b) {
      if (b == 0) continue;
      const auto quotient = static_cast<std::int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(floor_divide(a, b), quotient) << a << " // " << b;
      EXPECT_EQ(modulo(a, b), a - b * quotient) << a << " % " << b;
    }
  }
}

TEST(FloorDivision, HasNoAnswerForZeroAndOverflow) {
  EXPECT_EQ(floor_divide(1, 0), std::nullopt);
  EXPECT_EQ(modulo(1, 0), std::nullopt);
  EXPECT_EQ(floor_divide(kMin, -1), std::nullopt);
  EXPECT_EQ(modulo(kMin, -1), 0);
  EXPECT_EQ(modulo(kMin, kMax), kMax - 1);
  EXPECT_EQ(modulo(kMax, kMin), -1);
}

TEST(Power, IsExactOrNothing) {
  EXPECT_EQ(power(0, 0), 1);
  EXPECT_EQ(power(-2, 63), kMin);
  EXPECT_EQ(power(2, 62), std::int64_t{1} << 62);
  EXPECT_EQ(power(2, 63), std::nullopt);
  EXPECT_EQ(power(3, 40), std::nullopt);
  EXPECT_EQ(power(-1, kMax), -1);
  EXPECT_EQ(power(1, kMax), 1);
  EXPECT_EQ(power(2, -1), std::nullopt);
  EXPECT_EQ(power(3037000500, 2), std::nullopt);
  EXPECT_EQ(power(3037000499, 2), 9223372030926249001);
}

TEST(Shifts, FollowPython) {
  EXPECT_EQ(shift_left(-1, 63), kMin);
  EXPECT_EQ(shift_left(1, 63), std::nullopt);
  EXPECT_EQ(shift_left(0, kMax), 0);
  EXPECT_EQ(shift_left(-3, 2), -12);
  EXPECT_EQ(shift_left(3, 62), std::nullopt);
  EXPECT_EQ(shift_left(1, -1), std::nullopt);
  EXPECT_EQ(shift_right(-5, 1), -3);
  EXPECT_EQ(shift_right(-5, 1000), -1);
  EXPECT_EQ(shift_right(kMax, 1000), 0);
  EXPECT_EQ(shift_right(1, -1), std::nullopt);
}

TEST(TrueDivision, IsTheNearestDouble) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    // Below 2^53 both are exact doubles, and the hardware divides correctly.
    const auto a = static_cast<std::int64_t>(random() >> (11 + random() % 50)) * (random() % 2 == 0 ? 1 : -1);
    const auto b = (static_cast<std::int64_t>(random() >> (11 + random() % 50)) + 1) * (random() % 2 == 0 ? 1 : -1);
    ASSERT_EQ(true_divide(a, b), static_cast<double>(a) / static_cast<double>(b)) << a << " / " << b;
  }
  // Values from Python, where converting the operands first would round twice.
  EXPECT_EQ(true_divide(9007199254740993, 9007199254740991), 1.0000000000000002);
  EXPECT_EQ(true_divide(9223372036854775807, 9223372036854775805), 1.0);
  EXPECT_EQ(true_divide(9223372036854775807, 3), 3.0744573456182584e+18);
  // The first 64 bits of these look like a tie between two doubles; what follows decides.
  EXPECT_EQ(true_divide(5192239327163365860, 7389264570080591475), 0.702673355097737);
  EXPECT_EQ(true_divide(-7296388554397514419, 7857839347055948743), -0.9285489601071076);
  EXPECT_EQ(true_divide(6496888093870489981, 8563452350011083151), 0.7586762707755456);
  EXPECT_TRUE(std::signbit(true_divide(0, -5)));  // as in Python
  EXPECT_EQ(true_divide(kMin, -1), 9223372036854775808.0);
  EXPECT_EQ(true_divide(-1, kMin), 1.0842021724855044e-19);
}

TEST(ToInteger, TakesWholeNumbersThatFit) {
  EXPECT_EQ(to_integer(-9223372036854775808.0), kMin);
  EXPECT_EQ(to_integer(9223372036854775808.0), std::nullopt);
  EXPECT_EQ(to_integer(0.5), std::nullopt);
  EXPECT_EQ(to_integer(NAN), std::nullopt);
  EXPECT_EQ(to_integer(-HUGE_VAL), std::nullopt);
  EXPECT_EQ(to_integer(-0.0), 0);
}

TEST(Rounding, TakesTiesToTheEvenNumber) {
  EXPECT_EQ(round_half_even(0.5), 0);
  EXPECT_EQ(round_half_even(1.5), 2);
  EXPECT_EQ(round_half_even(-2.5), -2);
  EXPECT_EQ(round_half_even(0.49999999999999994), 0);
  EXPECT_EQ(round_half_even(4503599627370497.5), 4503599627370498);
  EXPECT_EQ(round_half_even(-1.2), -1);
}

TEST(ComparingIntegersWithDoubles, IsExact) {
  EXPECT_EQ(compare(kMax, 9223372036854775808.0), std::partial_ordering::less);
  EXPECT_EQ(compare(kMin, -9223372036854775808.0), std::partial_ordering::equivalent);
  EXPECT_EQ(compare(9007199254740993, 9007199254740992.0), std::partial_ordering::greater);
  EXPECT_EQ(compare(2, 2.5), std::partial_ordering::less);
  EXPECT_EQ(compare(-2, -2.5), std::partial_ordering::greater);
  EXPECT_EQ(compare(0, NAN), std::partial_ordering::unordered);
  EXPECT_EQ(compare(0, -HUGE_VAL), std::partial_ordering::greater);
}

}  // namespace
}  // namespace kpt::ir
