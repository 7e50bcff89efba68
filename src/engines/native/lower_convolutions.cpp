// Convolutions as products: the windows of the input are copied out one after another, each a row.
#include "engines/native/elementwise_steps.h"
#include "engines/native/product_steps.h"
#include "engines/native/rules.h"
#include "engines/native/window_steps.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

struct Convolution {
  View input;   // [N, C, H, W]
  View weight;  // [O, C / groups, KH, KW]
  std::optional<View> bias;
  View output;  // [N, O, OH, OW]
  std::int64_t stride[kPlane] = {1, 1};
  std::int64_t padding[kPlane] = {0, 0};
  std::int64_t dilation[kPlane] = {1, 1};
  std::int64_t groups = 1;
};

Status check_extents(const Convolution& step) {
  const Dims& input = step.input.dims;
  const Dims& weight = step.weight.dims;
  if (step.groups < 1 || input[1] % step.groups != 0 || weight[0] % step.groups != 0 ||
      weight[1] != input[1] / step.groups) {
    return not_covered("channels and groups do not fit");
  }
  Dims wanted = {input[0], weight[0]};
  for (std::size_t axis = 0; axis < kPlane; ++axis) {
    const auto places = count_places(input[2 + axis] + 2 * step.padding[axis], weight[2 + axis], step.stride[axis],
                                     step.dilation[axis]);
    if (!places) return not_covered("the window is larger than the input");
    wanted.push_back(*places);
  }
  if (step.bias && !(step.bias->dims == Dims{weight[0]})) return not_covered("the bias does not fit");
  return check_result(step.output, step.output.dtype, wanted);
}

// [N, groups, OH, OW, C / groups, KH, KW], each window in one piece.
Result<View> copy_windows(PlanBuilder& plan, const Convolution& step, const View& input) {
  const Dims& weight = step.weight.dims;
  View windows = input;
  windows.dims = {input.dims[0], step.groups, step.output.dims[2], step.output.dims[3], weight[1],
                  weight[2],     weight[3]};
  windows.strides = {input.strides[0],
                     input.strides[1] * weight[1],
                     step_stride(input.strides[2], step.stride[0], step.output.dims[2]),
                     step_stride(input.strides[3], step.stride[1], step.output.dims[3]),
                     input.strides[1],
                     step_stride(input.strides[2], step.dilation[0], weight[2]),
                     step_stride(input.strides[3], step.dilation[1], weight[3])};
  KPT_ASSIGN_OR_RETURN(const View copy, plan.make(input.dtype, windows.dims));
  // A copy takes six axes: with groups of several channels one for each image.
  const bool apart = windows.dims[0] > 1 && step.groups > 1 && weight[1] > 1;
  constexpr std::int64_t kMostCopies = 4096;
  if (apart && windows.dims[0] > kMostCopies) return not_covered("the batch is too large for groups of channels");
  for (std::int64_t image = 0; image < (apart ? windows.dims[0] : 1); ++image) {
    const std::int64_t images = apart ? 1 : windows.dims[0];
    KPT_RETURN_IF_ERROR(copy_into(plan, sliced(windows, 0, image, images, 1), sliced(copy, 0, image, images, 1)));
  }
  return copy;
}

Status add_convolution(PlanBuilder& plan, const Convolution& step) {
  KPT_RETURN_IF_ERROR(
      check_product_types({&step.input, &step.weight, &step.output, step.bias ? &*step.bias : nullptr}));
  KPT_RETURN_IF_ERROR(check_extents(step));
  KPT_ASSIGN_OR_RETURN(const View input, padded(plan, step.input, step.padding, {}));
  KPT_ASSIGN_OR_RETURN(const View windows, copy_windows(plan, step, input));
  KPT_ASSIGN_OR_RETURN(const View weight, contiguous(plan, step.weight));
  const std::int64_t images = step.output.dims[0];
  const std::int64_t each = step.output.dims[1] / step.groups;
  const std::int64_t places = step.output.dims[2] * step.output.dims[3];
  const std::int64_t depth = weight.dims[1] * weight.dims[2] * weight.dims[3];
  // Filters are the rows and places the columns, so that the result lies as [N, O, OH, OW].
  ProductStep product;
  product.left = weight;
  product.left.dims = {1, images, step.groups, each, depth};
  product.left.strides = {0, 0, each * depth, depth, 1};
  product.right = windows;
  product.right.dims = {1, images, step.groups, places, depth};
  product.right.strides = {0, step.groups * places * depth, places * depth, depth, 1};
  product.output = step.output;
  product.output.dims = {1, images, step.groups, each, places};
  product.output.strides = {0, step.groups * each * places, each * places, places, 1};
  if (step.bias) {  // one number a row, which the product has no place for
    KPT_RETURN_IF_ERROR(copy_into(plan, with_axis(with_axis(*step.bias, 1), 2), step.output));
    product.residual = product.output;
  }
  add_product(plan, product);
  return {};
}

Status lower_convolution(PlanBuilder& plan, const ir::Node& node) {
  if (bool_argument(node, "transposed", false).value_or(true)) return not_covered("it is transposed");
  Convolution step;
  KPT_ASSIGN_OR_RETURN(step.input, plan.tensor(node, "input"));
  KPT_ASSIGN_OR_RETURN(step.weight, plan.tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(step.bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(step.groups, plan.integer(node, "groups", 1));
  const std::size_t rank = step.input.dims.size();
  if (rank != step.weight.dims.size() || rank < 3 || rank > 2 + kPlane) {
    return not_covered("convolutions take batches of one or two axes");
  }
  KPT_RETURN_IF_ERROR(read_plane(node, "stride", rank - 2, 1, step.stride));
  KPT_RETURN_IF_ERROR(read_plane(node, "padding", rank - 2, 0, step.padding));
  KPT_RETURN_IF_ERROR(read_plane(node, "dilation", rank - 2, 1, step.dilation));
  KPT_ASSIGN_OR_RETURN(step.output, plan.make_result(node));
  if (step.output.dims.size() != rank) return not_covered("the result has another number of axes");
  if (rank == 3) {
    for (View* view : {&step.input, &step.weight, &step.output}) *view = with_axis(*view, 2);
  }
  return add_convolution(plan, step);
}

constexpr RuleRow kConvolutionsRules[] = {
    {"aten.conv1d.default", lower_convolution},
    {"aten.conv2d.default", lower_convolution},
    {"aten.convolution.default", lower_convolution},
};

}  // namespace

std::span<const RuleRow> convolution_rules() { return kConvolutionsRules; }

}  // namespace kpt::native
