// Nodes that one kernel of ours does over rows: norms, gates, rotary positions, and the ends of products.
#include <array>

#include <fmt/format.h>

#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/gpu_own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rotary.h"

namespace kpt::aten {
namespace {

gpu::Activation to_gpu(ir::Activation activation) { return static_cast<gpu::Activation>(activation); }

// kpt.add_norm(input, residual, weight, bias, epsilon, kind) -> (normed, sum)
class AddNormNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kResidual, kWeight, kBias, kEpsilon, kKind };

  AddNormNode(DType dtype, double epsilon, gpu::NormKind kind) : dtype_(dtype), epsilon_(epsilon), kind_(kind) {}

  std::string describe() const override {
    return fmt::format("{}_norm ({}, statistics in float32)", kind_ == gpu::NormKind::kLayer ? "layer" : "rms",
                       to_string(dtype_));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0) && !call.wants(1)) return;
    const at::Tensor& input = call.tensor(kInput);
    const at::Tensor* residual = call.find_tensor(kResidual);
    gpu::NormCall norm;
    norm.dtype = dtype_;
    norm.kind = kind_;
    norm.epsilon = static_cast<float>(epsilon_);
    if (call.wants(0)) norm.normed = call.result(0, input.sizes()).mutable_data_ptr();
    if (call.wants(1)) norm.sum = call.result(1, input.sizes()).mutable_data_ptr();
    if (input.numel() == 0) return;
    const DenseRows rows = dense_rows(input);
    DenseRows added;
    norm.input = rows.data();
    norm.input_stride = rows.stride;
    norm.rows = rows.rows;
    norm.width = rows.width;
    if (residual != nullptr) {
      OwnCall::require(residual->sizes() == input.sizes(), "the residual is not of the input's sizes");
      added = dense_rows(*residual);
      norm.residual = added.data();
      norm.residual_stride = added.stride;
    }
    take_weights(call.find_tensor(kWeight), rows.width, norm.weight, norm.weight_dtype);
    take_weights(call.find_tensor(kBias), rows.width, norm.bias, norm.bias_dtype);
    launch(gpu::plan_norm(norm, device_shape()));
  }

 private:
  static void take_weights(const at::Tensor* tensor, std::int64_t width, const void*& data, DType& dtype) {
    if (tensor == nullptr) return;
    OwnCall::require(tensor->size(0) == width && tensor->is_contiguous(),
                     "weight or bias is not one contiguous row of the input's width");
    data = tensor->const_data_ptr();
    dtype = dtype_of(*tensor);
  }

  DType dtype_;
  double epsilon_;
  gpu::NormKind kind_;
};

// kpt.glu(input, activation) -> result
class GluNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kActivation };

  GluNode(DType dtype, ir::Activation activation) : dtype_(dtype), activation_(activation) {}

  std::string describe() const override {
    return fmt::format("gated ({}, {} in float32)", to_string(dtype_), ir::activation_name(activation_));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& input = call.tensor(kInput);
    OwnCall::require(input.size(-1) % 2 == 0, "the last axis of the input has no two halves");
    at::DimVector sizes(input.sizes());
    sizes.back() /= 2;
    at::Tensor& result = call.result(0, sizes);
    if (result.numel() == 0) return;
    const DenseRows rows = dense_rows(input);
    gpu::GatedCall gated;
    gated.dtype = dtype_;
    gated.activation = to_gpu(activation_);
    gated.gate = rows.data();
    gated.up = static_cast<const char*>(rows.data()) + sizes.back() * input.element_size();
    gated.output = result.mutable_data_ptr();
    gated.rows = rows.rows;
    gated.width = sizes.back();
    gated.gate_stride = rows.stride;
    gated.up_stride = rows.stride;
    launch(gpu::plan_gated(gated, device_shape()));
  }

 private:
  DType dtype_;
  ir::Activation activation_;
};

// kpt.rotary(input, cos, sin) -> result
class RotaryNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kCos, kSin };

  explicit RotaryNode(DType dtype) : dtype_(dtype) {}
  std::string describe() const override { return fmt::format("rotary ({})", to_string(dtype_)); }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    at::Tensor input = call.tensor(kInput);
    const std::int64_t width = input.size(-1);
    OwnCall::require(width % 2 == 0, "the last axis of the input has no two halves");
    at::Tensor& result = call.result(0, input.sizes());
    if (input.numel() == 0) return;
    if (input.stride(-1) != 1) input = input.contiguous();
    gpu::RotaryCall rotary;
    rotary.dtype = dtype_;
    rotary.input = input.const_data_ptr();
    rotary.result = result.mutable_data_ptr();
    rotary.width = width;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      rotary.sizes[axis] = input.size(static_cast<std::int64_t>(axis));
      rotary.input_strides[axis] = input.stride(static_cast<std::int64_t>(axis));
    }
    const at::Tensor cosines = spread(call.tensor(kCos), input, rotary.cosine_strides);
    at::Tensor sines = spread(call.tensor(kSin), input, rotary.sine_strides);
    if (sines.scalar_type() != cosines.scalar_type()) sines = sines.to(cosines.scalar_type());
    rotary.table_dtype = dtype_of(cosines);
    rotary.cosines = cosines.const_data_ptr();
    rotary.sines = sines.const_data_ptr();
    launch(gpu::plan_rotary(rotary, device_shape()));
  }

 private:
  // With dense elements in a row; axes that are missing or have one element stand still.
  static at::Tensor spread(const at::Tensor& table, const at::Tensor& input, std::array<std::int64_t, 3>& strides) {
    at::Tensor dense = table;
    const std::int64_t width = input.size(-1);
    OwnCall::require(table.size(-1) == width || table.size(-1) == 1, "cos or sin cannot be broadcast to the input");
    if (table.size(-1) != width) {
      at::DimVector sizes(table.sizes());
      sizes.back() = width;
      dense = table.expand(sizes).contiguous();
    } else if (width > 1 && table.stride(-1) != 1) {
      dense = table.contiguous();
    }
    const std::int64_t missing = 4 - dense.dim();
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      strides[static_cast<std::size_t>(axis)] = 0;
      if (axis < missing || dense.size(axis - missing) == 1) continue;
      OwnCall::require(dense.size(axis - missing) == input.size(axis), "cos or sin cannot be broadcast to the input");
      strides[static_cast<std::size_t>(axis)] = dense.stride(axis - missing);
    }
    return dense;
  }

  DType dtype_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_gpu_add_norm(const OwnBinding& binding) {
  using Node = AddNormNode;
  KPT_RETURN_IF_ERROR(binding.check_tensor(Node::kInput, kGpuReals, 1));
  const DType dtype = binding.find_type(Node::kInput)->dtype;
  const std::size_t rank = binding.find_type(Node::kInput)->dims.size();
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(Node::kResidual, {dtype}, rank, rank));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(Node::kWeight, {dtype, DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(Node::kBias, {dtype, DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, rank));
  KPT_RETURN_IF_ERROR(binding.check_result(1, dtype, rank));
  KPT_ASSIGN_OR_RETURN(const double epsilon, binding.number(Node::kEpsilon));
  KPT_ASSIGN_OR_RETURN(const std::string kind, binding.text(Node::kKind));
  if (kind != "layer" && kind != "rms") return binding.refuse(Node::kKind, "is neither \"layer\" nor \"rms\"");
  return std::unique_ptr<OwnNode>(
      std::make_unique<Node>(dtype, epsilon, kind == "layer" ? gpu::NormKind::kLayer : gpu::NormKind::kRms));
}

Result<std::unique_ptr<OwnNode>> bind_gpu_glu(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(GluNode::kInput, kGpuReals, 1));
  const ir::TensorType& input = *binding.find_type(GluNode::kInput);
  KPT_RETURN_IF_ERROR(binding.check_result(0, input.dtype, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(const ir::Activation activation, binding.activation(GluNode::kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<GluNode>(input.dtype, activation));
}

Result<std::unique_ptr<OwnNode>> bind_gpu_rotary(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(RotaryNode::kInput, kGpuReals, 4, 4));
  const DType dtype = binding.find_type(RotaryNode::kInput)->dtype;
  KPT_RETURN_IF_ERROR(binding.check_tensor(RotaryNode::kCos, {dtype, DType::kFloat32}, 1, 4));
  KPT_RETURN_IF_ERROR(binding.check_tensor(RotaryNode::kSin, {dtype, DType::kFloat32}, 1, 4));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, 4));
  return std::unique_ptr<OwnNode>(std::make_unique<RotaryNode>(dtype));
}

void finish_product(at::Tensor& result, const at::Tensor* bias, const at::Tensor* residual, ir::Activation activation) {
  if (result.numel() == 0 || (bias == nullptr && residual == nullptr && activation == ir::Activation::kNone)) return;
  gpu::BiasCall finish;
  finish.dtype = dtype_of(result);
  finish.activation = to_gpu(activation);
  finish.input = result.const_data_ptr();
  finish.output = result.mutable_data_ptr();
  finish.width = result.size(-1);
  finish.rows = result.numel() / finish.width;
  finish.input_stride = finish.width;
  if (bias != nullptr) {
    OwnCall::require(bias->dim() == 1 && bias->size(0) == finish.width && bias->is_contiguous(),
                     "the bias is not one contiguous row of the result's width");
    finish.bias = bias->const_data_ptr();
    finish.bias_dtype = dtype_of(*bias);
  }
  DenseRows added;
  if (residual != nullptr) {
    OwnCall::require(residual->sizes() == result.sizes(), "the residual is not of the result's sizes");
    added = dense_rows(*residual);
    finish.residual = added.data();
    finish.residual_stride = added.stride;
  }
  launch(gpu::plan_bias_activation(finish, device_shape()));
}

}  // namespace kpt::aten
