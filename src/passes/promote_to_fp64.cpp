#include "passes/promote_to_fp64.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/parallel.h"
#include "ir/own_operators.h"
#include "ir/scaled_product.h"

namespace kpt {
namespace {

DType promoted(DType dtype) {
  if (is_floating(dtype)) return DType::kFloat64;
  return is_complex(dtype) ? DType::kComplex128 : dtype;
}

void promote(ir::Argument& argument);

void promote(ir::List& list) {
  for (ir::Argument& item : list.items) promote(item);
}

void promote(ir::Argument& argument) {
  if (auto* dtype = std::get_if<DType>(&argument.value)) *dtype = promoted(*dtype);
  if (auto* list = std::get_if<ir::List>(&argument.value)) promote(*list);
}

bool is_floating_tensor(const ir::Graph& graph, ir::ValueId id) {
  return graph.at(id).kind == ir::ValueKind::kTensor && is_floating(graph.at(id).tensor.dtype);
}

// An operator that makes floats of integers alone (a division, a square root) gives PyTorch's default type, float32,
// whatever the graph says. It is given floats instead.
bool makes_floats_of_integers(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.empty() || node.outputs[0].values.empty() || node.outputs[0].values[0] == ir::kNoValue) return false;
  if (!is_floating_tensor(graph, node.outputs[0].values[0])) return false;
  bool any_tensor = false;
  bool any_floating = false;
  bool names_type = false;  // `dtype=` decides by itself
  for (const ir::NamedArgument& argument : node.arguments) {
    names_type = names_type || std::holds_alternative<DType>(argument.value.value);
    ir::for_each_value(argument.value, [&](ir::ValueId id) {
      any_tensor = any_tensor || graph.at(id).kind == ir::ValueKind::kTensor;
      any_floating = any_floating || is_floating_tensor(graph, id);
    });
  }
  return any_tensor && !any_floating && !names_type;
}

// Adds the call of `target` that yields a fp64 tensor like `like` and returns its value.
ir::ValueId add_call(ir::Graph& graph, std::vector<ir::Node>& nodes, std::string target,
                     std::vector<ir::NamedArgument> arguments, const ir::TensorType& like) {
  ir::Value value;
  value.name = fmt::format("fp64_{}", graph.values.size());
  value.tensor = like;
  value.tensor.dtype = DType::kFloat64;
  ir::Node node;
  node.name = value.name;
  node.target = std::move(target);
  node.arguments = std::move(arguments);
  const ir::ValueId id = graph.add_value(std::move(value));
  node.outputs = {{false, {id}}};
  nodes.push_back(std::move(node));
  return id;
}

void give_floats(ir::Graph& graph, std::vector<ir::Node>& nodes, ir::Node& node) {
  // Of `where` the condition stays, and every form becomes the one that chooses between tensors.
  const bool chooses = node.target.starts_with("aten.where.");
  if (chooses) node.target = "aten.where.self";
  for (std::size_t index = chooses ? 1 : 0; index < node.arguments.size(); ++index) {
    ir::Argument& argument = node.arguments[index].value;
    const bool number = std::holds_alternative<double>(argument.value) ||
                        std::holds_alternative<std::int64_t>(argument.value) ||
                        std::holds_alternative<bool>(argument.value);
    if (chooses && number) {
      argument.value =
          add_call(graph, nodes, "aten.scalar_tensor.default", {{"s", argument}, {"dtype", {DType::kFloat64}}}, {});
      continue;
    }
    const ir::ValueId* id = argument.value_id();
    if (id == nullptr || graph.at(*id).kind != ir::ValueKind::kTensor) continue;
    const ir::TensorType like = graph.at(*id).tensor;
    argument.value = add_call(graph, nodes, "aten.to.dtype", {{"self", {*id}}, {"dtype", {DType::kFloat64}}}, like);
  }
}

// Products of FP8 in terms of numbers: the scales are factors, and the last node has the name and the value of the one
// that was there.
Status write_out_scaled_products(ir::Graph& graph) {
  std::vector<ir::Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (ir::Node& node : graph.nodes) {
    if (node.target == ir::kScaledProductTarget) {
      const auto read = ir::read_scaled_product(graph, node);
      if (!read.ok()) {
        return {StatusCode::kUnsupported,
                fmt::format("node '{}' ({}) has no fp64 form, so the model has no reference: {}", node.name,
                            node.target, read.status().message())};
      }
      const auto multiply = [&](ir::ValueId codes, ir::ValueId scale) {
        const ir::TensorType like = graph.at(codes).tensor;
        return add_call(graph, nodes, "aten.mul.Tensor", {{"self", {codes}}, {"other", {scale}}}, like);
      };
      const ir::ValueId left = multiply(read->self, read->scale_a);
      const ir::ValueId right = multiply(read->mat2, read->scale_b);
      node.target = "aten.mm.default";
      node.arguments = {{"self", {left}}, {"mat2", {right}}};
      if (read->bias != ir::kNoValue) {
        const ir::TensorType like = graph.at(read->result).tensor;
        const ir::ValueId product = add_call(graph, nodes, node.target, std::move(node.arguments), like);
        node.target = "aten.add.Tensor";
        node.arguments = {{"self", {product}}, {"other", {read->bias}}};
      }
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return {};
}

// They read bits or exist in low precision only: the promoted graph would compute something else.
bool depends_on_bits(const ir::Node& node) {
  return node.target == "aten.view.dtype" || node.target.starts_with("aten._scaled_mm") ||
         node.target.starts_with("aten.frexp") || node.target.starts_with("aten.nextafter");
}

// 16-bit and 8-bit formats with the usual layout: sign, exponent, mantissa.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;  // an all-ones exponent means infinity or NaN
  bool is_fnuz;       // NaN is the bit pattern of -0, which does not exist
};

double decode(std::uint32_t bits, const SmallFormat& format) {
  const int width = 1 + format.exponent_bits + format.mantissa_bits;
  const bool negative = ((bits >> (width - 1)) & 1U) != 0;
  const std::uint32_t exponent_mask = (1U << format.exponent_bits) - 1;
  const std::uint32_t mantissa_mask = (1U << format.mantissa_bits) - 1;
  const std::uint32_t exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const std::uint32_t mantissa = bits & mantissa_mask;
  if (format.is_fnuz && negative && exponent == 0 && mantissa == 0) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == exponent_mask && !format.is_fnuz) {
    if (format.has_infinity) {
      if (mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
      return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    }
    if (mantissa == mantissa_mask) return std::numeric_limits<double>::quiet_NaN();
  }
  const double value = exponent == 0 ? std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits)
                                     : std::ldexp(mantissa + (mantissa_mask + 1.0),
                                                  static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  return negative ? -value : value;
}

inline double read_element(const std::byte* place, DType dtype) {
  const auto as = [place]<typename T>(T) {
    T value;
    __builtin_memcpy(&value, place, sizeof(T));
    return value;
  };
  switch (dtype) {
    case DType::kFloat64: return as(double{});
    case DType::kFloat32: return as(float{});
    case DType::kBFloat16: return std::bit_cast<float>(static_cast<std::uint32_t>(as(std::uint16_t{})) << 16);
    case DType::kFloat16: return decode(as(std::uint16_t{}), {5, 10, 15, true, false});
    case DType::kFloat8E4M3FN: return decode(as(std::uint8_t{}), {4, 3, 7, false, false});
    case DType::kFloat8E5M2: return decode(as(std::uint8_t{}), {5, 2, 15, true, false});
    case DType::kFloat8E4M3FNUZ: return decode(as(std::uint8_t{}), {4, 3, 8, false, true});
    case DType::kFloat8E5M2FNUZ: return decode(as(std::uint8_t{}), {5, 2, 16, false, true});
    default: {  // float8_e8m0fnu: a power of two
      const int exponent = as(std::uint8_t{});
      return exponent == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
    }
  }
}

}  // namespace

Status promote_to_fp64(ir::Graph& graph) {
  KPT_RETURN_IF_ERROR(write_out_scaled_products(graph));  // by the types as they were recorded
  for (ir::Value& value : graph.values) {
    if (value.kind == ir::ValueKind::kTensor) value.tensor.dtype = promoted(value.tensor.dtype);
  }
  std::vector<ir::Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (ir::Node& node : graph.nodes) {
    if (makes_floats_of_integers(graph, node)) give_floats(graph, nodes, node);
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  for (ir::Node& node : graph.nodes) {
    if (node.target.starts_with(ir::kOwnPrefix)) {
      return {StatusCode::kUnsupported,
              fmt::format("node '{}' ({}) has no fp64 form: the reference is made of the graph before optimization",
                          node.name, node.target)};
    }
    if (depends_on_bits(node)) {
      return {StatusCode::kUnsupported,
              fmt::format("node '{}' ({}) has no fp64 form, so the model has no reference", node.name, node.target)};
    }
    for (ir::NamedArgument& argument : node.arguments) {
      if (auto* body = std::get_if<ir::Subgraph>(&argument.value.value)) {
        ir::Graph copy = *body->graph;
        KPT_RETURN_IF_ERROR(promote_to_fp64(copy));
        body->graph = std::make_shared<const ir::Graph>(std::move(copy));
        continue;
      }
      promote(argument.value);
    }
  }
  for (ir::GraphInput& input : graph.inputs) promote(input.fixed);
  return {};
}

void widen_elements(const std::byte* from, DType dtype, std::span<double> to) {
  const std::size_t width = element_bytes(dtype);
  // A loop for each of the types that large weights have, so that the compiler can take several elements at once.
  const auto widen = [&](auto type) {
    for (std::size_t index = 0; index < to.size(); ++index) to[index] = read_element(from + index * width, type);
  };
  if (dtype == DType::kFloat32) {
    widen(std::integral_constant<DType, DType::kFloat32>());
  } else if (dtype == DType::kBFloat16) {
    widen(std::integral_constant<DType, DType::kBFloat16>());
  } else {
    widen(dtype);
  }
}

Result<Tensor> promote_to_fp64(const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() == DType::kFloat64 || tensor.dtype() == DType::kComplex128) return tensor;
  if (tensor.dtype() == DType::kComplex32) {
    return Status(StatusCode::kUnsupported, "complex32 tensors have no fp64 form here");
  }
  if (!is_floating(tensor.dtype()) && !is_complex(tensor.dtype())) return tensor;
  const bool in_place =
      is_floating(tensor.dtype()) && tensor.device() == "cpu" && tensor.data() != nullptr && tensor.is_contiguous();
  KPT_ASSIGN_OR_RETURN(const Tensor source, in_place ? Result<Tensor>(tensor) : tensor.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(Tensor result, Tensor::empty(promoted(tensor.dtype()), tensor.dims()));
  const auto count = static_cast<std::size_t>(source.element_count());
  if (is_complex(tensor.dtype())) {
    const auto from = source.elements<std::complex<float>>();
    const auto to = result.elements<std::complex<double>>();
    for (std::size_t index = 0; index < count; ++index) to[index] = from[index];
    return result;
  }
  constexpr std::size_t kStretch = std::size_t{1} << 18U;
  const auto* from = static_cast<const std::byte*>(source.data());
  const std::size_t width = element_bytes(tensor.dtype());
  const auto to = result.elements<double>();
  for_each_stretch(count, kStretch, [&](std::size_t begin, std::size_t end) {
    widen_elements(from + begin * width, tensor.dtype(), to.subspan(begin, end - begin));
  });
  return result;
}

namespace {

// The elements of its buffer that a weight reaches, both ends included.
struct View {
  const Buffer* buffer;
  DType dtype;
  std::int64_t first;
  std::int64_t last;
  const std::string* name;
};

View find_reach(const std::string& name, const Tensor& weight) {
  std::int64_t last = weight.offset();
  for (std::size_t axis = 0; axis < weight.dims().size(); ++axis) {
    last += (weight.dims()[axis] - 1) * weight.strides()[axis];
  }
  return {weight.buffer().get(), weight.dtype(), weight.offset(), last, &name};
}

}  // namespace

Result<Weights> promote_to_fp64(const Weights& weights) {
  Weights result;
  std::vector<View> views;
  for (const auto& [name, weight] : weights) {
    if (is_floating(weight.dtype()) && weight.element_count() > 0) {
      views.push_back(find_reach(name, weight));
    } else {
      KPT_ASSIGN_OR_RETURN(result[name], promote_to_fp64(weight));
    }
  }
  std::sort(views.begin(), views.end(), [](const View& a, const View& b) {
    return std::tie(a.buffer, a.dtype, a.first, *a.name) < std::tie(b.buffer, b.dtype, b.first, *b.name);
  });
  // Views that overlap, however they do, stay views of one piece of memory.
  for (std::size_t begin = 0; begin < views.size();) {
    std::size_t end = begin + 1;
    std::int64_t last = views[begin].last;
    while (end < views.size() && views[end].buffer == views[begin].buffer && views[end].dtype == views[begin].dtype &&
           views[end].first <= last) {
      last = std::max(last, views[end++].last);
    }
    const Tensor& any = weights.at(*views[begin].name);
    const std::int64_t first = views[begin].first;
    KPT_ASSIGN_OR_RETURN(const Tensor narrow,
                         Tensor::from_buffer(any.buffer(), any.dtype(), Dims{last - first + 1}, Dims{1}, first));
    KPT_ASSIGN_OR_RETURN(const Tensor wide, promote_to_fp64(narrow));
    for (; begin < end; ++begin) {
      const Tensor& weight = weights.at(*views[begin].name);
      KPT_ASSIGN_OR_RETURN(result[*views[begin].name],
                           Tensor::from_buffer(wide.buffer(), wide.dtype(), weight.dims(), weight.strides(),
                                               wide.offset() + weight.offset() - first));
    }
  }
  return result;
}

}  // namespace kpt
