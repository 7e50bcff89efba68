// Activations and dropout in inference.
#include "engines/xla/stablehlo/activations.h"

#include <cmath>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

Value number(Builder& b, double value, const Value& x) { return b.splat(value, x.dtype, x.dims); }
Value times(Builder& b, const Value& x, double factor) { return b.binary("multiply", x, number(b, factor, x)); }
Value plus(Builder& b, const Value& x, double term) { return b.binary("add", x, number(b, term, x)); }

Value clamp(Builder& b, const Value& x, double low, double high) {
  return b.binary("minimum", {b.binary("maximum", x, number(b, low, x)), number(b, high, x)});
}

Value gelu(Builder& b, const Value& x) {
  const Value error = error_function(b, times(b, x, std::sqrt(0.5)));
  return b.binary("multiply", {times(b, x, 0.5), plus(b, error, 1)});
}

Value gelu_tanh(Builder& b, const Value& x) {
  const Value cube = b.binary("multiply", b.binary("multiply", x, x), x);
  const Value inner = times(b, b.binary("add", x, times(b, cube, 0.044715)), std::sqrt(2 / M_PI));
  return b.binary("multiply", {times(b, x, 0.5), plus(b, b.unary("tanh", inner), 1)});
}

// log(1 + exp(beta x)) / beta, and x itself above the threshold, where the two are equal.
Value softplus(Builder& b, const Value& x, double beta, double threshold) {
  const Value scaled = times(b, x, beta);
  const Value soft = times(b, b.unary("log_plus_one", b.unary("exponential", scaled)), 1 / beta);
  return keep_nan(b, x, b.select(b.compare("GT", scaled, number(b, threshold, x)), x, soft));
}

// scale * x above zero, scale * alpha * (exp(input_scale * x) - 1) below.
Value elu(Builder& b, const Value& x, double alpha, double scale, double input_scale) {
  const Value below = times(b, b.unary("exponential_minus_one", times(b, x, input_scale)), alpha * scale);
  return keep_nan(b, x, b.select({b.compare("GT", x, number(b, 0, x)), times(b, x, scale), below}));
}

template <typename Function>
void activation(Call& call, const Function& function) {
  const Value self = call.tensor("self");
  call.set(function(call.builder(), call.builder().convert(self, math_dtype(self.dtype))));
}

template <ir::Activation kActivation>
void plain(Call& call) {
  activation(call, [](Builder& b, const Value& x) { return apply_activation(b, kActivation, x); });
}

void lower_gelu(Call& call) {
  const bool with_tanh = call.text("approximate", "none") == "tanh";
  activation(call, [&](Builder& b, const Value& x) { return with_tanh ? gelu_tanh(b, x) : gelu(b, x); });
}

void lower_hardtanh(Call& call) {
  const double low = call.real("min_val", -1);
  const double high = call.real("max_val", 1);
  activation(call, [&](Builder& b, const Value& x) { return clamp(b, x, low, high); });
}

void lower_leaky_relu(Call& call) {
  const double slope = call.real("negative_slope", 0.01);
  activation(call, [&](Builder& b, const Value& x) {
    return b.select({b.compare("GT", x, number(b, 0, x)), x, times(b, x, slope)});
  });
}

void lower_elu(Call& call) {
  const double alpha = call.real("alpha", 1);
  const double scale = call.real("scale", 1);
  const double input_scale = call.real("input_scale", 1);
  activation(call, [&](Builder& b, const Value& x) { return elu(b, x, alpha, scale, input_scale); });
}

void lower_selu(Call& call) {
  activation(call, [](Builder& b, const Value& x) { return elu(b, x, 1.6732632423543772, 1.0507009873554805, 1); });
}

void lower_celu(Call& call) {
  const double alpha = call.real("alpha", 1);
  activation(call, [&](Builder& b, const Value& x) { return elu(b, x, alpha, 1, 1 / alpha); });
}

void lower_softplus(Call& call) {
  const double beta = call.real("beta", 1);
  const double threshold = call.real("threshold", 20);
  activation(call, [&](Builder& b, const Value& x) { return softplus(b, x, beta, threshold); });
}

void lower_mish(Call& call) {
  activation(
      call, [](Builder& b, const Value& x) { return b.binary("multiply", x, b.unary("tanh", softplus(b, x, 1, 20))); });
}

// min(0, x) - log(1 + exp(-|x|)): no overflow on either side.
void lower_log_sigmoid(Call& call) {
  activation(call, [](Builder& b, const Value& x) {
    const Value tail = b.unary("log_plus_one", b.unary("exponential", b.unary("negate", b.unary("abs", x))));
    return keep_nan(b, x, b.binary("subtract", b.binary("minimum", x, number(b, 0, x)), tail));
  });
}

void lower_threshold(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Value above = b.compare("LE", self, b.splat(call.number("threshold"), self.dtype, self.dims));
  call.set(b.select(above, b.splat(call.number("value"), self.dtype, self.dims), self));
}

void lower_glu(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const std::size_t axis = call.axis("dim", self.rank(), -1);
  if (self.rank() == 0 || self.dims[axis] % 2 != 0) refuse("its axis has no two halves");
  const Value wide = b.convert(self, math_dtype(self.dtype));
  const std::int64_t half = self.dims[axis] / 2;
  const Value gate = b.unary("logistic", b.slice_axis(wide, axis, half, 2 * half));
  call.set(b.binary("multiply", b.slice_axis(wide, axis, 0, half), gate));
}

void lower_dropout(Call& call) {
  const std::string_view name = call.has("input") ? "input" : "self";
  if (call.flag("train", true) && call.real("p", 0.5) != 0) refuse("dropout in training draws random numbers");
  if (call.writes()) return call.set(call.tensor(name));
  call.set_view(name, {});
}

// Exact in every type, integers included.
void lower_relu(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  call.set(b.binary("maximum", self, b.splat(std::int64_t{0}, self.dtype, self.dims)));
}

constexpr Rule kActivationsRules[] = {
    {"aten.celu.default", lower_celu},
    {"aten.dropout.default", lower_dropout},
    {"aten.elu.default", lower_elu},
    {"aten.feature_dropout.default", lower_dropout},
    {"aten.gelu.default", lower_gelu},
    {"aten.glu.default", lower_glu},
    {"aten.hardsigmoid.default", plain<ir::Activation::kHardsigmoid>},
    {"aten.hardswish.default", plain<ir::Activation::kHardswish>},
    {"aten.hardtanh.default", lower_hardtanh},
    {"aten.leaky_relu.default", lower_leaky_relu},
    {"aten.log_sigmoid.default", lower_log_sigmoid},
    {"aten.mish.default", lower_mish},
    {"aten.relu.default", lower_relu},
    {"aten.relu6.default", plain<ir::Activation::kRelu6>},
    {"aten.selu.default", lower_selu},
    {"aten.silu.default", plain<ir::Activation::kSilu>},
    {"aten.softplus.default", lower_softplus},
    {"aten.threshold.default", lower_threshold},
};

}  // namespace

Value error_function(Builder& b, const Value& x) {
  const Value inside = b.emit("chlo.erf", {x}, x.dtype, x.dims);
  const double end = x.dtype == DType::kFloat64 ? 6 : 4;  // 1 - erf(4) is 1.5e-8, 1 - erf(6) is 2e-17
  return b.select({b.compare("GE", {b.unary("abs", x), number(b, end, x)}), b.unary("sign", x), inside});
}

Value keep_nan(Builder& b, const Value& x, const Value& result) { return b.select(b.compare("NE", x, x), x, result); }

Value apply_activation(Builder& b, ir::Activation activation, const Value& x) {
  switch (activation) {
    case ir::Activation::kNone: return x;
    case ir::Activation::kRelu: return b.binary("maximum", x, number(b, 0, x));
    case ir::Activation::kGelu: return gelu(b, x);
    case ir::Activation::kGeluTanh: return gelu_tanh(b, x);
    case ir::Activation::kSilu: return b.binary("multiply", x, b.unary("logistic", x));
    case ir::Activation::kSigmoid: return b.unary("logistic", x);
    case ir::Activation::kTanh: return b.unary("tanh", x);
    case ir::Activation::kHardsigmoid: return times(b, clamp(b, plus(b, x, 3), 0, 6), 1.0 / 6);
    case ir::Activation::kHardswish: {
      return b.binary("multiply", x, times(b, clamp(b, plus(b, x, 3), 0, 6), 1.0 / 6));
    }
    case ir::Activation::kRelu6: return clamp(b, x, 0, 6);
  }
  throw Refusal{"an unknown activation"};
}

std::span<const Rule> activation_rules() { return kActivationsRules; }

}  // namespace kpt::xla
