// Products of matrices. 16-bit operands stay so, with sums in float32; a bias is added before the sum is rounded.
#include "engines/xla/stablehlo/matmul.h"

#include <algorithm>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

Extents counting(std::size_t count) {
  Extents list;
  for (std::size_t item = 0; item < count; ++item) list.push_back(static_cast<std::int64_t>(item));
  return list;
}

Extents broadcast_batches(const Extents& a, const Extents& b) {
  Extents result(std::max(a.size(), b.size()), 1);
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::int64_t x = back <= a.size() ? a[a.size() - back] : 1;
    const std::int64_t y = back <= b.size() ? b[b.size() - back] : 1;
    if (x != y && x != 1 && y != 1) refuse("its batches do not broadcast");
    result[result.size() - back] = x == 1 ? y : x;
  }
  return result;
}

Value spread(Builder& b, const Value& x, const Extents& batches) {
  Extents dims = batches;
  dims.insert(dims.end(), x.dims.end() - 2, x.dims.end());
  return b.broadcast_to(x, dims);
}

void require_equal(std::int64_t a, std::int64_t b) {
  if (a != b) refuse("its matrices do not fit each other");
}

Value product(Builder& b, const Value& x, const Value& y, const DotDims& dims) {
  return b.dot(x, y, dims, math_dtype(x.dtype));
}

void lower_matmul(Call& call) {
  call.set(matmul(call.builder(), call.tensor("self"), call.tensor(call.has("mat2") ? "mat2" : "other")));
}

void lower_mv(Call& call) { call.set(matmul(call.builder(), call.tensor("self"), call.tensor("vec"))); }
void lower_dot(Call& call) { call.set(matmul(call.builder(), call.tensor("self"), call.tensor("tensor"))); }

void lower_outer(Call& call) {
  Builder& b = call.builder();
  const Operand operands[] = {{call.tensor("self"), std::int64_t{0}}, {call.tensor("vec2"), std::int64_t{0}}};
  const DType dtype = call.compute_dtype(operands);
  const Extents& dims = call.type().dims;
  if (dims.size() != 2 || operands[0].tensor->rank() != 1 || operands[1].tensor->rank() != 1)
    refuse("it needs two vectors");
  const Value column = b.broadcast_in_dim(b.convert(*operands[0].tensor, dtype), dims, {0});
  call.set(b.binary("multiply", column, b.broadcast_in_dim(b.convert(*operands[1].tensor, dtype), dims, {1})));
}

void lower_linear(Call& call) {
  call.set(linear(call.builder(), call.tensor("input"), call.tensor("weight"), call.find_tensor("bias")));
}

// beta * self + alpha * product
void add_product(Call& call, std::string_view first, std::string_view second) {
  Builder& b = call.builder();
  Value value = matmul(b, call.tensor(first), call.tensor(second));
  const auto scaled = [&](const Value& x, std::string_view name) {
    const auto factor = call.find_number(name);
    return !factor || as_double(*factor) == 1 ? x : b.binary("multiply", x, b.splat(*factor, x.dtype, x.dims));
  };
  value = scaled(value, "alpha");
  const auto beta = call.find_number("beta");
  // NaN in a tensor that counts nothing must not show.
  if (beta && as_double(*beta) == 0) return call.set(value);
  const Value self = b.broadcast_to(b.convert(call.tensor("self"), value.dtype), value.dims);
  call.set(b.binary("add", scaled(self, "beta"), value));
}

// Sums of exact products in float32, then the scales: every code of FP8 is a bfloat16.
void lower_scaled_product(Call& call) {
  Builder& b = call.builder();
  if (call.has("scale_result")) refuse("its result has a scale");
  const auto codes = [&](std::string_view name) {
    const Value x = call.tensor(name);
    const bool is_fp8 = is_floating(x.dtype) && element_bytes(x.dtype) == 1;
    if (!is_fp8 || x.rank() != 2) refuse("its operands are no matrices of FP8");
    return b.convert(x, DType::kBFloat16);
  };
  const Value left = codes("self");
  Value value = matmul(b, left, codes("mat2"));
  const auto multiply = [&](std::string_view name, const Extents& each) {
    const Value scale = call.tensor(name);
    const bool one = scale.rank() <= 2 && element_count(scale.dims) == 1;
    if (scale.dtype != DType::kFloat32 || (!one && scale.dims != each)) {
      refuse("its scales are neither one nor one for each row or column");
    }
    value = b.binary("multiply", value, b.broadcast_to(scale, value.dims));
  };
  multiply("scale_a", {value.dims[0], 1});
  multiply("scale_b", {1, value.dims[1]});
  if (const auto bias = call.find_tensor("bias")) {
    value = b.binary("add", value, b.broadcast_to(b.convert(*bias, value.dtype), value.dims));
  }
  call.set(value);
}

void lower_addmm(Call& call) { add_product(call, "mat1", "mat2"); }
void lower_baddbmm(Call& call) { add_product(call, "batch1", "batch2"); }

constexpr Rule kMatmulRules[] = {
    {"aten._scaled_mm.default", lower_scaled_product},
    {"aten.addmm.default", lower_addmm},
    {"aten.baddbmm.default", lower_baddbmm},
    {"aten.bmm.default", lower_matmul},
    {"aten.dot.default", lower_dot},
    {"aten.linear.default", lower_linear},
    {"aten.matmul.default", lower_matmul},
    {"aten.mm.default", lower_matmul},
    {"aten.mv.default", lower_mv},
    {"aten.outer.default", lower_outer},
};

}  // namespace

Value matmul(Builder& b, const Value& x, const Value& y) {
  if (x.rank() == 0 || y.rank() == 0 || x.dtype != y.dtype) refuse("its operands are no matrices of one type");
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  if (y.rank() <= 2) {
    // One matrix or vector for all: its first axis meets the other's last.
    require_equal(x.dims.back(), y.dims[0]);
    return product(b, x, y, {{}, {}, {last}, {0}});
  }
  require_equal(x.dims.back(), y.dims[y.rank() - 2]);
  const auto rows = static_cast<std::int64_t>(y.rank()) - 2;
  if (x.rank() == 1) {
    const Extents batches(y.dims.begin(), y.dims.end() - 2);
    Extents row = batches;
    row.push_back(x.dims[0]);
    return product(b, b.broadcast_to(x, row), y, {counting(batches.size()), counting(batches.size()), {rows}, {rows}});
  }
  const Extents batches =
      broadcast_batches(Extents(x.dims.begin(), x.dims.end() - 2), Extents(y.dims.begin(), y.dims.end() - 2));
  const Extents axes = counting(batches.size());
  const auto inner = static_cast<std::int64_t>(batches.size());
  const Value left = spread(b, x, batches);
  return product(b, left, spread(b, y, batches), {axes, axes, {inner + 1}, {inner}});
}

Value linear(Builder& b, const Value& input, const Value& weight, const std::optional<Value>& bias) {
  if (input.rank() == 0 || weight.rank() == 0 || weight.rank() > 2) refuse("its operands are no matrices");
  if (input.dtype != weight.dtype) refuse("its input and weight have different types");
  const auto last = static_cast<std::int64_t>(input.rank()) - 1;
  const auto inner = static_cast<std::int64_t>(weight.rank()) - 1;
  require_equal(input.dims.back(), weight.dims.back());
  const Value value = product(b, input, weight, {{}, {}, {last}, {inner}});
  return bias ? b.binary("add", value, b.broadcast_to(b.convert(*bias, value.dtype), value.dims)) : value;
}

std::span<const Rule> matmul_rules() { return kMatmulRules; }

}  // namespace kpt::xla
