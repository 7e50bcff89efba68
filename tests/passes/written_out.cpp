#include "written_out.h"

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/weight_values.h"

namespace kpt::pass_runs {
namespace {

class Writer {
 public:
  explicit Writer(ImportedModel& model) : edit_(model.graph, model.weights) {}

  void run() {
    const std::size_t count = edit_.size();
    for (NodeIndex index = 0; index < count; ++index) {
      at_ = index;
      const ir::Node node = edit_.node(index);
      if (!node.target.starts_with(ir::kOwnPrefix)) continue;
      const ir::ValueId result = write(node);
      edit_.replace_uses(result_at(node, 0), result);
      edit_.erase_unused(index);
    }
  }

 private:
  ir::ValueId write(const ir::Node& node) {
    const std::string_view target = node.target;
    if (target == kAttentionTarget) return write_attention(node);
    if (target == kAddNormTarget) return write_norm(node);
    if (target == kGluTarget) return write_glu(node);
    if (target == kRotaryTarget) return write_rotary(node);
    return write_product(node);
  }

  // A call in front of the node at hand.
  ir::ValueId call(const std::string& target, std::vector<ir::NamedArgument> arguments, ir::TensorType type) {
    const ir::ValueId result = edit_.add_value("out_" + std::string(operator_name(target)), std::move(type));
    edit_.insert_before(at_, make_node(edit_.graph().at(result).name, target, std::move(arguments), result));
    return result;
  }

  ir::ValueId activate(ir::ValueId id, std::string_view activation) {
    if (activation == "none") return id;
    const ir::TensorType type = edit_.type(id);
    if (activation == "gelu_tanh") {
      return call("aten.gelu.default", {{"self", {id}}, {"approximate", {std::string("tanh")}}}, type);
    }
    return call("aten." + std::string(activation) + ".default", {{"self", {id}}}, type);
  }

  // Weights of another type than the input are widened: products of ours sum in float32.
  ir::ValueId plain_weight(const ir::Node& node, DType dtype) {
    const ir::ValueId weight = value_argument(node, "weight");
    if (edit_.type(weight).dtype == dtype) return weight;
    const Tensor tensor = *edit_.constant(weight);
    std::vector<double> values = read_as_double(tensor).value();
    Dims dims = tensor.dims();
    if (const ir::ValueId scale = value_argument(node, "scale"); scale != ir::kNoValue) {
      const std::vector<double> scales = read_as_double(*edit_.constant(scale)).value();
      if (const auto group = int_argument(node, "group")) {
        std::vector<double> wide;
        for (const double pair : values) {
          const auto bits = static_cast<unsigned>(pair);
          wide.push_back(static_cast<double>(bits & 15U) - 8);
          wide.push_back(static_cast<double>(bits >> 4U) - 8);
        }
        for (std::size_t at = 0; at < wide.size(); ++at) wide[at] *= scales[at / static_cast<std::size_t>(*group)];
        values = std::move(wide);
        dims[1] *= 2;
      } else {
        const std::size_t columns = values.size() / static_cast<std::size_t>(dims[0]);
        for (std::size_t at = 0; at < values.size(); ++at) values[at] *= scales[at / columns];
      }
    }
    return edit_.add_weight("out_weight", make_weight(dtype, dims, values).value());
  }

  ir::ValueId write_product(const ir::Node& node) {
    const ir::TensorType given = edit_.type(result_at(node, 0));
    const ir::ValueId input = value_argument(node, "input");
    // Products that take one type and give another compute in float32.
    if (edit_.type(input).dtype != given.dtype) {
      ir::Node wide = node;
      for (ir::NamedArgument& argument : wide.arguments) {
        const ir::ValueId* id = argument.value.value_id();
        if (id != nullptr && argument.name != "weight" && argument.name != "scale")
          argument.value = {cast(*id, DType::kFloat32)};
      }
      ir::TensorType type = given;
      type.dtype = DType::kFloat32;
      return cast(write_product(wide, type), given.dtype);
    }
    return write_product(node, given);
  }

  ir::ValueId cast(ir::ValueId id, DType dtype) {
    ir::TensorType type = edit_.type(id);
    if (type.dtype == dtype) return id;
    type.dtype = dtype;
    return call("aten.to.dtype", {{"self", {id}}, {"dtype", {dtype}}}, type);
  }

  ir::ValueId write_product(const ir::Node& node, const ir::TensorType& type) {
    const ir::ValueId input = value_argument(node, "input");
    const ir::ValueId weight = plain_weight(node, edit_.type(input).dtype);
    const ir::Argument bias = value_or_none(value_argument(node, "bias"));
    ir::ValueId result = ir::kNoValue;
    if (is_any(node, {kConv2dTarget, kConv2dInt8Target})) {
      std::vector<ir::NamedArgument> arguments = {{"input", {input}}, {"weight", {weight}}, {"bias", bias}};
      for (const char* name : {"stride", "padding", "dilation"}) {
        arguments.push_back({name, *find_argument(node, name)});
      }
      arguments.push_back({"groups", {int_argument(node, "groups").value_or(1)}});
      if (const std::vector<std::int64_t> padding = ints_argument(node, "padding").value(); padding.size() == 4) {
        ir::TensorType padded = edit_.type(input);
        padded.dims[2] = *constant_dim(padded, 2) + padding[0] + padding[2];
        padded.dims[3] = *constant_dim(padded, 3) + padding[1] + padding[3];
        arguments[0].value = {call("aten.pad.default",
                                   {{"self", {input}}, {"pad", ints({padding[1], padding[3], padding[0], padding[2]})}},
                                   contiguous_type(padded.dtype, padded.dims))};
        arguments[4].value = ints({0, 0});
      }
      result = call("aten.conv2d.default", std::move(arguments), type);
    } else {
      result = call("aten.linear.default", {{"input", {input}}, {"weight", {weight}}, {"bias", bias}}, type);
    }
    if (const ir::ValueId residual = value_argument(node, "residual"); residual != ir::kNoValue) {
      result = call("aten.add.Tensor", {{"self", {result}}, {"other", {residual}}}, type);
    }
    return activate(result, string_argument(node, "activation", ""));
  }

  ir::ValueId write_attention(const ir::Node& node) {
    ir::TensorType type = edit_.type(result_at(node, 0));
    std::swap(type.dims[1], type.dims[2]);
    std::swap(type.strides[1], type.strides[2]);
    std::vector<ir::NamedArgument> arguments;
    for (const char* name : {"query", "key", "value"}) arguments.push_back({name, *find_argument(node, name)});
    arguments.push_back({"attn_mask", *find_argument(node, "mask")});
    arguments.push_back({"dropout_p", {0.0}});
    arguments.push_back({"is_causal", *find_argument(node, "causal")});
    arguments.push_back({"scale", *find_argument(node, "scale")});
    arguments.push_back({"enable_gqa", {true}});
    const ir::ValueId heads = call("aten.scaled_dot_product_attention.default", std::move(arguments), type);
    const ir::ValueId turned =
        call("aten.transpose.int", {{"self", {heads}}, {"dim0", {std::int64_t{1}}}, {"dim1", {std::int64_t{2}}}},
             edit_.type(result_at(node, 0)));
    return call("aten.contiguous.default", {{"self", {turned}}}, edit_.type(result_at(node, 0)));
  }

  ir::ValueId write_norm(const ir::Node& node) {
    const ir::TensorType type = edit_.type(result_at(node, 0));
    ir::ValueId input = value_argument(node, "input");
    if (const ir::ValueId residual = value_argument(node, "residual"); residual != ir::kNoValue) {
      input = call("aten.add.Tensor", {{"self", {input}}, {"other", {residual}}}, type);
    }
    edit_.replace_uses(result_at(node, 1), input);
    const ir::Argument shape = ints({type.dims.back().constant().value()});
    std::vector<ir::NamedArgument> arguments = {{"input", {input}}, {"normalized_shape", shape}};
    const ir::ValueId weight = value_argument(node, "weight");
    arguments.push_back({"weight", value_or_none(weight)});
    if (string_argument(node, "kind", "") == "layer") {
      arguments.push_back({"bias", *find_argument(node, "bias")});
      arguments.push_back({"eps", *find_argument(node, "epsilon")});
      return call("aten.layer_norm.default", std::move(arguments), type);
    }
    arguments.push_back({"eps", *find_argument(node, "epsilon")});
    if (weight == ir::kNoValue || edit_.type(weight).dtype == type.dtype) {
      return call("aten.rms_norm.default", std::move(arguments), type);
    }
    // A float32 weight of a 16-bit input.
    ir::TensorType wide = type;
    wide.dtype = DType::kFloat32;
    arguments[0].value = {call("aten.to.dtype", {{"self", {input}}, {"dtype", {DType::kFloat32}}}, wide)};
    const ir::ValueId normed = call("aten.rms_norm.default", std::move(arguments), wide);
    return call("aten.to.dtype", {{"self", {normed}}, {"dtype", {type.dtype}}}, type);
  }

  ir::ValueId half(ir::ValueId id, bool upper) {
    ir::TensorType type = edit_.type(id);
    const std::int64_t width = type.dims.back().constant().value() / 2;
    type.dims.back() = width;
    const auto axis = static_cast<std::int64_t>(type.dims.size()) - 1;
    const std::int64_t start = upper ? width : 0;
    return call("aten.slice.Tensor", {{"self", {id}}, {"dim", {axis}}, {"start", {start}}, {"end", {start + width}}},
                type);
  }

  ir::ValueId write_glu(const ir::Node& node) {
    const ir::TensorType type = edit_.type(result_at(node, 0));
    const ir::ValueId input = value_argument(node, "input");
    const ir::ValueId gate = call("aten.contiguous.default", {{"self", {half(input, false)}}}, type);
    const ir::ValueId curve = activate(gate, string_argument(node, "activation", ""));
    return call("aten.mul.Tensor", {{"self", {curve}}, {"other", {half(input, true)}}}, type);
  }

  ir::ValueId write_rotary(const ir::Node& node) {
    const ir::TensorType type = edit_.type(result_at(node, 0));
    const ir::ValueId input = value_argument(node, "input");
    ir::TensorType narrow = contiguous_type(type.dtype, type.dims);
    narrow.dims.back() = type.dims.back().constant().value() / 2;
    narrow = contiguous_type(type.dtype, narrow.dims);
    const ir::ValueId turned = call("aten.neg.default", {{"self", {half(input, true)}}}, narrow);
    ir::List parts{ir::ElementKind::kTensor, {{turned}, {half(input, false)}}};
    const ir::ValueId rotated = call("aten.cat.default", {{"tensors", {parts}}, {"dim", {std::int64_t{-1}}}}, type);
    const ir::ValueId left = call("aten.mul.Tensor", {{"self", {input}}, {"other", *find_argument(node, "cos")}}, type);
    const ir::ValueId right =
        call("aten.mul.Tensor", {{"self", {rotated}}, {"other", *find_argument(node, "sin")}}, type);
    return call("aten.add.Tensor", {{"self", {left}}, {"other", {right}}}, type);
  }

  GraphEdit edit_;
  NodeIndex at_ = 0;
};

}  // namespace

void write_out_own_operators(ImportedModel& model) {
  Writer(model).run();
  remove_unused(model.graph, model.weights);
}

}  // namespace kpt::pass_runs
