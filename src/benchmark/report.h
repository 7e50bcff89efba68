// What a benchmark found: values that the table, the JSON, the baseline and the page are made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmark/measure.h"
#include "benchmark/sweep.h"

namespace kpt {

// Where and with what it was measured.
struct BenchmarkContext {
  std::string date;          // "2026-11-15T12:00:00Z"
  std::string host_name;     // for people; not part of what baselines are compared by
  std::string model;         // file name without folders
  std::string model_sha256;  // of the file
  std::string device;        // that really ran: "cpu"
  std::string cpu_model;     // "Neoverse-V1"
  int cpus = 0;              // that this process may use
  int threads = 0;           // of one run
  std::string kpt_version;
  std::string commit;
  std::string build_type;                 // "Release"
  std::string torch_version;              // of the libtorch in use; empty without one
  std::vector<double> load_average = {};  // of the machine over 1, 5 and 15 minutes before the benchmark, if known
  std::string device_model = {};          // "NVIDIA H200"; empty for the processor, which cpu_model names
};

// One set of sizes.
struct PointReport {
  Sizes sizes;             // only those that were given; others have their least value
  std::string label;       // "batch 4"; empty when nothing was given
  std::int64_t items = 1;  // per run, see count_items()
  Measurement measurement;
  std::optional<std::uint64_t> peak_bytes;   // resident, mapped weights included, while this point ran
  std::optional<std::uint64_t> grown_bytes;  // by how much own memory (RssAnon) grew since before the model was loaded
  // Most of the device's own memory that this process used while this point ran, weights included; absent on the CPU.
  std::optional<std::uint64_t> device_peak_bytes;

  double items_per_second() const { return 1e3 * static_cast<double>(items) / measurement.summary.median; }
};

// Fresh processes from their start to their first answer.
struct StartupReport {
  std::string kind;  // "cold cache", "warm cache", or "no cache" when the model left nothing in it
  std::vector<double> samples_ms;
  SampleSummary summary;
  double load_ms = 0;  // median part of loading the model, and of the first run
  double run_ms = 0;
  double cpu_ms = 0;             // median processor time up to the answer, all threads
  std::uint64_t peak_bytes = 0;  // largest of the processes; 0 where the system does not say
};

struct BenchmarkReport {
  BenchmarkContext context;
  std::string batch_symbol;  // when batches were asked for
  double load_ms = 0;
  std::vector<PointReport> points;
  std::vector<StartupReport> startups;
  std::vector<std::string> notes;  // what could not be measured, and why
};

// An output as the accuracy gate saw it.
struct OutputError {
  std::string output;
  std::string measure;          // "rms error", or "1 − cosine" where the level goes by that
  double error = 0;             // of the artifact, against fp64
  std::optional<double> plain;  // of the plain run
  std::optional<double> limit;  // that the gate allowed, where one decided and is known
  bool passed = false;
};

}  // namespace kpt
