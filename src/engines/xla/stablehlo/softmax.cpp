#include "engines/xla/stablehlo/softmax.h"

#include <limits>

namespace kpt::xla {
namespace {

// x minus the greatest of its row, for exp without overflow; and that greatest.
std::pair<Value, Value> shifted(Builder& b, const Value& x, std::size_t axis) {
  const Value top = reduce_kept(b, "maximum", x, b.lowest(x.dtype), {static_cast<std::int64_t>(axis)});
  return {b.binary("subtract", x, b.broadcast_to(top, x.dims)), top};
}

}  // namespace

Value reduce_kept(Builder& b, std::string_view operation, const Value& x, const Value& init, const Extents& axes) {
  Extents dims = x.dims;
  for (const std::int64_t axis : axes) dims[static_cast<std::size_t>(axis)] = 1;
  return b.reshape(b.reduce(operation, x, init, axes), dims);
}

Value sum_kept(Builder& b, const Value& x, const Extents& axes) {
  return reduce_kept(b, "add", x, b.scalar(std::int64_t{0}, x.dtype), axes);
}

Value mean_kept(Builder& b, const Value& x, const Extents& axes) {
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(x.dims[static_cast<std::size_t>(axis)]);
  const Value sum = sum_kept(b, x, axes);
  return b.binary("divide", sum, b.splat(count, x.dtype, sum.dims));
}

Value variance_kept(Builder& b, const Value& x, const Value& mean, const Extents& axes, double correction) {
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(x.dims[static_cast<std::size_t>(axis)]);
  const Value distance = b.binary("subtract", x, b.broadcast_to(mean, x.dims));
  const Value sum = sum_kept(b, b.binary("multiply", distance, distance), axes);
  const double divisor = count - correction > 0 ? count - correction : 0;
  return b.binary("divide", sum, b.splat(divisor, x.dtype, sum.dims));
}

Value softmax(Builder& b, const Value& x, std::size_t axis) {
  const Value weights = b.unary("exponential", shifted(b, x, axis).first);
  const Value sum = sum_kept(b, weights, {static_cast<std::int64_t>(axis)});
  return b.binary("divide", weights, b.broadcast_to(sum, x.dims));
}

Value log_softmax(Builder& b, const Value& x, std::size_t axis) {
  const Value distance = shifted(b, x, axis).first;
  const Value sum = sum_kept(b, b.unary("exponential", distance), {static_cast<std::int64_t>(axis)});
  return b.binary("subtract", distance, b.broadcast_to(b.unary("log", sum), x.dims));
}

Value safe_softmax(Builder& b, const Value& x, std::size_t axis) {
  const auto [distance, top] = shifted(b, x, axis);
  const Value weights = b.unary("exponential", distance);
  const Value sum = sum_kept(b, weights, {static_cast<std::int64_t>(axis)});
  const Value result = b.binary("divide", weights, b.broadcast_to(sum, x.dims));
  const Value lowest = b.splat(-std::numeric_limits<double>::infinity(), x.dtype, top.dims);
  const Value nowhere = b.broadcast_to(b.compare("EQ", top, lowest), x.dims);
  return b.select(nowhere, b.splat(0.0, x.dtype, x.dims), result);
}

}  // namespace kpt::xla
