#include "engines/aten/cuda/measured_product.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cublasLt.h>

#include "engines/aten/module/gpu_own_nodes.h"

namespace kpt::aten {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;  // what NVIDIA advises for Hopper
constexpr int kMostAlgorithms = 8;
constexpr int kRounds = 3;
constexpr int kRunsOfRound = 4;
constexpr std::int64_t kHeldCycles = 400'000;  // some 200 us
constexpr float kLeastGain = 0.98F;            // of libtorch's time: less is noise

// An object of cuBLASLt's. Its calls fail for what they do not support, which is no error here.
template <typename Handle, cublasStatus_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) destroy(handle_);
  }
  Handle* place() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

bool is_done(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

std::optional<cudaDataType_t> find_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return CUDA_R_32F;
    case at::kHalf: return CUDA_R_16F;
    case at::kBFloat16: return CUDA_R_16BF;
    default: return std::nullopt;
  }
}

// What the end of a product does itself. Its GELU is the one by tanh, good to 16-bit types only.
std::optional<cublasLtEpilogue_t> find_epilogue(ir::Activation activation, bool has_bias, at::ScalarType result) {
  switch (activation) {
    case ir::Activation::kNone: return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case ir::Activation::kRelu: return has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case ir::Activation::kGeluTanh:
      if (result == at::kFloat) return std::nullopt;
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return std::nullopt;
  }
}

// The largest power of two up to 256 that divides the address.
std::uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value == 0 ? 256U : static_cast<std::uint32_t>(std::min<std::uintptr_t>(value & (~value + 1), 256));
}

// result = epilogue(input · weightᵀ + residual), row-major: for cuBLASLt, which counts by columns, the transpose of it.
class LtProduct {
 public:
  LtProduct(const at::Tensor& result, const at::Tensor& input, const at::Tensor& weight, const at::Tensor* bias,
            const at::Tensor* residual, cublasLtEpilogue_t epilogue)
      : result_(result), input_(input), weight_(weight), bias_(bias), residual_(residual), epilogue_(epilogue) {
    outer_ = weight.size(0);
    inner_ = weight.size(1);
    rows_ = input.size(0);
    factors_ = *find_type(weight.scalar_type());
    written_ = *find_type(result.scalar_type());
    weight_stride_ = outer_ == 1 ? inner_ : weight.stride(0);
    input_stride_ = rows_ == 1 ? inner_ : input.stride(0);
    rounds_ = factors_ == CUDA_R_32F && at::globalContext().allowTF32CuBLAS();
  }

  // Whether cuBLASLt takes it at all. Before all that follows but key().
  bool prepare() {
    const cublasComputeType_t arithmetic = rounds_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    if (!is_done(cublasLtMatmulDescCreate(description_.place(), arithmetic, CUDA_R_32F))) return false;
    const cublasOperation_t turned = CUBLAS_OP_T;
    if (!set(CUBLASLT_MATMUL_DESC_TRANSA, turned) || !set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_)) return false;
    if (bias_ != nullptr) {
      const void* address = bias_->const_data_ptr();
      if (!set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address) || !set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, written_)) {
        return false;
      }
    }
    return lay(weight_layout_, factors_, inner_, outer_, weight_stride_) &&
           lay(input_layout_, factors_, inner_, rows_, input_stride_) &&
           lay(result_layout_, written_, outer_, rows_, outer_);
  }

  using Key = std::array<std::int64_t, 15>;
  Key key() const {
    return {input_.get_device(),
            rows_,
            outer_,
            inner_,
            weight_stride_,
            input_stride_,
            factors_,
            written_,
            epilogue_,
            rounds_ ? 1 : 0,
            residual_ == nullptr ? 0 : alignment_of(residual_->const_data_ptr()),
            bias_ == nullptr ? 0 : alignment_of(bias_->const_data_ptr()),
            alignment_of(weight_.const_data_ptr()),
            alignment_of(input_.const_data_ptr()),
            alignment_of(result_.const_data_ptr())};
  }

  // Those that cuBLASLt proposes, the best by its own estimate first.
  int propose(std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms>& proposed) const {
    Preference preference;
    if (!is_done(cublasLtMatmulPreferenceCreate(preference.place()))) return 0;
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      return is_done(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
    };
    const auto exact = static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    const std::uint32_t written = alignment_of(result_.const_data_ptr());
    const bool set = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes) &&
                     prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, exact) &&
                     prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(weight_.const_data_ptr())) &&
                     prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(input_.const_data_ptr())) &&
                     prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                            residual_ == nullptr ? written : alignment_of(residual_->const_data_ptr())) &&
                     prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, written);
    int count = 0;
    if (!set ||
        !is_done(cublasLtMatmulAlgoGetHeuristic(
            at::cuda::getCurrentCUDABlasLtHandle(), description_.get(), weight_layout_.get(), input_layout_.get(),
            result_layout_.get(), result_layout_.get(), preference.get(), kMostAlgorithms, proposed.data(), &count))) {
      return 0;
    }
    return count;
  }

  // Queues it. False when cuBLASLt refuses, or when there is no memory for what it needs beside: libtorch's own choice
  // may do with less.
  bool run(const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace_bytes) const {
    const float one = 1;
    const float added = residual_ == nullptr ? 0 : 1;
    at::Tensor workspace;
    try {
      workspace = at::empty({static_cast<std::int64_t>(workspace_bytes)}, input_.options().dtype(at::kByte));
    } catch (const c10::OutOfMemoryError&) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    const void* start = residual_ == nullptr ? result_.const_data_ptr() : residual_->const_data_ptr();
    const bool done = is_done(
        cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), description_.get(), &one, weight_.const_data_ptr(),
                       weight_layout_.get(), input_.const_data_ptr(), input_layout_.get(), &added, start,
                       result_layout_.get(), result_.mutable_data_ptr(), result_layout_.get(), &algorithm,
                       workspace.mutable_data_ptr(), workspace_bytes, at::cuda::getCurrentCUDAStream()));
    if (!done) static_cast<void>(cudaGetLastError());  // what the refusal left behind would fail the next call
    return done;
  }

 private:
  template <typename Value>
  bool set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    return is_done(cublasLtMatmulDescSetAttribute(description_.get(), attribute, &value, sizeof(value)));
  }

  static bool lay(Layout& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return is_done(cublasLtMatrixLayoutCreate(layout.place(), type, static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), stride));
  }

  const at::Tensor& result_;
  const at::Tensor& input_;
  const at::Tensor& weight_;
  const at::Tensor* bias_;
  const at::Tensor* residual_;
  cublasLtEpilogue_t epilogue_;
  std::int64_t outer_ = 0;
  std::int64_t inner_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t weight_stride_ = 0;
  std::int64_t input_stride_ = 0;
  cudaDataType_t factors_ = CUDA_R_32F;
  cudaDataType_t written_ = CUDA_R_32F;
  bool rounds_ = false;  // factors to TF32
  Description description_;
  Layout weight_layout_;
  Layout input_layout_;
  Layout result_layout_;
};

// Of one shape; none: libtorch's own.
struct Choice {
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  std::size_t workspace_bytes = 0;
};

class Choices {
 public:
  std::optional<Choice> find(const LtProduct::Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = choices_.find(key);
    return found == choices_.end() ? std::nullopt : std::optional(found->second);
  }
  // Of two that measured at once, the first.
  Choice keep(const LtProduct::Key& key, const Choice& choice) {
    const std::lock_guard lock(mutex_);
    return choices_.emplace(key, choice).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<LtProduct::Key, Choice> choices_;
};

Choices& choices() {
  static Choices all;
  return all;
}

class Stopwatch {
 public:
  Stopwatch() : stream_(at::cuda::getCurrentCUDAStream()) {
    C10_CUDA_CHECK(cudaEventCreate(&begin_));
    C10_CUDA_CHECK(cudaEventCreate(&end_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    if (begin_ != nullptr) (void)cudaEventDestroy(begin_);
    if (end_ != nullptr) (void)cudaEventDestroy(end_);
  }

  // Milliseconds of the fastest round, after one run that does not count; none when `work` says that it cannot. The
  // device is held up until a round is queued: captured runs pay nothing for queueing.
  template <typename Work>
  std::optional<float> measure(const Work& work) {
    if (!work()) return std::nullopt;
    float least = 0;
    for (int round = 0; round < kRounds; ++round) {
      at::cuda::sleep(kHeldCycles);
      C10_CUDA_CHECK(cudaEventRecord(begin_, stream_));
      for (int run = 0; run < kRunsOfRound; ++run) work();
      C10_CUDA_CHECK(cudaEventRecord(end_, stream_));
      C10_CUDA_CHECK(cudaEventSynchronize(end_));
      float took = 0;
      C10_CUDA_CHECK(cudaEventElapsedTime(&took, begin_, end_));
      least = round == 0 ? took : std::min(least, took);
    }
    return least;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

void multiply_by_measured(at::Tensor& result, const at::Tensor& given, const at::Tensor& weight, const at::Tensor* bias,
                          const at::Tensor* residual, ir::Activation activation) {
  const std::int64_t inner = weight.size(1);
  const bool dense_bias = bias == nullptr || bias->is_contiguous();
  if (result.numel() == 0 || inner == 0 || weight.stride(1) != 1 || !dense_bias || !find_type(weight.scalar_type())) {
    return multiply_by_blas(result, given, weight, bias, residual, activation);
  }
  OwnCall::require(residual == nullptr || residual->sizes() == result.sizes(),
                   "the residual is not of the result's sizes");
  at::Tensor input = given.reshape({-1, inner});
  if (input.scalar_type() != weight.scalar_type()) input = input.to(weight.scalar_type());
  if (input.stride(1) != 1) input = input.contiguous();
  at::Tensor flat = result.view({-1, weight.size(0)});
  at::Tensor flat_residual;
  if (residual != nullptr) flat_residual = residual->reshape(flat.sizes());
  const at::Tensor* added = residual == nullptr ? nullptr : &flat_residual;
  const auto by_libtorch = [&] {
    multiply_by_blas(flat, input, weight, bias, added, activation);
    return true;
  };
  // All of it in the product, or the product alone and the rest by a kernel of ours.
  const bool bias_fits = bias == nullptr || bias->scalar_type() == result.scalar_type();
  const bool residual_fits = added == nullptr || added->is_contiguous();
  const auto epilogue = find_epilogue(activation, bias != nullptr, result.scalar_type());
  const bool whole = bias_fits && residual_fits && epilogue.has_value();
  LtProduct product(flat, input, weight, whole ? bias : nullptr, whole ? added : nullptr,
                    whole ? *epilogue : CUBLASLT_EPILOGUE_DEFAULT);
  if (!product.prepare()) {
    by_libtorch();
    return;
  }
  const auto by_algorithm = [&](const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace_bytes) {
    if (!product.run(algorithm, workspace_bytes)) return false;
    if (!whole) finish_product(flat, bias, added, activation);
    return true;
  };
  const LtProduct::Key key = product.key();
  std::optional<Choice> choice = choices().find(key);
  if (!choice && c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None) {
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> proposed = {};
    const int count = product.propose(proposed);
    Stopwatch stopwatch;
    Choice fastest;
    float least = kLeastGain * *stopwatch.measure(by_libtorch);
    for (int index = 0; index < count; ++index) {
      const cublasLtMatmulHeuristicResult_t& one = proposed[static_cast<std::size_t>(index)];
      if (!is_done(one.state)) continue;
      const auto took = stopwatch.measure([&] { return by_algorithm(one.algo, one.workspaceSize); });
      if (!took || *took >= least) continue;
      least = *took;
      fastest = {one.algo, one.workspaceSize};
    }
    choice = choices().keep(key, fastest);
  }
  if (choice && choice->algorithm && by_algorithm(*choice->algorithm, choice->workspace_bytes)) return;
  by_libtorch();
}

}  // namespace kpt::aten
