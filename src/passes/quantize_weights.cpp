#include "passes/quantize_weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/promote_to_fp64.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

struct Quantized {
  Tensor weight;
  Tensor scale;
};

// Elements that a thread takes at once.
constexpr std::size_t kStretchElements = std::size_t{1} << 16U;

// To the nearest, ties to even, for numbers far below 2^51 in magnitude: the sum has no bits behind the point.
double round_to_whole(double value) {
  constexpr double kNoFraction = 0x1.8p52;
  return (value + kNoFraction) - kNoFraction;
}

// The greatest magnitude among finite numbers; nothing if one is not finite.
std::optional<double> find_greatest(std::span<const double> values) {
  constexpr std::size_t kLanes = 8;  // independent of each other: else each element would wait for the one before
  std::array<double, kLanes> greatest{};
  std::array<std::int64_t, kLanes> finite;
  finite.fill(1);
  const auto look = [&](std::size_t lane, double value) {
    const double size = std::fabs(value);
    greatest[lane] = size > greatest[lane] ? size : greatest[lane];
    finite[lane] &= static_cast<std::int64_t>(size <= std::numeric_limits<double>::max());
  };
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t at = 0; at < whole; at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) look(lane, values[at + lane]);
  }
  for (std::size_t at = whole; at < values.size(); ++at) look(0, values[at]);
  if (std::ranges::find(finite, 0) != finite.end()) return std::nullopt;
  return *std::ranges::max_element(greatest);
}

// What is stored is the float nearest to the scale, so that is what is divided by.
float scale_for(double greatest, double limit) {
  const auto scale = static_cast<float>(greatest / limit);
  return scale > 0 ? scale : 1;
}

// round(x / scale), at most `limit` in magnitude, in the place of x.
void divide_and_round(std::span<double> values, float scale, double limit) {
  const auto divisor = static_cast<double>(scale);
  for (double& value : values) value = std::clamp(round_to_whole(value / divisor), -limit, limit);
}

// Where a form keeps the elements of a stretch, and its scale: (which stretch, its elements, the greatest of them).
using Store = std::function<void(std::size_t, std::span<double>, double)>;

// Hands every stretch of `width` elements to `store`, on several threads. False when an element is no finite number.
Result<bool> for_each_scale(const Tensor& weight, std::size_t width, const Store& store) {
  KPT_ASSIGN_OR_RETURN(const Tensor source, weight.is_contiguous() ? weight : weight.contiguous_copy());
  if (width == 0 || source.element_count() == 0) return true;
  const auto* from = static_cast<const std::byte*>(source.data());
  const std::size_t bytes = width * element_bytes(source.dtype());
  const std::size_t count = static_cast<std::size_t>(source.element_count()) / width;
  std::atomic<bool> finite{true};
  for_each_stretch(count, std::max<std::size_t>(1, kStretchElements / width), [&](std::size_t begin, std::size_t end) {
    std::vector<double> values(width);
    for (std::size_t place = begin; place < end && finite; ++place) {
      widen_elements(from + place * bytes, source.dtype(), values);
      if (const auto greatest = find_greatest(values)) {
        store(place, values, *greatest);
      } else {
        finite = false;
      }
    }
  });
  return finite.load();
}

// A scale for all that stands behind an index of the first axis. Nothing when an element is no finite number.
Result<std::optional<Quantized>> quantize_int8(const Tensor& given) {
  constexpr double kLimit = 127;
  const Dims& dims = given.dims();
  KPT_ASSIGN_OR_RETURN(Tensor weight, Tensor::empty(DType::kInt8, dims));
  KPT_ASSIGN_OR_RETURN(Tensor scale, Tensor::empty(DType::kFloat32, Dims{dims[0]}));
  const auto rows = static_cast<std::size_t>(dims[0]);
  const std::size_t width = rows == 0 ? 0 : static_cast<std::size_t>(given.element_count()) / rows;
  const auto to = weight.elements<std::int8_t>();
  const auto scales = scale.elements<float>();
  if (width == 0) std::ranges::fill(scales, 1.0F);
  const auto store = [&](std::size_t row, std::span<double> values, double greatest) {
    scales[row] = scale_for(greatest, kLimit);
    divide_and_round(values, scales[row], kLimit);
    std::int8_t* place = to.data() + row * width;
    for (std::size_t at = 0; at < width; ++at) place[at] = static_cast<std::int8_t>(static_cast<int>(values[at]));
  };
  KPT_ASSIGN_OR_RETURN(const bool finite, for_each_scale(given, width, store));
  if (!finite) return std::optional<Quantized>();
  return std::optional(Quantized{std::move(weight), std::move(scale)});
}

Result<std::optional<Quantized>> quantize_int4(const Tensor& given, std::int64_t group) {
  constexpr double kLimit = 7;
  const std::int64_t rows = given.dims()[0];
  const std::int64_t columns = given.dims()[1];
  KPT_ASSIGN_OR_RETURN(Tensor weight, Tensor::empty(DType::kUInt8, Dims{rows, columns / 2}));
  KPT_ASSIGN_OR_RETURN(Tensor scale, Tensor::empty(DType::kFloat32, Dims{rows, columns / group}));
  const auto width = static_cast<std::size_t>(group);
  const auto to = weight.elements<std::uint8_t>();
  const auto scales = scale.elements<float>();
  const auto store = [&](std::size_t stretch, std::span<double> values, double greatest) {
    scales[stretch] = scale_for(greatest, kLimit);
    divide_and_round(values, scales[stretch], kLimit);
    std::uint8_t* place = to.data() + stretch * width / 2;
    for (std::size_t pair = 0; pair < width / 2; ++pair) {
      const auto low = static_cast<unsigned>(static_cast<int>(values[2 * pair]) + 8);
      const auto high = static_cast<unsigned>(static_cast<int>(values[2 * pair + 1]) + 8);
      place[pair] = static_cast<std::uint8_t>(low | (high << 4U));
    }
  };
  KPT_ASSIGN_OR_RETURN(const bool finite, for_each_scale(given, width, store));
  if (!finite) return std::optional<Quantized>();
  return std::optional(Quantized{std::move(weight), std::move(scale)});
}

Result<std::optional<Quantized>> quantize_fp8(const Tensor& given) {
  constexpr double kGreatest = 448;
  KPT_ASSIGN_OR_RETURN(Tensor weight, Tensor::empty(DType::kFloat8E4M3FN, given.dims()));
  KPT_ASSIGN_OR_RETURN(Tensor scale, Tensor::empty(DType::kFloat32, Dims{given.dims()[0]}));
  const auto width = static_cast<std::size_t>(given.dims()[1]);
  const auto to = weight.elements<std::uint8_t>();
  const auto scales = scale.elements<float>();
  if (width == 0) std::ranges::fill(scales, 1.0F);
  const auto store = [&](std::size_t row, std::span<double> values, double greatest) {
    scales[row] = scale_for(greatest, kGreatest);
    const auto divisor = static_cast<double>(scales[row]);
    std::uint8_t* place = to.data() + row * width;
    for (std::size_t at = 0; at < width; ++at) place[at] = to_float8_e4m3fn(values[at] / divisor);
  };
  KPT_ASSIGN_OR_RETURN(const bool finite, for_each_scale(given, width, store));
  if (!finite) return std::optional<Quantized>();
  return std::optional(Quantized{std::move(weight), std::move(scale)});
}

enum class Form : std::uint8_t { kInt8, kWeightInt8, kFewRowsInt8, kInt4, kFp8, kConvInt8 };

// With fewer input channels a convolution has too few products for what quantizing its input takes, and the first of a
// network, which sees the image itself, costs most accuracy.
constexpr std::int64_t kLeastConvChannels = 16;

// The end of the stored weight's name.
const char* name_of(Form form) { return form == Form::kInt4 ? "int4" : (form == Form::kFp8 ? "fp8" : "int8"); }

std::string_view target_of(Form form) {
  switch (form) {
    case Form::kInt8: return kLinearInt8Target;
    case Form::kWeightInt8:
    case Form::kFewRowsInt8: return kLinearWeightInt8Target;
    case Form::kInt4: return kLinearInt4Target;
    case Form::kConvInt8: return kConv2dInt8Target;
    case Form::kFp8: break;
  }
  return kLinearFp8Target;
}

// Goes over all kpt.linear, or all kpt.conv2d.
class Quantization {
 public:
  Quantization(ir::Graph& graph, PassContext& context, Form form)
      : edit_(graph, context.weights), context_(context), form_(form) {}

  Result<PassStats> run() {
    for (NodeIndex index = 0; index < edit_.size(); ++index) {
      const std::string_view taken = form_ == Form::kConvInt8 ? kConv2dTarget : kLinearTarget;
      if (edit_.node(index).target == taken) KPT_RETURN_IF_ERROR(try_node(index));
    }
    return std::move(stats_);
  }

 private:
  // For FP8 the type of the input is asked for by the target, or known by data.
  std::string_view target_for(const std::string& node) const {
    if (form_ != Form::kFp8) return target_of(form_);
    const Fp8Inputs inputs = context_.capabilities.fp8_inputs;
    const bool wide =
        inputs == Fp8Inputs::kE5M2 || (inputs == Fp8Inputs::kByData && is_kept_precise(context_.wide_inputs, node));
    return wide ? kLinearFp8E5M2Target : kLinearFp8Target;
  }

  void leave(const std::string& name, const char* why) { stats_.details.push_back(name + " stays as it is: " + why); }

  bool has_few_rows(const ir::Node& node) const {
    const ir::TensorType& input = edit_.type(value_argument(node, "input"));
    std::int64_t rows = 1;
    for (std::size_t axis = 0; axis + 1 < input.dims.size(); ++axis) {
      const auto extent = constant_dim(input, axis);
      if (!extent || __builtin_mul_overflow(rows, *extent, &rows)) return false;
    }
    return rows <= context_.capabilities.weight_only_rows;
  }

  // Of one element of the result.
  static std::int64_t count_products(const Dims& weight) {
    return count_elements(std::span<const std::int64_t>(weight).subspan(1))
        .value_or(std::numeric_limits<std::int64_t>::max());
  }

  // Why a weight cannot be stored in this form; null when it can.
  const char* find_obstacle(const ir::Node& node, const Dims& dims, std::int64_t group) const {
    const DType input = edit_.type(value_argument(node, "input")).dtype;
    if (!takes_dtype(context_.capabilities, target_of(form_), input))
      return "it is float16, which this form does not take";
    if (form_ == Form::kInt4 && dims[1] % group != 0) return "its width is no multiple of 32";
    if (form_ == Form::kFp8 && (dims[0] % 16 != 0 || dims[1] % 16 != 0)) return "its sizes are no multiples of 16";
    const std::int64_t multiple = context_.capabilities.int8_multiple;
    if (form_ == Form::kInt8 && (dims[0] % multiple != 0 || dims[1] % multiple != 0)) {
      return "products of int8 are slow here with its sizes";
    }
    if ((form_ == Form::kInt8 || form_ == Form::kConvInt8) && count_products(dims) > context_.capabilities.int8_depth) {
      return "sums of so many int8 products do not fit into 32 bits";
    }
    if (form_ == Form::kFewRowsInt8 && !has_few_rows(node)) return "its rows are many, or not known";
    if (form_ != Form::kConvInt8) return nullptr;
    if (int_argument(node, "groups", 1) != 1) return "it has groups of channels";
    return dims[1] < kLeastConvChannels ? "it has fewer than 16 channels" : nullptr;
  }

  Result<std::optional<Quantized>> quantize(const Tensor& weight, std::int64_t group) const {
    if (form_ == Form::kInt4) return quantize_int4(weight, group);
    return form_ == Form::kFp8 ? quantize_fp8(weight) : quantize_int8(weight);
  }

  Status try_node(NodeIndex index) {
    const std::string name = edit_.node(index).name;
    const ir::ValueId given = value_argument(edit_.node(index), "weight");
    const Tensor* weight = edit_.constant(given);
    const auto& given_arguments = edit_.node(index).arguments;
    const bool in_order =
        given_arguments.size() >= 2 && given_arguments[0].name == "input" && given_arguments[1].name == "weight";
    const std::size_t rank = form_ == Form::kConvInt8 ? 4 : 2;
    if (weight == nullptr || !is_floating(weight->dtype()) || weight->dims().size() != rank || !in_order) return {};
    if (is_kept_precise(context_.kept_precise, name) || is_kept_precise(context_.not_quantized, name)) {
      leave(name, "it is kept precise");
      return {};
    }
    if (is_kept_precise(context_.slow_quantized, name)) {
      leave(name, "it was measured to be slower in fewer bits");
      return {};
    }
    const std::int64_t group = weight->dims()[1] % 64 == 0 ? 64 : 32;
    if (const char* why = find_obstacle(edit_.node(index), weight->dims(), group)) {
      leave(name, why);
      return {};
    }
    auto known = done_.find(ir::index_of(given));
    if (known == done_.end()) {
      KPT_ASSIGN_OR_RETURN(std::optional<Quantized> made, quantize(*weight, group));
      if (!made) {
        leave(name, "its weight has an element that is no finite number");
        return {};
      }
      const std::string base = edit_.graph().at(given).name + "_" + name_of(form_);
      const ir::ValueId small = edit_.add_weight(base, std::move(made->weight));
      known =
          done_
              .emplace(ir::index_of(given), std::pair(small, edit_.add_weight(base + "_scale", std::move(made->scale))))
              .first;
    }
    std::vector<ir::NamedArgument> arguments = edit_.node(index).arguments;  // input, weight and the rest
    arguments[1].value = {known->second.first};
    arguments.insert(arguments.begin() + 2, {"scale", {known->second.second}});
    if (form_ == Form::kInt4) arguments.push_back({"group", {group}});
    std::erase_if(arguments, [](const ir::NamedArgument& argument) { return argument.name == "groups"; });
    const std::string_view target = target_for(name);
    edit_.replace_call(index, std::string(target), std::move(arguments));
    ++stats_.changes;
    stats_.details.push_back(target == kLinearFp8E5M2Target ? name + ": its input becomes float8_e5m2" : name);
    return {};
  }

  GraphEdit edit_;
  PassContext& context_;
  Form form_;
  PassStats stats_;
  std::map<std::uint32_t, std::pair<ir::ValueId, ir::ValueId>> done_;  // by weight
};

template <Form form>
Result<PassStats> run_quantization(ir::Graph& graph, PassContext& context) {
  return Quantization(graph, context, form).run();
}

Support applies_int8(const Capabilities& capabilities) {
  if (!has_matrix_dtype(capabilities, DType::kInt8)) {
    return {false, "the target multiplies int8 matrices no faster than float32 ones"};
  }
  return needs_own_operators(capabilities, {kLinearTarget, kLinearInt8Target});
}

Support applies_conv_int8(const Capabilities& capabilities) {
  const Support linear = applies_int8(capabilities);
  return linear.supported ? needs_own_operators(capabilities, {kConv2dTarget, kConv2dInt8Target}) : linear;
}

Support applies_fp8(const Capabilities& capabilities) {
  if (!has_matrix_dtype(capabilities, DType::kFloat8E4M3FN)) {
    return {false, "the target does not multiply FP8 matrices"};
  }
  if (capabilities.fp8_inputs == Fp8Inputs::kE4M3) {
    return needs_own_operators(capabilities, {kLinearTarget, kLinearFp8Target});
  }
  return needs_own_operators(capabilities, {kLinearTarget, kLinearFp8Target, kLinearFp8E5M2Target});
}

Support applies_weights_int8(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kLinearTarget, kLinearWeightInt8Target});
}

Support applies_few_rows_int8(const Capabilities& capabilities) {
  if (capabilities.weight_only_rows == 0) {
    return {false, "the target multiplies no number of rows faster with weights alone in int8"};
  }
  return applies_weights_int8(capabilities);
}

Support applies_int4(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kLinearTarget, kLinearInt4Target});
}

}  // namespace

const Pass kQuantizeInt8 = {"quantize_int8", "products in int8: a scale per row of the weight and of the input", false,
                            applies_int8, run_quantization<Form::kInt8>};
const Pass kQuantizeConvsInt8 = {"quantize_convs_int8",
                                 "convolutions in int8: a scale per filter and per image or place of the input", false,
                                 applies_conv_int8, run_quantization<Form::kConvInt8>};
const Pass kQuantizeWeightsInt8 = {"quantize_weights_int8",
                                   "weights of products in int8, a scale per row; inputs stay as they are", false,
                                   applies_weights_int8, run_quantization<Form::kWeightInt8>};
const Pass kQuantizeFewRowsInt8 = {"quantize_few_rows_int8",
                                   "weights of products with few rows in int8; inputs stay as they are", false,
                                   applies_few_rows_int8, run_quantization<Form::kFewRowsInt8>};
const Pass kQuantizeFp8 = {"quantize_fp8", "products in FP8: a scale per row of the weight and of the input", false,
                           applies_fp8, run_quantization<Form::kFp8>};
const Pass kQuantizeInt4 = {"quantize_int4", "weights of products in 4 bits, a scale per group of a row", false,
                            applies_int4, run_quantization<Form::kInt4>};

}  // namespace kpt
