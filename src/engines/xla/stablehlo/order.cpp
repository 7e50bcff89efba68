// Sorting, and results that depend on the elements before.
#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/exponent.h"

namespace kpt::xla {
namespace {

// What stands `distance` places before each element of an axis, `filler` where nothing does.
Value before(Builder& b, const Value& x, std::size_t axis, std::int64_t distance, const Value& filler) {
  Extents low(x.rank(), 0);
  Extents high(x.rank(), 0);
  low[axis] = distance;
  high[axis] = -distance;
  return b.pad(x, filler, low, high);
}

// Doubling steps: after each, an element holds the result of twice as many. log2(n) passes, and a sum of few terms
// per element, which rounds less than one term after the other.
void cumulative(Call& call, std::string_view operation, std::int64_t neutral) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  Value x = b.convert(self, math_dtype(call.type().dtype));
  if (x.rank() == 0) return call.set(x);
  const std::size_t axis = call.axis("dim", x.rank());
  const Value filler = b.scalar(neutral, x.dtype);
  for (std::int64_t distance = 1; distance < x.dims[axis]; distance *= 2) {
    x = b.binary(operation, x, before(b, x, axis, distance, filler));
  }
  call.set(x);
}

// Doubling multiplies neighbours that no sequence of products brings together first: their product may be too large
// although none from the first element on is. PyTorch computes in float64; here the powers of two are counted apart,
// which accelerators without float64 do as well.
void cumulative_product(Call& call) {
  Builder& b = call.builder();
  const Value self = b.convert(call.tensor("self"), DType::kFloat32);
  if (self.rank() == 0) return call.set(self);
  const std::size_t axis = call.axis("dim", self.rank());
  Exponent x = split_exponent(b, self);
  const Value one = b.scalar(1.0, DType::kFloat32);
  const Value none = b.scalar(std::int64_t{0}, DType::kInt32);
  const Value two = b.splat(2.0, DType::kFloat32, self.dims);
  const Value half = b.splat(0.5, DType::kFloat32, self.dims);
  for (std::int64_t distance = 1; distance < self.dims[axis]; distance *= 2) {
    const Value product = b.binary("multiply", x.factor, before(b, x.factor, axis, distance, one));
    const Value power = b.binary("add", x.power, before(b, x.power, axis, distance, none));
    const Value carries = b.compare("GE", b.unary("abs", product), two);
    x.factor = b.select(carries, b.binary("multiply", product, half), product);
    x.power = b.binary("add", power, b.convert(carries, DType::kInt32));
  }
  call.set(join_exponent(b, x));
}

void lower_cumsum(Call& call) { cumulative(call, "add", 0); }
void lower_cumprod(Call& call) {
  if (math_dtype(call.type().dtype) == DType::kFloat32) return cumulative_product(call);
  cumulative(call, "multiply", 1);
}

std::pair<Value, Value> sort_along(Call& call, Value x, bool descending) {
  Builder& b = call.builder();
  if (x.rank() == 0) x = b.reshape(x, {1});
  const std::size_t axis = call.axis("dim", x.rank(), -1);
  return b.sort(x, b.iota(DType::kInt64, x.dims, axis), axis, descending);
}

void lower_sort(Call& call) {
  const auto [values, places] = sort_along(call, call.tensor("self"), call.flag("descending", false));
  call.set(call.builder().reshape(values, call.type(0).dims), 0);
  call.set(call.builder().reshape(places, call.type(1).dims), 1);
}

void lower_argsort(Call& call) {
  const auto [values, places] = sort_along(call, call.tensor("self"), call.flag("descending", false));
  call.set(call.builder().reshape(places, call.type().dims));
}

void lower_topk(Call& call) {
  Builder& b = call.builder();
  const auto [values, places] = sort_along(call, call.tensor("self"), call.flag("largest", true));
  const std::size_t axis = call.axis("dim", values.rank(), -1);
  const std::int64_t count = call.integer("k");
  if (count < 0 || count > values.dims[axis]) refuse("it asks for more elements than there are");
  call.set(b.reshape(b.slice_axis(values, axis, 0, count), call.type(0).dims), 0);
  call.set(b.reshape(b.slice_axis(places, axis, 0, count), call.type(1).dims), 1);
}

void lower_diff(Call& call) {
  Builder& b = call.builder();
  Value x = b.convert(call.tensor("self"), call.type().dtype);  // what all parts are promoted to
  if (x.rank() == 0) refuse("differences need a dimension");
  const std::size_t axis = call.axis("dim", x.rank(), -1);
  std::vector<Value> parts;
  if (auto before = call.find_tensor("prepend")) parts.push_back(b.convert(*before, x.dtype));
  parts.push_back(x);
  if (auto after = call.find_tensor("append")) parts.push_back(b.convert(*after, x.dtype));
  x = b.concatenate(parts, axis);
  const std::int64_t times = call.integer("n", 1);
  for (std::int64_t round = 0; round < times && x.dims[axis] > 0; ++round) {
    const std::int64_t extent = x.dims[axis];
    const Value later = b.slice_axis(x, axis, 1, extent);
    x = b.binary(x.dtype == DType::kBool ? "xor" : "subtract", later, b.slice_axis(x, axis, 0, extent - 1));
  }
  call.set(x);
}

constexpr Rule kOrderRules[] = {
    {"aten.argsort.default", lower_argsort}, {"aten.argsort.stable", lower_argsort},
    {"aten.cumprod.default", lower_cumprod}, {"aten.cumsum.default", lower_cumsum},
    {"aten.diff.default", lower_diff},       {"aten.sort.default", lower_sort},
    {"aten.sort.stable", lower_sort},        {"aten.topk.default", lower_topk},
};

}  // namespace

std::span<const Rule> order_rules() { return kOrderRules; }

}  // namespace kpt::xla
