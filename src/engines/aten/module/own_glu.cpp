// kpt.glu(input, activation) -> result
#include <fmt/format.h>

#include "engines/aten/module/own_nodes.h"
#include "kernels/cpu/glu.h"

namespace kpt::aten {
namespace {

class GluNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kActivation };

  GluNode(DType dtype, ir::Activation activation) : dtype_(dtype), activation_(activation) {}

  std::string describe() const override {
    return fmt::format("glu ({}, {} in float32)", to_string(dtype_), ir::activation_name(activation_));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& input = call.tensor(kInput);
    OwnCall::require(input.size(-1) % 2 == 0, "the last axis of the input has no two halves");
    at::DimVector sizes(input.sizes());
    sizes.back() /= 2;
    at::Tensor& result = call.result(0, sizes);
    kernels::run_glu(to_rows(input), static_cast<kernels::Activation>(activation_), result.mutable_data_ptr(),
                     call.parallel());
  }

 private:
  DType dtype_;
  ir::Activation activation_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_glu(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(GluNode::kInput, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}, 1));
  const ir::TensorType& input = *binding.find_type(GluNode::kInput);
  KPT_RETURN_IF_ERROR(binding.check_result(0, input.dtype, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(const ir::Activation activation, binding.activation(GluNode::kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<GluNode>(input.dtype, activation));
}

}  // namespace kpt::aten
