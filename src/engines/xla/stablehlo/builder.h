// Writes the operations of one function, in MLIR's generic form. Every method appends a line (or a few) and gives the
// value it defines. Nothing here knows PyTorch: shapes must fit as StableHLO wants them, which the rules see to.
//
// What cannot be written down at all (an element type that StableHLO lacks, more elements than 2^62) throws Refusal,
// which never leaves this folder: lower.cpp catches it node by node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/symbolic.h"
#include "kpt/dtype.h"

namespace kpt::xla {

// Why a node cannot be lowered; one clause.
struct Refusal {
  std::string reason;
};

using Extents = std::vector<std::int64_t>;
using Number = ir::SymValue;  // an integer, a float or a truth value known when the text is written

// A value of the function that is being written.
struct Value {
  std::string name;  // "%12", "%3#1"
  DType dtype = DType::kFloat32;
  Extents dims;
  std::size_t rank() const { return dims.size(); }
};

std::string_view element_name(DType dtype);  // "f32", "i1", "ui8"; throws Refusal for types StableHLO lacks
std::string type_name(DType dtype, const Extents& dims);
// Extents, strides and widths beyond this are refused.
inline constexpr std::int64_t kMaxNumber = std::int64_t{1} << 31;
// Throws Refusal when it overflows 2^62 or a dimension is negative or above kMaxNumber.
std::int64_t element_count(const Extents& dims);
std::string array_text(std::span<const std::int64_t> items);  // "array<i64: 1, 2>"
std::string list_text(std::span<const std::int64_t> items);   // "[1, 2]"
std::string compare_attributes(std::string_view direction, DType dtype);

struct DotDims {
  Extents lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
};

struct GatherDims {
  Extents offset_dims, collapsed, start_index_map;
  std::int64_t index_vector_dim = 0;
};

struct ScatterDims {
  Extents update_window_dims, inserted, to_operand_dims;
  std::int64_t index_vector_dim = 0;
};

struct Window {
  Extents sizes, strides, dilations, low, high;  // one entry per dimension of the operand
};

class Builder {
 public:
  // Any operation with one result. `attributes` is the inside of <{…}>.
  Value emit(std::string_view operation, std::initializer_list<Value> operands, DType dtype, const Extents& dims,
             std::string_view attributes = {});
  Value emit(std::string_view operation, std::span<const Value> operands, DType dtype, const Extents& dims,
             std::string_view attributes = {});

  Value unary(std::string_view operation, const Value& x);                   // "stablehlo." is put in front
  Value binary(std::string_view operation, const Value& a, const Value& b);  // of one type and shape
  Value compare(std::string_view direction, const Value& a, const Value& b);
  Value select(const Value& condition, const Value& yes, const Value& no);
  // The same, for operands that are written on the way: C++ keeps the order inside braces, not that of arguments, and
  // the text is to be one and the same from every compiler. Two such operands without braces do not compile.
  Value binary(std::string_view operation, std::initializer_list<Value> operands);
  Value compare(std::string_view direction, std::initializer_list<Value> operands);
  Value select(std::initializer_list<Value> operands);
  Value binary(std::string_view, Value&&, Value&&) = delete;
  Value compare(std::string_view, Value&&, Value&&) = delete;
  Value select(Value&&, Value&&, Value&&) = delete;
  Value select(Value&&, Value&&, const Value&) = delete;
  Value select(Value&&, const Value&, Value&&) = delete;
  Value select(const Value&, Value&&, Value&&) = delete;

  // A number in an element type, rounded as PyTorch does; without dims. The same one is written once.
  Value scalar(const Number& number, DType dtype);
  Value splat(const Number& number, DType dtype, const Extents& dims);
  // The least value (-inf, the least integer, false) and the greatest.
  Value lowest(DType dtype);
  Value highest(DType dtype);
  // Bytes of the elements, row-major, little-endian; bool one byte each.
  Value dense(std::string_view bytes, DType dtype, const Extents& dims);
  Value dense_ints(std::span<const std::int64_t> values, DType dtype, const Extents& dims);
  Value dense_reals(std::span<const double> values, DType dtype, const Extents& dims);
  Value iota(DType dtype, const Extents& dims, std::size_t axis);

  Value convert(const Value& x, DType dtype);  // as PyTorch casts
  Value reshape(const Value& x, const Extents& dims);
  Value transpose(const Value& x, const Extents& permutation);
  Value broadcast_in_dim(const Value& x, const Extents& dims, const Extents& mapping);
  Value broadcast_to(const Value& x,
                     const Extents& dims);  // last dimensions aligned; throws Refusal when it does not fit
  Value slice(const Value& x, const Extents& starts, const Extents& limits, const Extents& strides);
  Value slice_axis(const Value& x, std::size_t axis, std::int64_t start, std::int64_t limit, std::int64_t stride = 1);
  Value concatenate(std::span<const Value> parts, std::size_t axis);
  Value pad(const Value& x, const Value& filler, const Extents& low, const Extents& high, const Extents& interior = {});
  Value reverse(const Value& x, const Extents& axes);

  // `operation`: add, multiply, maximum, minimum, and, or. `init` without dims.
  Value reduce(std::string_view operation, const Value& x, const Value& init, const Extents& axes);
  Value reduce_window(std::string_view operation, const Value& x, const Value& init, const Window& window);
  Value dot(const Value& lhs, const Value& rhs, const DotDims& dims, DType dtype);
  Value gather(const Value& x, const Value& indices, const GatherDims& dims, const Extents& slice_sizes,
               const Extents& result);
  // The elements at `places` of one axis.
  Value take(const Value& x, std::size_t axis, std::span<const std::int64_t> places);
  // `operation` joins what is there (first) with the update; "" means that the update replaces it.
  Value scatter(std::string_view operation, const Value& x, const Value& indices, const Value& updates,
                const ScatterDims& dims);
  Value dynamic_update_slice(const Value& x, const Value& update, std::span<const Value> starts);
  // Stable; gives the sorted keys and the values that moved with them. NaN counts as greatest.
  std::pair<Value, Value> sort(const Value& keys, const Value& values, std::size_t axis, bool descending);

  const std::string& text() const { return text_; }

 private:
  std::string next_name() { return "%" + std::to_string(next_++); }
  std::string write_region(std::string_view operation, DType dtype);  // two arguments, one result

  std::string text_;
  std::size_t next_ = 0;
  std::map<std::pair<DType, std::string>, Value> scalars_;
};

// Sums and products of bfloat16 and float16 are computed in float32, as PyTorch does.
DType math_dtype(DType dtype);

double as_double(const Number& number);
std::int64_t as_int(const Number& number);  // a fraction is cut off; throws Refusal when it does not fit

}  // namespace kpt::xla
