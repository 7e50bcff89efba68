#include "benchmark/page.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BenchmarkReport make_report(std::size_t batches, std::size_t lengths) {
  std::mt19937_64 random(std::random_device{}());
  BenchmarkReport report;
  report.context.model = "model <1>.pt2";
  report.context.device = "cpu";
  report.context.threads = 2;
  report.batch_symbol = "s0";
  for (std::size_t batch = 1; batch <= batches; ++batch) {
    for (std::size_t length = 1; length <= lengths; ++length) {
      PointReport point;
      point.sizes = {{"s0", static_cast<std::int64_t>(batch)}, {"s1", static_cast<std::int64_t>(32 * length)}};
      point.label = describe_sizes(point.sizes, "s0");
      std::normal_distribution<double> times(static_cast<double>(batch * length), 0.05);
      for (int index = 0; index < 40; ++index) point.measurement.samples_ms.push_back(times(random));
      point.measurement.summary = summarize(point.measurement.samples_ms);
      report.points.push_back(point);
    }
  }
  return report;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto place = text.find(part); place != std::string::npos; place = text.find(part, place + 1)) ++found;
  return found;
}

TEST(Page, NeedsNothingFromOutsideAndEscapesNames) {
  const BenchmarkReport report = make_report(1, 1);
  const std::string page = make_page({&report});
  for (const char* outside : {"http://", "https://", "<script", "src=", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  }
  EXPECT_THAT(page, HasSubstr("model &lt;1&gt;.pt2"));
  EXPECT_THAT(page, Not(HasSubstr("<1>")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Page, SectionsFollowWhatWasMeasured) {
  BenchmarkReport report = make_report(1, 1);
  const std::string plain = make_page({&report});
  EXPECT_THAT(plain, HasSubstr("<h2>Latency</h2>"));
  for (const char* absent : {"<h2>Sizes", "<h2>Start-up", "<h2>Before", "<h2>Error"}) {
    EXPECT_THAT(plain, Not(HasSubstr(absent)));
  }
  report = make_report(3, 2);
  StartupReport startup;
  startup.kind = "warm cache";
  startup.samples_ms = {50, 51};
  startup.summary = summarize(startup.samples_ms);
  report.startups.push_back(startup);
  std::vector<std::string> missing;
  const auto compared = compare_with_baseline(make_entries(report), report, 0.05, {}, missing).value();
  const std::vector<OutputError> errors = {{"logits", "rms error", 1e-6, 2e-6, 4e-6, true}};
  const std::string full = make_page({&report, compared, 0.05, errors});
  for (const char* present : {"<h2>Sizes", "<h2>Start-up", "<h2>Before", "<h2>Error", "warm cache", "logits", "same"}) {
    EXPECT_THAT(full, HasSubstr(present));
  }
  EXPECT_EQ(count(full, "<figcaption>batch"), 6U);
}

TEST(Page, ManySizesAreCutWithAWordAboutIt) {
  const BenchmarkReport report = make_report(4, 10);
  const std::string page = make_page({&report});
  EXPECT_THAT(page, HasSubstr("The first 12 of 40 sizes"));
  EXPECT_EQ(count(page, "<figcaption>batch"), 12U);
  const BenchmarkReport many = make_report(8, 8);
  EXPECT_THAT(make_page({&many}), HasSubstr("sizes are in the table alone"));
}

TEST(Page, ErrorsOfAReportAreThoseOfTheWorstDraw) {
  const char* report = R"({"level": "conservative", "verdict": {"level": "conservative", "outputs": [
      {"name": "y", "passed": true, "rule": "tolerance", "candidate_error": 1e-6, "plain_error": 2e-6, "bf16_error": null,
       "allowed_error": 5e-6},
      {"name": "y", "passed": true, "rule": "tolerance", "candidate_error": 3e-6, "plain_error": 4e-6, "bf16_error": null,
       "allowed_error": 1.3e-5},
      {"name": "ids", "passed": true, "rule": "equal", "candidate_error": 0, "plain_error": 0}]}})";
  const auto errors = read_output_errors(report).value();
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].output, "y");
  EXPECT_EQ(errors[0].error, 3e-6);
  EXPECT_EQ(errors[0].limit, 1.3e-5) << "what the gate allowed, whatever factor that is";
  const auto compiled = read_output_errors(R"({"compiled": {"compiler": "c"}, "optimized": {"gate": {
      "level": "conservative", "outputs": [{"name": "z", "rule": "tolerance", "candidate_error": 5e-6,
      "plain_error": 3e-6}]}}})");
  ASSERT_EQ(compiled->size(), 1U);
  EXPECT_EQ(compiled->at(0).error, 5e-6);
  EXPECT_FALSE(compiled->at(0).limit.has_value()) << "none is guessed where the report keeps none";
}

TEST(Page, AnAggressiveOutputHasTheLimitsOfTheRuleThatDecided) {
  const auto read = [](const std::string& verdict) {
    return read_output_errors(R"({"gate": {"level": "aggressive", "outputs": [{"name": "y", "passed": true, )" +
                              verdict + "}]}}")
        .value();
  };
  const auto cosine = read(R"("rule": "cosine", "cosine": 0.999, "candidate_error": 0.1)");
  ASSERT_EQ(cosine.size(), 1U);
  EXPECT_EQ(cosine[0].measure, "1 − cosine");
  EXPECT_NEAR(cosine[0].error, 1e-3, 1e-12);
  EXPECT_EQ(cosine[0].limit, 0.01);
  const auto bounded = read(R"("rule": "cosine", "cosine": 0.999, "candidate_error": 0.1, "allowed_error": 0.2)");
  ASSERT_EQ(bounded.size(), 2U);
  EXPECT_EQ(bounded[1].measure, "rms error");
  EXPECT_EQ(bounded[1].error, 0.1);
  EXPECT_EQ(bounded[1].limit, 0.2);
  // The base rule let it pass: its cosine may be anything.
  const auto base = read(R"("rule": "tolerance", "cosine": 0.5, "candidate_error": 1e-6, "allowed_error": 2e-6)");
  ASSERT_EQ(base.size(), 1U);
  EXPECT_EQ(base[0].measure, "rms error");
  EXPECT_EQ(base[0].limit, 2e-6);
}

TEST(Page, ReportsWithoutErrorsAreEmptyAndBrokenOnesAreRefused) {
  EXPECT_TRUE(read_output_errors("{}").value().empty());
  EXPECT_TRUE(read_output_errors(R"({"verdict": {"outputs": 5}})").value().empty());
  for (const char* bad :
       {"", "[]", "{", R"({"verdict": {"outputs": [5]}})", R"({"verdict": {"outputs": [{"name": 5}]}})"}) {
    EXPECT_EQ(read_output_errors(bad).status().code(), StatusCode::kCorruptData) << bad;
  }
}

}  // namespace
}  // namespace kpt
