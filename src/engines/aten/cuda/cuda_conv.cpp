// kpt.conv2d(input, weight, bias, residual, stride, padding, dilation, groups, activation) -> result: cuDNN on
// channels-last memory, then bias, residual and activation in one kernel of ours.
#include <vector>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/cuda/cuda_own_nodes.h"

namespace kpt::aten {
namespace {

enum Position : std::size_t { kInput, kWeight, kBias, kResidual, kStride, kPadding, kDilation, kGroups, kActivation };

class ConvNode final : public OwnNode {
 public:
  struct Form {
    std::vector<std::int64_t> stride;
    std::vector<std::int64_t> padding;  // of both sides, where they are equal
    std::vector<std::int64_t> uneven;   // left, right, above, below, where they are not
    std::vector<std::int64_t> dilation;
    std::int64_t groups = 1;
    ir::Activation activation = ir::Activation::kNone;
    bool channels_last = false;  // the result
    DType weight = DType::kFloat32;
  };

  explicit ConvNode(Form form) : form_(std::move(form)) {}

  std::string describe() const override {
    return fmt::format("cuDNN convolution of {} on channels-last memory, then bias_activation, result {}",
                       to_string(form_.weight), form_.channels_last ? "channels-last" : "contiguous");
  }

  bool keeps_strides() const override { return form_.channels_last; }

  // The layout that cuDNN's fastest kernels want, once.
  Status prepare(const OwnWeights& weights) override {
    const at::Tensor* weight = weights.find(kWeight);
    if (weight != nullptr) weight_ = weight->contiguous(at::MemoryFormat::ChannelsLast);
    return {};
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& given = call.tensor(kInput);
    const at::Tensor& weight = weight_.defined() ? weight_ : call.tensor(kWeight);
    const at::Tensor* bias = call.find_tensor(kBias);
    const at::Tensor* residual = call.find_tensor(kResidual);
    at::Tensor input = given.to(weight.scalar_type());
    if (!form_.uneven.empty()) input = at::constant_pad_nd(input, form_.uneven, 0);
    at::Tensor result = at::convolution(input.contiguous(at::MemoryFormat::ChannelsLast), weight, {}, form_.stride,
                                        form_.padding, form_.dilation, false, {0, 0}, form_.groups)
                            .to(given.scalar_type())
                            .contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor rows = result.permute({0, 2, 3, 1});
    at::Tensor added;
    if (residual != nullptr) added = residual->permute({0, 2, 3, 1});
    finish_product(rows, bias, residual == nullptr ? nullptr : &added, form_.activation);
    const at::DimVector sizes(result.sizes());
    call.adopt(0, form_.channels_last ? result : result.contiguous(at::MemoryFormat::Contiguous), sizes,
               form_.channels_last ? result.strides() : at::IntArrayRef());
  }

 private:
  Form form_;
  at::Tensor weight_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_cuda_conv2d(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInput, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}, 4, 4));
  const DType dtype = binding.find_type(kInput)->dtype;
  if (dtype == DType::kFloat16) {
    KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kFloat16}, 4, 4));
  } else {
    KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kFloat32, DType::kBFloat16}, 4, 4));
  }
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kBias, {DType::kFloat32, dtype}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kResidual, {dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, 4));
  ConvNode::Form form;
  form.weight = binding.find_type(kWeight)->dtype;
  KPT_ASSIGN_OR_RETURN(form.stride, binding.integers(kStride, 2));
  KPT_ASSIGN_OR_RETURN(form.dilation, binding.integers(kDilation, 2));
  if (auto two = binding.integers(kPadding, 2); two.ok()) {
    form.padding = *two;
  } else {
    KPT_ASSIGN_OR_RETURN(const std::vector<std::int64_t> four, binding.integers(kPadding, 4));
    form.padding = {0, 0};
    form.uneven = {four[1], four[3], four[0], four[2]};
  }
  KPT_ASSIGN_OR_RETURN(form.groups, binding.integer(kGroups));
  KPT_ASSIGN_OR_RETURN(form.activation, binding.activation(kActivation));
  KPT_ASSIGN_OR_RETURN(form.channels_last, find_channels_last(binding.result_type(0)));
  return std::unique_ptr<OwnNode>(std::make_unique<ConvNode>(std::move(form)));
}

}  // namespace kpt::aten
