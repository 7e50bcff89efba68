// Tensors made from numbers.
#include <vector>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

// Up to here a row of floats is written out: in double precision, as PyTorch computes it.
constexpr std::int64_t kWrittenOut = std::int64_t{1} << 16;

void fill(Call& call, const Number& number) {
  call.set(call.builder().splat(number, call.type().dtype, call.type().dims));
}

void lower_zeros(Call& call) { fill(call, std::int64_t{0}); }
void lower_ones(Call& call) { fill(call, std::int64_t{1}); }
void lower_full(Call& call) { fill(call, call.number("fill_value")); }
void lower_fill(Call& call) { call.set(call.expand(call.operand("value"), call.type().dtype)); }
void lower_scalar_tensor(Call& call) { fill(call, call.number("s")); }

void lower_arange(Call& call) {
  Builder& b = call.builder();
  const ResultType& type = call.type();
  if (type.dims.size() != 1) refuse("it gives no row");
  const Number start = call.find_number("start").value_or(std::int64_t{0});
  const Number step = call.find_number("step").value_or(std::int64_t{1});
  if (is_floating(type.dtype)) {
    if (type.dims[0] > kWrittenOut) refuse("it has too many floats to be written out");
    std::vector<double> values;
    for (std::int64_t index = 0; index < type.dims[0]; ++index) {
      values.push_back(as_double(start) + static_cast<double>(index) * as_double(step));
    }
    return call.set(b.dense_reals(values, type.dtype, type.dims));
  }
  Value value = b.iota(type.dtype, type.dims, 0);
  if (as_double(step) != 1) value = b.binary("multiply", value, b.splat(as_int(step), type.dtype, type.dims));
  if (as_double(start) != 0) value = b.binary("add", value, b.splat(as_int(start), type.dtype, type.dims));
  call.set(value);
}

void lower_linspace(Call& call) {
  const ResultType& type = call.type();
  const double start = as_double(call.number("start"));
  const double end = as_double(call.number("end"));
  const std::int64_t count = call.integer("steps");
  if (!is_floating(type.dtype) || count > kWrittenOut || count < 0) refuse("it gives no short row of floats");
  std::vector<double> values;
  for (std::int64_t index = 0; index < count; ++index) {
    const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
    // From both ends, as PyTorch does, so that the last one is the end itself.
    values.push_back(index < count / 2 || count == 1 ? start + step * static_cast<double>(index)
                                                     : end - step * static_cast<double>(count - 1 - index));
  }
  call.set(call.builder().dense_reals(values, type.dtype, type.dims));
}

void lower_eye(Call& call) {
  Builder& b = call.builder();
  const Extents& dims = call.type().dims;
  call.set(b.compare("EQ", {b.iota(DType::kInt32, dims, 0), b.iota(DType::kInt32, dims, 1)}));
}

// Keeps what lies on one side of a diagonal.
void triangle(Call& call, std::string_view direction) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  if (self.rank() < 2) refuse("a triangle needs two dimensions");
  const Value row = b.iota(DType::kInt64, self.dims, self.rank() - 2);
  const Value column = b.iota(DType::kInt64, self.dims, self.rank() - 1);
  const Value limit = b.binary("add", row, b.splat(call.integer("diagonal", 0), DType::kInt64, self.dims));
  call.set(b.select({b.compare(direction, column, limit), self, b.splat(std::int64_t{0}, self.dtype, self.dims)}));
}

void lower_tril(Call& call) { triangle(call, "LE"); }
void lower_triu(Call& call) { triangle(call, "GE"); }

void lower_one_hot(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Extents& dims = call.type().dims;
  if (call.integer("num_classes", -1) < 0) refuse("the number of classes depends on the contents");
  Extents column = self.dims;
  column.push_back(1);
  const Value wanted = b.broadcast_to(b.reshape(self, column), dims);
  call.set(b.compare("EQ", wanted, b.iota(self.dtype, dims, dims.size() - 1)));
}

constexpr Rule kCreationRules[] = {
    {"aten.arange.default", lower_arange},
    {"aten.arange.start", lower_arange},
    {"aten.arange.start_step", lower_arange},
    {"aten.empty.memory_format", lower_zeros},
    {"aten.empty_like.default", lower_zeros},
    {"aten.empty_permuted.default", lower_zeros},
    {"aten.empty_strided.default", lower_zeros},
    {"aten.eye.default", lower_eye},
    {"aten.eye.m", lower_eye},
    {"aten.fill.Scalar", lower_fill},
    {"aten.fill.Tensor", lower_fill},
    {"aten.full.default", lower_full},
    {"aten.full_like.default", lower_full},
    {"aten.linspace.default", lower_linspace},
    {"aten.new_empty.default", lower_zeros},
    {"aten.new_full.default", lower_full},
    {"aten.new_ones.default", lower_ones},
    {"aten.new_zeros.default", lower_zeros},
    {"aten.one_hot.default", lower_one_hot},
    {"aten.ones.default", lower_ones},
    {"aten.ones_like.default", lower_ones},
    {"aten.scalar_tensor.default", lower_scalar_tensor},
    {"aten.tril.default", lower_tril},
    {"aten.triu.default", lower_triu},
    {"aten.zero.default", lower_zeros},
    {"aten.zeros.default", lower_zeros},
    {"aten.zeros_like.default", lower_zeros},
};

}  // namespace

std::span<const Rule> creation_rules() { return kCreationRules; }

}  // namespace kpt::xla
