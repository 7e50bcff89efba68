#include "engines/native/elementwise_steps.h"

#include <cmath>

#include "kernels/gpu/activation.h"
#include "kernels/gpu/elementwise.h"

namespace kpt::native {
namespace {

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

bool is_dense_float(const View& view, const View& output) {
  return view.dtype == output.dtype && view.dims == output.dims && is_contiguous(view) &&
         (view.dtype == DType::kFloat32 || view.dtype == DType::kFloat16 || view.dtype == DType::kBFloat16);
}

// Sums of two dense tensors and activations of one have a kernel that moves 16 bytes at a time.
bool add_dense(PlanBuilder& plan, const ElementStep& step, const std::vector<Element>& inputs, const View& output) {
  const bool sum = step.op == gpu::ElementOp::kAdd && step.factor.real == 1;
  if (step.in_integers || (!sum && step.op != gpu::ElementOp::kActivate) || !is_contiguous(output)) return false;
  for (const Element& input : inputs) {
    if (!input.view || !is_dense_float(*input.view, output)) return false;
  }
  const View first = *inputs[0].view;
  const std::optional<View> second = sum ? inputs[1].view : std::nullopt;
  std::vector<View> used = {first, output};
  if (second) used.push_back(*second);
  const gpu::Activation activation = sum ? gpu::Activation::kNone : step.activation;
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::BiasCall call;
    call.dtype = output.dtype;
    call.activation = activation;
    call.input = at.of(first);
    call.residual = second ? at.of(*second) : nullptr;
    call.output = at.of(output);
    call.rows = 1;
    call.width = call.input_stride = count_elements(output);
    call.residual_stride = second ? call.width : 0;
    return gpu::plan_bias_activation(call, shape);
  });
  return true;
}

}  // namespace

Number truncated(const Number& number, DType dtype) {
  constexpr double kMost = 4e18;
  const bool whole = !is_floating(dtype) && dtype != DType::kBool;
  if (!whole || !number.is_real || !(std::abs(number.real) < kMost)) return number;
  const double rest = std::trunc(number.real);
  return {rest, static_cast<std::int64_t>(rest), false};
}

Status add_elements(PlanBuilder& plan, const ElementStep& step, const std::vector<Element>& inputs,
                    const View& output) {
  if (add_dense(plan, step, inputs, output)) return {};
  gpu::ElementwiseCall call;
  call.op = step.op;
  call.in_integers = step.in_integers;
  call.activation = step.activation;
  call.factor = step.factor.real;
  call.factor_integer = step.factor.whole;
  call.dims = list_of(output.dims);
  call.output_dtype = output.dtype;
  call.output_strides = list_of(output.strides);
  std::vector<View> used = {output};
  std::vector<std::optional<View>> views(3);
  gpu::ElementInput* const places[] = {&call.a, &call.b, &call.c};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    gpu::ElementInput& place = *places[i];
    place.number = inputs[i].number.real;
    place.integer = inputs[i].number.whole;
    if (!inputs[i].view) continue;
    views[i] = expanded(*inputs[i].view, output.dims);
    if (!views[i]) return not_covered("an operand cannot be broadcast to the result");
    place.dtype = views[i]->dtype;
    place.strides = list_of(views[i]->strides);
    used.push_back(*views[i]);
  }
  plan.add(used, [call = std::move(call), views = std::move(views), output](const Addresses& at,
                                                                            const gpu::DeviceShape& shape) {
    gpu::ElementwiseCall placed = call;
    if (views[0]) placed.a.data = at.of(*views[0]);
    if (views[1]) placed.b.data = at.of(*views[1]);
    if (views[2]) placed.c.data = at.of(*views[2]);
    placed.output = at.of(output);
    return gpu::plan_elementwise(placed, shape);
  });
  return {};
}

Status copy_into(PlanBuilder& plan, const View& source, const View& target) {
  ElementStep step;
  step.in_integers = !is_floating(source.dtype);
  return add_elements(plan, step, {{source, {}}}, target);
}

Result<View> contiguous(PlanBuilder& plan, const View& view) {
  if (is_contiguous(view)) return view;
  KPT_ASSIGN_OR_RETURN(const View copy, plan.make(view.dtype, view.dims));
  KPT_RETURN_IF_ERROR(copy_into(plan, view, copy));
  return copy;
}

Result<View> cast(PlanBuilder& plan, const View& view, DType dtype) {
  if (view.dtype == dtype) return view;
  KPT_ASSIGN_OR_RETURN(const View result, plan.make(dtype, view.dims));
  KPT_RETURN_IF_ERROR(copy_into(plan, view, result));
  return result;
}

Result<RowView> rows_of(PlanBuilder& plan, const View& view, std::size_t inner) {
  if (const auto rows = as_rows(view, inner)) return RowView{view, *rows};
  KPT_ASSIGN_OR_RETURN(const View copy, contiguous(plan, view));
  const auto rows = as_rows(copy, inner);
  if (!rows) return not_covered("a tensor has fewer axes than it is taken over");
  return RowView{copy, *rows};
}

}  // namespace kpt::native
