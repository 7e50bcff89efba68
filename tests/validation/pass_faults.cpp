#include "validation/pass_faults.h"

#include <algorithm>
#include <random>

#include "base/files.h"
#include "ir/text.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/pass_testing.h"
#include "passes/quantize_weights.h"
#include "support/tree_paths.h"
#include "validation/faults.h"

namespace kpt::validation_test {
namespace {

ir::Node* first_call(ir::Graph& graph, std::string_view target) {
  const auto found = std::ranges::find(graph.nodes, target, &ir::Node::target);
  return found != graph.nodes.end() ? &*found : nullptr;
}

ir::Node* call_named(ir::Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.nodes, name, &ir::Node::name);
  return found != graph.nodes.end() ? &*found : nullptr;
}

// The weight that a node takes, as memory of its own.
Tensor weight_of(const ir::Graph& graph, Weights& weights, const ir::Node& node, std::string_view argument) {
  const ir::ValueId id = value_argument(node, argument);
  const auto input = std::ranges::find(graph.inputs, id, &ir::GraphInput::value);
  Tensor& weight = weights.find(input->name)->second;
  weight = weight.contiguous_copy().value();
  return weight;
}

// Gives the node that was spoiled, null where there is nothing to spoil.
using Spoil = ir::Node* (*)(ir::Graph&, Weights&);

template <Spoil spoil>
Result<PassStats> run(ir::Graph& graph, PassContext& context) {
  const ir::Node* node = spoil(graph, context.weights);
  return node == nullptr ? PassStats{} : PassStats{1, {node->name}};
}

Support applies_always(const Capabilities& /*capabilities*/) { return {}; }

ir::Node* swap_key_and_value(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kAttentionTarget);
  if (node != nullptr) std::swap(argument_of(*node, "key").value, argument_of(*node, "value").value);
  return node;
}

ir::Node* scale_attention_wrongly(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kAttentionTarget);
  if (node != nullptr) argument_of(*node, "scale").value = 1.2 * number_argument(*node, "scale").value();
  return node;
}

ir::Node* look_ahead(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kAttentionTarget);
  if (node != nullptr) argument_of(*node, "causal").value = false;
  return node;
}

ir::Node* swap_sine_and_cosine(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kRotaryTarget);
  if (node != nullptr) std::swap(argument_of(*node, "cos").value, argument_of(*node, "sin").value);
  return node;
}

ir::Node* enlarge_epsilon(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kAddNormTarget);
  if (node != nullptr) argument_of(*node, "epsilon").value = 1e-2;
  return node;
}

ir::Node* subtract_the_mean(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kAddNormTarget);
  if (node != nullptr) argument_of(*node, "kind").value = std::string("layer");
  return node;
}

ir::Node* gate_by_another_curve(ir::Graph& graph, Weights&) {
  ir::Node* node = first_call(graph, kGluTarget);
  if (node != nullptr) argument_of(*node, "activation").value = std::string("gelu");
  return node;
}

// Rows [first, first + count) and [second, second + count) of a matrix change places.
void swap_rows(const Tensor& matrix, std::size_t first, std::size_t second, std::size_t count) {
  const auto width = static_cast<std::size_t>(matrix.dims()[1]);
  const auto elements = matrix.elements<float>();
  std::swap_ranges(elements.begin() + static_cast<std::ptrdiff_t>(first * width),
                   elements.begin() + static_cast<std::ptrdiff_t>((first + count) * width),
                   elements.begin() + static_cast<std::ptrdiff_t>(second * width));
}

ir::Node* swap_gate_and_up(ir::Graph& graph, Weights& weights) {
  ir::Node* node = call_named(graph, "gated_gate_up");
  if (node != nullptr) swap_rows(weight_of(graph, weights, *node, "weight"), 0, 96, 96);
  return node;
}

ir::Node* swap_merged_parts(ir::Graph& graph, Weights& weights) {
  ir::Node* node = call_named(graph, "query_merged");
  if (node != nullptr) swap_rows(weight_of(graph, weights, *node, "weight"), 64, 96, 32);
  return node;
}

ir::Node* drop_residual(ir::Graph& graph, Weights&) {
  ir::Node* node = call_named(graph, "second_sum");
  if (node != nullptr) argument_of(*node, "residual").value = ir::None{};
  return node;
}

ir::Node* approximate_gelu(ir::Graph& graph, Weights&) {
  ir::Node* node = call_named(graph, "gelu");
  if (node != nullptr) argument_of(*node, "activation").value = std::string("gelu_tanh");
  return node;
}

ir::Node* take_another_bias(ir::Graph& graph, Weights&) {
  ir::Node* node = call_named(graph, "add_4");
  ir::Node* other = call_named(graph, "add_5");
  if (node == nullptr || other == nullptr) return nullptr;
  argument_of(*node, "bias") = argument_of(*other, "bias");
  return node;
}

// Axes of the last two extents change places; they are equally long.
void swap_last_axes(const Tensor& tensor) {
  const auto length = static_cast<std::size_t>(tensor.dims()[tensor.dims().size() - 1]);
  const auto elements = tensor.elements<float>();
  for (std::size_t base = 0; base < elements.size(); base += length * length) {
    for (std::size_t row = 0; row < length; ++row) {
      for (std::size_t column = 0; column < row; ++column) {
        std::swap(elements[base + row * length + column], elements[base + column * length + row]);
      }
    }
  }
}

ir::Node* transpose_weight(ir::Graph& graph, Weights& weights) {
  ir::Node* node = call_named(graph, "add_4");
  if (node != nullptr) swap_last_axes(weight_of(graph, weights, *node, "weight"));
  return node;
}

ir::Node* turn_kernels_of_convolution(ir::Graph& graph, Weights& weights) {
  ir::Node* node = first_call(graph, kConv2dTarget);
  if (node != nullptr) swap_last_axes(weight_of(graph, weights, *node, "weight"));
  return node;
}

ir::Node* shift_folded_norm(ir::Graph& graph, Weights& weights) {
  ir::Node* node = first_call(graph, "aten.conv2d.default");
  if (node != nullptr) weight_of(graph, weights, *node, "bias").elements<float>()[1] += 0.01F;
  return node;
}

ir::Node* shift_scores(ir::Graph& graph, Weights& weights) {
  ir::Node* node = call_named(graph, "scores");
  if (node != nullptr) weight_of(graph, weights, *node, "bias").elements<float>()[1] += 0.1F;
  return node;
}

ir::Node* shift_unfused_only(ir::Graph& graph, Weights& weights) {
  const ir::Node* node = call_named(graph, "scores");
  return node != nullptr && node->target == "aten.linear.default" ? shift_scores(graph, weights) : nullptr;
}

Result<PassStats> shift_unfused(ir::Graph& graph, PassContext& context) {
  shift_unfused_only(graph, context.weights);
  return PassStats{1, {}};
}

void invert(const Tensor& scale) {
  for (float& value : scale.elements<float>()) value = 1 / value;
}

void swap_halves_of_bytes(const Tensor& weight) {
  for (std::uint8_t& pair : weight.elements<std::uint8_t>()) {
    pair = static_cast<std::uint8_t>((pair << 4U) | (pair >> 4U));
  }
}

// The real quantization without looking at what is to stay precise, and then every node of it spoiled.
Result<PassStats> quantize_carelessly(const Pass& quantize, std::string_view target, std::string_view argument,
                                      void (*spoil)(const Tensor&), ir::Graph& graph, PassContext& context) {
  PassContext blind{context.weights, context.capabilities, context.evaluator, {}, {}};
  KPT_ASSIGN_OR_RETURN(PassStats stats, quantize.run(graph, blind));
  stats.details.clear();
  for (const ir::Node& node : graph.nodes) {
    if (node.target != target) continue;
    spoil(weight_of(graph, context.weights, node, argument));
    stats.details.push_back(node.name);
  }
  return stats;
}

Result<PassStats> quantize_to_int8(ir::Graph& graph, PassContext& context) {
  return quantize_carelessly(kQuantizeInt8, kLinearInt8Target, "scale", invert, graph, context);
}

Result<PassStats> quantize_to_int4(ir::Graph& graph, PassContext& context) {
  return quantize_carelessly(kQuantizeInt4, kLinearInt4Target, "weight", swap_halves_of_bytes, graph, context);
}

ir::Node* invert_one_scale(ir::Graph& graph, Weights& weights) {
  ir::Node* node = call_named(graph, "add_4");
  if (node == nullptr || node->target != kLinearInt8Target) return nullptr;
  invert(weight_of(graph, weights, *node, "scale"));
  return node;
}

Result<PassStats> waste_time(ir::Graph& graph, PassContext& /*context*/) {
  ir::ValueId last = *graph.outputs[0].value.value_id();
  for (int step = 0; step < 2000; ++step) {
    ir::Value value = graph.at(last);
    value.name = "wasted_" + std::to_string(step);
    const ir::ValueId next = graph.add_value(std::move(value));
    graph.nodes.push_back(make_node(graph.at(next).name, "aten.neg.default", {{"self", {last}}}, next));
    last = next;
  }
  graph.outputs[0].value = {last};
  return PassStats{1, {}};
}

Pass fault(std::string_view name, Result<PassStats> (*run)(ir::Graph&, PassContext&)) {
  return {name, "a planted fault", false, applies_always, run};
}

class WrongTarget final : public Target {
 public:
  WrongTarget(const Target& right, std::function<void(ir::Node&)> spoil, std::string name)
      : right_(right), spoil_(std::move(spoil)), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return right_.capabilities(); }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return right_.supports(graph); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    std::ranges::for_each(graph.nodes, spoil_);
    return right_.compile(std::move(graph));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return right_.deserialize(bytes);
  }

 private:
  const Target& right_;
  std::function<void(ir::Node&)> spoil_;
  std::string name_;
};

class WrongDevice final : public Device {
 public:
  WrongDevice(Device& right, std::function<void(ir::Node&)> spoil, const std::string& name)
      : right_(right),
        info_(right.info()),
        target_(right.target(), std::move(spoil),
                name.empty() ? std::string(right.target().name()) : name.substr(0, name.find(':'))) {
    if (!name.empty()) info_.name = name;
  }
  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    return right_.allocate(dtype, dims);
  }
  Result<Tensor> upload(const Tensor& host) override { return right_.upload(host); }
  Result<Tensor> download(const Tensor& tensor) override { return right_.download(tensor); }

 private:
  Device& right_;
  DeviceInfo info_;
  WrongTarget target_;
};

class WrongBackend final : public Backend {
 public:
  WrongBackend(const PlacedDevice& right, std::function<void(ir::Node&)> spoil, const std::string& name)
      : right_(right), device_(*right.device, std::move(spoil), name) {}
  std::string_view name() const override { return right_.backend->name(); }
  std::vector<const Target*> targets() const override { return {&device_.target()}; }
  Result<std::vector<Device*>> devices() override { return std::vector<Device*>{&device_}; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> /*devices*/) override {
    Device* const devices[] = {right_.device};
    return right_.backend->load(std::move(program), weights, devices);
  }
  WrongDevice& device() { return device_; }

 private:
  PlacedDevice right_;
  WrongDevice device_;
};

}  // namespace

const Pass kInvertOneScale = fault("inverted_scale", run<invert_one_scale>);

const Pass kShiftUnfused = fault("shift_unfused", shift_unfused);

const Pass kShiftUnfusedOnly = fault("shift_unfused_only", run<shift_unfused_only>);

const Pass kWasteTime = {"waste_time", "slow for nothing", false, applies_always, waste_time};

const std::vector<PassFault>& list_pass_faults() {
  const auto conservative = Level::kConservative;
  const auto aggressive = Level::kAggressive;
  static const std::vector<PassFault> kFaults = {
      {fault("key_for_value", run<swap_key_and_value>), make_small_bert, "fuse_attention", conservative},
      {fault("wrong_attention_scale", run<scale_attention_wrongly>), make_small_bert, "fuse_attention", conservative},
      {fault("dropped_causal_mask", run<look_ahead>), make_decoder, "fuse_attention", conservative},
      {fault("sine_for_cosine", run<swap_sine_and_cosine>), make_decoder, "fuse_rotary", conservative},
      {fault("wrong_epsilon", run<enlarge_epsilon>), make_decoder, "fuse_norm", conservative},
      {fault("wrong_kind_of_norm", run<subtract_the_mean>), make_decoder, "fuse_norm", conservative},
      {fault("wrong_gate_curve", run<gate_by_another_curve>), make_decoder, "merge_linear", conservative},
      {fault("swapped_gate_and_up", run<swap_gate_and_up>), make_decoder, "merge_linear", conservative},
      {fault("swapped_key_and_value_rows", run<swap_merged_parts>), make_decoder, "merge_linear", conservative},
      {fault("dropped_residual", run<drop_residual>), make_decoder, "fuse_linear", conservative},
      {fault("approximate_gelu", run<approximate_gelu>), make_small_bert, "fuse_linear", conservative},
      {fault("another_bias", run<take_another_bias>), make_small_bert, "fuse_linear", conservative},
      {fault("transposed_weight", run<transpose_weight>), make_small_bert, "fuse_linear", conservative},
      {fault("swapped_kernel_axes", run<turn_kernels_of_convolution>), make_conv_norm, "fuse_conv", conservative},
      {fault("wrong_bias_of_the_head", run<shift_scores>), make_classifier, "fuse_linear", conservative},
      {fault("wrong_folded_constant", run<shift_folded_norm>), make_conv_norm, "fold_batch_norm", conservative},
      {fault("inverted_int8_scales", quantize_to_int8),
       make_small_bert,
       "channels_last",
       aggressive,
       {"quantize_int8"}},
      {fault("swapped_int4_halves", quantize_to_int4), make_small_bert, "channels_last", aggressive, {"quantize_int8"}},
  };
  return kFaults;
}

ImportedModel make_decoder(std::uint64_t seed) {
  ImportedModel model;
  const std::string path = source_dir() + "/tests/validation/decoder.graph";
  model.graph = ir::read_graph(*read_text_file(path, 1 << 20)).value();
  model.weights = pass_testing::draw_weights(model.graph, seed);
  for (auto& [name, weight] : model.weights) {
    if (!name.starts_with("norm_")) continue;
    for (float& value : weight.elements<float>()) value += 1;
  }
  return model;
}

ImportedModel make_classifier(std::uint64_t seed) {
  ImportedModel model;
  model.graph = ir::read_graph(R"(kpt_graph 1
parameter w: float32[8, 3, 3, 3]
parameter gamma: float32[8]
parameter beta: float32[8]
buffer mean: float32[8]
buffer var: float32[8]
parameter head: float32[32, 8]
parameter head_bias: float32[32]
input x: float32[2, 3, 8, 8]
conv2d: float32[2, 8, 8, 8] = aten.conv2d.default(input=%x, weight=%w, bias=none, stride=[1, 1], padding=[1, 1])
batch_norm: float32[2, 8, 8, 8] = aten.batch_norm.default(input=%conv2d, weight=%gamma, bias=%beta, running_mean=%mean, running_var=%var, training=false, momentum=0.1, eps=1e-05, cudnn_enabled=false)
pooled: float32[2, 8] = aten.mean.dim(self=%batch_norm, dim=[2, 3])
scores: float32[2, 32] = aten.linear.default(input=%pooled, weight=%head, bias=%head_bias)
output %scores "scores"
)")
                    .value();
  model.weights = pass_testing::draw_weights(model.graph, seed);
  return model;
}

ImportedModel make_conv_norm(std::uint64_t /*seed*/) {
  return import_model(source_dir() + "/tests/golden/pt2/2.15.0/conv_norm.pt2").value();
}

PlacedDevice make_wrong_device(const PlacedDevice& right, std::function<void(ir::Node&)> spoil,
                               const std::string& name) {
  auto backend = std::make_shared<WrongBackend>(right, std::move(spoil), name);
  Device* device = &backend->device();
  return {std::move(backend), device};
}

}  // namespace kpt::validation_test
