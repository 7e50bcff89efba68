// Normalization. Statistics are computed in float32 or better, whatever the input's type.
#include "engines/xla/stablehlo/norm.h"

#include <limits>

#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/softmax.h"

namespace kpt::xla {
namespace {

Extents last_axes(std::size_t rank, std::size_t count) {
  if (count == 0 || count > rank) refuse("it normalizes other axes than there are");
  Extents axes;
  for (std::size_t axis = rank - count; axis < rank; ++axis) axes.push_back(static_cast<std::int64_t>(axis));
  return axes;
}

Value inverse_root(Builder& b, const Value& variance, double epsilon) {
  return b.unary("rsqrt", b.binary("add", variance, b.splat(epsilon, variance.dtype, variance.dims)));
}

Value scale_last(Builder& b, const Value& x, const std::optional<Value>& factor, std::string_view operation) {
  if (!factor) return x;
  return b.binary(operation, x, b.broadcast_to(b.convert(*factor, x.dtype), x.dims));
}

// A vector over the channels, which are axis 1.
Value scale_channels(Builder& b, const Value& x, const std::optional<Value>& vector, std::string_view operation) {
  if (!vector) return x;
  if (vector->dims != Extents{x.dims[1]}) refuse("a vector does not fit the channels");
  return b.binary(operation, x, b.broadcast_in_dim(b.convert(*vector, x.dtype), x.dims, {1}));
}

Value read_wide(Call& call) {
  const Value input = call.tensor("input");
  return call.builder().convert(input, math_dtype(input.dtype));
}

void lower_layer_norm(Call& call) {
  Builder& b = call.builder();
  const std::size_t axes = call.ints("normalized_shape", {}).size();
  const Normed normed = layer_norm(b, read_wide(call), axes, call.find_tensor("weight"), call.find_tensor("bias"),
                                   call.real("eps", 1e-5));
  call.set(normed.value);
  if (call.result_count() < 3) return;
  call.set(b.reshape(normed.mean, call.type(1).dims), 1);
  call.set(b.reshape(normed.inverse, call.type(2).dims), 2);
}

double default_epsilon(DType dtype) {
  return dtype == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

void lower_rms_norm(Call& call) {
  const Value x = read_wide(call);
  const std::size_t axes = call.ints("normalized_shape", {}).size();
  call.set(
      rms_norm(call.builder(), x, axes, call.find_tensor("weight"), call.real("eps", default_epsilon(x.dtype))).value);
}

// With the statistics that training left.
Value normalize_channels(Call& call, const Value& x, double epsilon) {
  Builder& b = call.builder();
  const Value mean = b.convert(call.tensor("running_mean"), x.dtype);
  const Value inverse = inverse_root(b, b.convert(call.tensor("running_var"), x.dtype), epsilon);
  Value value = scale_channels(b, x, mean, "subtract");
  value = scale_channels(b, value, inverse, "multiply");
  value = scale_channels(b, value, call.find_tensor("weight"), "multiply");
  return scale_channels(b, value, call.find_tensor("bias"), "add");
}

void lower_batch_norm(Call& call) {
  if (call.flag("training", false)) refuse("batch norm in training changes its statistics");
  const Value x = read_wide(call);
  if (x.rank() < 2) refuse("its input has no channels");
  call.set(normalize_channels(call, x, call.real("eps", 1e-5)));
  for (std::size_t result = 1; result < call.result_count(); ++result) {
    // In inference the saved statistics are empty.
    if (element_count(call.type(result).dims) != 0) refuse("its saved statistics are not empty");
    call.set(call.builder().splat(std::int64_t{0}, call.type(result).dtype, call.type(result).dims), result);
  }
}

// [N, C, …] as [N, groups, everything else]: one mean and variance for each.
Normed normalize_groups(Builder& b, const Value& x, std::int64_t groups, double epsilon) {
  const std::int64_t batch = x.dims[0];
  if (groups < 1 || x.dims[1] % groups != 0) refuse("its groups do not divide its channels");
  if (element_count(x.dims) == 0) refuse("it normalizes nothing");
  const Value grouped = b.reshape(x, {batch, groups, element_count(x.dims) / batch / groups});
  Normed normed = layer_norm(b, grouped, 1, std::nullopt, std::nullopt, epsilon);
  normed.value = b.reshape(normed.value, x.dims);
  return normed;
}

void finish_groups(Call& call, const Value& x, std::int64_t groups, double epsilon) {
  Builder& b = call.builder();
  const Normed normed = normalize_groups(b, x, groups, epsilon);
  const Value scaled = scale_channels(b, normed.value, call.find_tensor("weight"), "multiply");
  call.set(scale_channels(b, scaled, call.find_tensor("bias"), "add"));
  if (call.result_count() < 3) return;
  call.set(b.reshape(normed.mean, call.type(1).dims), 1);
  call.set(b.reshape(normed.inverse, call.type(2).dims), 2);
}

void lower_group_norm(Call& call) {
  const Value x = read_wide(call);
  if (x.rank() < 2) refuse("its input has no channels");
  finish_groups(call, x, call.integer(call.has("group") ? "group" : "num_groups"), call.real("eps", 1e-5));
}

void lower_instance_norm(Call& call) {
  const Value x = read_wide(call);
  if (x.rank() < 2) refuse("its input has no channels");
  if (!call.flag("use_input_stats", true)) return call.set(normalize_channels(call, x, call.real("eps", 1e-5)));
  if (call.has("running_mean")) refuse("it changes its running statistics");
  finish_groups(call, x, x.dims[1], call.real("eps", 1e-5));
}

constexpr Rule kNormRules[] = {
    {"aten._native_batch_norm_legit_no_training.default", lower_batch_norm},
    {"aten.batch_norm.default", lower_batch_norm},
    {"aten.group_norm.default", lower_group_norm},
    {"aten.instance_norm.default", lower_instance_norm},
    {"aten.layer_norm.default", lower_layer_norm},
    {"aten.native_group_norm.default", lower_group_norm},
    {"aten.native_layer_norm.default", lower_layer_norm},
    {"aten.rms_norm.default", lower_rms_norm},
};

}  // namespace

Normed layer_norm(Builder& b, const Value& x, std::size_t axes, const std::optional<Value>& weight,
                  const std::optional<Value>& bias, double epsilon) {
  const Extents over = last_axes(x.rank(), axes);
  Normed normed;
  normed.mean = mean_kept(b, x, over);
  normed.inverse = inverse_root(b, variance_kept(b, x, normed.mean, over, 0), epsilon);
  const Value distance = b.binary("subtract", x, b.broadcast_to(normed.mean, x.dims));
  const Value scaled = b.binary("multiply", distance, b.broadcast_to(normed.inverse, x.dims));
  normed.value = scale_last(b, scale_last(b, scaled, weight, "multiply"), bias, "add");
  return normed;
}

Normed rms_norm(Builder& b, const Value& x, std::size_t axes, const std::optional<Value>& weight, double epsilon) {
  Normed normed;
  const Value square = mean_kept(b, b.binary("multiply", x, x), last_axes(x.rank(), axes));
  normed.inverse = inverse_root(b, square, epsilon);
  normed.value = scale_last(b, b.binary("multiply", x, b.broadcast_to(normed.inverse, x.dims)), weight, "multiply");
  return normed;
}

std::span<const Rule> norm_rules() { return kNormRules; }

}  // namespace kpt::xla
