#include "passes/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

struct Quantized {
  Tensor weight;
  Tensor scale;
};

bool is_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

// The scale of a stretch of elements and what they become: round(x / scale), at most `limit` in magnitude. What is
// stored is the float nearest to the scale, so that is what is divided by.
float quantize_stretch(std::span<const double> values, double limit, std::span<double> steps) {
  double greatest = 0;
  for (const double value : values) greatest = std::max(greatest, std::fabs(value));
  auto scale = static_cast<float>(greatest / limit);
  if (!(scale > 0)) scale = 1;
  for (std::size_t at = 0; at < values.size(); ++at) {
    steps[at] = std::clamp(std::nearbyint(values[at] / static_cast<double>(scale)), -limit, limit);
  }
  return scale;
}

// A scale for all that stands behind an index of the first axis.
Result<Quantized> quantize_int8(const std::vector<double>& values, const Dims& dims) {
  KPT_ASSIGN_OR_RETURN(Tensor weight, Tensor::empty(DType::kInt8, dims));
  KPT_ASSIGN_OR_RETURN(Tensor scale, Tensor::empty(DType::kFloat32, Dims{dims[0]}));
  const auto rows = static_cast<std::size_t>(dims[0]);
  const std::size_t width = rows == 0 ? 0 : values.size() / rows;
  std::vector<double> steps(width);
  for (std::size_t row = 0; row < rows; ++row) {
    scale.elements<float>()[row] = quantize_stretch(std::span(values).subspan(row * width, width), 127, steps);
    for (std::size_t at = 0; at < width; ++at) {
      weight.elements<std::int8_t>()[row * width + at] = static_cast<std::int8_t>(steps[at]);
    }
  }
  return Quantized{std::move(weight), std::move(scale)};
}

Result<Quantized> quantize_int4(const std::vector<double>& values, std::int64_t rows, std::int64_t columns,
                                std::int64_t group) {
  KPT_ASSIGN_OR_RETURN(Tensor weight, Tensor::empty(DType::kUInt8, Dims{rows, columns / 2}));
  KPT_ASSIGN_OR_RETURN(Tensor scale, Tensor::empty(DType::kFloat32, Dims{rows, columns / group}));
  const auto width = static_cast<std::size_t>(group);
  std::vector<double> steps(width);
  for (std::size_t place = 0; place < values.size() / width; ++place) {
    scale.elements<float>()[place] = quantize_stretch(std::span(values).subspan(place * width, width), 7, steps);
    for (std::size_t pair = 0; pair < width / 2; ++pair) {
      const auto low = static_cast<unsigned>(steps[2 * pair] + 8);
      const auto high = static_cast<unsigned>(steps[2 * pair + 1] + 8);
      weight.elements<std::uint8_t>()[place * width / 2 + pair] = static_cast<std::uint8_t>(low | (high << 4U));
    }
  }
  return Quantized{std::move(weight), std::move(scale)};
}

Result<Quantized> quantize_fp8(const std::vector<double>& values, std::int64_t rows, std::int64_t columns) {
  constexpr double kGreatest = 448;
  KPT_ASSIGN_OR_RETURN(Tensor weight, Tensor::empty(DType::kFloat8E4M3FN, Dims{rows, columns}));
  KPT_ASSIGN_OR_RETURN(Tensor scale, Tensor::empty(DType::kFloat32, Dims{rows}));
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const auto stretch = std::span(values).subspan(row * width, width);
    double greatest = 0;
    for (const double value : stretch) greatest = std::max(greatest, std::fabs(value));
    auto step = static_cast<float>(greatest / kGreatest);
    if (!(step > 0)) step = 1;
    scale.elements<float>()[row] = step;
    for (std::size_t at = 0; at < width; ++at) {
      weight.elements<std::uint8_t>()[row * width + at] = to_float8_e4m3fn(stretch[at] / static_cast<double>(step));
    }
  }
  return Quantized{std::move(weight), std::move(scale)};
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

  // Why a weight cannot be stored in this form; null when it can.
  const char* find_obstacle(const ir::Node& node, const Dims& dims, std::int64_t group) const {
    if (form_ == Form::kInt4 && dims[1] % group != 0) return "its width is no multiple of 32";
    if (form_ == Form::kFp8 && (dims[0] % 16 != 0 || dims[1] % 16 != 0)) return "its sizes are no multiples of 16";
    if (form_ == Form::kFewRowsInt8 && !has_few_rows(node)) return "its rows are many, or not known";
    if (form_ != Form::kConvInt8) return nullptr;
    if (int_argument(node, "groups", 1) != 1) return "it has groups of channels";
    return dims[1] < kLeastConvChannels ? "it has fewer than 16 channels" : nullptr;
  }

  Result<Quantized> quantize(const std::vector<double>& values, const Dims& dims, std::int64_t group) const {
    if (form_ == Form::kInt4) return quantize_int4(values, dims[0], dims[1], group);
    return form_ == Form::kFp8 ? quantize_fp8(values, dims[0], dims[1]) : quantize_int8(values, dims);
  }

  Status try_node(NodeIndex index) {
    const std::string name = edit_.node(index).name;
    const ir::ValueId given = value_argument(edit_.node(index), "weight");
    const Tensor* weight = edit_.constant(given);
    if (weight == nullptr || !is_floating(weight->dtype())) return {};
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
      KPT_ASSIGN_OR_RETURN(const std::vector<double> values, read_as_double(*weight));
      if (!is_finite(values)) {
        leave(name, "its weight has an element that is no finite number");
        return {};
      }
      KPT_ASSIGN_OR_RETURN(Quantized made, quantize(values, weight->dims(), group));
      const std::string base = edit_.graph().at(given).name + "_" + name_of(form_);
      const ir::ValueId small = edit_.add_weight(base, std::move(made.weight));
      known =
          done_.emplace(ir::index_of(given), std::pair(small, edit_.add_weight(base + "_scale", std::move(made.scale))))
              .first;
    }
    std::vector<ir::NamedArgument> arguments = edit_.node(index).arguments;  // input, weight and the rest
    arguments[1].value = {known->second.first};
    arguments.insert(arguments.begin() + 2, {"scale", {known->second.second}});
    if (form_ == Form::kInt4) arguments.push_back({"group", {group}});
    std::erase_if(arguments, [](const ir::NamedArgument& argument) { return argument.name == "groups"; });
    edit_.replace_call(index, std::string(target_of(form_)), std::move(arguments));
    ++stats_.changes;
    stats_.details.push_back(name);
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
  return needs_own_operators(capabilities, {kLinearTarget, kLinearFp8Target});
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
const Pass kQuantizeFp8 = {"quantize_fp8", "products in FP8 (E4M3): a scale per row of the weight and of the input",
                           false, applies_fp8, run_quantization<Form::kFp8>};
const Pass kQuantizeInt4 = {"quantize_int4", "weights of products in 4 bits, a scale per group of a row", false,
                            applies_int4, run_quantization<Form::kInt4>};

}  // namespace kpt
