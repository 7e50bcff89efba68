// Norm kernels on an NVIDIA GPU: bytes moved a second, beside a copy's. A JSON line for each case;
// benchmarks/gpu_norms.py puts PyTorch beside them. Usage: kpt_gpu_norm_benchmark [--sweep].
//
// --sweep: every layout of a list (NormLayout) for every case, as a table, and last the best one of each case beside
// the one that plans take.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/gpu/cuda_launcher.h"
#include "kernels/gpu/norm.h"

namespace {

using namespace kpt;

// Larger than the L2 cache of any GPU of today, so that every repetition reads memory.
constexpr std::size_t kSets = 4;
constexpr int kRepetitions = 30;

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Normally distributed bfloat16: how much power a GPU draws, and so its clock, depends on the numbers.
const std::vector<std::uint16_t>& random_numbers() {
  static const std::vector<std::uint16_t> kNumbers = [] {
    std::mt19937 random(20261116);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> numbers(std::size_t{1} << 22U);
    for (std::uint16_t& number : numbers) {
      number = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random)) >> 16U);
    }
    return numbers;
  }();
  return kNumbers;
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  const std::size_t piece = random_numbers().size() * 2;
  for (std::size_t done = 0; done < bytes; done += piece) {
    require(cudaMemcpy(static_cast<std::byte*>(memory) + done, random_numbers().data(), std::min(piece, bytes - done),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
  }
  return memory;
}

// The median time of `body(set)`, in milliseconds.
template <typename Body>
double measure(cudaStream_t stream, const Body& body) {
  cudaEvent_t begin{};
  cudaEvent_t end{};
  require(cudaEventCreate(&begin), "cudaEventCreate");
  require(cudaEventCreate(&end), "cudaEventCreate");
  for (std::size_t set = 0; set < 2 * kSets; ++set) body(set % kSets);
  std::vector<double> times;
  for (int round = 0; round < kRepetitions; ++round) {
    require(cudaEventRecord(begin, stream), "cudaEventRecord");
    for (std::size_t set = 0; set < kSets; ++set) body(set);
    require(cudaEventRecord(end, stream), "cudaEventRecord");
    require(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    times.push_back(static_cast<double>(milliseconds) / kSets);
  }
  std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
  return times[kRepetitions / 2];
}

// What is measured: a norm, one way.
struct What {
  const char* name;
  gpu::NormKind kind;
  bool backward;
  bool with_residual;
  // Tensors that must move: input and result, with a residual also that and the sum; backward the gradient, the input
  // and the input's gradient, with a residual also the sum's gradient.
  int parts() const { return (backward ? 3 : 2) + (with_residual ? (backward ? 1 : 2) : 0); }
};

constexpr What kWhats[] = {
    {"layer_norm", gpu::NormKind::kLayer, false, false},
    {"layer_norm_residual", gpu::NormKind::kLayer, false, true},
    {"layer_norm_backward", gpu::NormKind::kLayer, true, false},
    {"layer_norm_residual_backward", gpu::NormKind::kLayer, true, true},
    {"rms_norm", gpu::NormKind::kRms, false, false},
    {"rms_norm_residual", gpu::NormKind::kRms, false, true},
    {"rms_norm_backward", gpu::NormKind::kRms, true, false},
    {"rms_norm_residual_backward", gpu::NormKind::kRms, true, true},
};

// Buffers of one size of rows, in sets that take turns.
class Case {
 public:
  Case(gpu::Launcher& launcher, cudaStream_t stream, std::int64_t rows, std::int64_t width)
      : launcher_(launcher),
        stream_(stream),
        rows_(rows),
        width_(width),
        bytes_(static_cast<std::size_t>(rows * width) * 2) {
    for (Set& set : sets_) set = {take(bytes_), take(bytes_), take(bytes_), take(bytes_)};
    weight_ = take(static_cast<std::size_t>(width) * 2);
    bias_ = take(static_cast<std::size_t>(width) * 2);
    parameter_gradients_ = take(static_cast<std::size_t>(width) * 4);
    statistics_ = static_cast<float*>(take(static_cast<std::size_t>(rows) * 8));
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  ~Case() {
    for (void* memory : memory_) static_cast<void>(cudaFree(memory));
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t width() const { return width_; }
  double gigabytes_a_second(double milliseconds, int parts) const {
    return parts * static_cast<double>(bytes_) / milliseconds / 1e6;
  }

  // Each in milliseconds.
  double copy() {
    return measure(stream_, [&](std::size_t set) {
      require(cudaMemcpyAsync(sets_[set].normed, sets_[set].input, bytes_, cudaMemcpyDeviceToDevice, stream_),
              "cudaMemcpyAsync");
    });
  }
  double time(const What& what, const gpu::NormLayout& layout) {
    std::vector<Result<gpu::Plan>> plans;
    for (const Set& set : sets_) plans.push_back(plan(what, set, layout));
    return measure(stream_, [&](std::size_t set) {
      const Status status = gpu::run_plan(launcher_, plans[set], stream_);
      if (!status.ok()) throw std::runtime_error(status.message());
    });
  }
  bool takes(const What& what, const gpu::NormLayout& layout) { return plan(what, sets_[0], layout).ok(); }
  gpu::NormLayout layout(const What& what) {
    return what.backward ? gpu::norm_layout(backward_call(what, sets_[0]), launcher_.shape())
                         : gpu::norm_layout(forward_call(what, sets_[0]), launcher_.shape());
  }

 private:
  struct Set {
    void* input;
    void* residual;
    void* normed;
    void* sum;
  };

  void* take(std::size_t bytes) {
    memory_.push_back(allocate(bytes));
    return memory_.back();
  }

  gpu::NormCall forward_call(const What& what, const Set& set) const {
    gpu::NormCall call;
    call.dtype = call.weight_dtype = call.bias_dtype = DType::kBFloat16;
    call.kind = what.kind;
    call.input = set.input;
    call.residual = what.with_residual ? set.residual : nullptr;
    call.weight = weight_;
    call.bias = what.kind == gpu::NormKind::kLayer ? bias_ : nullptr;
    call.normed = set.normed;
    call.sum = what.with_residual ? set.sum : nullptr;
    call.rows = rows_;
    call.width = width_;
    call.input_stride = width_;
    call.residual_stride = what.with_residual ? width_ : 0;
    call.epsilon = 1e-5F;
    return call;
  }
  Result<gpu::Plan> forward(const What& what, const Set& set, const gpu::NormLayout& layout) {
    return gpu::plan_norm(forward_call(what, set), launcher_.shape(), layout);
  }

  // The gradients of weight and bias go where no other case reads them.
  gpu::NormBackwardCall backward_call(const What& what, const Set& set) const {
    const bool layer = what.kind == gpu::NormKind::kLayer;
    gpu::NormBackwardCall call;
    call.dtype = call.weight_dtype = DType::kBFloat16;
    call.kind = what.kind;
    call.gradient = set.residual;
    call.input = set.input;
    call.weight = weight_;
    call.mean = layer ? statistics_ : nullptr;
    call.scale = statistics_ + rows_;
    call.sum_gradient = what.with_residual ? set.sum : nullptr;
    call.input_gradient = set.normed;
    call.weight_gradient = parameter_gradients_;
    call.bias_gradient = layer ? static_cast<std::byte*>(parameter_gradients_) + width_ * 2 : nullptr;
    call.rows = rows_;
    call.width = width_;
    return call;
  }
  Result<gpu::Plan> backward(const What& what, const Set& set, const gpu::NormLayout& layout) {
    gpu::NormBackwardCall call = backward_call(what, set);
    const std::size_t bytes = gpu::norm_backward_workspace(call, launcher_.shape(), layout);
    if (bytes > workspace_bytes_) {
      workspace_ = take(bytes);
      workspace_bytes_ = bytes;
    }
    call.workspace = workspace_;
    return gpu::plan_norm_backward(call, launcher_.shape(), layout);
  }

  Result<gpu::Plan> plan(const What& what, const Set& set, const gpu::NormLayout& layout) {
    return what.backward ? backward(what, set, layout) : forward(what, set, layout);
  }

  gpu::Launcher& launcher_;
  cudaStream_t stream_;
  std::int64_t rows_;
  std::int64_t width_;
  std::size_t bytes_;
  std::array<Set, kSets> sets_{};
  void* weight_ = nullptr;
  void* bias_ = nullptr;
  float* statistics_ = nullptr;
  void* parameter_gradients_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::vector<void*> memory_;
};

void report(const Case& of, const char* what, double milliseconds, int parts) {
  std::printf("{\"what\": \"%s\", \"rows\": %lld, \"width\": %lld, \"us\": %.2f, \"gb_s\": %.1f}\n", what,
              static_cast<long long>(of.rows()), static_cast<long long>(of.width()), 1e3 * milliseconds,
              of.gigabytes_a_second(milliseconds, parts));
}

// Layouts to try for rows of so many accesses: those that a plan takes.
std::vector<gpu::NormLayout> layouts_to_try(Case& norms, const What& what) {
  const std::int64_t accesses = norms.width() / 8;
  std::vector<gpu::NormLayout> layouts;
  for (const int each : {1, 2, 4}) {
    const auto row_threads = static_cast<int>((accesses + 32 * each - 1) / (32 * each) * 32);
    const int resident = what.backward && each == 4 ? 512 : 1024;  // threads whose registers a multiprocessor has
    for (int threads = row_threads; threads <= resident; threads *= 2) {
      const int full = resident / threads;
      for (const int blocks : what.backward ? std::vector{full / 2, full} : std::vector{0}) {
        const gpu::NormLayout layout{each, row_threads, threads, blocks};
        if (norms.takes(what, layout)) layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

std::string describe(const gpu::NormLayout& layout) {
  return std::to_string(layout.accesses) + " x " + std::to_string(layout.row_threads) + ", " +
         std::to_string(layout.threads) + ", " + std::to_string(layout.blocks);
}

void sweep(Case& norms, double copy, std::string& summary) {
  char line[256];
  for (const What& what : kWhats) {
    const gpu::NormLayout taken = norms.layout(what);
    std::vector<gpu::NormLayout> layouts = {taken};
    for (const gpu::NormLayout& layout : layouts_to_try(norms, what)) layouts.push_back(layout);
    double best = 0;
    double of_taken = 0;
    gpu::NormLayout best_layout;
    for (const gpu::NormLayout& layout : layouts) {
      const double speed = norms.gigabytes_a_second(norms.time(what, layout), what.parts());
      std::snprintf(line, sizeof line, "| %s | %lld x %lld | %s | %.0f | %.1f %% |\n", what.name,
                    static_cast<long long>(norms.rows()), static_cast<long long>(norms.width()),
                    describe(layout).c_str(), speed, 100 * speed / copy);
      std::fputs(line, stdout);
      if (&layout == layouts.data()) of_taken = speed;
      if (speed > best) {
        best = speed;
        best_layout = layout;
      }
    }
    std::snprintf(line, sizeof line, "| %s | %lld x %lld | %s | %.1f %% | %s | %.1f %% |\n", what.name,
                  static_cast<long long>(norms.rows()), static_cast<long long>(norms.width()), describe(taken).c_str(),
                  100 * of_taken / copy, describe(best_layout).c_str(), 100 * best / copy);
    summary += line;
  }
}

void run_all(bool with_sweep) {
  const auto launcher = gpu::make_cuda_launcher(0).value();
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::string summary =
      "| norm | rows x width | taken | share of copy | best | share of copy |\n|---|---|---|---|---|---|\n";
  if (with_sweep) {
    std::puts(
        "A layout: accesses x threads of a row, threads of a block, blocks on a multiprocessor (0: one for each row).");
    std::puts("| norm | rows x width | layout | GB/s | share of copy |\n|---|---|---|---|---|");
  }
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{524288, 128},
                                    {65536, 768},
                                    {32768, 1024},
                                    {16384, 4096},
                                    {8192, 8192},
                                    {4096, 16384}}) {
    Case norms(*launcher, stream, rows, width);
    const double copy = norms.copy();
    if (with_sweep) {
      sweep(norms, norms.gigabytes_a_second(copy, 2), summary);
      continue;
    }
    report(norms, "copy", copy, 2);
    for (const What& what : kWhats) report(norms, what.name, norms.time(what, norms.layout(what)), what.parts());
  }
  if (with_sweep) std::fputs(summary.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const bool with_sweep = arguments.size() == 2 && std::strcmp(arguments[1], "--sweep") == 0;
  if (arguments.size() > 1 && !with_sweep) {
    std::fprintf(stderr, "usage: kpt_gpu_norm_benchmark [--sweep]\n");
    return 2;
  }
  try {
    run_all(with_sweep);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
