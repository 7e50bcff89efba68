// Products of matrices; lower_attention.cpp has attention.
#include <algorithm>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/product_steps.h"
#include "engines/native/rules.h"
#include "ir/own_operators.h"
#include "kernels/gpu/convert.h"
#include "kernels/gpu/matrix.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

using gpu::Activation;

// Three batch axes before two of a matrix.
constexpr std::size_t kBatched = 5;

// Axes of one element in front until there are five.
View batched(View view) {
  while (view.dims.size() < kBatched) view = with_axis(view, 0);
  return view;
}

// [rows, width] as [1, 1, 1, rows, width].
View as_matrix(const RowView& source) {
  View view = source.view;
  view.dims = {1, 1, 1, source.rows.rows, source.rows.width};
  view.strides = {0, 0, 0, source.rows.stride, 1};
  return view;
}

struct LinearStep {
  View input, weight, output;
  std::optional<View> bias, residual;
  Activation activation = Activation::kNone;
};

// Whether the matrix cores have an instruction for products of the type.
bool has_matrix_type(const PlanBuilder& plan, DType dtype) {
  return gpu::has_matrix_type(plan.traits().shape.matrix, dtype);
}

struct MatrixScales {
  View rows, columns;
};

// On matrix cores; what `step` adds is contiguous.
void add_matrix_cores(PlanBuilder& plan, const LinearStep& step, const RowView& input, const RowView& weight,
                      const std::optional<MatrixScales>& scales) {
  std::vector<View> used = {input.view, weight.view, step.output};
  if (step.bias) used.push_back(*step.bias);
  if (step.residual) used.push_back(*step.residual);
  if (scales) used.insert(used.end(), {scales->rows, scales->columns});
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::MatrixCall call;
    call.dtype = input.view.dtype;
    call.activation = step.activation;
    call.input = at.of(input.view);
    call.weight = at.of(weight.view);
    if (scales) call.row_scale = static_cast<const float*>(at.of(scales->rows));
    if (scales) call.column_scale = static_cast<const float*>(at.of(scales->columns));
    if (step.bias) call.bias = at.of(*step.bias);
    if (step.bias) call.bias_dtype = step.bias->dtype;
    if (step.residual) call.residual = at.of(*step.residual);
    call.output = at.of(step.output);
    call.output_dtype = step.output.dtype;
    call.rows = input.rows.rows;
    call.columns = weight.rows.rows;
    call.depth = input.rows.width;
    call.input_stride = input.rows.stride;
    call.weight_stride = weight.rows.stride;
    return gpu::plan_matrix(call, shape);
  });
}

// Input and weight fit together and to the output; bias and residual become contiguous, the latter of its type.
Status check_linear(PlanBuilder& plan, LinearStep& step, const RowView& input, const RowView& weight) {
  if (input.rows.width != weight.rows.width) return not_covered("the depths of the product differ");
  Dims extents = step.input.dims;
  extents[extents.size() - 1] = step.weight.dims[0];
  KPT_RETURN_IF_ERROR(check_result(step.output, step.output.dtype, extents));
  if (step.bias) {
    const auto bias = expanded(*step.bias, {step.weight.dims[0]});
    if (!bias) return not_covered("the bias does not fit");
    KPT_ASSIGN_OR_RETURN(step.bias, contiguous(plan, *bias));
  }
  if (step.residual) {
    if (!(step.residual->dims == extents)) return not_covered("what is added is of another shape");
    KPT_ASSIGN_OR_RETURN(const View same, cast(plan, *step.residual, step.output.dtype));
    KPT_ASSIGN_OR_RETURN(step.residual, contiguous(plan, same));
  }
  return {};
}

Status add_linear(PlanBuilder& plan, LinearStep step) {
  KPT_RETURN_IF_ERROR(
      check_product_types({&step.input, &step.weight, &step.output, step.bias ? &*step.bias : nullptr}));
  if (step.weight.dims.size() != 2 || step.input.dims.empty()) return not_covered("the weight is no matrix");
  const bool on_matrix_cores = has_matrix_type(plan, step.weight.dtype);
  // Products are in the weight's type.
  if (on_matrix_cores) {
    KPT_ASSIGN_OR_RETURN(step.input, cast(plan, step.input, step.weight.dtype));
  }
  KPT_ASSIGN_OR_RETURN(const RowView input, rows_of(plan, step.input));
  KPT_ASSIGN_OR_RETURN(const RowView weight, rows_of(plan, step.weight));
  KPT_RETURN_IF_ERROR(check_linear(plan, step, input, weight));
  if (on_matrix_cores) {
    add_matrix_cores(plan, step, input, weight, std::nullopt);
    return {};
  }
  ProductStep product;
  product.left = as_matrix(input);
  product.right = as_matrix(weight);
  product.output = as_matrix({step.output, {input.rows.rows, weight.rows.rows, weight.rows.rows}});
  product.bias = step.bias;
  product.residual = step.residual;
  product.activation = step.activation;
  add_product(plan, product);
  return {};
}

Status read_linear_node(PlanBuilder& plan, const ir::Node& node, LinearStep& step) {
  KPT_ASSIGN_OR_RETURN(step.input, plan.tensor(node, "input"));
  KPT_ASSIGN_OR_RETURN(step.weight, plan.tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(step.bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(step.residual, plan.find_tensor(node, "residual"));
  const auto activation = ir::find_activation(string_argument(node, "activation", "none"));
  if (!activation) return not_covered("it has an unknown activation");
  step.activation = static_cast<Activation>(*activation);
  KPT_ASSIGN_OR_RETURN(step.output, plan.make_result(node));
  return {};
}

// Rows in 8 bits, each with a scale of its own.
struct QuantizedRows {
  RowView rows;
  View scale;
};

Result<QuantizedRows> add_quantized_rows(PlanBuilder& plan, const RowView& source, DType to) {
  const Rows& size = source.rows;
  KPT_ASSIGN_OR_RETURN(const View output, plan.make(to, {size.rows, size.width}));
  KPT_ASSIGN_OR_RETURN(const View scale, plan.make(DType::kFloat32, {size.rows}));
  plan.add({source.view, output, scale}, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::QuantizeRowsCall call;
    call.from = source.view.dtype;
    call.to = to;
    call.input = at.of(source.view);
    call.output = at.of(output);
    call.scale = static_cast<float*>(at.of(scale));
    call.rows = source.rows.rows;
    call.width = source.rows.width;
    call.input_stride = source.rows.stride;
    return gpu::plan_quantize_rows(call, shape);
  });
  return QuantizedRows{{output, {size.rows, size.width, size.width}}, scale};
}

// kpt.linear_int8 and kpt.linear_fp8: the input's rows are quantized to what the matrix cores multiply.
Status lower_quantized_linear(PlanBuilder& plan, const ir::Node& node) {
  LinearStep step;
  KPT_RETURN_IF_ERROR(read_linear_node(plan, node, step));
  if (step.weight.dtype != DType::kFloat8E4M3FN && step.weight.dtype != DType::kInt8) {
    return not_covered("the weight is neither int8 nor float8_e4m3fn");
  }
  const auto type = gpu::find_row_type(step.weight.dtype, plan.traits().shape.matrix);
  if (!type) {
    return not_covered(fmt::format("there are no matrix cores for {}", to_string(step.weight.dtype)));
  }
  KPT_RETURN_IF_ERROR(check_product_types({&step.input, &step.output, step.bias ? &*step.bias : nullptr}));
  KPT_ASSIGN_OR_RETURN(const View scale, plan.tensor(node, "scale"));
  if (step.weight.dims.size() != 2 || step.input.dims.empty()) return not_covered("the weight is no matrix");
  const auto scales = scale.dtype == DType::kFloat32 ? expanded(scale, {step.weight.dims[0]}) : std::nullopt;
  if (!scales) return not_covered("the scale does not fit");
  KPT_ASSIGN_OR_RETURN(const View columns, contiguous(plan, *scales));
  KPT_ASSIGN_OR_RETURN(const RowView input, rows_of(plan, step.input));
  KPT_ASSIGN_OR_RETURN(const RowView weight, rows_of(plan, step.weight));
  KPT_RETURN_IF_ERROR(check_linear(plan, step, input, weight));
  KPT_ASSIGN_OR_RETURN(const QuantizedRows quantized, add_quantized_rows(plan, input, *type));
  add_matrix_cores(plan, step, quantized.rows, weight, MatrixScales{quantized.scale, columns});
  return {};
}

// A scale of each row, from one of all of them or from a column of them.
Result<View> scales_along(PlanBuilder& plan, const View& scale, std::size_t axis, std::int64_t extent) {
  if (scale.dtype != DType::kFloat32) return not_covered("the scales are not float32");
  View along = scale;
  if (count_elements(scale) == 1) {
    along.dims = {extent};
    along.strides = {0};
  } else if (scale.dims.size() == 2 && scale.dims[axis] == extent && scale.dims[1 - axis] == 1) {
    along = without_axis(scale, 1 - axis);
  } else {
    return not_covered("the scales are neither one nor one for each row");
  }
  return contiguous(plan, along);
}

// Without matrix cores for FP8: every code is a number of float16, whose products and sums in float32 are the same.
Status add_scaled_halves(PlanBuilder& plan, const LinearStep& step, const MatrixScales& scales) {
  LinearStep product;
  KPT_ASSIGN_OR_RETURN(product.input, cast(plan, step.input, DType::kFloat16));
  KPT_ASSIGN_OR_RETURN(product.weight, cast(plan, step.weight, DType::kFloat16));
  KPT_ASSIGN_OR_RETURN(product.output, plan.make(DType::kFloat32, step.output.dims));
  KPT_RETURN_IF_ERROR(add_linear(plan, product));
  KPT_ASSIGN_OR_RETURN(const View scaled, plan.make(DType::kFloat32, step.output.dims));
  KPT_RETURN_IF_ERROR(add_elements(plan, {.op = gpu::ElementOp::kMultiply},
                                   {{product.output, {}}, {with_axis(scales.rows, 1), {}}}, scaled));
  const Element added{step.bias, {}};
  return add_elements(plan, {.op = gpu::ElementOp::kMultiplyAdd}, {{scaled, {}}, {scales.columns, {}}, added},
                      step.output);
}

// aten._scaled_mm of codes of float8_e4m3fn: numbers are codes times their scales.
Status lower_scaled_product(PlanBuilder& plan, const ir::Node& node) {
  LinearStep step;
  KPT_ASSIGN_OR_RETURN(step.input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const View right, plan.tensor(node, "mat2"));
  KPT_ASSIGN_OR_RETURN(const View row_scale, plan.tensor(node, "scale_a"));
  KPT_ASSIGN_OR_RETURN(const View column_scale, plan.tensor(node, "scale_b"));
  KPT_ASSIGN_OR_RETURN(step.bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(const auto result_scale, plan.find_tensor(node, "scale_result"));
  if (result_scale) return not_covered("the result has a scale");
  KPT_ASSIGN_OR_RETURN(step.output, plan.make_result(node));
  if (step.input.dtype != DType::kFloat8E4M3FN || right.dtype != DType::kFloat8E4M3FN) {
    return not_covered(fmt::format("products with scales are of float8_e4m3fn, not of {} and {}",
                                   to_string(step.input.dtype), to_string(right.dtype)));
  }
  KPT_RETURN_IF_ERROR(check_product_types({&step.output, step.bias ? &*step.bias : nullptr}));
  if (step.input.dims.size() != 2 || right.dims.size() != 2) return not_covered("the extents do not fit");
  step.weight = transposed(right, 0, 1);
  KPT_ASSIGN_OR_RETURN(const View rows, scales_along(plan, row_scale, 0, step.input.dims[0]));
  KPT_ASSIGN_OR_RETURN(const View columns, scales_along(plan, column_scale, 1, step.weight.dims[0]));
  KPT_ASSIGN_OR_RETURN(const RowView input, rows_of(plan, step.input));
  KPT_ASSIGN_OR_RETURN(const RowView weight, rows_of(plan, step.weight));
  KPT_RETURN_IF_ERROR(check_linear(plan, step, input, weight));
  if (!has_matrix_type(plan, gpu::matrix_fp8_type(plan.traits().shape.matrix))) {
    return add_scaled_halves(plan, step, {rows, columns});
  }
  add_matrix_cores(plan, step, input, weight, MatrixScales{rows, columns});
  return {};
}

Status lower_linear(PlanBuilder& plan, const ir::Node& node) {
  LinearStep step;
  KPT_RETURN_IF_ERROR(read_linear_node(plan, node, step));
  return add_linear(plan, step);
}

// Whether the product of two matrices, the right one [depth, columns], is a linear layer on matrix cores. Their kernels
// take the columns as rows in memory: others are copied first in each run, which few rows on the left are not worth.
bool is_linear_on_matrix_cores(const PlanBuilder& plan, const View& left, const View& right) {
  // Those of a block: with fewer, reading the weight is the work. Chosen from that, not measured: no GPU ran it.
  constexpr std::int64_t kRowsWorthACopy = 128;
  if (left.dims.size() != 2 || right.dims.size() != 2 || left.dtype != right.dtype) return false;
  if (!has_matrix_type(plan, right.dtype)) return false;
  return right.strides[0] == 1 || left.dims[0] >= kRowsWorthACopy;
}

// self · beta + alpha · mat1 · mat2, for a self that is a row or of the result's shape.
Status lower_addmm(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View added, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const View left, plan.tensor(node, "mat1"));
  KPT_ASSIGN_OR_RETURN(const View right, plan.tensor(node, "mat2"));
  KPT_ASSIGN_OR_RETURN(const Number alpha, plan.number(node, "alpha", 1));
  KPT_ASSIGN_OR_RETURN(const Number beta, plan.number(node, "beta", 1));
  if (beta.real != 1) return not_covered("beta is not 1");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_product_types({&left, &right, &output, &added}));
  if (left.dims.size() != 2 || right.dims.size() != 2 || left.dims[1] != right.dims[0]) {
    return not_covered("the extents do not fit");
  }
  KPT_RETURN_IF_ERROR(check_result(output, output.dtype, {left.dims[0], right.dims[1]}));
  std::optional<View> bias, residual;
  if (added.dims.size() == 1 && added.dims[0] == output.dims[1]) {
    bias = added;
  } else {
    residual = expanded(added, output.dims);
    if (!residual) return not_covered("what is added cannot be broadcast to the result");
  }
  if (alpha.real == 1 && is_linear_on_matrix_cores(plan, left, right)) {
    return add_linear(plan, {left, transposed(right, 0, 1), output, bias, residual, Activation::kNone});
  }
  ProductStep step;
  step.left = batched(left);
  step.right = batched(transposed(right, 0, 1));
  step.output = batched(output);
  step.scale = static_cast<float>(alpha.real);
  if (bias) {
    KPT_ASSIGN_OR_RETURN(step.bias, contiguous(plan, *bias));
  } else {
    KPT_ASSIGN_OR_RETURN(const View same, cast(plan, *residual, output.dtype));
    KPT_ASSIGN_OR_RETURN(step.residual, contiguous(plan, same));
  }
  add_product(plan, step);
  return {};
}

// mm, bmm and matmul of at least two axes each.
Status lower_matmul(PlanBuilder& plan, const ir::Node& node) {
  const bool named = find_argument(node, "mat2") != nullptr;
  KPT_ASSIGN_OR_RETURN(View left, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(View right, plan.tensor(node, named ? "mat2" : "other"));
  const std::size_t rank = std::max(left.dims.size(), right.dims.size());
  if (left.dims.size() < 2 || right.dims.size() < 2 || rank > kBatched) {
    return not_covered(fmt::format("products take tensors of 2 to {} axes", kBatched));
  }
  // A matrix that all batches share: one product of more rows.
  const bool shared = right.dims.size() == 2 && left.dims.size() > 2;
  if (shared || is_linear_on_matrix_cores(plan, left, right)) {
    KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
    return add_linear(plan, {left, transposed(right, 0, 1), output, {}, {}, Activation::kNone});
  }
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_product_types({&left, &right, &output}));
  if (output.dims.size() != rank) return not_covered("the extents do not fit");
  ProductStep step;
  step.output = batched(output);
  Dims left_dims = step.output.dims;
  left_dims[4] = left.dims[left.dims.size() - 1];
  Dims right_dims = step.output.dims;
  right_dims[3] = right_dims[4];
  right_dims[4] = left_dims[4];
  const auto wide_left = expanded(left, left_dims);
  const auto wide_right = expanded(transposed(right, right.dims.size() - 2, right.dims.size() - 1), right_dims);
  if (!wide_left || !wide_right) return not_covered("the extents do not fit");
  step.left = *wide_left;
  step.right = *wide_right;
  add_product(plan, step);
  return {};
}

constexpr RuleRow kProductsRules[] = {
    {"aten._scaled_mm.default", lower_scaled_product},
    {"aten.addmm.default", lower_addmm},
    {"aten.bmm.default", lower_matmul},
    {"aten.linear.default", lower_linear},
    {"aten.matmul.default", lower_matmul},
    {"aten.mm.default", lower_matmul},
    {"kpt.linear.default", lower_linear},
    {"kpt.linear_fp8.default", lower_quantized_linear},
    {"kpt.linear_int8.default", lower_quantized_linear},
};

}  // namespace

std::span<const RuleRow> product_rules() { return kProductsRules; }

}  // namespace kpt::native
