// A benchmark as Google Benchmark's JSON, which many tools read: `context` and `benchmarks`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "benchmark/report.h"

namespace kpt {

// Times in milliseconds. For each point one row of run_type "iteration" (mean of all samples, counters) and the
// aggregates mean, median, stddev, mad, min, max, p50, p90, p99; the median's row has its interval. Start-up likewise
// under "<model>/startup/<kind>". docs/reference/benchmark_json.md lists every member.
nlohmann::ordered_json to_google_benchmark(const BenchmarkReport& report);

}  // namespace kpt
