#include "engines/aten/module/aliases.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

namespace kpt::aten {
namespace {

// Composite operators without an alias mark whose results are always their own memory. The list only saves memory: an
// operator that is missing here is taken to share with its inputs, and a later write then makes weights into state.
constexpr std::string_view kFresh[] = {
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::arange",
    "aten::avg_pool1d",
    "aten::batch_norm",
    "aten::bilinear",
    "aten::celu",
    "aten::clone",
    "aten::constant_pad_nd",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::conv_transpose1d",
    "aten::conv_transpose2d",
    "aten::conv_transpose3d",
    "aten::convolution",
    "aten::cosine_similarity",
    "aten::cross_entropy_loss",
    "aten::embedding",
    "aten::empty",
    "aten::full",
    "aten::full_like",
    "aten::group_norm",
    "aten::gru",
    "aten::instance_norm",
    "aten::layer_norm",
    "aten::lift_fresh_copy",
    "aten::linear",
    "aten::log_softmax",
    "aten::lstm",
    "aten::masked_fill",
    "aten::matmul",
    "aten::max_pool1d",
    "aten::max_pool2d",
    "aten::max_pool3d",
    "aten::new_empty",
    "aten::new_full",
    "aten::new_ones",
    "aten::new_zeros",
    "aten::one_hot",
    "aten::ones",
    "aten::ones_like",
    "aten::prelu",
    "aten::relu6",
    "aten::repeat",
    "aten::rms_norm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
    "aten::rsub",
    "aten::scaled_dot_product_attention",
    "aten::selu",
    "aten::softmax",
    "aten::stack",
    "aten::_to_copy",
    "aten::upsample_bilinear2d",
    "aten::upsample_nearest2d",
    "aten::zeros",
    "aten::zeros_like",
};

// May give back their first argument, never another.
constexpr std::string_view kSharesFirst[] = {"aten::type_as", "aten::pad", "aten::dropout"};

bool contains(std::span<const std::string_view> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool gives_fresh_memory(const c10::OperatorHandle& op) {
  if (contains(kFresh, op.schema().name())) return true;
  // A kernel of the device itself allocates its result; views and "maybe the same tensor" are composite.
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Normalisation in training mode updates its running statistics, which the schemas do not say.
bool writes_statistics(const ir::Node& node, const c10::OperatorHandle& op) {
  constexpr std::string_view kNames[] = {"aten::batch_norm", "aten::native_batch_norm", "aten::instance_norm",
                                         "aten::cudnn_batch_norm", "aten::miopen_batch_norm"};
  if (!contains(kNames, op.schema().name())) return false;
  for (const ir::NamedArgument& argument : node.arguments) {
    const bool decides = argument.name == "training" || argument.name == "use_input_stats";
    const bool* value = std::get_if<bool>(&argument.value.value);
    if (decides && value != nullptr && !*value) return false;
  }
  return true;
}

bool is_statistic(const ir::NamedArgument& argument) {
  return argument.name == "running_mean" || argument.name == "running_var";
}

const c10::AliasInfo* find_alias(const c10::OperatorHandle& op, const ir::NamedArgument& given, std::size_t position) {
  const auto& arguments = op.schema().arguments();
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const bool match = given.name.empty() ? index == position : arguments[index].name() == given.name;
    if (match) return arguments[index].alias_info();
  }
  return nullptr;
}

}  // namespace

AliasSets::AliasSets(std::size_t value_count)
    : parent_(value_count), written_(value_count, false), reshaped_(value_count, false) {
  std::iota(parent_.begin(), parent_.end(), 0U);
}

std::uint32_t AliasSets::root(std::uint32_t value) const {
  while (parent_[value] != value) {
    parent_[value] = parent_[parent_[value]];
    value = parent_[value];
  }
  return value;
}

void AliasSets::unite(std::uint32_t a, std::uint32_t b) {
  a = root(a);
  b = root(b);
  if (a == b) return;
  parent_[b] = a;
  written_[a] = written_[a] || written_[b];
  reshaped_[a] = reshaped_[a] || reshaped_[b];
}

void AliasSets::add_node(const ir::Node& node, const std::optional<c10::OperatorHandle>& op) {
  const auto for_each_output = [&](const auto& visit) {
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) visit(ir::index_of(id));
      }
    }
  };
  const bool fresh = op.has_value() && gives_fresh_memory(*op);
  const bool first_only = op.has_value() && contains(kSharesFirst, op->schema().name());
  const bool statistics = op.has_value() && writes_statistics(node, *op);
  const bool reshapes = op.has_value() && op->hasTag(at::Tag::inplace_view);
  bool marked = false;  // the schema says something about sharing: then it says all
  if (op.has_value()) {
    for (const c10::Argument& result : op->schema().returns()) marked = marked || result.alias_info() != nullptr;
  }
  for (std::size_t position = 0; position < node.arguments.size(); ++position) {
    const ir::NamedArgument& given = node.arguments[position];
    const c10::AliasInfo* alias = op.has_value() ? find_alias(*op, given, position) : nullptr;
    const bool writes = (alias != nullptr && alias->isWrite()) || (statistics && is_statistic(given));
    const bool shares = alias != nullptr || (!marked && !fresh && (!first_only || position == 0));
    ir::for_each_value(given.value, [&](ir::ValueId id) {
      if (writes) mark_written(ir::index_of(id));
      if (writes && reshapes) reshaped_[root(ir::index_of(id))] = true;
      if (shares) for_each_output([&](std::uint32_t output) { unite(ir::index_of(id), output); });
    });
  }
}

}  // namespace kpt::aten
