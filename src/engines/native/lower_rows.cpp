// Norms, softmax, reductions, gates, rotary positions, and what is looked up by index.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/rules.h"
#include "ir/own_operators.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/embedding.h"
#include "kernels/gpu/gather.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/reduce_kernels.h"
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

Status add_reduction(PlanBuilder& plan, const ir::Node& node, gpu::ReduceOp op, View input,
                     const std::vector<std::size_t>& given) {
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  const bool truth = op == gpu::ReduceOp::kAny || op == gpu::ReduceOp::kAll;
  if (!truth && !is_floating(output.dtype)) {
    return not_covered(fmt::format("there is no such reduction to {}", to_string(output.dtype)));
  }
  if (!truth && input.dtype != output.dtype) {
    KPT_ASSIGN_OR_RETURN(input, cast(plan, input, DType::kFloat32));
  } else if (truth && !is_floating(input.dtype)) {
    KPT_ASSIGN_OR_RETURN(input, cast(plan, input, DType::kBool));
  }
  gpu::ReduceCall call;
  call.op = op;
  call.dtype = input.dtype;
  call.output_dtype = output.dtype;
  std::int64_t results = 1;
  for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
    const bool reduced = given.empty() || std::ranges::find(given, axis) != given.end();
    (reduced ? call.reduced : call.kept).push_back({input.dims[axis], input.strides[axis]});
    if (!reduced) results *= input.dims[axis];  // a part of the input's product
  }
  if (count_elements(output) != results) return not_covered("the result has another number of elements");
  plan.add({input, output}, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::ReduceCall placed = call;
    placed.input = at.of(input);
    placed.output = at.of(output);
    return gpu::plan_reduce(placed, shape);
  });
  return {};
}

// No axes: over all.
template <gpu::ReduceOp kOp>
Status lower_reduction(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const auto axes, plan.axes(node, "dim", input.dims.size()));
  return add_reduction(plan, node, kOp, input, axes);
}

Status lower_vector_norm(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number order, plan.number(node, "ord", 2));
  if (order.real != 2) return not_covered("there is the Euclidean length and no other norm");
  return lower_reduction<gpu::ReduceOp::kLength>(plan, node);
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

// The indices of one axis of the source, broadcast to the output.
struct IndexedAxis {
  View indices;  // of the output's extents
  std::int64_t extent = 0;
  std::int64_t stride = 0;
};

void add_gather(PlanBuilder& plan, const View& source, std::vector<std::int64_t> source_strides,
                const std::vector<IndexedAxis>& axes, const View& output, bool wrap) {
  gpu::GatherCall call;
  call.dtype = output.dtype;
  call.dims = {output.dims.begin(), output.dims.end()};
  call.source_strides = std::move(source_strides);
  call.wrap = wrap;
  std::vector<View> used = {source, output};
  for (const IndexedAxis& axis : axes) {
    call.axes.push_back(
        {nullptr, {axis.indices.strides.begin(), axis.indices.strides.end()}, axis.extent, axis.stride});
    used.push_back(axis.indices);
  }
  const View flag = plan.add_flag();
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::GatherCall placed = call;
    placed.source = at.of(source);
    placed.output = at.of(output);
    placed.out_of_range = static_cast<std::int32_t*>(at.of(flag));
    for (std::size_t i = 0; i < axes.size(); ++i) placed.axes[i].indices = at.of(axes[i].indices);
    return gpu::plan_gather(placed, shape);
  });
}

Result<View> index_view(PlanBuilder& plan, ir::ValueId id) {
  KPT_ASSIGN_OR_RETURN(const View view, plan.value(id));
  if (view.dtype == DType::kBool || view.dtype == DType::kUInt8) return not_covered("it chooses by a mask");
  return cast(plan, view, DType::kInt64);
}

// aten.gather and aten.index_select: one axis by indices, the others as they are.
template <bool kWholeRows>
Status lower_gather(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View source, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", source.dims.size(), std::nullopt));
  const ir::ValueId id = value_argument(node, "index");
  if (id == ir::kNoValue) return not_covered("argument 'index' is no tensor");
  KPT_ASSIGN_OR_RETURN(View indices, index_view(plan, id));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  if (kWholeRows) {
    if (indices.dims.size() != 1) return not_covered("its indices are no list");
    while (indices.dims.size() + axis < source.dims.size()) indices = with_axis(indices, indices.dims.size());
  }
  const auto wide = expanded(indices, output.dims);
  if (!wide || output.dims.size() != source.dims.size() || output.dtype != source.dtype) {
    return not_covered("the indices do not fit");
  }
  for (std::size_t other = 0; other < source.dims.size(); ++other) {
    if (other != axis && output.dims[other] > source.dims[other]) return not_covered("the indices do not fit");
  }
  std::vector<std::int64_t> strides(source.strides.begin(), source.strides.end());
  strides[axis] = 0;
  add_gather(plan, source, std::move(strides), {{*wide, source.dims[axis], source.strides[axis]}}, output, false);
  return {};
}

// aten.index: tensors of indices take the place of axes; where they stand apart, in front of all others.
Status lower_index(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View source, plan.tensor(node, "self"));
  const ir::Argument* argument = find_argument(node, "indices");
  if (argument == nullptr || argument->list() == nullptr) return not_covered("its indices are no list");
  std::vector<std::optional<View>> by_axis(source.dims.size());
  const auto& items = argument->list()->items;
  if (items.size() > by_axis.size()) return not_covered("there are more indices than axes");
  std::size_t first = by_axis.size();
  std::size_t last = 0;
  std::size_t used = 0;
  std::size_t rank = 0;  // of the indices together
  for (std::size_t axis = 0; axis < items.size(); ++axis) {
    const ir::ValueId* id = items[axis].value_id();
    if (id == nullptr) continue;
    KPT_ASSIGN_OR_RETURN(by_axis[axis], index_view(plan, *id));
    first = std::min(first, axis);
    last = axis;
    ++used;
    rank = std::max(rank, by_axis[axis]->dims.size());
  }
  if (used == 0) return not_covered("there are no indices");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  if (output.dims.size() + used != source.dims.size() + rank || output.dtype != source.dtype) {
    return not_covered("the indices do not fit");
  }
  const std::size_t place = last - first + 1 == used ? first : 0;
  Dims chosen;
  for (std::size_t axis = 0; axis < rank; ++axis) chosen.push_back(output.dims[place + axis]);
  std::vector<std::int64_t> strides(output.dims.size(), 0);
  std::vector<IndexedAxis> axes;
  std::size_t kept = 0;
  for (std::size_t axis = 0; axis < source.dims.size(); ++axis) {
    if (!by_axis[axis]) {
      const std::size_t target = kept < place ? kept : kept + rank;
      if (output.dims[target] != source.dims[axis]) return not_covered("the indices do not fit");
      strides[target] = source.strides[axis];
      ++kept;
      continue;
    }
    const auto wide = expanded(*by_axis[axis], chosen);
    if (!wide) return not_covered("the indices do not fit");
    View indices = *wide;  // as axes of the output: what is not chosen by it has stride 0
    indices.dims = output.dims;
    indices.strides = output.dims;
    for (std::size_t i = 0; i < output.dims.size(); ++i) {
      indices.strides[i] = i >= place && i < place + rank ? wide->strides[i - place] : 0;
    }
    axes.push_back({indices, source.dims[axis], source.strides[axis]});
  }
  add_gather(plan, source, std::move(strides), axes, output, true);
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

constexpr RuleRow kRules[] = {
    {"aten._safe_softmax.default", lower_softmax<false>},
    {"aten._softmax.default", lower_softmax<true>},
    {"aten.all.default", lower_reduction<ReduceOp::kAll>},
    {"aten.all.dim", lower_reduction<ReduceOp::kAll>},
    {"aten.amax.default", lower_reduction<ReduceOp::kMaximum>},
    {"aten.amin.default", lower_reduction<ReduceOp::kMinimum>},
    {"aten.any.default", lower_reduction<ReduceOp::kAny>},
    {"aten.any.dim", lower_reduction<ReduceOp::kAny>},
    {"aten.embedding.default", lower_embedding},
    {"aten.gather.default", lower_gather<false>},
    {"aten.index.Tensor", lower_index},
    {"aten.index_select.default", lower_gather<true>},
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

std::span<const RuleRow> row_rules() { return kRules; }

}  // namespace kpt::native
