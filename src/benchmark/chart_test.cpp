#include "benchmark/chart.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Chart, TicksAreRoundEvenAndCoverTheRange) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-6, 6);
  for (int round = 0; round < 500; ++round) {
    const double low = round % 2 == 0 ? 0 : std::pow(10, exponent(random));
    const double high = low + std::pow(10, exponent(random));
    if (high - low < 1e-4 * high) continue;  // the step would drown in rounding
    const std::size_t count = 2 + random() % 8;
    const auto ticks = round_ticks(low, high, count);
    ASSERT_GE(ticks.size(), 2U) << low << " " << high;
    ASSERT_LE(ticks.size(), 2 * count + 3);
    const double step = ticks[1] - ticks[0];
    EXPECT_LE(ticks.front(), low + 1e-6 * step);
    EXPECT_GE(ticks.back(), high - 1e-6 * step);
    for (std::size_t index = 1; index < ticks.size(); ++index) {
      EXPECT_NEAR(ticks[index] - ticks[index - 1], step, 1e-6 * step);
    }
    const double mantissa = step / std::pow(10, std::floor(std::log10(step) + 1e-9));
    EXPECT_TRUE(std::fabs(mantissa - 1) < 1e-5 || std::fabs(mantissa - 2) < 1e-5 || std::fabs(mantissa - 5) < 1e-5)
        << step;
  }
}

TEST(Chart, NumbersAreShortAndKeepTheirFigures) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(44.934), "44.93");
  EXPECT_EQ(short_number(100), "100");
  EXPECT_EQ(short_number(1532.4), "1532");
  EXPECT_EQ(short_number(0.01234), "0.01234");
  EXPECT_EQ(short_number(0.5), "0.5");
  EXPECT_EQ(short_number(2.5e-7), "2.5e-07");
}

TEST(Chart, NamesCannotBecomeMarkup) {
  EXPECT_EQ(escape_html("<b>&\"'"), "&lt;b&gt;&amp;&quot;&#39;");
  const ChartGroup group{"<script>alert(1)</script>", {{"<i>", 1, std::nullopt, "<u>"}, {"b", 2, std::nullopt, ""}}};
  const std::string svg = draw_bars(std::vector{group}, "<ms>");
  for (const char* bad : {"<script", "<i>", "<u>", "<ms>"}) EXPECT_THAT(svg, Not(HasSubstr(bad)));
}

// The numbers of all attributes of that name.
std::vector<double> attributes(const std::string& svg, const std::string& name) {
  std::vector<double> values;
  const std::regex pattern("[ ]" + name + "=\"([-0-9.e+naif]+)\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), pattern); it != std::sregex_iterator(); ++it) {
    values.push_back(std::stod((*it)[1]));
  }
  return values;
}

void expect_inside(const std::string& svg) {
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf\"")));
  for (const char* name : {"x", "cx", "x1", "x2"}) {
    for (const double value : attributes(svg, name)) {
      EXPECT_GE(value, 0) << name;
      EXPECT_LE(value, 520) << name;
    }
  }
  for (const char* name : {"width", "height"}) {
    for (const double value : attributes(svg, name)) EXPECT_GE(value, 0) << name;
  }
}

TEST(Chart, OddSamplesStayInsideTheDrawing) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::vector<double>> cases = {
      {5}, {5, 5, 5, 5}, {1e-4, 2e-4}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1e5}, {1e7, 1e7 + 1}};
  for (int round = 0; round < 30; ++round) {
    std::lognormal_distribution<double> times(static_cast<double>(random() % 9) - 4, 0.5);
    std::vector<double> samples(1 + random() % 300);
    for (double& sample : samples) sample = times(random);
    cases.push_back(samples);
  }
  for (const auto& samples : cases) {
    const std::string svg = draw_histogram(samples, summarize(samples));
    expect_inside(svg);
    EXPECT_THAT(svg, HasSubstr("class=\"mark"));
  }
}

TEST(Chart, EverySampleIsInABarOrInTheNote) {
  std::mt19937_64 random(std::random_device{}());
  std::lognormal_distribution<double> times(1, 1);
  std::vector<double> samples(200);
  for (double& sample : samples) sample = times(random);
  samples.push_back(1e6);
  const std::string svg = draw_histogram(samples, summarize(samples));
  double drawn = 0;
  const std::regex bar("ms: ([0-9]+) runs");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), bar); it != std::sregex_iterator(); ++it) {
    drawn += std::stod((*it)[1]);
  }
  std::smatch note;
  ASSERT_TRUE(std::regex_search(svg, note, std::regex("([0-9]+) further run")));
  EXPECT_EQ(drawn + std::stod(note[1]), 201);
}

TEST(Chart, CurvesBarsAndLimitsTakeExtremes) {
  const std::vector<ChartSeries> one = {{"", {{4, 0, {0, 0}}}}};
  expect_inside(draw_curves(one, "batch", "ms"));
  const std::vector<ChartSeries> two = {{"a", {{1, 5, {4, 6}}, {64, 300, {290, 320}}}}, {"b", {{1, 1e-3, {0, 1e-3}}}}};
  expect_inside(draw_curves(two, "batch", "ms"));
  const std::vector<ChartGroup> groups = {{std::string(200, 'x'), {{"before", 0, Interval{0, 0}, "note"}}}};
  expect_inside(draw_bars(groups, "ms"));
  const std::vector<ChartLimit> exact = {{"y", 0, 0.0, std::nullopt, "passed"}};
  expect_inside(draw_limits(exact, "this", "plain", "limit"));
  const std::vector<ChartLimit> wide = {{"y", 1e-9, 1e-8, 1e3, "passed"}, {"z", 5, std::nullopt, 1e-4, "refused"}};
  expect_inside(draw_limits(wide, "this", "plain", "limit"));
}

}  // namespace
}  // namespace kpt
