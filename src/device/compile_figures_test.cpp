#include "device/compile_figures.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "device/compile_figures_json.h"

namespace kpt {
namespace {

CompileFigures figures_of(std::uint64_t arguments, std::uint64_t outputs, std::uint64_t temporaries) {
  CompileFigures figures;
  figures.argument_bytes = arguments;
  figures.output_bytes = outputs;
  figures.temporary_bytes = temporaries;
  return figures;
}

TEST(CompileFigures, SharedMemoryCountsOnce) {
  CompileFigures figures = figures_of(1000, 300, 50);
  EXPECT_EQ(figures.total_bytes(), 1350U);
  figures.code_bytes = 7;
  figures.alias_bytes = 300;
  EXPECT_EQ(figures.total_bytes(), 1057U);
  figures.alias_bytes = 5000;  // more than there are outputs: no compiler's honest answer
  EXPECT_EQ(figures.total_bytes(), 1057U);
}

TEST(CompileFigures, WhatIsNotToldIsNotCounted) {
  EXPECT_EQ(CompileFigures().total_bytes(), std::nullopt);
  CompileFigures figures = figures_of(1, 2, 3);
  figures.temporary_bytes.reset();
  EXPECT_EQ(figures.total_bytes(), std::nullopt);
  EXPECT_EQ(figures_of(std::numeric_limits<std::uint64_t>::max(), 1, 0).total_bytes(), std::nullopt);
}

TEST(CompileFigures, ThePeakIsNeededWhereItIsMoreThanTheSum) {
  EXPECT_EQ(CompileFigures().needed_bytes(), std::nullopt);
  CompileFigures figures = figures_of(1000, 300, 50);
  EXPECT_EQ(figures.needed_bytes(), 1350U);
  figures.peak_bytes = 1349;
  EXPECT_EQ(figures.needed_bytes(), 1350U);
  figures.peak_bytes = 1400;
  EXPECT_EQ(figures.needed_bytes(), 1400U);
  figures.temporary_bytes.reset();
  EXPECT_EQ(figures.needed_bytes(), 1400U) << "there is no sum";
}

TEST(CompileFigures, TheSlowerOfArithmeticAndMemoryDecides) {
  CompileFigures figures;
  EXPECT_EQ(estimate_seconds(figures, {1, 1, 1}), std::nullopt);
  figures.flops = 200;
  figures.bytes_accessed = 30;
  EXPECT_EQ(estimate_seconds(figures, {1, 10, 100}), 3.0);
  EXPECT_EQ(estimate_seconds(figures, {1, 100, 100}), 2.0);
  EXPECT_EQ(estimate_seconds(figures, {1, 0, 100}), std::nullopt);
  EXPECT_EQ(estimate_seconds(figures, {1, 100, 0, 50}), 4.0) << "no matrix units";
  EXPECT_EQ(estimate_seconds(figures, {1, 100, 0, 0}), std::nullopt);
}

TEST(CompileFigures, StatisticsAreALineWithTheRateOfHits) {
  EXPECT_EQ(to_text({1, 3, 1, 0}), "1 compilations, 3 hits, 1 misses, 0 errors, hit rate 75.0 %");
  EXPECT_EQ(to_text({2, 0, 2, 1}), "2 compilations, 0 hits, 2 misses, 1 errors, hit rate 0.0 %");
  EXPECT_EQ(to_text({}), "0 compilations, 0 hits, 0 misses, 0 errors");
}

TEST(CompileFigures, JsonGoesRoundTripAlsoWithHoles) {
  CompileFigures figures = figures_of(1, 0, std::numeric_limits<std::uint64_t>::max());
  figures.compiler = "PJRT 0.116";
  figures.device_kind = "TPU v5 lite";
  figures.flops = 4.25e18;
  figures.compiler_seconds = 1.5e-6;
  figures.kernels = {{"norm_block4_f32", 256, 40, 8, 32, 1, 2, 1024, 16, 5, 8}, {"copy_f32"}};
  const auto text = to_json(figures).dump();
  EXPECT_EQ(read_compile_figures(nlohmann::ordered_json::parse(text)).value(), figures) << text;
  EXPECT_EQ(to_json(figures).at("peak_bytes"), nullptr);
}

TEST(CompileFigures, JsonThatIsNoneIsRefused) {
  for (const char* text :
       {"null", "[]", "{}", R"({"compiler":"a"})", R"({"compiler":"a","device_kind":1})",
        R"({"compiler":"a","device_kind":"b","code_bytes":-1})",
        R"({"compiler":"a","device_kind":"b","code_bytes":1.5})", R"({"compiler":"a","device_kind":"b","flops":"1"})",
        R"({"compiler":"a","device_kind":"b","flops":-1.0})"}) {
    EXPECT_EQ(read_compile_figures(nlohmann::ordered_json::parse(text)).status().code(), StatusCode::kCorruptData)
        << text;
  }
}

}  // namespace
}  // namespace kpt
