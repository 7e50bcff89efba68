// Sums, means, extremes, norms and softmax over axes. What PyTorch accumulates in a wider type is so here, too.
#include <cmath>
#include <limits>

#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/softmax.h"

namespace kpt::xla {
namespace {

// `dim` may be absent, a number, or a list.
Extents read_axes(Call& call, const Value& x) { return call.axes("dim", x.rank()); }

// The reduced axes go away unless keepdim says otherwise: the recorded dims decide.
void set_reduced(Call& call, const Value& kept, std::size_t result = 0) {
  call.set(call.builder().reshape(kept, call.type(result).dims), result);
}

Value read_wide(Call& call, DType dtype) { return call.builder().convert(call.tensor("self"), math_dtype(dtype)); }

void lower_sum(Call& call) {
  const Value x = read_wide(call, call.type().dtype);
  set_reduced(call, sum_kept(call.builder(), x, read_axes(call, x)));
}

void lower_mean(Call& call) {
  const Value x = read_wide(call, call.type().dtype);
  set_reduced(call, mean_kept(call.builder(), x, read_axes(call, x)));
}

void lower_prod(Call& call) {
  const Value x = read_wide(call, call.type().dtype);
  set_reduced(call, reduce_kept(call.builder(), "multiply", x, call.builder().scalar(std::int64_t{1}, x.dtype),
                                read_axes(call, x)));
}

Value extreme_kept(Builder& b, const Value& x, const Extents& axes, bool greatest) {
  if (x.dtype == DType::kBool) {
    return reduce_kept(b, greatest ? "or" : "and", x, b.scalar(!greatest, DType::kBool), axes);
  }
  return reduce_kept(b, greatest ? "maximum" : "minimum", x, greatest ? b.lowest(x.dtype) : b.highest(x.dtype), axes);
}

void lower_amax(Call& call) {
  const Value x = call.tensor("self");
  set_reduced(call, extreme_kept(call.builder(), x, read_axes(call, x), true));
}

void lower_amin(Call& call) {
  const Value x = call.tensor("self");
  set_reduced(call, extreme_kept(call.builder(), x, read_axes(call, x), false));
}

void lower_aminmax(Call& call) {
  const Value x = call.tensor("self");
  const Extents axes = read_axes(call, x);
  set_reduced(call, extreme_kept(call.builder(), x, axes, false), 0);
  set_reduced(call, extreme_kept(call.builder(), x, axes, true), 1);
}

// The first place that holds the extreme; NaN counts as the extreme. `x` has at least one dimension.
Value place_of_extreme(Builder& b, const Value& x, const Value& extreme, std::size_t axis) {
  const std::int64_t extent = x.dims[axis];
  Value holds = b.compare("EQ", x, b.broadcast_to(extreme, x.dims));
  if (is_floating(x.dtype)) holds = b.binary("or", holds, b.compare("NE", x, x));
  const Value places = b.select({holds, b.iota(DType::kInt64, x.dims, axis), b.splat(extent, DType::kInt64, x.dims)});
  return reduce_kept(b, "minimum", places, b.highest(DType::kInt64), {static_cast<std::int64_t>(axis)});
}

void extreme_along(Call& call, bool greatest) {
  Builder& b = call.builder();
  Value x = call.tensor("self");
  if (x.rank() == 0) x = b.reshape(x, {1});
  const std::size_t axis = call.axis("dim", x.rank());
  const Value extreme = extreme_kept(b, x, {static_cast<std::int64_t>(axis)}, greatest);
  set_reduced(call, extreme, 0);
  set_reduced(call, place_of_extreme(b, x, extreme, axis), 1);
}

void lower_max_dim(Call& call) { extreme_along(call, true); }
void lower_min_dim(Call& call) { extreme_along(call, false); }

void find_extreme(Call& call, bool greatest) {
  Builder& b = call.builder();
  Value x = call.tensor("self");
  if (!call.has("dim") || x.rank() == 0) x = b.reshape(x, {element_count(x.dims)});
  const std::size_t axis = call.has("dim") ? call.axis("dim", x.rank()) : 0;
  const Value extreme = extreme_kept(b, x, {static_cast<std::int64_t>(axis)}, greatest);
  set_reduced(call, place_of_extreme(b, x, extreme, axis));
}

void lower_argmax(Call& call) { find_extreme(call, true); }
void lower_argmin(Call& call) { find_extreme(call, false); }

void truth(Call& call, bool any) {
  Builder& b = call.builder();
  const Value x = b.convert(call.tensor("self"), DType::kBool);
  set_reduced(call, reduce_kept(b, any ? "or" : "and", x, b.scalar(!any, DType::kBool), read_axes(call, x)));
}

void lower_any(Call& call) { truth(call, true); }
void lower_all(Call& call) { truth(call, false); }

double read_correction(Call& call) {
  if (call.has("unbiased")) return call.flag("unbiased", true) ? 1 : 0;
  return call.real("correction", 1);
}

Value variance(Call& call, Value& mean) {
  const Value x = read_wide(call, call.type().dtype);
  const Extents axes = read_axes(call, x);
  mean = mean_kept(call.builder(), x, axes);
  return variance_kept(call.builder(), x, mean, axes, read_correction(call));
}

void lower_var(Call& call) {
  Value mean;
  set_reduced(call, variance(call, mean));
}

void lower_std(Call& call) {
  Value mean;
  set_reduced(call, call.builder().unary("sqrt", variance(call, mean)));
}

void lower_var_mean(Call& call) {
  Value mean;
  set_reduced(call, variance(call, mean), 0);
  set_reduced(call, mean, 1);
}

void lower_logsumexp(Call& call) {
  Builder& b = call.builder();
  const Value x = read_wide(call, call.type().dtype);
  const Extents axes = read_axes(call, x);
  const Value top = reduce_kept(b, "maximum", x, b.lowest(x.dtype), axes);
  // Infinite ones cannot be subtracted from themselves.
  const Value infinity = b.splat(std::numeric_limits<double>::infinity(), x.dtype, top.dims);
  const Value base = b.select({b.compare("EQ", b.unary("abs", top), infinity), b.splat(0.0, x.dtype, top.dims), top});
  const Value weights = b.unary("exponential", b.binary("subtract", x, b.broadcast_to(base, x.dims)));
  set_reduced(call, b.binary("add", b.unary("log", sum_kept(b, weights, axes)), base));
}

void norm(Call& call, double order) {
  Builder& b = call.builder();
  const Value x = b.unary("abs", read_wide(call, call.type().dtype));
  const Extents axes = read_axes(call, x);
  if (std::isinf(order)) {
    const bool greatest = order > 0;
    const Value init = greatest ? b.scalar(0.0, x.dtype) : b.highest(x.dtype);
    return set_reduced(call, reduce_kept(b, greatest ? "maximum" : "minimum", x, init, axes));
  }
  if (order == 0) {
    const Value nonzero = b.convert(b.compare("NE", x, b.splat(0.0, x.dtype, x.dims)), x.dtype);
    return set_reduced(call, sum_kept(b, nonzero, axes));
  }
  if (order == 1) return set_reduced(call, sum_kept(b, x, axes));
  if (order == 2) return set_reduced(call, b.unary("sqrt", sum_kept(b, b.binary("multiply", x, x), axes)));
  const Value sum = sum_kept(b, b.binary("power", x, b.splat(order, x.dtype, x.dims)), axes);
  set_reduced(call, b.binary("power", sum, b.splat(1 / order, x.dtype, sum.dims)));
}

void lower_vector_norm(Call& call) { norm(call, call.real("ord", 2)); }
void lower_norm(Call& call) { norm(call, call.real("p", 2)); }

// Over one value a softmax is 1, whatever the axis.
template <typename Function>
void along_axis(Call& call, const Function& function) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  Value x = b.convert(self, math_dtype(call.type().dtype));  // dtype= converts first
  if (x.rank() == 0) x = b.reshape(x, {1});
  call.set(b.reshape(function(b, x, call.axis("dim", x.rank())), self.dims));
}

void lower_softmax(Call& call) { along_axis(call, softmax); }
void lower_safe_softmax(Call& call) { along_axis(call, safe_softmax); }
void lower_log_softmax(Call& call) { along_axis(call, log_softmax); }

constexpr Rule kReductionRules[] = {
    {"aten._log_softmax.default", lower_log_softmax},
    {"aten._safe_softmax.default", lower_safe_softmax},
    {"aten._softmax.default", lower_softmax},
    {"aten.all.default", lower_all},
    {"aten.all.dim", lower_all},
    {"aten.all.dims", lower_all},
    {"aten.amax.default", lower_amax},
    {"aten.amin.default", lower_amin},
    {"aten.aminmax.default", lower_aminmax},
    {"aten.any.default", lower_any},
    {"aten.any.dim", lower_any},
    {"aten.any.dims", lower_any},
    {"aten.argmax.default", lower_argmax},
    {"aten.argmin.default", lower_argmin},
    {"aten.linalg_vector_norm.default", lower_vector_norm},
    {"aten.log_softmax.int", lower_log_softmax},
    {"aten.logsumexp.default", lower_logsumexp},
    {"aten.max.default", lower_amax},
    {"aten.max.dim", lower_max_dim},
    {"aten.mean.default", lower_mean},
    {"aten.mean.dim", lower_mean},
    {"aten.min.default", lower_amin},
    {"aten.min.dim", lower_min_dim},
    {"aten.norm.Scalar", lower_norm},
    {"aten.norm.ScalarOpt_dim", lower_norm},
    {"aten.norm.ScalarOpt_dim_dtype", lower_norm},
    {"aten.prod.default", lower_prod},
    {"aten.prod.dim_int", lower_prod},
    {"aten.softmax.int", lower_softmax},
    {"aten.std.correction", lower_std},
    {"aten.std.default", lower_std},
    {"aten.std.dim", lower_std},
    {"aten.sum.default", lower_sum},
    {"aten.sum.dim_IntList", lower_sum},
    {"aten.var.correction", lower_var},
    {"aten.var.default", lower_var},
    {"aten.var.dim", lower_var},
    {"aten.var_mean.correction", lower_var_mean},
    {"aten.var_mean.default", lower_var_mean},
    {"aten.var_mean.dim", lower_var_mean},
};

}  // namespace

std::span<const Rule> reduction_rules() { return kReductionRules; }

}  // namespace kpt::xla
