#include "passes/fold_batch_norm.h"

#include <cmath>
#include <span>

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

// scale · x + shift, per channel.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
};

Result<std::vector<double>> read_or_fill(const Tensor* tensor, std::size_t count, double filling) {
  if (tensor == nullptr) return std::vector<double>(count, filling);
  return read_as_double(*tensor);
}

bool is_norm(const ir::Node& node) {
  if (node.target == "aten._native_batch_norm_legit_no_training.default") return true;
  return is_any(node, {"aten.batch_norm.default", "aten.native_batch_norm.default"}) &&
         bool_argument(node, "training") == false;
}

class BatchNormFolding {
 public:
  BatchNormFolding(ir::Graph& graph, PassContext& context) : edit_(graph, context.weights) {}

  Result<PassStats> run() {
    for (NodeIndex index = 0; index < edit_.size(); ++index) {
      if (!edit_.is_alive(index) || !is_norm(edit_.node(index))) continue;
      KPT_RETURN_IF_ERROR(try_fold(index));
    }
    return std::move(stats_);
  }

 private:
  // A weight of the norm: absent is fine, but what is there must be constant.
  bool is_constant_or_absent(const ir::Node& node, std::string_view name) const {
    return is_absent(node, name) || edit_.constant(value_argument(node, name)) != nullptr;
  }

  NodeIndex find_producer(const ir::Node& norm) const {
    const ir::ValueId input = value_argument(norm, "input");
    const NodeIndex index = edit_.producer(input);
    if (index == kNoNode || !edit_.has_one_use(input)) return kNoNode;
    const ir::Node& node = edit_.node(index);
    const bool linear = node.target == "aten.linear.default" && edit_.type(input).dims.size() == 2;
    const bool convolution = is_any(node, {"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default"}) ||
                             (node.target == "aten.convolution.default" && bool_argument(node, "transposed") == false);
    if (!linear && !convolution) return kNoNode;
    const Tensor* weight = edit_.constant(value_argument(node, "weight"));
    if (weight == nullptr || !is_constant_or_absent(node, "bias") || node.outputs.size() != 1) return kNoNode;
    // An image that is in no batch has its channels elsewhere.
    return edit_.type(input).dims.size() == weight->dims().size() ? index : kNoNode;
  }

  Status try_fold(NodeIndex index) {
    const ir::Node& norm = edit_.node(index);
    const NodeIndex producer = find_producer(norm);
    for (std::size_t place = 1; place < norm.outputs.size(); ++place) {
      const ir::ValueId extra = result_at(norm, place);
      if (extra != ir::kNoValue && (!edit_.users(extra).empty() || edit_.is_output(extra))) return {};
    }
    const bool constant = edit_.constant(value_argument(norm, "running_mean")) != nullptr &&
                          edit_.constant(value_argument(norm, "running_var")) != nullptr &&
                          is_constant_or_absent(norm, "weight") && is_constant_or_absent(norm, "bias");
    const bool one_result = edit_.is_tensor(result_at(norm, 0)) && producer != kNoNode &&
                            edit_.is_tensor(only_result(edit_.node(producer)));
    if (!one_result || !constant || !number_argument(norm, "eps", 1e-5)) return {};
    const Tensor& weight = *edit_.constant(value_argument(edit_.node(producer), "weight"));
    if (!is_floating(weight.dtype()) || weight.dims().empty()) return {};
    const auto channels = static_cast<std::size_t>(weight.dims()[0]);
    KPT_ASSIGN_OR_RETURN(const Affine affine, read_affine(norm, channels));
    const Tensor* bias = edit_.constant(value_argument(edit_.node(producer), "bias"));
    const bool fits = bias == nullptr || bias->element_count() == weight.dims()[0];
    if (affine.scale.size() != channels || !fits) return {};
    return fold(index, producer, weight, affine);
  }

  Result<Affine> read_affine(const ir::Node& norm, std::size_t channels) const {
    KPT_ASSIGN_OR_RETURN(const auto mean, read_as_double(*edit_.constant(value_argument(norm, "running_mean"))));
    KPT_ASSIGN_OR_RETURN(const auto variance, read_as_double(*edit_.constant(value_argument(norm, "running_var"))));
    KPT_ASSIGN_OR_RETURN(const auto gamma, read_or_fill(edit_.constant(value_argument(norm, "weight")), channels, 1.0));
    KPT_ASSIGN_OR_RETURN(const auto beta, read_or_fill(edit_.constant(value_argument(norm, "bias")), channels, 0.0));
    if (mean.size() != channels || variance.size() != channels || gamma.size() != channels || beta.size() != channels) {
      return Affine{};
    }
    const double epsilon = *number_argument(norm, "eps", 1e-5);
    Affine affine{std::vector<double>(channels), std::vector<double>(channels)};
    for (std::size_t channel = 0; channel < channels; ++channel) {
      affine.scale[channel] = gamma[channel] / std::sqrt(variance[channel] + epsilon);
      affine.shift[channel] = beta[channel] - mean[channel] * affine.scale[channel];
    }
    return affine;
  }

  Status fold(NodeIndex index, NodeIndex producer, const Tensor& weight, const Affine& affine) {
    const ir::Node node = edit_.node(producer);
    const std::size_t channels = affine.scale.size();
    KPT_ASSIGN_OR_RETURN(std::vector<double> values, read_as_double(weight));
    const std::size_t per_channel = channels == 0 ? 0 : values.size() / channels;
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const auto own = std::span(values).subspan(channel * per_channel, per_channel);
      for (double& value : own) value *= affine.scale[channel];
    }
    KPT_ASSIGN_OR_RETURN(std::vector<double> bias,
                         read_or_fill(edit_.constant(value_argument(node, "bias")), channels, 0.0));
    for (std::size_t channel = 0; channel < channels; ++channel) {
      bias[channel] = bias[channel] * affine.scale[channel] + affine.shift[channel];
    }
    KPT_ASSIGN_OR_RETURN(const Tensor folded_weight, make_weight(weight.dtype(), weight.dims(), values));
    KPT_ASSIGN_OR_RETURN(const Tensor folded_bias,
                         make_weight(weight.dtype(), Dims{static_cast<std::int64_t>(channels)}, bias));
    const std::string base = edit_.node(index).name;
    std::vector<ir::NamedArgument> arguments;
    for (const ir::NamedArgument& argument : node.arguments) {
      if (argument.name == "bias") continue;
      arguments.push_back(argument);
      if (argument.name != "weight") continue;
      arguments.back().value = {edit_.add_weight(base + "_weight", folded_weight)};
      arguments.push_back({"bias", {edit_.add_weight(base + "_bias", folded_bias)}});
    }
    ++stats_.changes;
    stats_.details.push_back(node.name + " + " + base);
    const ir::ValueId convolved = only_result(node);
    const ir::ValueId normed = result_at(edit_.node(index), 0);
    edit_.replace_call(producer, node.target, std::move(arguments));
    edit_.replace_uses(normed, convolved);
    edit_.swap_names(producer, index);  // its result is the norm's now
    edit_.erase_unused(index);
    return {};
  }

  GraphEdit edit_;
  PassStats stats_;
};

Result<PassStats> run_fold_batch_norm(ir::Graph& graph, PassContext& context) {
  return BatchNormFolding(graph, context).run();
}

Support applies_fold_batch_norm(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kFoldBatchNorm = {"fold_batch_norm", "batch normalisation goes into the weights in front of it", false,
                             applies_fold_batch_norm, run_fold_batch_norm};

}  // namespace kpt
