#include "engines/native/product_steps.h"

#include <fmt/format.h>

#include "kernels/gpu/product.h"

namespace kpt::native {
namespace {

gpu::ProductSide side_of(const View& view) {
  return {nullptr, view.dtype, {view.strides[0], view.strides[1], view.strides[2]}, view.strides[3], view.strides[4]};
}

}  // namespace

void add_product(PlanBuilder& plan, const ProductStep& step) {
  std::vector<View> used = {step.left, step.right, step.output};
  if (step.bias) used.push_back(*step.bias);
  if (step.residual) used.push_back(*step.residual);
  plan.add(used, [step](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::ProductCall call;
    call.left = side_of(step.left);
    call.right = side_of(step.right);
    call.left.data = at.of(step.left);
    call.right.data = at.of(step.right);
    call.activation = step.activation;
    call.scale = step.scale;
    if (step.bias) {
      call.bias = at.of(*step.bias);
      call.bias_dtype = step.bias->dtype;
    }
    if (step.residual) call.residual = at.of(*step.residual);
    call.output = at.of(step.output);
    call.output_dtype = step.output.dtype;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      call.batches[axis] = step.output.dims[axis];
      call.output_batch_strides[axis] = step.output.strides[axis];
    }
    call.rows = step.output.dims[3];
    call.columns = step.output.dims[4];
    call.depth = step.left.dims[4];
    call.output_row_stride = step.output.strides[3];
    return gpu::plan_product(call, shape);
  });
}

Status check_product_types(std::initializer_list<const View*> views) {
  std::optional<DType> other;
  for (const View* view : views) {
    if (view == nullptr || view->dtype == DType::kFloat32) continue;
    if (view->dtype != DType::kFloat16 && view->dtype != DType::kBFloat16) {
      return not_covered(fmt::format("there is no product of {}", to_string(view->dtype)));
    }
    if (other && *other != view->dtype) return not_covered("float16 and bfloat16 do not go into one product");
    other = view->dtype;
  }
  return {};
}

}  // namespace kpt::native
