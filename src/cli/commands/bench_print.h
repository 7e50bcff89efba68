// What `kpt bench` shows to people.
#pragma once

#include <span>
#include <string>

#include "benchmark/baseline.h"
#include "benchmark/report.h"

namespace kpt::cli {

// "1.234", "12.34", "123.4": four figures.
std::string format_figure(double value);

// Tables of sizes, start-up and comparison; the last is left out when `compared` is empty.
std::string format_benchmark(const BenchmarkReport& report, std::span<const ComparedEntry> compared,
                             double least_effect, bool color);

}  // namespace kpt::cli
