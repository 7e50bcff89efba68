// Arithmetic, comparisons, masks, casts, fills, ranges and concatenation.
#include <algorithm>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/rules.h"
#include "ir/own_operators.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

using gpu::Activation;
using gpu::ElementOp;

Result<Element> element(PlanBuilder& plan, const ir::Argument& argument) {
  const ir::ValueId* id = argument.value_id();
  if (id != nullptr && plan.graph().at(*id).kind == ir::ValueKind::kTensor) {
    KPT_ASSIGN_OR_RETURN(const View view, plan.value(*id));
    return Element{view, {}};
  }
  KPT_ASSIGN_OR_RETURN(const Number number, plan.number(argument));
  return Element{std::nullopt, number};
}

Result<Element> element(PlanBuilder& plan, const ir::Node& node, std::string_view name) {
  const ir::Argument* argument = find_argument(node, name);
  if (argument == nullptr) return not_covered(fmt::format("argument '{}' is missing", name));
  return element(plan, *argument);
}

bool is_real(const Element& element) {
  return element.view ? is_floating(element.view->dtype) : element.number.is_real;
}

Element whole(std::int64_t value) { return {std::nullopt, {static_cast<double>(value), value, false}}; }

// In integers where neither an operand nor the result is a floating-point number.
Status add_step(PlanBuilder& plan, const ir::Node& node, ElementStep step, const std::vector<Element>& inputs) {
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  step.in_integers = !is_floating(output.dtype) && !step.factor.is_real && std::ranges::none_of(inputs, is_real);
  return add_elements(plan, step, inputs, output);
}

template <ElementOp kOp>
Status lower_binary(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  KPT_ASSIGN_OR_RETURN(const Element b, element(plan, node, "other"));
  ElementStep step{.op = kOp};
  KPT_ASSIGN_OR_RETURN(step.factor, plan.number(node, "alpha", 1));
  return add_step(plan, node, step, {a, b});
}

// other - alpha · self
Status lower_reverse_subtract(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  KPT_ASSIGN_OR_RETURN(const Element b, element(plan, node, "other"));
  ElementStep step{.op = ElementOp::kSubtract};
  KPT_ASSIGN_OR_RETURN(step.factor, plan.number(node, "alpha", 1));
  return add_step(plan, node, step, {b, a});
}

Status lower_divide(PlanBuilder& plan, const ir::Node& node) {
  if (!is_absent(node, "rounding_mode")) return not_covered("quotients are not rounded");
  return lower_binary<ElementOp::kDivide>(plan, node);
}

template <ElementOp kOp>
Status lower_unary(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  return add_step(plan, node, {.op = kOp}, {a});
}

Status lower_bit_not(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  const bool truth = a.view && a.view->dtype == DType::kBool;
  return add_step(plan, node, {.op = truth ? ElementOp::kLogicalNot : ElementOp::kBitNot}, {a});
}

template <Activation kActivation>
Status lower_activation(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  if (!is_floating(input.dtype)) return not_covered("its input is no floating-point number");
  return add_step(plan, node, {.op = ElementOp::kActivate, .activation = kActivation}, {{input, {}}});
}

Status lower_gelu(PlanBuilder& plan, const ir::Node& node) {
  const std::string_view kind = string_argument(node, "approximate", "none");
  if (kind == "none") return lower_activation<Activation::kGelu>(plan, node);
  if (kind == "tanh") return lower_activation<Activation::kGeluTanh>(plan, node);
  return not_covered(fmt::format("there is no gelu '{}'", kind));
}

Status lower_reciprocal(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  return add_step(plan, node, {.op = ElementOp::kDivide}, {whole(1), a});
}

Status lower_power(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  KPT_ASSIGN_OR_RETURN(const Number exponent, plan.number(node, "exponent", std::nullopt));
  if (exponent.real == 2) return add_step(plan, node, {.op = ElementOp::kMultiply}, {a, a});
  if (exponent.real == 0.5 && is_real(a)) return add_step(plan, node, {.op = ElementOp::kRoot}, {a});
  if (exponent.real == -0.5 && is_real(a)) return add_step(plan, node, {.op = ElementOp::kInverseRoot}, {a});
  if (exponent.real == 3 && is_real(a) && a.view) {
    KPT_ASSIGN_OR_RETURN(const View square, plan.make(DType::kFloat32, a.view->dims));
    KPT_RETURN_IF_ERROR(add_elements(plan, {.op = ElementOp::kMultiply}, {a, a}, square));
    return add_step(plan, node, {.op = ElementOp::kMultiply}, {{square, {}}, a});
  }
  return not_covered(fmt::format("there are powers of 2, 3, 0.5 and -0.5, not of {}", exponent.real));
}

struct Bound {
  ElementOp op;  // with the number below or above which nothing shall be
  Element value;
};

Status add_clamp(PlanBuilder& plan, const ir::Node& node, const std::vector<Bound>& bounds) {
  if (bounds.empty()) return not_covered("it has no bounds");
  KPT_ASSIGN_OR_RETURN(Element a, element(plan, node, "self"));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  for (const Bound& bound : bounds) {
    const Element value{bound.value.view, truncated(bound.value.number, output.dtype)};
    ElementStep step{.op = bound.op};
    step.in_integers = !is_floating(output.dtype) && !is_real(a) && !is_real(value);
    KPT_RETURN_IF_ERROR(add_elements(plan, step, {a, value}, output));
    a = {output, {}};
  }
  return {};
}

Status lower_clamp(PlanBuilder& plan, const ir::Node& node) {
  std::vector<Bound> bounds;
  for (const auto& [name, op] : {std::pair("min", ElementOp::kMaximum), std::pair("max", ElementOp::kMinimum)}) {
    if (is_absent(node, name)) continue;
    KPT_ASSIGN_OR_RETURN(const Element bound, element(plan, node, name));
    bounds.push_back({op, bound});
  }
  return add_clamp(plan, node, bounds);
}

Status lower_hardtanh(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number least, plan.number(node, "min_val", -1));
  KPT_ASSIGN_OR_RETURN(const Number most, plan.number(node, "max_val", 1));
  return add_clamp(plan, node,
                   {{ElementOp::kMaximum, {std::nullopt, least}}, {ElementOp::kMinimum, {std::nullopt, most}}});
}

// What `src` holds, in the type and the extents of `self`.
Status lower_copy(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View source, plan.tensor(node, "src"));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  const auto wide = expanded(source, output.dims);
  if (!wide) return not_covered("what is copied does not fit");
  return copy_into(plan, *wide, output);
}

Status lower_where(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element condition, element(plan, node, "condition"));
  KPT_ASSIGN_OR_RETURN(const Element a, element(plan, node, "self"));
  KPT_ASSIGN_OR_RETURN(const Element b, element(plan, node, "other"));
  return add_step(plan, node, {.op = ElementOp::kSelect}, {condition, a, b});
}

Status lower_masked_fill(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Element self, element(plan, node, "self"));
  KPT_ASSIGN_OR_RETURN(const Element mask, element(plan, node, "mask"));
  KPT_ASSIGN_OR_RETURN(Element fill, element(plan, node, "value"));
  if (self.view) fill.number = truncated(fill.number, self.view->dtype);
  return add_step(plan, node, {.op = ElementOp::kSelect}, {mask, fill, self});
}

// aten.to.*, _to_copy, type_as: to the type that the file says.
Status lower_cast(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue) return not_covered("the result is no tensor");
  const bool copies = operator_name(node.target) == "_to_copy" || bool_argument(node, "copy", false).value_or(true);
  if (copies && plan.is_written(input)) {
    KPT_ASSIGN_OR_RETURN(const View copy, plan.make_result(node));
    KPT_RETURN_IF_ERROR(check_result(copy, copy.dtype, input.dims));
    return copy_into(plan, input, copy);
  }
  const auto format = format_argument(node, "memory_format").value_or(ir::MemoryFormat::kPreserve);
  if (format != ir::MemoryFormat::kPreserve && input.dtype == plan.dtype(id) && plan.is_written(input)) {
    return not_covered("whether it copies what is written depends on how that lies");
  }
  KPT_ASSIGN_OR_RETURN(const View result, cast(plan, input, plan.dtype(id)));
  return plan.define_result(node, result);
}

Status fill_with(PlanBuilder& plan, const ir::Node& node, Number number) {
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  number = truncated(number, output.dtype);
  ElementStep step;
  step.in_integers = !is_floating(output.dtype) && !number.is_real;
  return add_elements(plan, step, {{std::nullopt, number}}, output);
}

template <int kNumber>
Status lower_fill(PlanBuilder& plan, const ir::Node& node) {
  return fill_with(plan, node, {kNumber, kNumber, false});
}

Status lower_full(PlanBuilder& plan, const ir::Node& node) {
  const std::string_view name = find_argument(node, "s") != nullptr ? "s" : "fill_value";
  KPT_ASSIGN_OR_RETURN(const Number number, plan.number(node, name, std::nullopt));
  return fill_with(plan, node, number);
}

Status lower_arange(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number start, plan.number(node, "start", 0));
  KPT_ASSIGN_OR_RETURN(const Number step, plan.number(node, "step", 1));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  ElementStep range{.op = ElementOp::kRange};
  range.in_integers = !is_floating(output.dtype);
  if (range.in_integers && (start.is_real || step.is_real)) return not_covered("a range of integers by fractions");
  range.factor = step;
  return add_elements(plan, range, {{std::nullopt, start}}, output);
}

// Side by side along an axis.
Status join(PlanBuilder& plan, const std::vector<View>& parts, std::size_t axis, const View& output) {
  std::int64_t start = 0;
  for (const View& part : parts) {
    if (part.dims.size() != output.dims.size()) return not_covered("a part has another number of axes");
    KPT_RETURN_IF_ERROR(copy_into(plan, part, sliced(output, axis, start, part.dims[axis], 1)));
    start += part.dims[axis];
  }
  return start == output.dims[axis] ? Status() : not_covered("the parts do not fill the result");
}

Status lower_cat(PlanBuilder& plan, const ir::Node& node) {
  std::vector<View> parts;
  for (const ir::ValueId id : values_argument(node, "tensors")) {
    KPT_ASSIGN_OR_RETURN(const View part, plan.value(id));
    parts.push_back(part);
  }
  if (parts.empty()) return not_covered("it joins no tensors");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", output.dims.size(), 0));
  return join(plan, parts, axis, output);
}

// Differences of neighbours, with what is put before and behind.
Status lower_diff(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::int64_t times, plan.integer(node, "n", 1));
  if (times != 1) return not_covered("differences of differences");
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), -1));
  std::vector<View> parts = {input};
  KPT_ASSIGN_OR_RETURN(const auto before, plan.find_tensor(node, "prepend"));
  KPT_ASSIGN_OR_RETURN(const auto behind, plan.find_tensor(node, "append"));
  if (before) parts.insert(parts.begin(), *before);
  if (behind) parts.push_back(*behind);
  if (parts.size() > 1) {
    Dims dims = input.dims;
    dims[axis] = 0;
    for (const View& part : parts) {
      if (part.dims.size() != dims.size() || part.dtype != input.dtype) return not_covered("a part does not fit");
      dims[axis] += part.dims[axis];
    }
    KPT_ASSIGN_OR_RETURN(const View joined, plan.make(input.dtype, dims));
    KPT_RETURN_IF_ERROR(join(plan, parts, axis, joined));
    input = joined;
  }
  const std::int64_t rest = std::max<std::int64_t>(input.dims[axis] - 1, 0);
  const Element first{sliced(input, axis, 0, rest, 1), {}};
  const Element second{sliced(input, axis, std::min<std::int64_t>(input.dims[axis], 1), rest, 1), {}};
  const ElementOp op = input.dtype == DType::kBool ? ElementOp::kNotEqual : ElementOp::kSubtract;
  return add_step(plan, node, {.op = op}, {second, first});
}

// Sums of the tensor with itself shifted by 1, 2, 4, …: each doubles how many elements a sum holds.
Status lower_cumsum(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, output.dtype, input.dims));
  if (is_floating(input.dtype) && !is_floating(output.dtype)) return not_covered("fractions are summed as integers");
  if (input.dims.empty()) return copy_into(plan, input, output);
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), std::nullopt));
  const std::int64_t extent = input.dims[axis];
  const DType dtype = is_floating(output.dtype) ? DType::kFloat32 : output.dtype;
  ElementStep sum{.op = ElementOp::kAdd};
  sum.in_integers = !is_floating(dtype);
  KPT_ASSIGN_OR_RETURN(View sums, cast(plan, input, dtype));
  for (std::int64_t distance = 1; distance < extent; distance *= 2) {
    KPT_ASSIGN_OR_RETURN(const View next, plan.make(dtype, input.dims));
    KPT_RETURN_IF_ERROR(copy_into(plan, sliced(sums, axis, 0, distance, 1), sliced(next, axis, 0, distance, 1)));
    const std::int64_t rest = extent - distance;
    KPT_RETURN_IF_ERROR(
        add_elements(plan, sum, {{sliced(sums, axis, distance, rest, 1), {}}, {sliced(sums, axis, 0, rest, 1), {}}},
                     sliced(next, axis, distance, rest, 1)));
    sums = next;
  }
  return copy_into(plan, sums, output);
}

constexpr RuleRow kElementsRules[] = {
    {"aten.__and__.Tensor", lower_binary<ElementOp::kBitAnd>},
    {"aten.__or__.Tensor", lower_binary<ElementOp::kBitOr>},
    {"aten._to_copy.default", lower_cast},
    {"aten.abs.default", lower_unary<ElementOp::kMagnitude>},
    {"aten.add.Scalar", lower_binary<ElementOp::kAdd>},
    {"aten.add.Tensor", lower_binary<ElementOp::kAdd>},
    {"aten.arange.default", lower_arange},
    {"aten.arange.start", lower_arange},
    {"aten.arange.start_step", lower_arange},
    {"aten.bitwise_and.Tensor", lower_binary<ElementOp::kBitAnd>},
    {"aten.bitwise_not.default", lower_bit_not},
    {"aten.bitwise_or.Tensor", lower_binary<ElementOp::kBitOr>},
    {"aten.cat.default", lower_cat},
    {"aten.clamp.default", lower_clamp},
    {"aten.clamp_max.default", lower_clamp},
    {"aten.clamp_min.default", lower_clamp},
    {"aten.copy.default", lower_copy},
    {"aten.cos.default", lower_unary<ElementOp::kCosine>},
    {"aten.cumsum.default", lower_cumsum},
    {"aten.diff.default", lower_diff},
    {"aten.div.Scalar", lower_divide},
    {"aten.div.Tensor", lower_divide},
    {"aten.eq.Scalar", lower_binary<ElementOp::kEqual>},
    {"aten.eq.Tensor", lower_binary<ElementOp::kEqual>},
    {"aten.exp.default", lower_unary<ElementOp::kExponential>},
    {"aten.full.default", lower_full},
    {"aten.full_like.default", lower_full},
    {"aten.ge.Scalar", lower_binary<ElementOp::kGreaterEqual>},
    {"aten.ge.Tensor", lower_binary<ElementOp::kGreaterEqual>},
    {"aten.gelu.default", lower_gelu},
    {"aten.gt.Scalar", lower_binary<ElementOp::kGreater>},
    {"aten.gt.Tensor", lower_binary<ElementOp::kGreater>},
    {"aten.hardsigmoid.default", lower_activation<Activation::kHardsigmoid>},
    {"aten.hardswish.default", lower_activation<Activation::kHardswish>},
    {"aten.hardtanh.default", lower_hardtanh},
    {"aten.le.Scalar", lower_binary<ElementOp::kLessEqual>},
    {"aten.le.Tensor", lower_binary<ElementOp::kLessEqual>},
    {"aten.log.default", lower_unary<ElementOp::kLogarithm>},
    {"aten.logical_and.default", lower_binary<ElementOp::kLogicalAnd>},
    {"aten.logical_not.default", lower_unary<ElementOp::kLogicalNot>},
    {"aten.logical_or.default", lower_binary<ElementOp::kLogicalOr>},
    {"aten.lt.Scalar", lower_binary<ElementOp::kLess>},
    {"aten.lt.Tensor", lower_binary<ElementOp::kLess>},
    {"aten.masked_fill.Scalar", lower_masked_fill},
    {"aten.masked_fill.Tensor", lower_masked_fill},
    {"aten.maximum.default", lower_binary<ElementOp::kMaximum>},
    {"aten.max.other", lower_binary<ElementOp::kMaximum>},
    {"aten.min.other", lower_binary<ElementOp::kMinimum>},
    {"aten.minimum.default", lower_binary<ElementOp::kMinimum>},
    {"aten.mul.Scalar", lower_binary<ElementOp::kMultiply>},
    {"aten.mul.Tensor", lower_binary<ElementOp::kMultiply>},
    {"aten.ne.Scalar", lower_binary<ElementOp::kNotEqual>},
    {"aten.ne.Tensor", lower_binary<ElementOp::kNotEqual>},
    {"aten.neg.default", lower_unary<ElementOp::kNegate>},
    {"aten.new_full.default", lower_full},
    {"aten.new_ones.default", lower_fill<1>},
    {"aten.new_zeros.default", lower_fill<0>},
    {"aten.ones.default", lower_fill<1>},
    {"aten.ones_like.default", lower_fill<1>},
    {"aten.pow.Tensor_Scalar", lower_power},
    {"aten.reciprocal.default", lower_reciprocal},
    {"aten.relu.default", lower_activation<Activation::kRelu>},
    {"aten.relu6.default", lower_activation<Activation::kRelu6>},
    {"aten.rsqrt.default", lower_unary<ElementOp::kInverseRoot>},
    {"aten.rsub.Scalar", lower_reverse_subtract},
    {"aten.scalar_tensor.default", lower_full},
    {"aten.sigmoid.default", lower_activation<Activation::kSigmoid>},
    {"aten.silu.default", lower_activation<Activation::kSilu>},
    {"aten.sin.default", lower_unary<ElementOp::kSine>},
    {"aten.sqrt.default", lower_unary<ElementOp::kRoot>},
    {"aten.sub.Scalar", lower_binary<ElementOp::kSubtract>},
    {"aten.sub.Tensor", lower_binary<ElementOp::kSubtract>},
    {"aten.tanh.default", lower_activation<Activation::kTanh>},
    {"aten.to.device", lower_cast},
    {"aten.to.dtype", lower_cast},
    {"aten.to.dtype_layout", lower_cast},
    {"aten.to.other", lower_cast},
    {"aten.type_as.default", lower_cast},
    {"aten.where.ScalarOther", lower_where},
    {"aten.where.ScalarSelf", lower_where},
    {"aten.where.self", lower_where},
    {"aten.zeros.default", lower_fill<0>},
    {"aten.zeros_like.default", lower_fill<0>},
};

}  // namespace

std::span<const RuleRow> element_rules() { return kElementsRules; }

}  // namespace kpt::native
