#include "engines/xla/stablehlo/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace kpt::xla {
namespace {

constexpr std::string_view kIndent = "    ";

bool is_unsigned(DType dtype) {
  return dtype == DType::kUInt8 || dtype == DType::kUInt16 || dtype == DType::kUInt32 || dtype == DType::kUInt64;
}

// To the nearest, ties to even; NaN stays NaN.
std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

std::uint16_t float16_bits(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  // Steps of a float16 are 2^-24 below 2^-14; nearbyint rounds ties to even.
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - 11, -24);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -step)));
  if (step == -24) return static_cast<std::uint16_t>(sign | units);
  // `units` has its leading bit at 2^10 (or is 2^11 after rounding up, which carries into the exponent).
  return static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(step + 24) << 10U) + units));
}

std::string hex_bytes(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text = "0x";
  text.reserve(2 + 2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

std::string float_text(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value));
    case DType::kFloat32: return fmt::format("0x{:08X}", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    case DType::kBFloat16: return fmt::format("0x{:04X}", bfloat16_bits(static_cast<float>(value)));
    case DType::kFloat16: return fmt::format("0x{:04X}", float16_bits(static_cast<float>(value)));
    default: throw Refusal{fmt::format("constants of type {} cannot be written", to_string(dtype))};
  }
}

template <typename T>
void append_bytes(std::string& bytes, T value) {
  for (std::size_t index = 0; index < sizeof(T); ++index) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * index) & 0xffU);
  }
}

std::int64_t wrap_to(std::int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kInt8: return static_cast<std::int8_t>(value);
    case DType::kInt16: return static_cast<std::int16_t>(value);
    case DType::kInt32: return static_cast<std::int32_t>(value);
    case DType::kUInt8: return static_cast<std::uint8_t>(value);
    case DType::kUInt16: return static_cast<std::uint16_t>(value);
    case DType::kUInt32: return static_cast<std::uint32_t>(value);
    default: return value;
  }
}

std::string number_text(const Number& number, DType dtype) {
  if (is_floating(dtype)) return float_text(as_double(number), dtype);
  if (dtype == DType::kBool) return as_double(number) != 0 ? "true" : "false";
  if (!is_integral(dtype)) throw Refusal{fmt::format("constants of type {} cannot be written", to_string(dtype))};
  const std::int64_t value = wrap_to(as_int(number), dtype);
  return dtype == DType::kUInt64 ? std::to_string(static_cast<std::uint64_t>(value)) : std::to_string(value);
}

}  // namespace

double as_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::int64_t as_int(const Number& number) {
  if (const auto* whole = std::get_if<std::int64_t>(&number)) return *whole;
  if (const auto* truth = std::get_if<bool>(&number)) return *truth ? 1 : 0;
  const double real = std::get<double>(number);
  if (!(real >= -0x1p63 && real < 0x1p63)) throw Refusal{fmt::format("{} is no integer of 64 bits", real)};
  return static_cast<std::int64_t>(real);
}

DType math_dtype(DType dtype) { return is_floating(dtype) && element_bytes(dtype) < 4 ? DType::kFloat32 : dtype; }

std::string_view element_name(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "i1";
    case DType::kUInt8: return "ui8";
    case DType::kInt8: return "i8";
    case DType::kUInt16: return "ui16";
    case DType::kInt16: return "i16";
    case DType::kUInt32: return "ui32";
    case DType::kInt32: return "i32";
    case DType::kUInt64: return "ui64";
    case DType::kInt64: return "i64";
    case DType::kFloat8E4M3FN: return "f8E4M3FN";
    case DType::kFloat8E4M3FNUZ: return "f8E4M3FNUZ";
    case DType::kFloat8E5M2: return "f8E5M2";
    case DType::kFloat8E5M2FNUZ: return "f8E5M2FNUZ";
    case DType::kFloat16: return "f16";
    case DType::kBFloat16: return "bf16";
    case DType::kFloat32: return "f32";
    case DType::kFloat64: return "f64";
    default: throw Refusal{fmt::format("there is no lowering for elements of type {}", to_string(dtype))};
  }
}

std::int64_t element_count(const Extents& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) {
    // Products of an extent and a stride must not overflow anywhere in the rules.
    if (extent < 0 || extent > kMaxNumber) throw Refusal{fmt::format("a dimension is {}", extent)};
    if (__builtin_mul_overflow(count, extent, &count) || count > (std::int64_t{1} << 62)) {
      throw Refusal{"a tensor has more than 2^62 elements"};
    }
  }
  return count;
}

std::string type_name(DType dtype, const Extents& dims) {
  element_count(dims);
  std::string text = "tensor<";
  for (const std::int64_t extent : dims) text += std::to_string(extent) + "x";
  return text.append(element_name(dtype)).append(">");
}

std::string compare_attributes(std::string_view direction, DType dtype) {
  const bool without_sign = dtype == DType::kBool || is_unsigned(dtype);
  // Not left to the default: XLA 0.81 folds constants of signed integers as unsigned ones without it.
  const std::string_view kind = is_floating(dtype) ? "FLOAT" : without_sign ? "UNSIGNED" : "SIGNED";
  return fmt::format(
      "comparison_direction = #stablehlo<comparison_direction {}>, compare_type = #stablehlo<comparison_type {}>",
      direction, kind);
}

std::string list_text(std::span<const std::int64_t> items) { return fmt::format("[{}]", fmt::join(items, ", ")); }

std::string array_text(std::span<const std::int64_t> items) {
  return items.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(items, ", "));
}

Value Builder::emit(std::string_view operation, std::initializer_list<Value> operands, DType dtype, const Extents& dims,
                    std::string_view attributes) {
  return emit(operation, std::span(operands.begin(), operands.size()), dtype, dims, attributes);
}

Value Builder::emit(std::string_view operation, std::span<const Value> operands, DType dtype, const Extents& dims,
                    std::string_view attributes) {
  std::string names;
  std::string types;
  for (const Value& operand : operands) {
    if (!names.empty()) {
      names += ", ";
      types += ", ";
    }
    names += operand.name;
    types += type_name(operand.dtype, operand.dims);
  }
  Value result{next_name(), dtype, dims};
  text_ += fmt::format("{}{} = \"{}\"({}){} : ({}) -> {}\n", kIndent, result.name, operation, names,
                       attributes.empty() ? "" : fmt::format(" <{{{}}}>", attributes), types, type_name(dtype, dims));
  return result;
}

Value Builder::unary(std::string_view operation, const Value& x) {
  return emit(fmt::format("stablehlo.{}", operation), {x}, x.dtype, x.dims);
}

Value Builder::binary(std::string_view operation, const Value& a, const Value& b) {
  return emit(fmt::format("stablehlo.{}", operation), {a, b}, a.dtype, a.dims);
}

Value Builder::compare(std::string_view direction, const Value& a, const Value& b) {
  return emit("stablehlo.compare", {a, b}, DType::kBool, a.dims, compare_attributes(direction, a.dtype));
}

Value Builder::select(const Value& condition, const Value& yes, const Value& no) {
  return emit("stablehlo.select", {condition, yes, no}, yes.dtype, yes.dims);
}

Value Builder::binary(std::string_view operation, std::initializer_list<Value> operands) {
  const Value* const values = operands.begin();
  return binary(operation, values[0], values[1]);
}

Value Builder::compare(std::string_view direction, std::initializer_list<Value> operands) {
  const Value* const values = operands.begin();
  return compare(direction, values[0], values[1]);
}

Value Builder::select(std::initializer_list<Value> operands) {
  const Value* const values = operands.begin();
  return select(values[0], values[1], values[2]);
}

Value Builder::scalar(const Number& number, DType dtype) {
  const std::string text = number_text(number, dtype);
  const auto found = scalars_.find({dtype, text});
  if (found != scalars_.end()) return found->second;
  const Value value =
      emit("stablehlo.constant", {}, dtype, {}, fmt::format("value = dense<{}> : {}", text, type_name(dtype, {})));
  scalars_.emplace(std::pair(dtype, text), value);
  return value;
}

Value Builder::splat(const Number& number, DType dtype, const Extents& dims) {
  return broadcast_to(scalar(number, dtype), dims);
}

Value Builder::lowest(DType dtype) {
  if (is_floating(dtype)) return scalar(-std::numeric_limits<double>::infinity(), dtype);
  if (dtype == DType::kBool || is_unsigned(dtype)) return scalar(std::int64_t{0}, dtype);
  const auto bits = 8 * element_bytes(dtype);
  return scalar(bits == 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (bits - 1)), dtype);
}

Value Builder::highest(DType dtype) {
  if (is_floating(dtype)) return scalar(std::numeric_limits<double>::infinity(), dtype);
  if (dtype == DType::kBool) return scalar(true, dtype);
  if (dtype == DType::kUInt64) return scalar(std::int64_t{-1}, dtype);
  const auto bits = 8 * element_bytes(dtype) - (is_unsigned(dtype) ? 0 : 1);
  return scalar(bits == 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1, dtype);
}

Value Builder::dense(std::string_view bytes, DType dtype, const Extents& dims) {
  if (element_count(dims) == 0) {
    return emit("stablehlo.constant", {}, dtype, dims, fmt::format("value = dense<> : {}", type_name(dtype, dims)));
  }
  if (dtype == DType::kBool) {
    // Packed bits in newer parsers, bytes in older ones: an integer tensor is read alike by all.
    return convert(dense(bytes, DType::kInt8, dims), DType::kBool);
  }
  return emit("stablehlo.constant", {}, dtype, dims,
              fmt::format("value = dense<\"{}\"> : {}", hex_bytes(bytes), type_name(dtype, dims)));
}

Value Builder::dense_ints(std::span<const std::int64_t> values, DType dtype, const Extents& dims) {
  std::string bytes;
  for (const std::int64_t value : values) {
    std::string element;
    append_bytes(element, value);
    bytes.append(element, 0, element_bytes(dtype));
  }
  return dense(bytes, dtype, dims);
}

Value Builder::dense_reals(std::span<const double> values, DType dtype, const Extents& dims) {
  std::string bytes;
  for (const double value : values) {
    const auto single = static_cast<float>(value);
    switch (dtype) {
      case DType::kFloat64: append_bytes(bytes, std::bit_cast<std::uint64_t>(value)); break;
      case DType::kFloat32: append_bytes(bytes, std::bit_cast<std::uint32_t>(single)); break;
      case DType::kBFloat16: append_bytes(bytes, bfloat16_bits(single)); break;
      case DType::kFloat16: append_bytes(bytes, float16_bits(single)); break;
      default: throw Refusal{fmt::format("constants of type {} cannot be written", to_string(dtype))};
    }
  }
  return dense(bytes, dtype, dims);
}

Value Builder::iota(DType dtype, const Extents& dims, std::size_t axis) {
  return emit("stablehlo.iota", {}, dtype, dims, fmt::format("iota_dimension = {} : i64", axis));
}

Value Builder::convert(const Value& x, DType dtype) {
  if (x.dtype == dtype) return x;
  if (dtype == DType::kBool) return compare("NE", x, splat(std::int64_t{0}, x.dtype, x.dims));
  const bool from_float = is_floating(x.dtype);
  // StableHLO clamps what does not fit; C++ (and so PyTorch) wraps after cutting off the fraction.
  if (from_float && dtype == DType::kUInt8) return convert(convert(x, DType::kInt64), dtype);
  if (from_float && (dtype == DType::kInt8 || dtype == DType::kInt16)) {
    return convert(convert(x, DType::kInt32), dtype);
  }
  // StableHLO makes NaN of what is too large, PyTorch 2.15 the largest number (2.11: NaN).
  if (dtype == DType::kFloat8E4M3FN) {
    const Value wide = convert(x, from_float && element_bytes(x.dtype) > 1 ? x.dtype : DType::kFloat32);
    const Value above = binary("maximum", wide, splat(-448.0, wide.dtype, wide.dims));
    const Value within = binary("minimum", above, splat(448.0, wide.dtype, wide.dims));
    return emit("stablehlo.convert", {within}, dtype, x.dims);
  }
  return emit("stablehlo.convert", {x}, dtype, x.dims);
}

Value Builder::reshape(const Value& x, const Extents& dims) {
  if (x.dims == dims) return x;
  if (element_count(x.dims) != element_count(dims)) {
    throw Refusal{fmt::format("{} elements cannot be seen as {}", list_text(x.dims), list_text(dims))};
  }
  return emit("stablehlo.reshape", {x}, x.dtype, dims);
}

Value Builder::transpose(const Value& x, const Extents& permutation) {
  Extents dims;
  bool moves = false;
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    dims.push_back(x.dims[static_cast<std::size_t>(permutation[axis])]);
    moves = moves || permutation[axis] != static_cast<std::int64_t>(axis);
  }
  if (!moves) return x;
  return emit("stablehlo.transpose", {x}, x.dtype, dims, "permutation = " + array_text(permutation));
}

Value Builder::broadcast_in_dim(const Value& x, const Extents& dims, const Extents& mapping) {
  return emit("stablehlo.broadcast_in_dim", {x}, x.dtype, dims, "broadcast_dimensions = " + array_text(mapping));
}

Value Builder::broadcast_to(const Value& x, const Extents& dims) {
  if (x.dims == dims) return x;
  bool fits = x.rank() <= dims.size();
  Extents mapping;
  for (std::size_t axis = 0; fits && axis < x.rank(); ++axis) {
    const std::size_t place = dims.size() - x.rank() + axis;
    fits = x.dims[axis] == 1 || x.dims[axis] == dims[place];
    mapping.push_back(static_cast<std::int64_t>(place));
  }
  if (!fits) throw Refusal{fmt::format("{} does not broadcast to {}", list_text(x.dims), list_text(dims))};
  return broadcast_in_dim(x, dims, mapping);
}

Value Builder::slice(const Value& x, const Extents& starts, const Extents& limits, const Extents& strides) {
  Extents dims;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t extent = limits[axis] - starts[axis];
    dims.push_back(extent <= 0 ? 0 : (extent - 1) / strides[axis] + 1);
  }
  if (dims == x.dims) return x;
  return emit("stablehlo.slice", {x}, x.dtype, dims,
              fmt::format("start_indices = {}, limit_indices = {}, strides = {}", array_text(starts),
                          array_text(limits), array_text(strides)));
}

Value Builder::slice_axis(const Value& x, std::size_t axis, std::int64_t start, std::int64_t limit,
                          std::int64_t stride) {
  Extents starts(x.rank(), 0);
  Extents limits = x.dims;
  Extents strides(x.rank(), 1);
  starts[axis] = start;
  limits[axis] = limit;
  strides[axis] = stride;
  return slice(x, starts, limits, strides);
}

Value Builder::concatenate(std::span<const Value> parts, std::size_t axis) {
  if (parts.size() == 1) return parts[0];
  Extents dims = parts[0].dims;
  dims[axis] = 0;
  for (const Value& part : parts) dims[axis] += part.dims[axis];
  return emit("stablehlo.concatenate", parts, parts[0].dtype, dims, fmt::format("dimension = {} : i64", axis));
}

Value Builder::pad(const Value& x, const Value& filler, const Extents& low, const Extents& high,
                   const Extents& interior) {
  const Extents between = interior.empty() ? Extents(x.rank(), 0) : interior;
  Extents dims;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    dims.push_back(low[axis] + high[axis] + x.dims[axis] + (x.dims[axis] > 0 ? (x.dims[axis] - 1) * between[axis] : 0));
  }
  if (dims == x.dims && std::ranges::all_of(low, [](std::int64_t size) { return size == 0; })) return x;
  return emit("stablehlo.pad", {x, filler}, x.dtype, dims,
              fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}", array_text(low),
                          array_text(high), array_text(between)));
}

Value Builder::reverse(const Value& x, const Extents& axes) {
  if (axes.empty()) return x;
  return emit("stablehlo.reverse", {x}, x.dtype, x.dims, "dimensions = " + array_text(axes));
}

}  // namespace kpt::xla
