// Norm kernels on an NVIDIA GPU: bytes moved a second, beside a copy's. A JSON line for each case;
// benchmarks/gpu_norms.py puts PyTorch beside them. Usage: kpt_gpu_norm_benchmark [--all-layouts [WIDTH]].
//
// --all-layouts: every layout (NormLayout) that fits, a table for each shape with the fastest first, and last the best
// one of each case beside the one that plans take. WIDTH: only shapes of that width.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/gpu/cuda_launcher.h"
#include "kernels/gpu/norm.h"

namespace kpt {
namespace {

// Larger than the L2 cache of any GPU of today, so that every repetition reads memory.
constexpr std::size_t kSets = 4;
constexpr int kRepetitions = 30;

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Normally distributed bfloat16: how much power a GPU draws, and so its clock, depends on the numbers.
const std::vector<std::uint16_t>& random_numbers() {
  static const std::vector<std::uint16_t> kNumbers = [] {
    std::mt19937 random(20261116);  // NOLINT(bugprone-random-generator-seed): figures of two runs compare
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

constexpr std::int64_t kSharedOfSm = 228 * 1024;  // of sm_90
constexpr std::int64_t kSharedOfBlock = 1536;     // that a block has besides what its launch asks for

// Adds layouts with `resident` threads on a multiprocessor, and with half of them; forward there is nothing to choose.
void add_layout(Case& norms, const What& what, gpu::NormLayout layout, int resident,
                std::vector<gpu::NormLayout>& layouts) {
  if (!what.backward) {
    if (norms.takes(what, layout)) layouts.push_back(layout);
    return;
  }
  int full = resident / layout.threads;
  if (layout.stages > 0) {
    const std::int64_t bytes =
        std::int64_t{layout.stages} * (what.with_residual ? 3 : 2) * layout.accesses * layout.threads * 16;
    full = std::min(full, static_cast<int>(kSharedOfSm / (bytes + kSharedOfBlock)));
  }
  for (const int blocks : {full, layout.stages > 0 ? 0 : full / 2}) {
    layout.blocks = blocks;
    if (blocks > 0 && norms.takes(what, layout)) layouts.push_back(layout);
  }
}

// Every layout that a plan takes for such rows.
std::vector<gpu::NormLayout> layouts_to_try(Case& norms, const What& what) {
  const std::int64_t accesses = norms.width() / 8;
  std::vector<gpu::NormLayout> layouts;
  // Rows in registers, and on their way through shared memory.
  for (int stages = 0; stages <= (what.backward ? 3 : 0); ++stages) {
    for (const int each : {1, 2, 3, 4}) {
      const auto row_threads = static_cast<int>((accesses + 32 * each - 1) / (32 * each) * 32);
      // Threads whose registers a multiprocessor has.
      const int resident = !what.backward || each <= 2 ? 1024 : (each == 3 ? 640 : 512);
      for (int threads = row_threads; threads <= resident; threads *= 2) {
        add_layout(norms, what, {each, row_threads, threads, 0, 1, stages}, resident, layouts);
      }
    }
  }
  // Short rows, several for each thread.
  int lanes = 1;
  while (lanes < accesses) lanes *= 2;
  for (const int rows : {2, 4}) {
    for (const int threads : {32, 64, 128, 256}) {
      for (int stages = 0; stages <= (what.backward ? 3 : 0); ++stages) {
        const int resident = stages > 0 ? (rows == 2 ? 768 : 512) : (rows == 2 ? 640 : 384);
        add_layout(norms, what, {1, lanes, threads, 0, rows, stages}, resident, layouts);
      }
    }
  }
  return layouts;
}

std::string describe(const gpu::NormLayout& layout) {
  std::string text = std::to_string(layout.accesses) + " x " + std::to_string(layout.row_threads) + ", " +
                     std::to_string(layout.threads) + ", " + std::to_string(layout.blocks);
  if (layout.rows > 1) text += ", rows " + std::to_string(layout.rows);
  if (layout.stages > 0) text += ", stages " + std::to_string(layout.stages);
  return text;
}

// A layout that was measured.
struct Timed {
  gpu::NormLayout layout;
  double speed = 0;  // GB/s
};

void time_layouts(Case& norms, const What& what, double copy, std::string& summary) {
  const Timed taken{norms.layout(what), norms.gigabytes_a_second(norms.time(what, norms.layout(what)), what.parts())};
  std::vector<Timed> all = {taken};
  for (const gpu::NormLayout& layout : layouts_to_try(norms, what)) {
    all.push_back({layout, norms.gigabytes_a_second(norms.time(what, layout), what.parts())});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &Timed::speed);
  for (const Timed& timed : all) {
    std::printf("| %s | %s | %.0f | %.1f %% |\n", what.name, describe(timed.layout).c_str(), timed.speed,
                100 * timed.speed / copy);
  }
  std::fflush(stdout);
  char line[256];
  std::snprintf(line, sizeof line, "| %s | %lld x %lld | %s | %.1f %% | %s | %.1f %% |\n", what.name,
                static_cast<long long>(norms.rows()), static_cast<long long>(norms.width()),
                describe(taken.layout).c_str(), 100 * taken.speed / copy, describe(all[0].layout).c_str(),
                100 * all[0].speed / copy);
  summary += line;
}

struct Shape {
  std::int64_t rows, width;
};
constexpr Shape kShapes[] = {{524288, 128}, {65536, 768}, {32768, 1024}, {16384, 4096}, {8192, 8192}, {4096, 16384}};
// For layouts alone: short rows on both sides of 128.
constexpr Shape kMoreShapes[] = {{1048576, 64}, {262144, 256}, {131072, 512}};

void run_all() {
  const auto launcher = gpu::make_cuda_launcher(0).value();
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (const auto& [rows, width] : kShapes) {
    Case norms(*launcher, stream, rows, width);
    report(norms, "copy", norms.copy(), 2);
    for (const What& what : kWhats) report(norms, what.name, norms.time(what, norms.layout(what)), what.parts());
  }
}

// `only`: the width of the shapes that are wanted; 0: all.
void run_layouts(std::int64_t only) {
  const auto launcher = gpu::make_cuda_launcher(0).value();
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kMoreShapes), std::end(kMoreShapes));
  std::string summary =
      "## Taken and best\n\n| norm | rows x width | taken | share of copy | best | share of copy |\n"
      "|---|---|---|---|---|---|\n";
  std::puts(
      "A layout: accesses x threads of a row, threads of a block, blocks on a multiprocessor (0: one for each row); "
      "rows "
      "of a thread, stages in shared memory.");
  for (const auto& [rows, width] : shapes) {
    if (only != 0 && width != only) continue;
    Case norms(*launcher, stream, rows, width);
    const double copy = norms.gigabytes_a_second(norms.copy(), 2);
    std::printf(
        "\n## %lld x %lld, a copy at %.0f GB/s\n\n| norm | layout | GB/s | share of copy |\n|---|---|---|---|\n",
        static_cast<long long>(rows), static_cast<long long>(width), copy);
    for (const What& what : kWhats) time_layouts(norms, what, copy, summary);
  }
  std::printf("\n%s", summary.c_str());
}

}  // namespace
}  // namespace kpt

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const bool layouts = arguments.size() > 1 && std::strcmp(arguments[1], "--all-layouts") == 0;
  const std::int64_t width = arguments.size() == 3 ? std::strtoll(arguments[2], nullptr, 10) : 0;
  if (arguments.size() > 3 || (arguments.size() > 1 && !layouts) || (arguments.size() == 3 && width <= 0)) {
    std::fprintf(stderr, "usage: kpt_gpu_norm_benchmark [--all-layouts [WIDTH]]\n");
    return 2;
  }
  try {
    if (layouts) {
      kpt::run_layouts(width);
    } else {
      kpt::run_all();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
