// Baselines: measurements kept in a file, and what is measured now held against them.
//
// The file is JSON (docs/reference/benchmark_json.md) and holds entries by key, so that one file serves many models and
// sizes. Files are untrusted: everything is checked before it is believed.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "benchmark/report.h"
#include "kpt/status.h"

namespace kpt {

inline constexpr int kBaselineVersion = 1;

// What must be equal for two measurements to be comparable. The commit is not part of it: comparing commits of one
// version is what baselines are for.
struct BaselineKey {
  std::string model;  // file name, for messages; not compared
  std::string model_sha256;
  std::string device;
  std::string device_model;  // empty for the processor, and in files of before it was kept
  std::string cpu_model;
  int threads = 0;
  std::string kpt_version;
  std::string torch_version;
  Sizes sizes;
  std::string what = "run";  // "run", or "startup, warm cache" and so on
};

struct BaselineEntry {
  BaselineKey key;
  std::string date;
  std::string commit;
  SampleSummary summary;  // in milliseconds
};

// Parts of the key that may differ because the difference is what is to be compared.
struct BaselineDifferences {
  bool model = false;     // "model": before and after an optimization
  bool versions = false;  // "versions": of kpt and libtorch
  bool threads = false;   // "threads"
};
// Fails with kInvalidArgument for another word.
Result<BaselineDifferences> parse_differences(std::span<const std::string> words);

// One entry for each point and each kind of start-up.
std::vector<BaselineEntry> make_entries(const BenchmarkReport& report);

// Fails with kNotFound, kCorruptData (naming the entry), kVersionMismatch.
Result<std::vector<BaselineEntry>> read_baseline(const std::filesystem::path& path);
// The entries of `report` replace those of equal key; others stay. Atomic. Fails when a file is there that cannot be
// read as a baseline: it might be something else.
Status save_baseline(const std::filesystem::path& path, const BenchmarkReport& report);

struct ComparedEntry {
  BaselineEntry before;
  BaselineEntry after;
  TimeComparison comparison;
};

// Every entry of `report` with its counterpart. Fails with kInvalidArgument when none has one; the sentence says what
// differs from the nearest entry ("was measured on a Neoverse-N1, this is a Neoverse-V1"). Entries without a
// counterpart are named in `missing`.
Result<std::vector<ComparedEntry>> compare_with_baseline(std::span<const BaselineEntry> baseline,
                                                         const BenchmarkReport& report, double least_effect,
                                                         const BaselineDifferences& allowed,
                                                         std::vector<std::string>& missing);

}  // namespace kpt
