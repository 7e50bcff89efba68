#include <array>
#include <optional>

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/elementwise_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kElementwiseName = "elementwise";
constexpr std::size_t kTensors = 4;  // a, b, c, output

std::optional<ElementType> element_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return ElementType::kFloat;
    case DType::kFloat16: return ElementType::kHalf;
    case DType::kBFloat16: return ElementType::kBFloat;
    case DType::kFloat8E4M3FN: return ElementType::kE4M3;
    case DType::kBool: return ElementType::kBool;
    case DType::kUInt8: return ElementType::kUInt8;
    case DType::kInt8: return ElementType::kInt8;
    case DType::kInt16: return ElementType::kInt16;
    case DType::kInt32: return ElementType::kInt32;
    case DType::kInt64: return ElementType::kInt64;
    default: return std::nullopt;
  }
}

struct Axis {
  std::int64_t extent;
  std::array<std::int64_t, kTensors> strides;
};

// Axes of one element go, and an axis that continues the one before it in all tensors is joined to it.
std::vector<Axis> join_axes(const ElementwiseCall& call) {
  std::vector<Axis> axes;
  for (std::size_t axis = 0; axis < call.dims.size(); ++axis) {
    if (call.dims[axis] == 1) continue;
    const auto stride = [axis](const ElementInput& input) { return input.data == nullptr ? 0 : input.strides[axis]; };
    const Axis next{call.dims[axis], {stride(call.a), stride(call.b), stride(call.c), call.output_strides[axis]}};
    bool joined = !axes.empty();
    for (std::size_t tensor = 0; tensor < kTensors && joined; ++tensor) {
      joined = axes.back().strides[tensor] == next.strides[tensor] * next.extent;
    }
    if (joined) {
      axes.back().extent *= next.extent;
      axes.back().strides = next.strides;
    } else {
      axes.push_back(next);
    }
  }
  return axes;
}

Status check_input(const ElementInput& input, const ElementwiseCall& call) {
  if (input.data == nullptr) return {};
  if (!is_element_type(input.dtype))
    return invalid_call(kElementwiseName, fmt::format("no kernel for {}", to_string(input.dtype)));
  if (call.in_integers && is_floating(input.dtype)) {
    return invalid_call(kElementwiseName, "a floating-point input in a call that computes in integers");
  }
  if (input.strides.size() != call.dims.size())
    return invalid_call(kElementwiseName, "strides and extents differ in number");
  return {};
}

Status check(const ElementwiseCall& call) {
  if (call.op < ElementOp::kCopy || call.op > ElementOp::kRange)
    return invalid_call(kElementwiseName, "no such operation");
  if (call.activation < Activation::kNone || call.activation > Activation::kRelu6) {
    return invalid_call(kElementwiseName, "no such activation");
  }
  const bool integer_only = call.op >= ElementOp::kBitAnd && call.op <= ElementOp::kBitNot;
  const bool float_only =
      call.op == ElementOp::kDivide || (call.op >= ElementOp::kExponential && call.op <= ElementOp::kActivate);
  if (call.in_integers ? float_only : integer_only) {
    return invalid_call(kElementwiseName,
                        fmt::format("no such operation on {}", call.in_integers ? "integers" : "numbers"));
  }
  if (!is_element_type(call.output_dtype)) {
    return invalid_call(kElementwiseName, fmt::format("no kernel for {}", to_string(call.output_dtype)));
  }
  for (const ElementInput* input : {&call.a, &call.b, &call.c}) KPT_RETURN_IF_ERROR(check_input(*input, call));
  if (call.output_strides.size() != call.dims.size()) {
    return invalid_call(kElementwiseName, "strides and extents differ in number");
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : call.dims) {
    KPT_RETURN_IF_ERROR(check_sizes(kElementwiseName, {count, extent}));
    count *= extent;
  }
  if (count > 0 && call.output == nullptr) return invalid_call(kElementwiseName, "the output must be given");
  return {};
}

ElementOperand operand_of(const ElementInput& input) {
  ElementOperand operand{};
  operand.data = input.data;
  operand.type = element_type(input.dtype).value_or(ElementType::kFloat);
  operand.number = static_cast<float>(input.number);
  operand.integer = input.integer;
  return operand;
}

}  // namespace

bool is_element_type(DType dtype) { return element_type(dtype).has_value(); }

Result<Plan> plan_elementwise(const ElementwiseCall& call, const DeviceShape& /*device*/) {
  KPT_RETURN_IF_ERROR(check(call));
  ElementwiseArgs args{};
  args.count = 1;
  for (const std::int64_t extent : call.dims) args.count *= extent;
  if (args.count == 0) return Plan{};
  const std::vector<Axis> axes = join_axes(call);
  if (axes.size() > kElementAxes) {
    return invalid_call(kElementwiseName,
                        fmt::format("{} axes that cannot be joined, at most {}", axes.size(), kElementAxes));
  }
  args.a = operand_of(call.a);
  args.b = operand_of(call.b);
  args.c = operand_of(call.c);
  args.output = call.output;
  for (std::int64_t& extent : args.dims) extent = 1;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const std::size_t place = kElementAxes - axes.size() + axis;
    args.dims[place] = axes[axis].extent;
    args.a.strides[place] = axes[axis].strides[0];
    args.b.strides[place] = axes[axis].strides[1];
    args.c.strides[place] = axes[axis].strides[2];
    args.output_strides[place] = axes[axis].strides[3];
  }
  args.axes = static_cast<Int32>(axes.size());
  args.op = call.op;
  args.activation = call.activation;
  args.factor = static_cast<float>(call.factor);
  args.factor_integer = call.factor_integer;
  args.output_type = *element_type(call.output_dtype);
  const std::int64_t blocks = divide_up(args.count, kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(kElementwiseName, blocks));
  return Plan{make_launch(call.in_integers ? "elementwise_i64" : "elementwise_f32", blocks, args, kItemThreads)};
}

}  // namespace kpt::gpu
