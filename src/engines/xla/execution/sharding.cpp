#include "engines/xla/execution/sharding.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "passes/node_arguments.h"

namespace kpt {
namespace {

bool divides(std::size_t devices, std::int64_t extent) {
  return extent > 0 && extent % static_cast<std::int64_t>(devices) == 0;
}

// A product with a weight. Axes are those of the weight as the file holds it.
struct Product {
  ir::ValueId input = ir::kNoValue;
  std::size_t weight = 0;  // graph input
  std::size_t output_axis = 0;
  std::size_t input_axis = 1;
  ir::ValueId bias = ir::kNoValue;
};

class WeightCuts {
 public:
  WeightCuts(const ir::Graph& graph, std::size_t devices)
      : graph_(graph), devices_(devices), cuts_(graph.inputs.size()), has_parts_(graph.values.size(), false) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      const ir::InputKind kind = graph.inputs[i].kind;
      // What passes made of parameters is a constant.
      const bool is_weight = kind == ir::InputKind::kParameter || kind == ir::InputKind::kConstant;
      if (is_weight) weights_[graph.inputs[i].value] = {i, false};
    }
  }

  std::vector<Cut> run() {
    for (const ir::Node& node : graph_.nodes) {
      if (follow_transpose(node)) continue;
      const auto product = find_product(node);
      const bool parts = product ? cut(*product) : uses_parts(node);
      for (const ir::Output& output : node.outputs) {
        for (const ir::ValueId id : output.values) {
          if (id != ir::kNoValue) has_parts_[ir::index_of(id)] = parts;
        }
      }
    }
    return std::move(cuts_);
  }

 private:
  struct Weight {
    std::size_t input = 0;
    bool transposed = false;
  };

  const std::vector<ir::Expr>& dims(std::size_t input) const {
    return graph_.at(graph_.inputs[input].value).tensor.dims;
  }

  // A weight that a node only turns is the same weight.
  bool follow_transpose(const ir::Node& node) {
    const std::string_view name = operator_name(node.target);
    const auto found = weights_.find(value_argument(node, "self"));
    if (found == weights_.end() || dims(found->second.input).size() != 2) return false;
    const auto order = ints_argument(node, "dims");
    const bool turns = name == "t" || name == "numpy_T" || name == "transpose" ||
                       (name == "permute" && order && *order == std::vector<std::int64_t>{1, 0});
    if (!turns || only_result(node) == ir::kNoValue) return false;
    weights_[only_result(node)] = {found->second.input, !found->second.transposed};
    return true;
  }

  std::optional<Product> find_product(const ir::Node& node) const {
    const std::string_view name = operator_name(node.target);
    const bool linear = name == "linear";
    const bool convolution = name == "conv1d" || name == "conv2d" || name == "conv3d";
    const bool plain = name == "mm" || name == "matmul" || name == "addmm";
    if (!linear && !convolution && !plain) return std::nullopt;
    if (convolution && int_argument(node, "groups", 1) != 1) return std::nullopt;
    const auto found = weights_.find(value_argument(node, !plain ? "weight" : name == "matmul" ? "other" : "mat2"));
    if (found == weights_.end()) return std::nullopt;
    const auto [input, transposed] = found->second;
    if (dims(input).size() < 2 || (!convolution && dims(input).size() != 2)) return std::nullopt;
    Product product;
    product.weight = input;
    product.input = value_argument(node, !plain ? "input" : name == "addmm" ? "mat1" : "self");
    // linear and convolutions have [outputs, inputs, …], the others [inputs, outputs].
    product.output_axis = plain != transposed ? 1 : 0;
    product.input_axis = 1 - product.output_axis;
    product.bias = !plain            ? value_argument(node, "bias")
                   : name == "addmm" ? value_argument(node, "self")
                                     : ir::kNoValue;
    return product;
  }

  bool try_cut(std::size_t input, std::size_t axis) {
    if (cuts_[input]) return *cuts_[input] == axis;  // used twice: the first decides
    const auto extent = dims(input)[axis].constant();
    if (!extent || !divides(devices_, *extent)) return false;
    cuts_[input] = axis;
    return true;
  }

  // Whether the result is in parts then.
  bool cut(const Product& product) {
    const bool parts = product.input != ir::kNoValue && has_parts_[ir::index_of(product.input)];
    if (parts) return !try_cut(product.weight, product.input_axis);
    if (!try_cut(product.weight, product.output_axis)) return false;
    const auto bias = weights_.find(product.bias);
    if (bias != weights_.end() && dims(bias->second.input).size() == 1) try_cut(bias->second.input, 0);
    return true;
  }

  bool uses_parts(const ir::Node& node) const {
    bool found = false;
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { found = found || has_parts_[ir::index_of(id)]; });
    }
    return found;
  }

  const ir::Graph& graph_;
  std::size_t devices_;
  std::vector<Cut> cuts_;
  std::vector<bool> has_parts_;  // by value: each device has computed some of its features
  std::map<ir::ValueId, Weight> weights_;
};

// The rows of the first input that has any.
std::optional<std::int64_t> find_batch(const ir::Graph& graph, const xla::LoweredModule& module) {
  for (const xla::ModulePlace& place : module.arguments) {
    if (graph.inputs[place.index].kind == ir::InputKind::kUser && !place.dims.empty()) return place.dims[0];
  }
  return std::nullopt;
}

}  // namespace

Result<ShardPlan> ShardPlan::make(const ir::Graph& graph, std::size_t devices, Sharding sharding) {
  ShardPlan plan;
  plan.devices_ = devices;
  plan.sharding_ = sharding;
  if (devices == 1 || sharding == Sharding::kBatch) return plan;
  plan.weights_ = WeightCuts(graph, devices).run();
  if (std::ranges::none_of(plan.weights_, [](const Cut& cut) { return cut.has_value(); })) {
    return Status(StatusCode::kModelPreparation,
                  fmt::format("no weight of the model can be shared out over {} devices: none of a product has an "
                              "extent that {} divides",
                              devices, devices));
  }
  return plan;
}

Result<ModuleCuts> ShardPlan::cut(const ir::Graph& graph, const xla::LoweredModule& module) const {
  ModuleCuts cuts{std::vector<Cut>(module.arguments.size()), std::vector<Cut>(module.results.size())};
  if (devices_ == 1) return cuts;
  if (sharding_ == Sharding::kWeights) {
    for (std::size_t i = 0; i < module.arguments.size(); ++i) cuts.arguments[i] = weight(module.arguments[i].index);
    return cuts;
  }
  const auto rows = find_batch(graph, module);
  if (!rows) {
    return Status(StatusCode::kModelPreparation,
                  fmt::format("the model has no input whose rows {} devices could share; set pjrt.sharding=weights or "
                              "pjrt.devices=1",
                              devices_));
  }
  if (!divides(devices_, *rows)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} devices cannot share a batch of {} rows evenly; give a multiple of {}, or set "
                              "pjrt.devices",
                              devices_, *rows, devices_));
  }
  for (std::size_t i = 0; i < module.arguments.size(); ++i) {
    const xla::ModulePlace& place = module.arguments[i];
    const bool given = graph.inputs[place.index].kind == ir::InputKind::kUser;
    if (given && !place.dims.empty() && place.dims[0] == *rows) cuts.arguments[i] = 0;
  }
  for (std::size_t i = 0; i < module.output_count; ++i) {
    if (!module.results[i].dims.empty() && module.results[i].dims[0] == *rows) cuts.results[i] = 0;
  }
  return cuts;
}

std::string ShardPlan::describe() const {
  if (devices_ == 1) return {};
  if (sharding_ == Sharding::kBatch) return fmt::format("on {} devices, each with its part of the batch", devices_);
  const auto count = std::ranges::count_if(weights_, [](const Cut& cut) { return cut.has_value(); });
  return fmt::format("on {} devices, each with its part of {} weights", devices_, count);
}

std::string mesh_operation(std::size_t devices) { return fmt::format("sdy.mesh @devices = <[\"part\"={}]>", devices); }

std::string sharding_attribute(std::size_t rank, Cut cut) {
  std::vector<std::string_view> axes(rank, "{}");
  if (cut) axes.at(*cut) = "{\"part\"}";
  return fmt::format("sdy.sharding = #sdy.sharding<@devices, [{}]>", fmt::join(axes, ", "));
}

}  // namespace kpt
