// Norm kernels on an NVIDIA GPU: bytes moved a second, beside a copy's. A JSON line for each case; gpu_norms.py puts
// PyTorch beside them. Usage: kpt_gpu_norm_benchmark.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/gpu/cuda_launcher.h"
#include "kernels/gpu/norm.h"

namespace {

using namespace kpt;

// Larger than the L2 cache of any GPU of today, so that every repetition reads memory.
constexpr std::size_t kSets = 4;
constexpr int kRepetitions = 30;

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
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

struct Buffers {
  void* input;
  void* residual;
  void* normed;
  void* sum;
};

void report(const char* what, std::int64_t rows, std::int64_t width, double milliseconds, double bytes) {
  std::printf("{\"what\": \"%s\", \"rows\": %lld, \"width\": %lld, \"us\": %.2f, \"gb_s\": %.1f}\n", what,
              static_cast<long long>(rows), static_cast<long long>(width), 1e3 * milliseconds,
              bytes / milliseconds / 1e6);
}

void run_case(gpu::Launcher& launcher, cudaStream_t stream, std::int64_t rows, std::int64_t width) {
  const auto bytes = static_cast<std::size_t>(rows * width) * 2;
  std::vector<Buffers> sets;
  for (std::size_t set = 0; set < kSets; ++set) {
    sets.push_back({allocate(bytes), allocate(bytes), allocate(bytes), allocate(bytes)});
  }
  void* weight = allocate(static_cast<std::size_t>(width) * 4);
  void* bias = allocate(static_cast<std::size_t>(width) * 4);
  void* statistics = allocate(static_cast<std::size_t>(rows) * 8);
  const auto start = [&](const Result<gpu::Plan>& plan) {
    if (const Status status = gpu::run_plan(launcher, plan, stream); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      std::exit(1);
    }
  };
  const auto one = static_cast<double>(bytes);
  report("copy", rows, width,
         measure(stream,
                 [&](std::size_t set) {
                   require(cudaMemcpyAsync(sets[set].normed, sets[set].input, bytes, cudaMemcpyDeviceToDevice, stream),
                           "cudaMemcpyAsync");
                 }),
         2 * one);
  for (const gpu::NormKind kind : {gpu::NormKind::kLayer, gpu::NormKind::kRms}) {
    const bool layer = kind == gpu::NormKind::kLayer;
    for (const bool with_residual : {false, true}) {
      std::vector<Result<gpu::Plan>> plans;
      for (const Buffers& buffers : sets) {
        gpu::NormCall call;
        call.dtype = DType::kBFloat16;
        call.kind = kind;
        call.weight_dtype = DType::kBFloat16;
        call.bias_dtype = DType::kBFloat16;
        call.input = buffers.input;
        call.residual = with_residual ? buffers.residual : nullptr;
        call.weight = weight;
        call.bias = layer ? bias : nullptr;
        call.normed = buffers.normed;
        call.sum = with_residual ? buffers.sum : nullptr;
        call.rows = rows;
        call.width = width;
        call.input_stride = width;
        call.residual_stride = with_residual ? width : 0;
        call.epsilon = 1e-5F;
        plans.push_back(gpu::plan_norm(call, launcher.shape()));
      }
      const double time = measure(stream, [&](std::size_t set) { start(plans[set]); });
      const char* name = layer ? (with_residual ? "layer_norm_residual" : "layer_norm")
                               : (with_residual ? "rms_norm_residual" : "rms_norm");
      report(name, rows, width, time, (with_residual ? 4 : 2) * one);
    }
    gpu::NormBackwardCall call;
    call.dtype = DType::kBFloat16;
    call.kind = kind;
    call.weight_dtype = DType::kBFloat16;
    call.weight = weight;
    call.mean = layer ? static_cast<const float*>(statistics) : nullptr;
    call.scale = static_cast<const float*>(statistics) + rows;
    call.weight_gradient = weight;
    call.bias_gradient = layer ? bias : nullptr;
    call.rows = rows;
    call.width = width;
    void* workspace = allocate(std::max<std::size_t>(gpu::norm_backward_workspace(call, launcher.shape()), 16));
    call.workspace = workspace;
    std::vector<Result<gpu::Plan>> plans;
    for (const Buffers& buffers : sets) {
      call.gradient = buffers.residual;
      call.input = buffers.input;
      call.input_gradient = buffers.normed;
      plans.push_back(gpu::plan_norm_backward(call, launcher.shape()));
    }
    report(layer ? "layer_norm_backward" : "rms_norm_backward", rows, width,
           measure(stream, [&](std::size_t set) { start(plans[set]); }), 3 * one);
    require(cudaFree(workspace), "cudaFree");
  }
  for (const Buffers& buffers : sets) {
    for (void* memory : {buffers.input, buffers.residual, buffers.normed, buffers.sum}) {
      require(cudaFree(memory), "cudaFree");
    }
  }
  for (void* memory : {weight, bias, statistics}) require(cudaFree(memory), "cudaFree");
}

}  // namespace

int main() {
  auto launcher = gpu::make_cuda_launcher(0);
  if (!launcher.ok()) {
    std::fprintf(stderr, "%s\n", launcher.status().message().c_str());
    return 1;
  }
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{65536, 768}, {32768, 1024}, {16384, 4096}, {8192, 8192}, {4096, 16384}}) {
    run_case(**launcher, stream, rows, width);
  }
  return 0;
}
