// What a user waits for before any model is loaded: start-up, configuration, detection; and the hashing that cache keys
// will rest on. The floor of a start-up is that of an empty process (`true`), measured beside it.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "backends/cpu/detect_cpu.h"
#include "base/child_process.h"
#include "base/sha256.h"
#include "config/config.h"
#include "device/detection_context.h"
#include "support/tree_paths.h"

namespace {

void run_program(benchmark::State& state, const std::vector<std::string>& arguments) {
  for (auto _ : state) {
    const auto outcome = kpt::run_child({.arguments = arguments, .environment_overrides = {}});
    if (!outcome.ok() || outcome->signal != 0 || outcome->timed_out) state.SkipWithError("the program did not run");
  }
}

void empty_process(benchmark::State& state) { run_program(state, {"true"}); }
BENCHMARK(empty_process)->Unit(benchmark::kMillisecond)->UseRealTime();

void kpt_version(benchmark::State& state) { run_program(state, {kpt::build_dir() + "/bin/kpt", "--version"}); }
BENCHMARK(kpt_version)->Unit(benchmark::kMillisecond)->UseRealTime();

void kpt_doctor(benchmark::State& state) { run_program(state, {kpt::build_dir() + "/bin/kpt", "doctor"}); }
BENCHMARK(kpt_doctor)->Unit(benchmark::kMillisecond)->UseRealTime();

void kpt_doctor_without_libtorch(benchmark::State& state) {
  run_program(state, {kpt::build_dir() + "/bin/kpt", "doctor", "--set", "probe.backends=nvidia,amd,tpu,pjrt"});
}
BENCHMARK(kpt_doctor_without_libtorch)->Unit(benchmark::kMillisecond)->UseRealTime();

void detect_cpu(benchmark::State& state) {
  kpt::DetectionContext context;
  for (auto _ : state) benchmark::DoNotOptimize(kpt::detect_cpu(context));
}
BENCHMARK(detect_cpu)->Unit(benchmark::kMicrosecond);

void load_config(benchmark::State& state) {
  const kpt::Environment environment = kpt::Environment::from_map({});
  for (auto _ : state) benchmark::DoNotOptimize(kpt::load_config({}, environment));
}
BENCHMARK(load_config)->Unit(benchmark::kMicrosecond);

void sha256(benchmark::State& state) {
  const std::string bytes(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(kpt::sha256_hex(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(sha256)->Arg(1 << 10)->Arg(1 << 20);

}  // namespace
