#include "passes/memory_facts.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include "ir/own_operators.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

using Names = std::span<const std::string_view>;

// Operators of aten, without overload, whose results are always memory of their own. Sorted.
constexpr std::string_view kFresh[] = {
    "__and__",
    "__or__",
    "__xor__",
    "_adaptive_avg_pool2d",
    "_log_softmax",
    "_native_batch_norm_legit_no_training",
    "_safe_softmax",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_softmax",
    "_to_copy",
    "abs",
    "acos",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asin",
    "atan",
    "atan2",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "baddbmm",
    "batch_norm",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bmm",
    "cat",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "copy",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "diff",
    "div",
    "elu",
    "embedding",
    "eq",
    "erf",
    "exp",
    "expm1",
    "fill",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "gather",
    "ge",
    "gelu",
    "glu",
    "group_norm",
    "gt",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "index",
    "index_add",
    "index_copy",
    "index_put",
    "index_select",
    "isfinite",
    "isinf",
    "isnan",
    "layer_norm",
    "le",
    "leaky_relu",
    "linalg_vector_norm",
    "linear",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "masked_fill",
    "matmul",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mm",
    "mul",
    "native_group_norm",
    "native_layer_norm",
    "ne",
    "neg",
    "new_full",
    "new_ones",
    "new_zeros",
    "norm",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "pow",
    "prod",
    "reciprocal",
    "relu",
    "relu6",
    "remainder",
    "repeat",
    "rms_norm",
    "round",
    "rsqrt",
    "rsub",
    "scalar_tensor",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_add",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "slice_scatter",
    "softmax",
    "softplus",
    "sort",
    "sqrt",
    "square",
    "stack",
    "std",
    "sub",
    "sum",
    "tan",
    "tanh",
    "topk",
    "tril",
    "triu",
    "upsample_bilinear2d",
    "upsample_nearest2d",
    "var",
    "where",
    "zeros",
    "zeros_like",
};
static_assert(std::is_sorted(std::begin(kFresh), std::end(kFresh)));

// Operators with PyTorch's tag nondeterministic_seeded, and the forms without underscore of those that write. Others
// with the tag are told by an argument.
constexpr std::string_view kRandom[] = {
    "_cudnn_init_dropout_state",
    "_fill_mem_eff_dropout_mask",
    "_fused_dropout",
    "_sample_dirichlet",
    "_standard_gamma",
    "bernoulli",
    "binomial",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "native_dropout",
    "normal",
    "normal_functional",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "rrelu",
    "rrelu_with_noise",
    "rrelu_with_noise_functional",
    "uniform",
};

constexpr std::string_view kRandomInTraining[] = {
    "_cudnn_rnn", "_lstm_mps",  "alpha_dropout", "dropout",  "feature_alpha_dropout", "feature_dropout", "gru",
    "lstm",       "miopen_rnn", "rnn_relu",      "rnn_tanh",
};

// They write arguments, though their names do not say so.
constexpr std::string_view kWriting[] = {"_fused_moving_avg_obs_fq_helper", "fused_moving_avg_obs_fake_quant",
                                         "rrelu_with_noise"};

// a &= b and its like.
constexpr std::string_view kAugmented[] = {"__iand__", "__ilshift__", "__ior__", "__irshift__", "__ixor__"};

constexpr std::string_view kUninitialised[] = {"empty",         "empty_like", "empty_permuted",
                                               "empty_strided", "new_empty",  "new_empty_strided"};

constexpr std::string_view kStatistics[] = {
    "_batch_norm_with_update", "_native_batch_norm_legit", "batch_norm",       "cudnn_batch_norm",
    "instance_norm",           "miopen_batch_norm",        "native_batch_norm"};

bool contains(Names names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

bool is_number_operator(std::string_view target) {
  return target.starts_with("_operator.") || target.starts_with("torch.sym_") || target.starts_with("math.");
}

bool is_known(std::string_view target) {
  if (target.starts_with("aten.")) return !contains(kWriting, operator_name(target));
  return target.starts_with(ir::kOwnPrefix) || is_number_operator(target);
}

bool updates_statistics(const ir::Node& node) {
  if (!contains(kStatistics, operator_name(node.target))) return false;
  const std::string_view word = operator_name(node.target) == "instance_norm" ? "use_input_stats" : "training";
  return bool_argument(node, word).value_or(true);
}

bool writes_out(const ir::Node& node) {
  return std::any_of(node.arguments.begin(), node.arguments.end(), [](const ir::NamedArgument& argument) {
    return argument.name.starts_with("out") && argument.value.value_id() != nullptr &&
           (argument.name == "out" ||
            (argument.name.size() == 4 && argument.name[3] >= '0' && argument.name[3] <= '9'));
  });
}

}  // namespace

bool is_in_place(const ir::Node& node) {
  if (!node.target.starts_with("aten.")) return false;
  const std::string_view name = operator_name(node.target);
  return (name.ends_with('_') && !name.ends_with("__")) || contains(kAugmented, name);
}

bool draws_at_random(const ir::Node& node) {
  if (!node.target.starts_with("aten.")) return false;
  std::string_view name = operator_name(node.target);
  if (is_in_place(node)) name.remove_suffix(1);
  if (contains(kRandom, name)) return true;
  if (contains(kRandomInTraining, name)) return bool_argument(node, "train").value_or(true);
  // Attention of any kind.
  return number_argument(node, "dropout_p", 0.0).value_or(1.0) != 0.0;
}

bool may_write(const ir::Node& node) {
  if (!node.target.starts_with("higher_order.")) {
    return !is_known(node.target) || is_in_place(node) || updates_statistics(node) || writes_out(node);
  }
  bool seen = false;
  for (const ir::NamedArgument& argument : node.arguments) {
    const auto* body = std::get_if<ir::Subgraph>(&argument.value.value);
    if (body == nullptr || body->graph == nullptr) continue;
    seen = true;
    if (std::any_of(body->graph->nodes.begin(), body->graph->nodes.end(), may_write)) return true;
  }
  return !seen;
}

bool is_removable(const ir::Node& node) {
  if (!is_known(node.target) || node.outputs.empty()) return false;
  const std::string_view name = operator_name(node.target);
  if (name.starts_with("_assert") || name.starts_with("sym_constrain") || name == "_print" || name == "set_data") {
    return false;
  }
  return !is_in_place(node) && !updates_statistics(node) && !draws_at_random(node) && !writes_out(node);
}

bool is_pure(const ir::Node& node) {
  return is_removable(node) && !contains(kUninitialised, operator_name(node.target));
}

bool gives_fresh_memory(const ir::Node& node) {
  if (node.target.starts_with(ir::kOwnPrefix)) return true;
  if (!node.target.starts_with("aten.") || writes_out(node)) return false;
  return std::binary_search(std::begin(kFresh), std::end(kFresh), operator_name(node.target));
}

MemoryFacts::MemoryFacts(const ir::Graph& graph, const Weights& weights)
    : parent_(graph.values.size()), writes_(graph.values.size()) {
  std::iota(parent_.begin(), parent_.end(), 0U);
  unite_weights(graph, weights);
  for (std::size_t position = 0; position < graph.nodes.size(); ++position) add_node(graph, position);
}

void MemoryFacts::unite_weights(const ir::Graph& graph, const Weights& weights) {
  // One buffer may be the whole mapped file: only weights that overlap in it share memory.
  struct Place {
    const Buffer* buffer;
    std::int64_t begin;
    std::int64_t end;
    ir::ValueId value;
  };
  std::vector<Place> places;
  for (const ir::GraphInput& input : graph.inputs) {
    const bool caller = input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed;
    const auto weight = caller ? weights.end() : weights.find(input.name);
    if (input.value == ir::kNoValue || weight == weights.end()) continue;
    const Tensor& tensor = weight->second;
    std::int64_t last = tensor.offset();
    for (std::size_t axis = 0; axis < tensor.dims().size(); ++axis) {
      last += std::max<std::int64_t>(tensor.dims()[axis] - 1, 0) * tensor.strides()[axis];
    }
    const auto width = static_cast<std::int64_t>(element_bytes(tensor.dtype()));
    places.push_back({tensor.buffer().get(), tensor.offset() * width, (last + 1) * width, input.value});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return std::pair(a.buffer, a.begin) < std::pair(b.buffer, b.begin); });
  for (std::size_t index = 1, widest = 0; index < places.size(); ++index) {
    const bool overlaps = places[index].buffer == places[widest].buffer && places[index].begin < places[widest].end;
    if (overlaps) unite(places[widest].value, places[index].value);
    if (!overlaps || places[index].end > places[widest].end) widest = index;
  }
}

std::uint32_t MemoryFacts::root(ir::ValueId id) const {
  std::uint32_t value = ir::index_of(id);
  if (value >= parent_.size()) return value;
  while (parent_[value] != value) {
    parent_[value] = parent_[parent_[value]];
    value = parent_[value];
  }
  return value;
}

void MemoryFacts::unite(ir::ValueId a, ir::ValueId b) {
  const std::uint32_t x = root(a);
  const std::uint32_t y = root(b);
  if (x == y) return;
  parent_[y] = x;
  writes_[x].insert(writes_[x].end(), writes_[y].begin(), writes_[y].end());
  writes_[y].clear();
}

void MemoryFacts::add_node(const ir::Graph& graph, std::size_t position) {
  const ir::Node& node = graph.nodes[position];
  const auto holds_memory = [&](ir::ValueId id) {
    return id != ir::kNoValue && graph.at(id).kind == ir::ValueKind::kTensor;
  };
  const bool fresh = gives_fresh_memory(node) || is_number_operator(node.target);
  const bool known = is_known(node.target);
  const bool in_place = is_in_place(node);
  const bool statistics = updates_statistics(node);
  const bool out = writes_out(node);
  for (std::size_t place = 0; place < node.arguments.size(); ++place) {
    const ir::NamedArgument& argument = node.arguments[place];
    const bool statistic = argument.name == "running_mean" || argument.name == "running_var";
    const bool writes = !known || out || (in_place && place == 0) || (statistics && statistic);
    ir::for_each_value(argument.value, [&](ir::ValueId id) {
      if (!holds_memory(id)) return;
      if (writes) writes_[root(id)].push_back(position);
      // What an in-place operator gives back is its first argument.
      if (fresh || (in_place && place != 0)) return;
      for (const ir::Output& output : node.outputs) {
        for (const ir::ValueId result : output.values) {
          if (holds_memory(result)) unite(id, result);
        }
      }
    });
  }
}

bool MemoryFacts::is_written(ir::ValueId id) const {
  const std::uint32_t value = root(id);
  return value < writes_.size() && !writes_[value].empty();
}

bool MemoryFacts::is_steady(ir::ValueId id, std::size_t from, std::size_t to) const {
  const std::uint32_t value = root(id);
  if (value >= writes_.size()) return true;
  return std::none_of(writes_[value].begin(), writes_[value].end(),
                      [&](std::size_t write) { return write > from && write < to; });
}

ConstantWeights::ConstantWeights(const ir::Graph& graph, const Weights& weights, const MemoryFacts& facts)
    : names_(graph.values.size()), weights_(&weights) {
  const auto is_weight = [](const ir::GraphInput& input) {
    return input.value != ir::kNoValue && input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed;
  };
  std::vector<ir::ValueId> replaced;  // after a run
  for (const ir::GraphOutput& output : graph.outputs) {
    if (output.kind == ir::OutputKind::kUser || output.kind == ir::OutputKind::kInputMutation) continue;
    for (const ir::GraphInput& input : graph.inputs) {
      if (is_weight(input) && input.name == output.name) replaced.push_back(input.value);
    }
  }
  for (const ir::GraphInput& input : graph.inputs) {
    if (!is_weight(input) || facts.is_written(input.value) || !weights.contains(input.name)) continue;
    const bool changes =
        std::any_of(replaced.begin(), replaced.end(), [&](ir::ValueId id) { return facts.may_share(id, input.value); });
    if (!changes) names_[ir::index_of(input.value)] = input.name;
  }
}

const Tensor* ConstantWeights::find(ir::ValueId id) const {
  if (id == ir::kNoValue || ir::index_of(id) >= names_.size() || names_[ir::index_of(id)].empty()) return nullptr;
  const auto found = weights_->find(names_[ir::index_of(id)]);
  return found == weights_->end() ? nullptr : &found->second;
}

}  // namespace kpt
