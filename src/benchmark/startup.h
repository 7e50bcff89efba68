// Start-up: how long a fresh process takes from its start to its first answer.
//
// The parent takes the time, starts the program, and the child says when (by the same clock, which counts for the whole
// machine) it had its outputs. What comes after, such as closing libraries, does not count.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "benchmark/report.h"
#include "kpt/status.h"

namespace kpt {

struct StartupOptions {
  std::filesystem::path program;       // that takes `arguments` and prints what encode_first_answer() gives
  std::vector<std::string> arguments;  // "--set cache.dir=…" is added
  std::size_t runs = 7;                // of each kind
  std::chrono::milliseconds time_limit{120000};
  std::function<void(const std::string& kind)> on_kind = {};
};

// What the child found.
struct FirstAnswer {
  std::int64_t answered_ns = 0;  // steady clock
  double load_ms = 0;
  double run_ms = 0;
  double cpu_ms = 0;  // processor time of all threads up to then
  std::uint64_t peak_bytes = 0;
};
std::string encode_first_answer(const FirstAnswer& answer);  // one line of JSON
// Fails with kCorruptData.
Result<FirstAnswer> parse_first_answer(const std::string& text);

// Each cold run gets an empty cache folder. When a run left something there, "cold cache" and "warm cache" are both
// measured, otherwise "no cache". The model file itself is in the system's page cache from the second run on; the first
// run of all is not counted. Fails with what kept a child from answering.
Result<std::vector<StartupReport>> measure_startup(const StartupOptions& options);

}  // namespace kpt
