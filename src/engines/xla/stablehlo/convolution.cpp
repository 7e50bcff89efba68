// Convolutions in one, two and three dimensions, grouped, dilated and transposed.
#include "engines/xla/stablehlo/convolution.h"

#include <fmt/format.h>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

// Without a batch axis the input is one image.
struct Batched {
  Value input;
  bool added = false;
};

Batched read_input(Call& call, std::size_t weight_rank) {
  const Value input = call.tensor("input");
  if (input.rank() == weight_rank) return {input, false};
  if (input.rank() + 1 != weight_rank) refuse("its input and weight have different numbers of dimensions");
  Extents dims = input.dims;
  dims.insert(dims.begin(), 1);
  return {call.builder().reshape(input, dims), true};
}

void finish(Call& call, const Batched& batched, const Value& value) {
  if (!batched.added) return call.set(value);
  call.set(call.builder().reshape(value, Extents(value.dims.begin() + 1, value.dims.end())));
}

void read_padding(Call& call, const Value& input, const Value& weight, ConvolutionShape& shape) {
  const std::size_t axes = input.rank() - 2;
  const std::string_view word = call.text("padding", "");
  if (word.empty() || word == "valid") {
    shape.low = word.empty() ? call.ints_per_axis("padding", axes, {0}) : Extents(axes, 0);
    shape.high = shape.low;
    return;
  }
  if (word != "same") refuse(fmt::format("it pads by '{}'", word));
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t total = shape.dilation[axis] * (weight.dims[axis + 2] - 1);
    shape.low.push_back(total / 2);
    shape.high.push_back(total - total / 2);
  }
}

// A transposed convolution is one over an input with zeros put between its elements, with the kernel turned around and
// its channel axes exchanged within each group.
Value turn_kernel(Builder& b, const Value& weight, std::int64_t groups) {
  Extents spatial;
  for (std::size_t axis = 2; axis < weight.rank(); ++axis) spatial.push_back(static_cast<std::int64_t>(axis));
  const Value turned = b.reverse(weight, spatial);
  if (groups < 1 || weight.dims[0] % groups != 0) refuse("its groups do not divide its channels");
  Extents split = {groups, weight.dims[0] / groups, weight.dims[1]};
  Extents joined = {groups * weight.dims[1], weight.dims[0] / groups};
  Extents permutation = {0, 2, 1};
  for (std::size_t axis = 2; axis < weight.rank(); ++axis) {
    split.push_back(weight.dims[axis]);
    joined.push_back(weight.dims[axis]);
    permutation.push_back(static_cast<std::int64_t>(axis) + 1);
  }
  return b.reshape(b.transpose(b.reshape(turned, split), permutation), joined);
}

void transposed(Call& call) {
  Builder& b = call.builder();
  const Value weight = call.tensor("weight");
  if (weight.rank() < 3) refuse("its weight has fewer than three dimensions");
  const Batched batched = read_input(call, weight.rank());
  const std::size_t axes = weight.rank() - 2;
  ConvolutionShape shape;
  shape.groups = call.integer("groups", 1);
  shape.input_dilation = call.ints_per_axis("stride", axes, {1});
  shape.stride = Extents(axes, 1);
  shape.dilation = call.ints_per_axis("dilation", axes, {1});
  const Extents padding = call.ints_per_axis("padding", axes, {0});
  const Extents extra = call.ints_per_axis("output_padding", axes, {0});
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t reach = shape.dilation[axis] * (weight.dims[axis + 2] - 1);
    shape.low.push_back(reach - padding[axis]);
    shape.high.push_back(reach - padding[axis] + extra[axis]);
  }
  finish(call, batched,
         convolve(b, batched.input, turn_kernel(b, weight, shape.groups), call.find_tensor("bias"), shape));
}

void lower_convolution(Call& call) {
  if (call.flag("transposed", false)) return transposed(call);
  const Value weight = call.tensor("weight");
  if (weight.rank() < 3) refuse("its weight has fewer than three dimensions");
  const Batched batched = read_input(call, weight.rank());
  const std::size_t axes = weight.rank() - 2;
  ConvolutionShape shape;
  shape.stride = call.ints_per_axis("stride", axes, {1});
  shape.dilation = call.ints_per_axis("dilation", axes, {1});
  shape.groups = call.integer("groups", 1);
  read_padding(call, batched.input, weight, shape);
  finish(call, batched, convolve(call.builder(), batched.input, weight, call.find_tensor("bias"), shape));
}

constexpr Rule kConvolutionRules[] = {
    {"aten.conv1d.default", lower_convolution},    {"aten.conv1d.padding", lower_convolution},
    {"aten.conv2d.default", lower_convolution},    {"aten.conv2d.padding", lower_convolution},
    {"aten.conv3d.default", lower_convolution},    {"aten.conv3d.padding", lower_convolution},
    {"aten.conv_transpose1d.default", transposed}, {"aten.conv_transpose2d.input", transposed},
    {"aten.conv_transpose3d.input", transposed},   {"aten.convolution.default", lower_convolution},
};

}  // namespace

Value convolve(Builder& b, const Value& input, const Value& weight, const std::optional<Value>& bias,
               const ConvolutionShape& shape, std::optional<DType> sums) {
  const std::size_t axes = input.rank() - 2;
  if (input.dtype != weight.dtype) refuse("its input and weight have different types");
  if (shape.groups < 1 || weight.dims[0] % shape.groups != 0 || input.dims[1] != weight.dims[1] * shape.groups) {
    refuse("its channels do not fit its weight");
  }
  const Extents input_dilation = shape.input_dilation.empty() ? Extents(axes, 1) : shape.input_dilation;
  Extents dims = {input.dims[0], weight.dims[0]};
  std::vector<std::string> padding;
  std::string spatial;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (shape.stride[axis] < 1 || shape.dilation[axis] < 1) refuse("its stride or dilation is not positive");
    const std::int64_t extent = input.dims[axis + 2];
    const std::int64_t spread = extent == 0 ? 0 : (extent - 1) * input_dilation[axis] + 1;
    const std::int64_t reach = (weight.dims[axis + 2] - 1) * shape.dilation[axis] + 1;
    const std::int64_t room = spread + shape.low[axis] + shape.high[axis] - reach;
    if (room < 0) refuse("its kernel is larger than the input");
    dims.push_back(room / shape.stride[axis] + 1);
    padding.push_back(fmt::format("[{}, {}]", shape.low[axis], shape.high[axis]));
    spatial += fmt::format(", {}", axis);
  }
  const std::vector<std::string> reversal(axes, "false");
  const std::string_view precision = input.dtype == DType::kFloat32 ? "HIGHEST" : "DEFAULT";
  Value value = b.emit(
      "stablehlo.convolution", {input, weight}, sums.value_or(math_dtype(input.dtype)), dims,
      fmt::format(
          "window_strides = {}, padding = dense<[{}]> : tensor<{}x2xi64>, lhs_dilation = {}, rhs_dilation = {}, "
          "window_reversal = array<i1: {}>, dimension_numbers = #stablehlo.conv<[b, f{}]x[o, i{}]->[b, f{}]>, "
          "feature_group_count = {} : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision "
          "{}>, #stablehlo<precision {}>]",
          array_text(shape.stride), fmt::join(padding, ", "), axes, array_text(input_dilation),
          array_text(shape.dilation), fmt::join(reversal, ", "), spatial, spatial, spatial, shape.groups, precision,
          precision));
  if (!bias) return value;
  return b.binary("add", value, b.broadcast_in_dim(b.convert(*bias, value.dtype), dims, {1}));
}

std::span<const Rule> convolution_rules() { return kConvolutionRules; }

}  // namespace kpt::xla
