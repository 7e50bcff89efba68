// Norms, softmax, reductions, gates, rotary positions, and embeddings.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/reduce_steps.h"
#include "engines/native/rules.h"
#include "ir/own_operators.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/embedding.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/rotary.h"
#include "kernels/gpu/softmax.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

struct NormStep {
  gpu::NormKind kind = gpu::NormKind::kLayer;
  View input;
  std::size_t inner = 1;  // axes that are normed over
  std::optional<View> residual, weight, bias;
  std::optional<View> normed, sum, mean, scale;
  float epsilon = 0;
};

// A parameter of the norm: one number for each of the row, contiguous, of the input's type or float32.
Status fit_parameter(PlanBuilder& plan, DType dtype, std::int64_t width, std::optional<View>& parameter) {
  if (!parameter) return {};
  if (count_elements(*parameter) != width) return not_covered("a parameter does not fit");
  if (parameter->dtype != dtype && parameter->dtype != DType::kFloat32) {
    return not_covered(
        fmt::format("a parameter is {} and the input {}", to_string(parameter->dtype), to_string(dtype)));
  }
  KPT_ASSIGN_OR_RETURN(parameter, contiguous(plan, *parameter));
  return {};
}

Status add_norm(PlanBuilder& plan, NormStep step) {
  KPT_ASSIGN_OR_RETURN(const RowView input, rows_of(plan, step.input, step.inner));
  std::optional<RowView> residual;
  if (step.residual) {
    if (!(step.residual->dims == step.input.dims) || step.residual->dtype != step.input.dtype) {
      return not_covered("what is added is of another shape or type");
    }
    KPT_ASSIGN_OR_RETURN(residual, rows_of(plan, *step.residual, step.inner));
  }
  KPT_RETURN_IF_ERROR(fit_parameter(plan, step.input.dtype, input.rows.width, step.weight));
  KPT_RETURN_IF_ERROR(fit_parameter(plan, step.input.dtype, input.rows.width, step.bias));
  for (const auto* result : {&step.normed, &step.sum}) {
    if (*result) KPT_RETURN_IF_ERROR(check_result(**result, step.input.dtype, step.input.dims));
  }
  for (const auto* result : {&step.mean, &step.scale}) {
    if (!*result) continue;
    if ((*result)->dtype != DType::kFloat32) return not_covered("its statistics are not float32");
    if (count_elements(**result) != input.rows.rows) return not_covered("its statistics do not fit");
  }
  std::vector<View> used = {input.view};
  if (residual) used.push_back(residual->view);
  for (const auto* view : {&step.weight, &step.bias, &step.normed, &step.sum, &step.mean, &step.scale}) {
    if (*view) used.push_back(**view);
  }
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    const auto place = [&at](const std::optional<View>& view) { return view ? at.of(*view) : nullptr; };
    gpu::NormCall call;
    call.dtype = input.view.dtype;
    call.kind = step.kind;
    call.input = at.of(input.view);
    call.residual = residual ? at.of(residual->view) : nullptr;
    call.weight = place(step.weight);
    call.bias = place(step.bias);
    call.weight_dtype = step.weight ? step.weight->dtype : DType::kFloat32;
    call.bias_dtype = step.bias ? step.bias->dtype : DType::kFloat32;
    call.normed = place(step.normed);
    call.sum = place(step.sum);
    call.mean = static_cast<float*>(place(step.mean));
    call.scale = static_cast<float*>(place(step.scale));
    call.rows = input.rows.rows;
    call.width = input.rows.width;
    call.input_stride = input.rows.stride;
    call.residual_stride = residual ? residual->rows.stride : 0;
    call.epsilon = step.epsilon;
    return gpu::plan_norm(call, shape);
  });
  return {};
}

Status read_norm(PlanBuilder& plan, const ir::Node& node, std::string_view epsilon, NormStep& step) {
  KPT_ASSIGN_OR_RETURN(step.input, plan.tensor(node, "input"));
  const auto shape = ints_argument(node, "normalized_shape");
  if (!shape || shape->size() > step.input.dims.size()) return not_covered("it norms over a size that is computed");
  step.inner = shape->size();
  if (!std::equal(shape->rbegin(), shape->rend(), std::make_reverse_iterator(step.input.dims.end()))) {
    return not_covered("it norms over another size than its input has");
  }
  KPT_ASSIGN_OR_RETURN(step.weight, plan.find_tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(step.bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(const Number number, plan.number(node, epsilon, 1e-5));
  step.epsilon = static_cast<float>(number.real);
  return {};
}

Status lower_layer_norm(PlanBuilder& plan, const ir::Node& node) {
  NormStep step;
  KPT_RETURN_IF_ERROR(read_norm(plan, node, "eps", step));
  KPT_ASSIGN_OR_RETURN(step.normed, plan.make_result(node));
  return add_norm(plan, step);
}

Status lower_native_layer_norm(PlanBuilder& plan, const ir::Node& node) {
  NormStep step;
  KPT_RETURN_IF_ERROR(read_norm(plan, node, "eps", step));
  KPT_ASSIGN_OR_RETURN(step.normed, plan.make_result(node, 0));
  KPT_ASSIGN_OR_RETURN(step.mean, plan.make_result(node, 1));
  KPT_ASSIGN_OR_RETURN(step.scale, plan.make_result(node, 2));
  return add_norm(plan, step);
}

Status lower_rms_norm(PlanBuilder& plan, const ir::Node& node) {
  if (is_absent(node, "eps")) return not_covered("it has no epsilon");
  NormStep step;
  KPT_RETURN_IF_ERROR(read_norm(plan, node, "eps", step));
  step.kind = gpu::NormKind::kRms;
  KPT_ASSIGN_OR_RETURN(step.normed, plan.make_result(node));
  return add_norm(plan, step);
}

Status lower_add_norm(PlanBuilder& plan, const ir::Node& node) {
  NormStep step;
  KPT_ASSIGN_OR_RETURN(step.input, plan.tensor(node, "input"));
  KPT_ASSIGN_OR_RETURN(step.residual, plan.find_tensor(node, "residual"));
  KPT_ASSIGN_OR_RETURN(step.weight, plan.find_tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(step.bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(const Number epsilon, plan.number(node, "epsilon", std::nullopt));
  step.epsilon = static_cast<float>(epsilon.real);
  const std::string_view kind = string_argument(node, "kind", "layer");
  step.kind = kind == "rms" ? gpu::NormKind::kRms : gpu::NormKind::kLayer;
  KPT_ASSIGN_OR_RETURN(step.normed, plan.make_result(node, 0));
  KPT_ASSIGN_OR_RETURN(step.sum, plan.make_result(node, 1));
  return add_norm(plan, step);
}

template <bool kEmptyIsNan>
Status lower_softmax(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(View input, plan.tensor(node, "self"));
  if (input.dims.empty()) return not_covered("its input is a single number");
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), std::nullopt));
  if (axis + 1 != input.dims.size()) return not_covered("it goes over another axis than the last");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, output.dtype, input.dims));
  KPT_ASSIGN_OR_RETURN(input, cast(plan, input, output.dtype));
  KPT_ASSIGN_OR_RETURN(const RowView rows, rows_of(plan, input));
  plan.add({rows.view, output}, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::SoftmaxCall call;
    call.dtype = output.dtype;
    call.input = at.of(rows.view);
    call.output = at.of(output);
    call.queries = rows.rows.rows;
    call.width = rows.rows.width;
    call.input_stride = rows.rows.stride;
    call.empty_is_nan = kEmptyIsNan;
    return gpu::plan_softmax(call, shape);
  });
  return {};
}

// No axes: over all.
template <gpu::ReduceOp kOp>
Status lower_reduction(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const auto axes, plan.axes(node, "dim", input.dims.size()));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  return add_reduction(plan, kOp, input, axes, output);
}

Status lower_vector_norm(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number order, plan.number(node, "ord", 2));
  if (order.real != 2) return not_covered("there is the Euclidean length and no other norm");
  return lower_reduction<gpu::ReduceOp::kLength>(plan, node);
}

// The place of an extreme: over one axis, or over all elements in order.
template <gpu::ReduceOp kOp>
Status lower_place(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(View input, plan.tensor(node, "self"));
  if (!is_floating(input.dtype)) {
    KPT_ASSIGN_OR_RETURN(input, cast(plan, input, DType::kInt64));
  }
  std::vector<std::size_t> axes;
  if (!is_absent(node, "dim") && !input.dims.empty()) {
    KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), std::nullopt));
    axes.push_back(axis);
  }
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  return add_reduction(plan, kOp, input, axes, output);
}

// By the statistics that the model has stored: one mean and variance for each channel, the second axis.
Status add_batch_norm(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "input"));
  KPT_ASSIGN_OR_RETURN(const View mean, plan.tensor(node, "running_mean"));
  KPT_ASSIGN_OR_RETURN(const View variance, plan.tensor(node, "running_var"));
  KPT_ASSIGN_OR_RETURN(const auto weight, plan.find_tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(const auto bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(const Number epsilon, plan.number(node, "eps", 1e-5));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, input.dims));
  if (input.dims.size() < 2 || !is_floating(input.dtype)) return not_covered("its input has no channels");
  const Dims channels = {input.dims[1]};
  for (const View* parameter : {&mean, &variance, weight ? &*weight : &mean, bias ? &*bias : &mean}) {
    if (!(parameter->dims == channels)) return not_covered("a parameter does not fit");
  }
  using gpu::ElementOp;
  const auto number = [](double value) { return Element{std::nullopt, {value, 0, true}}; };
  KPT_ASSIGN_OR_RETURN(const View scale, plan.make(DType::kFloat32, channels));
  KPT_RETURN_IF_ERROR(add_elements(plan, {.op = ElementOp::kAdd}, {{variance, {}}, number(epsilon.real)}, scale));
  KPT_RETURN_IF_ERROR(add_elements(plan, {.op = ElementOp::kInverseRoot}, {{scale, {}}}, scale));
  if (weight) {
    KPT_RETURN_IF_ERROR(add_elements(plan, {.op = ElementOp::kMultiply}, {{scale, {}}, {weight, {}}}, scale));
  }
  const auto by_channel = [&](View view) {
    for (std::size_t axis = 2; axis < input.dims.size(); ++axis) view = with_axis(view, view.dims.size());
    return view;
  };
  KPT_ASSIGN_OR_RETURN(const View centred, plan.make(DType::kFloat32, input.dims));
  KPT_RETURN_IF_ERROR(add_elements(plan, {.op = ElementOp::kSubtract}, {{input, {}}, {by_channel(mean), {}}}, centred));
  const Element shift = bias ? Element{by_channel(*bias), {}} : number(0);
  return add_elements(plan, {.op = ElementOp::kMultiplyAdd}, {{centred, {}}, {by_channel(scale), {}}, shift}, output);
}

Status lower_batch_norm(PlanBuilder& plan, const ir::Node& node) {
  if (bool_argument(node, "training", false).value_or(true)) return not_covered("it takes statistics of its input");
  return add_batch_norm(plan, node);
}

// Its statistics of the input are tensors without elements on CPUs. Files that were exported elsewhere may say more of
// them, which nobody reads in a model that is not trained.
Status lower_native_batch_norm(PlanBuilder& plan, const ir::Node& node) {
  KPT_RETURN_IF_ERROR(add_batch_norm(plan, node));
  for (const std::size_t place : {1U, 2U}) {
    const ir::ValueId id = result_at(node, place);
    if (id == ir::kNoValue || !plan.is_used(id)) continue;
    KPT_ASSIGN_OR_RETURN(const View empty, plan.make_result(node, place));
    if (count_elements(empty) != 0) return not_covered("it gives statistics of its input");
  }
  return {};
}

Status lower_embedding(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View weight, plan.tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(const View indices, plan.tensor(node, "indices"));
  KPT_ASSIGN_OR_RETURN(const RowView table, rows_of(plan, weight));
  KPT_ASSIGN_OR_RETURN(const View ids, contiguous(plan, indices));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  if (weight.dims.size() != 2 || ids.dims.size() == kMaxRank) return not_covered("its table is no matrix");
  Dims extents = ids.dims;
  extents.push_back(weight.dims[1]);
  KPT_RETURN_IF_ERROR(check_result(output, weight.dtype, extents));
  const View flag = plan.add_flag();
  plan.add({table.view, ids, output}, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::EmbeddingCall call;
    call.dtype = output.dtype;
    call.id_dtype = ids.dtype;
    call.table = at.of(table.view);
    call.ids = at.of(ids);
    call.output = at.of(output);
    call.count = count_elements(ids);
    call.table_rows = table.rows.rows;
    call.width = table.rows.width;
    call.table_stride = table.rows.stride;
    call.out_of_range = static_cast<std::int32_t*>(at.of(flag));
    return gpu::plan_embedding(call, shape);
  });
  return {};
}

Status lower_glu(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "input"));
  const auto activation = ir::find_activation(string_argument(node, "activation", "none"));
  if (!activation) return not_covered("it has an unknown activation");
  KPT_ASSIGN_OR_RETURN(const RowView rows, rows_of(plan, input));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  if (input.dims.empty() || rows.rows.width % 2 != 0) return not_covered("there are no two halves");
  Dims extents = input.dims;
  extents[extents.size() - 1] = rows.rows.width / 2;
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, extents));
  View up = rows.view;
  up.offset += rows.rows.width / 2;
  plan.add({rows.view, output}, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::GatedCall call;
    call.dtype = output.dtype;
    call.activation = static_cast<gpu::Activation>(*activation);
    call.gate = at.of(rows.view);
    call.up = at.of(up);
    call.output = at.of(output);
    call.rows = rows.rows.rows;
    call.width = rows.rows.width / 2;
    call.gate_stride = call.up_stride = rows.rows.stride;
    return gpu::plan_gated(call, shape);
  });
  return {};
}

Status lower_rotary(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(View input, plan.tensor(node, "input"));
  if (input.dims.size() != 4) return not_covered("rotary positions take tensors of 4 axes");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, input.dims));
  View tables[2];
  for (std::size_t i = 0; i < 2; ++i) {
    KPT_ASSIGN_OR_RETURN(View table, plan.tensor(node, i == 0 ? "cos" : "sin"));
    if (!table.dims.empty() && table.strides[table.dims.size() - 1] != 1) {
      KPT_ASSIGN_OR_RETURN(table, contiguous(plan, table));
    }
    const auto wide = expanded(table, input.dims);
    if (!wide || wide->strides[3] != 1) return not_covered("cosines and sines do not fit");
    tables[i] = *wide;
  }
  if (tables[0].dtype != tables[1].dtype) return not_covered("cosines and sines are of different types");
  if (input.strides[3] != 1) {
    KPT_ASSIGN_OR_RETURN(input, contiguous(plan, input));
  }
  plan.add({input, tables[0], tables[1], output},
           [=, cosines = tables[0], sines = tables[1]](const Addresses& at, const gpu::DeviceShape& shape) {
             gpu::RotaryCall call;
             call.dtype = input.dtype;
             call.table_dtype = cosines.dtype;
             call.input = at.of(input);
             call.cosines = at.of(cosines);
             call.sines = at.of(sines);
             call.result = at.of(output);
             call.width = input.dims[3];
             for (std::size_t axis = 0; axis < 3; ++axis) {
               call.sizes[axis] = input.dims[axis];
               call.input_strides[axis] = input.strides[axis];
               call.cosine_strides[axis] = cosines.strides[axis];
               call.sine_strides[axis] = sines.strides[axis];
             }
             return gpu::plan_rotary(call, shape);
           });
  return {};
}

using gpu::ReduceOp;

constexpr RuleRow kRowsRules[] = {
    {"aten._native_batch_norm_legit_no_training.default", lower_native_batch_norm},
    {"aten._safe_softmax.default", lower_softmax<false>},
    {"aten._softmax.default", lower_softmax<true>},
    {"aten.all.default", lower_reduction<ReduceOp::kAll>},
    {"aten.all.dim", lower_reduction<ReduceOp::kAll>},
    {"aten.amax.default", lower_reduction<ReduceOp::kMaximum>},
    {"aten.amin.default", lower_reduction<ReduceOp::kMinimum>},
    {"aten.any.default", lower_reduction<ReduceOp::kAny>},
    {"aten.any.dim", lower_reduction<ReduceOp::kAny>},
    {"aten.argmax.default", lower_place<ReduceOp::kPlaceOfMaximum>},
    {"aten.argmin.default", lower_place<ReduceOp::kPlaceOfMinimum>},
    {"aten.batch_norm.default", lower_batch_norm},
    {"aten.embedding.default", lower_embedding},
    {"aten.layer_norm.default", lower_layer_norm},
    {"aten.linalg_vector_norm.default", lower_vector_norm},
    {"aten.mean.default", lower_reduction<ReduceOp::kMean>},
    {"aten.mean.dim", lower_reduction<ReduceOp::kMean>},
    {"aten.native_layer_norm.default", lower_native_layer_norm},
    {"aten.rms_norm.default", lower_rms_norm},
    {"aten.softmax.int", lower_softmax<true>},
    {"aten.sum.default", lower_reduction<ReduceOp::kSum>},
    {"aten.sum.dim_IntList", lower_reduction<ReduceOp::kSum>},
    {"kpt.add_norm.default", lower_add_norm},
    {"kpt.glu.default", lower_glu},
    {"kpt.rotary.default", lower_rotary},
};

}  // namespace

std::span<const RuleRow> row_rules() { return kRowsRules; }

}  // namespace kpt::native
