#include "runtime/generate_inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include <fmt/format.h>

#include "runtime/input_roles.h"

namespace kpt {
namespace {

// SplitMix64: a few lines, the same bits everywhere (the standard's distributions differ between libraries).
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name) : state_(seed) {
    for (const char letter : name) state_ = (next() ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

Result<std::int64_t> choose_size(const ir::SymbolRange& range, const GenerateOptions& options) {
  const auto given = options.sizes.find(range.name);
  if (given == options.sizes.end()) {
    const std::int64_t size = std::max<std::int64_t>(range.min.value_or(2), 2);
    return range.max ? std::min(size, *range.max) : size;
  }
  if ((range.min && given->second < *range.min) || (range.max && given->second > *range.max)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("size {} of symbol '{}' is outside {} to {}", given->second, range.name,
                              range.min.value_or(0), range.max ? std::to_string(*range.max) : "any"));
  }
  return given->second;
}

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// For the values made here: finite and far below 65504.
std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-14F) return static_cast<std::uint16_t>(sign | std::lrint(magnitude * 0x1p24F));
  const std::uint32_t absolute = bits & 0x7fffffff;
  const std::uint32_t rounded = absolute + 0xfff + ((absolute >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

template <typename T, typename Make>
void fill(const Tensor& tensor, const Make& make) {
  for (T& element : tensor.elements<T>()) element = static_cast<T>(make());
}

Status fill_random(const Tensor& tensor, Random& random, std::int64_t below) {
  const auto integer = [&] { return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(below)); };
  const auto normal = [&] { return static_cast<float>(random.normal()); };
  switch (tensor.dtype()) {
    case DType::kBool: fill<std::uint8_t>(tensor, [&] { return random.next() & 1; }); return {};
    case DType::kUInt8:
    case DType::kInt8: fill<std::int8_t>(tensor, integer); return {};
    case DType::kUInt16:
    case DType::kInt16: fill<std::int16_t>(tensor, integer); return {};
    case DType::kUInt32:
    case DType::kInt32: fill<std::int32_t>(tensor, integer); return {};
    case DType::kUInt64:
    case DType::kInt64: fill<std::int64_t>(tensor, integer); return {};
    case DType::kFloat16: fill<std::uint16_t>(tensor, [&] { return to_float16(normal()); }); return {};
    case DType::kBFloat16: fill<std::uint16_t>(tensor, [&] { return to_bfloat16(normal()); }); return {};
    case DType::kFloat32: fill<float>(tensor, normal); return {};
    case DType::kFloat64: fill<double>(tensor, [&] { return random.normal(); }); return {};
    case DType::kComplex64:
      fill<std::complex<float>>(tensor, [&] { return std::complex<float>(normal(), normal()); });
      return {};
    default:
      return {StatusCode::kUnsupported,
              fmt::format("inputs of type {} cannot be generated; give them in a file", to_string(tensor.dtype()))};
  }
}

// Gives every element of a tensor a small number by its index; for types that masks and positions have.
template <typename Number>
Status fill_numbers(const Tensor& tensor, const Number& number) {
  const auto count = static_cast<std::size_t>(tensor.element_count());
  for (std::size_t index = 0; index < count; ++index) {
    const double value = number(index);
    switch (tensor.dtype()) {
      case DType::kFloat16: tensor.elements<std::uint16_t>()[index] = to_float16(static_cast<float>(value)); break;
      case DType::kBFloat16: tensor.elements<std::uint16_t>()[index] = to_bfloat16(static_cast<float>(value)); break;
      case DType::kFloat32: tensor.elements<float>()[index] = static_cast<float>(value); break;
      case DType::kFloat64: tensor.elements<double>()[index] = value; break;
      case DType::kBool:
      case DType::kUInt8:
      case DType::kInt8: tensor.elements<std::int8_t>()[index] = static_cast<std::int8_t>(value); break;
      case DType::kUInt16:
      case DType::kInt16: tensor.elements<std::int16_t>()[index] = static_cast<std::int16_t>(value); break;
      case DType::kUInt32:
      case DType::kInt32: tensor.elements<std::int32_t>()[index] = static_cast<std::int32_t>(value); break;
      case DType::kUInt64:
      case DType::kInt64: tensor.elements<std::int64_t>()[index] = static_cast<std::int64_t>(value); break;
      default:
        return {StatusCode::kUnsupported,
                fmt::format("masks of type {} cannot be generated; give them in a file", to_string(tensor.dtype()))};
    }
  }
  return {};
}

std::size_t row_length(const Tensor& tensor) {
  return tensor.dims().empty() ? 1 : static_cast<std::size_t>(tensor.dims()[tensor.dims().size() - 1]);
}

// Ones, then zeros: the first row keeps all, every other at least one of several. `off` stands where a mask hides.
Status fill_mask(const Tensor& tensor, Random& random, double on, double off) {
  const std::size_t length = row_length(tensor);
  if (tensor.element_count() == 0) return {};
  const std::size_t rows = static_cast<std::size_t>(tensor.element_count()) / length;
  std::vector<std::size_t> kept(rows, length);
  for (std::size_t row = 1; row < rows; ++row) kept[row] = length > 1 ? 1 + random.next() % length : random.next() % 2;
  return fill_numbers(tensor, [&](std::size_t index) { return index % length < kept[index / length] ? on : off; });
}

Status fill_positions(const Tensor& tensor, std::optional<std::int64_t> below) {
  const std::size_t length = row_length(tensor);
  const std::size_t bound = below ? static_cast<std::size_t>(*below) : SIZE_MAX;
  return fill_numbers(tensor, [&](std::size_t index) { return static_cast<double>(index % length % bound); });
}

Result<Tensor> generate_one(const ir::Graph& graph, const ir::GraphInput& input, const ir::Bindings& symbols,
                            std::uint64_t seed) {
  const ir::Value& value = graph.at(input.value);
  Random random(seed, input.name);
  if (value.kind != ir::ValueKind::kTensor) {
    const DType dtype = value.kind == ir::ValueKind::kFloat  ? DType::kFloat64
                        : value.kind == ir::ValueKind::kBool ? DType::kBool
                                                             : DType::kInt64;
    KPT_ASSIGN_OR_RETURN(Tensor number, Tensor::empty(dtype, Dims{}));
    KPT_RETURN_IF_ERROR(fill_numbers(number, [](std::size_t) { return 1.0; }));
    return number;
  }
  Dims dims;
  for (const ir::Expr& dim : value.tensor.dims) {
    KPT_ASSIGN_OR_RETURN(const std::int64_t size, dim.evaluate(symbols));
    dims.push_back(size);
  }
  KPT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::empty(value.tensor.dtype, dims));
  // Far enough below zero to hide, and still a number in every floating type.
  constexpr double kHidden = -1e4;
  const InputUse use = find_input_use(graph, input);
  switch (use.role) {
    case InputRole::kMask: KPT_RETURN_IF_ERROR(fill_mask(tensor, random, 1, 0)); break;
    case InputRole::kAdditiveMask: KPT_RETURN_IF_ERROR(fill_mask(tensor, random, 0, kHidden)); break;
    case InputRole::kPosition: KPT_RETURN_IF_ERROR(fill_positions(tensor, use.below)); break;
    case InputRole::kIndex:
    case InputRole::kPlain: KPT_RETURN_IF_ERROR(fill_random(tensor, random, use.below.value_or(2))); break;
  }
  return tensor;
}

}  // namespace

Result<std::vector<NamedTensor>> generate_inputs(const ir::Graph& graph, const GenerateOptions& options) {
  ir::Bindings symbols;
  for (const ir::SymbolRange& range : graph.symbols) {
    KPT_ASSIGN_OR_RETURN(const std::int64_t size, choose_size(range, options));
    symbols.set(range.name, size);
  }
  for (const auto& [name, size] : options.sizes) {
    if (!symbols.find(name)) {
      return Status(StatusCode::kInvalidArgument, fmt::format("the model has no symbol '{}'", name));
    }
  }
  std::vector<NamedTensor> inputs;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || std::ranges::find(options.given, input.name) != options.given.end())
      continue;
    KPT_ASSIGN_OR_RETURN(Tensor tensor, generate_one(graph, input, symbols, options.seed));
    inputs.push_back({input.name, std::move(tensor)});
  }
  return inputs;
}

}  // namespace kpt
