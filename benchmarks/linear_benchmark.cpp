// Packed matrix products in GFLOP/s: forms and kernels by shape, beside what the arithmetic units can do at most.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/packed_linear.h"

namespace {

using namespace kpt::kernels;  // NOLINT(google-build-using-namespace)

// What products can reach at most: sums that never leave their registers, operands from one place in L1. Without these
// loads Neoverse-V1 settles at two or at four operations per cycle as chance has it.
void register_peak(benchmark::State& state) {
  constexpr int kRounds = 1000;
#if defined(__aarch64__)
  constexpr double kOperations = 24 * 8;
  alignas(64) const float operands[20] = {};
  for (auto _ : state) {
    std::int64_t rounds = kRounds;
    __asm__ volatile(
        "1:\n"
        "ldp q24, q25, [%[operands]]\n"
        "ldp q26, q27, [%[operands], #32]\n"
        "ldr q28, [%[operands], #64]\n"
        ".irp sum, 0, 3, 6, 9, 12, 15, 18, 21\n"
        "fmla v\\sum\\().4s, v24.4s, v27.s[0]\n"
        ".endr\n"
        ".irp sum, 1, 4, 7, 10, 13, 16, 19, 22\n"
        "fmla v\\sum\\().4s, v25.4s, v27.s[1]\n"
        ".endr\n"
        ".irp sum, 2, 5, 8, 11, 14, 17, 20, 23\n"
        "fmla v\\sum\\().4s, v26.4s, v28.s[2]\n"
        ".endr\n"
        "subs %[rounds], %[rounds], #1\n"
        "b.ne 1b\n"
        : [rounds] "+r"(rounds)
        : [operands] "r"(operands)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28");
  }
#else
  typedef float Eight __attribute__((vector_size(32)));
  constexpr double kOperations = 12 * 16;
  Eight sums[12] = {};
  const Eight factor = Eight{} + 1.0000001F;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      for (Eight& sum : sums) sum = sum * factor + factor;
      benchmark::DoNotOptimize(sums);
    }
  }
#endif
  state.counters["GFLOP/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * kRounds * kOperations * 1e-9,
                                                 benchmark::Counter::kIsRate);
}
BENCHMARK(register_peak);

// The workers of one benchmark: tasks are dealt out in turn.
struct Workers {
  explicit Workers(int threads) : pool(threads > 1 ? std::make_unique<kpt::ThreadPool>(threads - 1) : nullptr) {}

  Parallel parallel(int threads) {
    Parallel result;
    result.threads = threads;
    result.pool = this;
    result.run = [](void* self, std::int64_t tasks, Parallel::Task task, void* context) {
      auto& workers = *static_cast<Workers*>(self);
      const int count = workers.pool->thread_count() + 1;
      std::vector<std::future<void>> pending;
      const auto part = [=](int worker) {
        for (std::int64_t index = worker; index < tasks; index += count) task(context, index, worker);
      };
      for (int worker = 1; worker < count; ++worker) pending.push_back(workers.pool->submit([=] { part(worker); }));
      part(0);
      for (auto& one : pending) one.get();
    };
    return result;
  }
  std::unique_ptr<kpt::ThreadPool> pool;
};

struct AlignedMemory {
  explicit AlignedMemory(std::size_t bytes) : memory(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {}
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  ~AlignedMemory() { std::free(memory); }
  void* memory;
};

struct Product {
  LinearForm form;
  std::string kernel;
  std::int64_t m, n, k;
  int threads;
  Activation activation = Activation::kNone;
};

void run_product(benchmark::State& state, const Product& of) {
  std::mt19937 random(5);  // NOLINT(bugprone-random-generator-seed): figures of two runs compare
  std::vector<float> values(static_cast<std::size_t>(of.n * of.k));
  std::vector<float> input(static_cast<std::size_t>(of.m * of.k));
  std::vector<float> scale(values.size() / 32 + static_cast<std::size_t>(of.n), 0.01F);
  std::vector<float> output(static_cast<std::size_t>(of.m * of.n));
  for (float& value : input) value = std::normal_distribution<float>()(random);
  for (float& value : values) value = std::uniform_real_distribution<float>(-0.1F, 0.1F)(random);
  LinearWeights weights;
  weights.form = of.form;
  weights.data = values.data();
  weights.rows = of.n;
  weights.columns = of.k;
  weights.row_stride = of.form == LinearForm::kInt4 ? of.k / 2 : of.k;
  weights.scale = scale.data();
  weights.group = 32;
  weights.bias = scale.data();
  auto packed = PackedLinear::pack(weights, cpu_features(), of.kernel);
  if (!packed.ok()) return state.SkipWithError(packed.status().message().c_str());
  const AlignedMemory workspace(packed->workspace_bytes(of.m, of.threads));
  LinearCall call;
  call.rows = of.m;
  call.input = input.data();
  call.input_stride = of.k;
  call.output = output.data();
  call.output_stride = of.n;
  call.activation = of.activation;
  Workers workers(of.threads);
  const Parallel parallel = workers.parallel(of.threads);
  for (auto _ : state) {
    packed->run(call, workspace.memory, parallel);
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * static_cast<double>(of.m) * static_cast<double>(of.n) * static_cast<double>(of.k);
  const auto rate = [&](double per_run) {
    return benchmark::Counter(static_cast<double>(state.iterations()) * per_run * 1e-9, benchmark::Counter::kIsRate);
  };
  state.counters["GFLOP/s"] = rate(operations);
  state.counters["weight GB/s"] = rate(static_cast<double>(packed->packed_bytes()));
}

void add_product(const Product& of) {
  const std::string name = "linear/" + of.kernel + "/" + std::to_string(of.m) + "x" + std::to_string(of.n) + "x" +
                           std::to_string(of.k) + (of.activation == Activation::kGelu ? "/gelu" : "") +
                           "/threads:" + std::to_string(of.threads);
  auto* one = benchmark::RegisterBenchmark(name.c_str(), [of](benchmark::State& state) { run_product(state, of); });
  if (of.threads > 1) one->UseRealTime();
}

void add_products() {
  for (const LinearForm form :
       {LinearForm::kFloat32, LinearForm::kBfloat16, LinearForm::kInt8, LinearForm::kWeightInt8, LinearForm::kInt4}) {
    for (const KernelCandidate& candidate : list_kernels(form, cpu_features())) {
      if (!candidate.why_not.empty() || candidate.kernel.name.find("portable") != std::string_view::npos) continue;
      const std::string kernel(candidate.kernel.name);
      for (const int threads : {1, 2}) {
        for (const std::int64_t m : {1, 4, 128}) {
          add_product({form, kernel, m, 384, 384, threads});
          add_product({form, kernel, m, 768, 768, threads});
          add_product({form, kernel, m, 3072, 768, threads});
          add_product({form, kernel, m, 768, 3072, threads});
        }
      }
      for (const std::int64_t m : {2, 8, 16}) add_product({form, kernel, m, 768, 768, 1});
      add_product({form, kernel, 128, 3072, 768, 1, Activation::kGelu});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  add_products();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
