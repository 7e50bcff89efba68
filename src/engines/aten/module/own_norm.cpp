// kpt.add_norm(input, residual, weight, bias, epsilon, kind) -> (normed, sum)
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engines/aten/module/own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/simd_kernels.h"

namespace kpt::aten {
namespace {

class AddNormNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kResidual, kWeight, kBias, kEpsilon, kKind };

  AddNormNode(DType dtype, double epsilon, kernels::NormKind kind) : dtype_(dtype), epsilon_(epsilon), kind_(kind) {}

  std::string describe() const override {
    return fmt::format("{}_norm_{} ({}, statistics in float32)", kind_ == kernels::NormKind::kLayer ? "layer" : "rms",
                       kernels::simd_kernels().name, to_string(dtype_));
  }

  Status prepare(const OwnWeights& weights) override {
    weight_ = widen(weights.find(kWeight));
    bias_ = widen(weights.find(kBias));
    return {};
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0) && !call.wants(1)) return;
    const at::Tensor& input = call.tensor(kInput);
    const at::Tensor* residual = call.find_tensor(kResidual);
    kernels::AddNorm norm;
    norm.input = to_rows(input);
    if (residual != nullptr) {
      OwnCall::require(residual->sizes() == input.sizes(), "the residual is not of the input's sizes");
      norm.residual = to_rows(*residual);
    }
    take_weights(call.find_tensor(kWeight), weight_, norm.input.width(), norm.weight, norm.weight_dtype);
    take_weights(call.find_tensor(kBias), bias_, norm.input.width(), norm.bias, norm.bias_dtype);
    norm.epsilon = epsilon_;
    norm.kind = kind_;
    if (call.wants(0)) norm.normed = call.result(0, input.sizes()).mutable_data_ptr();
    if (call.wants(1)) norm.sum = call.result(1, input.sizes()).mutable_data_ptr();
    const kernels::Parallel parallel = call.parallel();
    kernels::run_add_norm(norm, parallel, call.workspace(kernels::add_norm_workspace(norm, parallel.threads)));
  }

 private:
  static std::vector<float> widen(const at::Tensor* weight) {
    if (weight == nullptr || weight->scalar_type() == at::kFloat) return {};
    std::vector<float> widened(static_cast<std::size_t>(weight->numel()));
    kernels::load_row(weight->const_data_ptr(), find_dtype(weight->scalar_type()).value(), weight->stride(0),
                      weight->numel(), widened.data());
    return widened;
  }

  static void take_weights(const at::Tensor* tensor, const std::vector<float>& prepared, std::int64_t width,
                           const void*& data, DType& dtype) {
    if (tensor == nullptr) return;
    OwnCall::require(tensor->size(0) == width && tensor->is_contiguous(),
                     "weight or bias is not one contiguous row of the input's width");
    if (std::cmp_equal(prepared.size(), width)) {
      data = prepared.data();
      return;
    }
    data = tensor->const_data_ptr();
    dtype = find_dtype(tensor->scalar_type()).value();
  }

  DType dtype_;
  double epsilon_;
  kernels::NormKind kind_;
  std::vector<float> weight_;  // as float32, when they are constants of another type
  std::vector<float> bias_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_add_norm(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(
      binding.check_tensor(AddNormNode::kInput, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}, 1));
  const DType dtype = binding.find_type(AddNormNode::kInput)->dtype;
  const std::size_t rank = binding.find_type(AddNormNode::kInput)->dims.size();
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(AddNormNode::kResidual, {dtype}, rank, rank));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(AddNormNode::kWeight, {dtype, DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(AddNormNode::kBias, {dtype, DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, rank));
  KPT_RETURN_IF_ERROR(binding.check_result(1, dtype, rank));
  KPT_ASSIGN_OR_RETURN(const double epsilon, binding.number(AddNormNode::kEpsilon));
  KPT_ASSIGN_OR_RETURN(const std::string kind, binding.text(AddNormNode::kKind));
  if (kind != "layer" && kind != "rms") return binding.refuse(AddNormNode::kKind, "is neither \"layer\" nor \"rms\"");
  return std::unique_ptr<OwnNode>(std::make_unique<AddNormNode>(
      dtype, epsilon, kind == "layer" ? kernels::NormKind::kLayer : kernels::NormKind::kRms));
}

}  // namespace kpt::aten
