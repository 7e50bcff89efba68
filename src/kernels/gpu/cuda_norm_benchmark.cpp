// Norm kernels on an NVIDIA GPU: bytes moved a second, beside a copy's. A JSON line for each case;
// benchmarks/gpu_norms.py puts PyTorch beside them. Usage: kpt_gpu_norm_benchmark.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
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

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  require(cudaMemset(memory, 0x3c, bytes), "cudaMemset");
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

void report(const char* what, std::int64_t rows, std::int64_t width, double milliseconds, double bytes) {
  std::printf("{\"what\": \"%s\", \"rows\": %lld, \"width\": %lld, \"us\": %.2f, \"gb_s\": %.1f}\n", what,
              static_cast<long long>(rows), static_cast<long long>(width), 1e3 * milliseconds,
              bytes / milliseconds / 1e6);
}

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
    statistics_ = static_cast<float*>(take(static_cast<std::size_t>(rows) * 8));
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  ~Case() {
    for (void* memory : memory_) static_cast<void>(cudaFree(memory));
  }

  void copy() {
    const double time = measure(stream_, [&](std::size_t set) {
      require(cudaMemcpyAsync(sets_[set].normed, sets_[set].input, bytes_, cudaMemcpyDeviceToDevice, stream_),
              "cudaMemcpyAsync");
    });
    report("copy", rows_, width_, time, 2 * static_cast<double>(bytes_));
  }

  void forward(gpu::NormKind kind, bool with_residual, const char* name) {
    std::vector<Result<gpu::Plan>> plans;
    for (const Set& set : sets_) {
      gpu::NormCall call;
      call.dtype = DType::kBFloat16;
      call.kind = kind;
      call.weight_dtype = DType::kBFloat16;
      call.bias_dtype = DType::kBFloat16;
      call.input = set.input;
      call.residual = with_residual ? set.residual : nullptr;
      call.weight = weight_;
      call.bias = kind == gpu::NormKind::kLayer ? bias_ : nullptr;
      call.normed = set.normed;
      call.sum = with_residual ? set.sum : nullptr;
      call.rows = rows_;
      call.width = width_;
      call.input_stride = width_;
      call.residual_stride = with_residual ? width_ : 0;
      call.epsilon = 1e-5F;
      plans.push_back(gpu::plan_norm(call, launcher_.shape()));
    }
    report(name, rows_, width_, time_of(plans), (with_residual ? 4 : 2) * static_cast<double>(bytes_));
  }

  void backward(gpu::NormKind kind, const char* name) {
    const bool layer = kind == gpu::NormKind::kLayer;
    gpu::NormBackwardCall call;
    call.dtype = DType::kBFloat16;
    call.kind = kind;
    call.weight_dtype = DType::kBFloat16;
    call.weight = weight_;
    call.mean = layer ? statistics_ : nullptr;
    call.scale = statistics_ + rows_;
    call.weight_gradient = weight_;
    call.bias_gradient = layer ? bias_ : nullptr;
    call.rows = rows_;
    call.width = width_;
    call.workspace = take(std::max<std::size_t>(gpu::norm_backward_workspace(call, launcher_.shape()), 16));
    std::vector<Result<gpu::Plan>> plans;
    for (const Set& set : sets_) {
      call.gradient = set.residual;
      call.input = set.input;
      call.input_gradient = set.normed;
      plans.push_back(gpu::plan_norm_backward(call, launcher_.shape()));
    }
    report(name, rows_, width_, time_of(plans), 3 * static_cast<double>(bytes_));
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

  double time_of(const std::vector<Result<gpu::Plan>>& plans) {
    return measure(stream_, [&](std::size_t set) {
      const Status status = gpu::run_plan(launcher_, plans[set], stream_);
      if (!status.ok()) throw std::runtime_error(status.message());
    });
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
  std::vector<void*> memory_;
};

void run_all() {
  const auto launcher = gpu::make_cuda_launcher(0).value();
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{65536, 768}, {32768, 1024}, {16384, 4096}, {8192, 8192}, {4096, 16384}}) {
    Case norms(*launcher, stream, rows, width);
    norms.copy();
    norms.forward(gpu::NormKind::kLayer, false, "layer_norm");
    norms.forward(gpu::NormKind::kLayer, true, "layer_norm_residual");
    norms.backward(gpu::NormKind::kLayer, "layer_norm_backward");
    norms.forward(gpu::NormKind::kRms, false, "rms_norm");
    norms.forward(gpu::NormKind::kRms, true, "rms_norm_residual");
    norms.backward(gpu::NormKind::kRms, "rms_norm_backward");
  }
}

}  // namespace

int main() {
  try {
    run_all();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
