// kpt.conv2d(input, weight, bias, residual, stride, padding, dilation, groups, activation) -> result, and
// kpt.conv2d_int8 with a scale behind the weight and no groups.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engines/aten/module/own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/image_copy.h"

namespace kpt::aten {
namespace {

using kernels::ElementType;
using Four = std::array<std::int64_t, 4>;

constexpr std::size_t kInput = 0;
constexpr std::size_t kWeight = 1;
// Where the two operators differ; 0: it has none.
struct Positions {
  std::size_t scale, bias, residual, stride, padding, dilation, groups, activation;
};
constexpr Positions kPlain = {0, 2, 3, 4, 5, 6, 7, 8};
constexpr Positions kInt8 = {2, 3, 4, 5, 6, 7, 0, 8};

ElementType element_type(at::ScalarType type) {
  return type == at::kBFloat16 ? ElementType::kBfloat16 : ElementType::kFloat32;
}

Four to_four(at::IntArrayRef values) { return {values[0], values[1], values[2], values[3]}; }

std::int64_t count_of(const Four& sizes) { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }

struct ConvForm {
  Positions at = kPlain;
  std::array<std::int64_t, 2> stride = {};
  std::array<std::int64_t, 2> padding = {};      // above and to the left
  std::array<std::int64_t, 2> end_padding = {};  // below and to the right
  std::array<std::int64_t, 2> dilation = {};
  std::int64_t groups = 1;
  std::array<std::int64_t, 2> expected = {};  // height and width of the input; 0: they are not known
  kernels::Activation activation = kernels::Activation::kNone;
  bool has_bias = false;
  bool channels_last = false;  // the result
};

// Parts of the workspace, one after the other. Sizes come from tensors that exist, so they cannot overflow.
class Parts {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class ConvNode final : public OwnNode {
 public:
  explicit ConvNode(const ConvForm& form) : form_(form) {}

  std::string describe() const override {
    const std::string_view format = form_.channels_last ? "channels-last" : "contiguous";
    if (packed_) {
      const std::string reason = packed_->reason();
      return fmt::format("convolution by {}, result {}{}{}{}", packed_->kernel_name(), format,
                         reason.empty() ? "" : "; ", reason,
                         packed_->is_depthwise() ? "" : kernels::list_refused(packed_->form()));
    }
    return fmt::format("convolution, its weights packed in every run because they are not constant, result {}", format);
  }

  bool keeps_strides() const override { return form_.channels_last; }

  Status prepare(const OwnWeights& weights) override {
    const at::Tensor* weight = weights.find(kWeight);
    const at::Tensor* scale = is_int8() ? weights.find(form_.at.scale) : nullptr;
    const at::Tensor* bias = weights.find(form_.at.bias);
    if (weight == nullptr || (is_int8() && scale == nullptr) || (form_.has_bias && bias == nullptr)) return {};
    KPT_ASSIGN_OR_RETURN(packed_, pack(*weight, scale, bias));
    return {};
  }

  void run(OwnCall& call) const override {
    if (packed_) return convolve(call, *packed_);
    const at::Tensor* scale = is_int8() ? &call.tensor(form_.at.scale) : nullptr;
    const auto packed = pack(call.tensor(kWeight), scale, call.find_tensor(form_.at.bias));
    if (!packed.ok()) throw_not_packed(packed.status());
    convolve(call, *packed);
  }

 private:
  bool is_int8() const { return form_.at.scale != 0; }

  Result<kernels::PackedConv> pack(const at::Tensor& given, const at::Tensor* scale, const at::Tensor* bias) const {
    const at::Tensor weight = given.contiguous();
    kernels::ConvWeights weights;
    weights.type = element_type(weight.scalar_type());
    weights.form =
        weights.type == ElementType::kBfloat16 ? kernels::LinearForm::kBfloat16 : kernels::LinearForm::kFloat32;
    at::Tensor dense_scale;
    if (scale != nullptr) {
      if (scale->size(0) != weight.size(0)) {
        return Status(StatusCode::kPrecisionCompilation, "its scales do not fit its weight");
      }
      dense_scale = scale->contiguous();
      weights.form = kernels::LinearForm::kInt8;
      weights.scale = dense_scale.const_data_ptr<float>();
    }
    weights.data = weight.const_data_ptr();
    weights.out_channels = weight.size(0);
    if (__builtin_mul_overflow(weight.size(1), form_.groups, &weights.in_channels)) {
      return Status(StatusCode::kUnsupported, "it has too many groups");
    }
    weights.kernel = {weight.size(2), weight.size(3)};
    weights.stride = form_.stride;
    weights.padding = form_.padding;
    weights.end_padding = form_.end_padding;
    weights.dilation = form_.dilation;
    weights.groups = form_.groups;
    weights.expected = form_.expected;
    at::Tensor dense_bias;
    if (bias != nullptr) {
      if (bias->size(0) != weights.out_channels) {
        return Status(StatusCode::kUnsupported, "its bias does not fit its weight");
      }
      dense_bias = bias->contiguous();
      weights.bias = dense_bias.const_data_ptr();
      weights.bias_type = element_type(dense_bias.scalar_type());
    }
    return kernels::PackedConv::pack(weights);
  }

  void convolve(OwnCall& call, const kernels::PackedConv& conv) const {
    const at::Tensor& input = call.tensor(kInput);
    const Four in = to_four(input.sizes());
    OwnCall::require(in[1] == conv.in_channels(), "the input has another number of channels than the weight");
    const auto found = conv.output_size(in[2], in[3]);
    if (!found.ok()) throw OwnNodeFailure(found.status().message());
    const Four out = {in[0], conv.out_channels(), (*found)[0], (*found)[1]};
    const Four last = kernels::channels_last_strides(out);
    at::Tensor& result = form_.channels_last ? call.result(0, out, last) : call.result(0, out);
    const at::Tensor* residual = call.find_tensor(form_.at.residual);
    if (residual != nullptr) {
      OwnCall::require(residual->sizes() == result.sizes(), "the residual is not of the result's sizes");
    }
    const kernels::Parallel parallel = call.parallel();
    kernels::ConvCall product;
    product.batch = in[0];
    product.height = in[2];
    product.width = in[3];
    product.input_type = element_type(input.scalar_type());
    if (residual != nullptr) {
      product.residual = residual->const_data_ptr();  // as it lies, until it was brought below
      product.residual_type = element_type(residual->scalar_type());
    }
    product.output_type = element_type(result.scalar_type());
    product.activation = form_.activation;
    product.input_is_planar = input.is_contiguous() && conv.takes_planar_input(product);
    Parts parts;
    const std::size_t kernel_at = parts.add(conv.workspace_bytes(product, parallel.threads));
    const std::size_t input_at = parts.add(product.input_is_planar ? 0 : bytes_to_copy(&input));
    const std::size_t residual_at = parts.add(bytes_to_copy(residual));
    const std::size_t result_at = parts.add(bytes_to_copy(&result));
    auto* workspace = static_cast<std::byte*>(call.workspace(parts.bytes()));
    product.input = product.input_is_planar ? input.const_data_ptr() : bring(input, workspace + input_at, parallel);
    if (residual != nullptr) product.residual = bring(*residual, workspace + residual_at, parallel);
    const bool direct = bytes_to_copy(&result) == 0;
    product.output = direct ? result.mutable_data_ptr() : workspace + result_at;
    conv.run(product, workspace + kernel_at, parallel);
    if (direct) return;
    kernels::copy_image({out, product.output, last, result.mutable_data_ptr(), to_four(result.strides()),
                         kernels::element_bytes(product.output_type)},
                        parallel);
  }

  // What a tensor takes in channels-last memory, if it does not lie so already.
  static std::size_t bytes_to_copy(const at::Tensor* tensor) {
    if (tensor == nullptr) return 0;
    const Four sizes = to_four(tensor->sizes());
    if (kernels::is_channels_last(sizes, to_four(tensor->strides()))) return 0;
    return static_cast<std::size_t>(count_of(sizes)) * kernels::element_bytes(element_type(tensor->scalar_type()));
  }

  static const void* bring(const at::Tensor& tensor, std::byte* copy, const kernels::Parallel& parallel) {
    if (bytes_to_copy(&tensor) == 0) return tensor.const_data_ptr();
    const Four sizes = to_four(tensor.sizes());
    kernels::copy_image(
        {sizes, tensor.const_data_ptr(), to_four(tensor.strides()), copy, kernels::channels_last_strides(sizes),
         kernels::element_bytes(element_type(tensor.scalar_type()))},
        parallel);
    return copy;
  }

  ConvForm form_;
  std::optional<kernels::PackedConv> packed_;
};

Result<std::unique_ptr<OwnNode>> bind(const OwnBinding& binding, const Positions& at) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInput, {DType::kFloat32, DType::kBFloat16}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(at.bias, {DType::kFloat32, DType::kBFloat16}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(at.residual, {DType::kFloat32, DType::kBFloat16}, 4, 4));
  const DType result = binding.result_type(0).dtype == DType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  KPT_RETURN_IF_ERROR(binding.check_result(0, result, 4));
  ConvForm form;
  form.at = at;
  const auto take_two = [&](std::size_t position, std::int64_t least, std::array<std::int64_t, 2>& two) -> Status {
    KPT_ASSIGN_OR_RETURN(const std::vector<std::int64_t> values, binding.integers(position, 2));
    if (values[0] < least || values[1] < least) return binding.refuse(position, "is too small");
    two = {values[0], values[1]};
    return {};
  };
  KPT_RETURN_IF_ERROR(take_two(at.stride, 1, form.stride));
  if (const auto four = binding.integers(at.padding, 4); four.ok()) {
    if (std::ranges::any_of(*four, [](std::int64_t value) { return value < 0; })) {
      return binding.refuse(at.padding, "is too small");
    }
    form.padding = {(*four)[0], (*four)[1]};
    form.end_padding = {(*four)[2], (*four)[3]};
  } else {
    KPT_RETURN_IF_ERROR(take_two(at.padding, 0, form.padding));
    form.end_padding = form.padding;
  }
  KPT_RETURN_IF_ERROR(take_two(at.dilation, 1, form.dilation));
  if (at.groups != 0) {
    KPT_ASSIGN_OR_RETURN(form.groups, binding.integer(at.groups));
  }
  const auto out_channels = binding.find_type(kWeight)->dims[0].constant();
  const auto group_channels = binding.find_type(kWeight)->dims[1].constant();
  if (form.groups != 1 && (form.groups < 1 || out_channels != form.groups || group_channels != 1)) {
    return binding.refuse(at.groups, "is neither 1 nor the number of channels and of filters");
  }
  const auto& input_dims = binding.find_type(kInput)->dims;
  form.expected = {input_dims[2].constant().value_or(0), input_dims[3].constant().value_or(0)};
  KPT_ASSIGN_OR_RETURN(const ir::Activation activation, binding.activation(at.activation));
  form.activation = static_cast<kernels::Activation>(activation);
  form.has_bias = !binding.is_none(at.bias);
  KPT_ASSIGN_OR_RETURN(form.channels_last, find_channels_last(binding.result_type(0)));
  return std::unique_ptr<OwnNode>(std::make_unique<ConvNode>(form));
}

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_conv2d(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kFloat32, DType::kBFloat16}, 4, 4));
  return bind(binding, kPlain);
}

Result<std::unique_ptr<OwnNode>> bind_conv2d_int8(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kInt8}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInt8.scale, {DType::kFloat32}, 1, 1));
  return bind(binding, kInt8);
}

}  // namespace kpt::aten
