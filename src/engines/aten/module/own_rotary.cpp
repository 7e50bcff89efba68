// kpt.rotary(input, cos, sin) -> result
#include <fmt/format.h>

#include "engines/aten/module/own_nodes.h"
#include "kernels/cpu/rotary.h"

namespace kpt::aten {
namespace {

class RotaryNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kCos, kSin };

  explicit RotaryNode(DType dtype) : dtype_(dtype) {}

  std::string describe() const override { return fmt::format("rotary ({})", to_string(dtype_)); }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& input = call.tensor(kInput);
    OwnCall::require(input.size(-1) % 2 == 0, "the last axis of the input has no two halves");
    kernels::Rotary rotary;
    rotary.input = to_rows(input);
    rotary.cosines = broadcast(call.tensor(kCos), rotary.input);
    rotary.sines = broadcast(call.tensor(kSin), rotary.input);
    rotary.result = call.result(0, input.sizes()).mutable_data_ptr();
    if (input.numel() == 0) return;
    const kernels::Parallel parallel = call.parallel();
    kernels::run_rotary(rotary, parallel, call.workspace(kernels::rotary_workspace(rotary, parallel.threads)));
  }

 private:
  // Seen with the sizes of `input`; axes that are missing or have one element stand still.
  static kernels::Rows broadcast(const at::Tensor& tensor, const kernels::Rows& input) {
    const kernels::Rows own = to_rows(tensor);
    kernels::Rows rows = input;
    rows.data = own.data;
    rows.dtype = own.dtype;
    const std::size_t missing = input.rank - own.rank;
    for (std::size_t axis = 0; axis < input.rank; ++axis) {
      rows.strides[axis] = 0;
      if (axis < missing || own.sizes[axis - missing] == 1) continue;
      OwnCall::require(own.sizes[axis - missing] == input.sizes[axis], "cos or sin cannot be broadcast to the input");
      rows.strides[axis] = own.strides[axis - missing];
    }
    return rows;
  }

  DType dtype_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_rotary(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(
      binding.check_tensor(RotaryNode::kInput, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}, 4, 4));
  const DType dtype = binding.find_type(RotaryNode::kInput)->dtype;
  KPT_RETURN_IF_ERROR(binding.check_tensor(RotaryNode::kCos, {dtype, DType::kFloat32}, 1, 4));
  KPT_RETURN_IF_ERROR(binding.check_tensor(RotaryNode::kSin, {dtype, DType::kFloat32}, 1, 4));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, 4));
  return std::unique_ptr<OwnNode>(std::make_unique<RotaryNode>(dtype));
}

}  // namespace kpt::aten
