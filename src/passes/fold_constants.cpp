#include "passes/fold_constants.h"

#include <algorithm>

#include <fmt/format.h>

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

constexpr std::uint64_t kAlwaysSmall = std::uint64_t{4} << 20U;

bool is_plain_view(const ir::Node& node) {
  return is_any(node, {"aten.view.default", "aten.reshape.default", "aten.permute.default", "aten.transpose.int",
                       "aten.t.default", "aten.expand.default", "aten.slice.Tensor", "aten.select.int",
                       "aten.unsqueeze.default", "aten.squeeze.dim", "aten.alias.default", "aten.detach.default"});
}

// What is known of a value whose content is fixed.
struct Fixed {
  bool known = false;
  bool computed = false;           // by more than views of one weight
  std::uint64_t source_bytes = 0;  // of the weights it comes from
};

std::optional<std::uint64_t> bytes_of(const ir::TensorType& type) {
  std::uint64_t bytes = element_bytes(type.dtype);
  for (const ir::Expr& dim : type.dims) {
    if (!dim.constant() || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(*dim.constant()), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

class ConstantFolding {
 public:
  ConstantFolding(ir::Graph& graph, PassContext& context) : context_(context), edit_(graph, context.weights) {}

  Result<PassStats> run() {
    fixed_.resize(edit_.graph().values.size());
    for (NodeIndex index = 0; index < edit_.size(); ++index) look_at(index);
    find_results();
    if (results_.empty()) return PassStats{};
    ir::Graph part = cut_out();
    Weights weights;
    for (const ir::GraphInput& input : part.inputs) weights.emplace(input.name, context_.weights.at(input.name));
    Result<std::vector<Tensor>> tensors = context_.evaluator(part, weights);
    if (!tensors.ok()) {
      PassStats stats;
      stats.details.push_back("nothing folded: " + tensors.status().message());
      return stats;
    }
    return put_in(*tensors);
  }

 private:
  void look_at(NodeIndex index) {
    const ir::Node& node = edit_.node(index);
    if (!is_pure(node) || node.outputs.empty()) return;
    Fixed fixed{true, !is_plain_view(node), 0};
    for (const ir::NamedArgument& argument : node.arguments) {
      if (std::holds_alternative<ir::Subgraph>(argument.value.value)) return;
      ir::for_each_value(argument.value, [&](ir::ValueId id) {
        const Tensor* weight = edit_.constant(id);
        if (weight != nullptr) {
          fixed.source_bytes += weight->bytes();
        } else if (fixed_[ir::index_of(id)].known) {
          fixed.computed = fixed.computed || fixed_[ir::index_of(id)].computed;
          fixed.source_bytes += fixed_[ir::index_of(id)].source_bytes;
        } else {
          fixed.known = false;
        }
      });
    }
    if (!fixed.known) return;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (!edit_.is_tensor(id) || edit_.facts().is_written(id)) return;
        const std::optional<std::uint64_t> bytes = bytes_of(edit_.type(id));
        if (!bytes || *bytes > std::max(kAlwaysSmall, fixed.source_bytes)) return;
      }
    }
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) fixed_[ir::index_of(id)] = fixed;
    }
  }

  void find_results() {
    for (std::uint32_t value = 0; value < fixed_.size(); ++value) {
      const auto id = static_cast<ir::ValueId>(value);
      if (!fixed_[value].known || !fixed_[value].computed) continue;
      const auto& users = edit_.users(id);
      const bool needed = edit_.is_output(id) || std::any_of(users.begin(), users.end(), [&](NodeIndex user) {
                            return !is_fixed(edit_.node(user));
                          });
      if (needed) results_.push_back(id);
    }
  }

  bool is_fixed(const ir::Node& node) const {
    const ir::ValueId id =
        node.outputs.empty() || node.outputs[0].values.empty() ? ir::kNoValue : node.outputs[0].values[0];
    return id != ir::kNoValue && fixed_[ir::index_of(id)].known;
  }

  // The nodes that the results need, as a graph of their own. Values keep their numbers.
  ir::Graph cut_out() const {
    const ir::Graph& graph = edit_.graph();
    std::vector<bool> needed(graph.values.size());
    for (const ir::ValueId id : results_) needed[ir::index_of(id)] = true;
    ir::Graph part;
    part.values = graph.values;
    for (NodeIndex index = edit_.size(); index-- > 0;) {
      const ir::Node& node = edit_.node(index);
      const bool used =
          is_fixed(node) && std::any_of(node.outputs.begin(), node.outputs.end(), [&](const auto& output) {
            return std::any_of(output.values.begin(), output.values.end(),
                               [&](ir::ValueId id) { return needed[ir::index_of(id)]; });
          });
      if (!used) continue;
      for (const ir::NamedArgument& argument : node.arguments) {
        ir::for_each_value(argument.value, [&](ir::ValueId id) { needed[ir::index_of(id)] = true; });
      }
      part.nodes.push_back(node);
    }
    std::reverse(part.nodes.begin(), part.nodes.end());
    for (const ir::GraphInput& input : graph.inputs) {
      if (input.value != ir::kNoValue && needed[ir::index_of(input.value)]) part.inputs.push_back(input);
    }
    for (const ir::ValueId id : results_) part.outputs.push_back({ir::OutputKind::kUser, {id}, graph.at(id).name});
    Weights none;
    remove_unused(part, none);
    part.symbols.clear();
    return part;
  }

  Result<PassStats> put_in(const std::vector<Tensor>& tensors) {
    PassStats stats;
    if (tensors.size() != results_.size()) {
      return Status(StatusCode::kInternal, "the evaluation of constants gave another number of results than asked for");
    }
    for (std::size_t place = 0; place < results_.size(); ++place) {
      const ir::ValueId id = results_[place];
      const ir::Value value = edit_.graph().at(id);
      KPT_ASSIGN_OR_RETURN(const Tensor tensor, tensors[place].contiguous_copy());
      const bool fits =
          tensor.dtype() == value.tensor.dtype && tensor.dims().size() == value.tensor.dims.size() &&
          std::equal(tensor.dims().begin(), tensor.dims().end(), value.tensor.dims.begin(),
                     [](std::int64_t dim, const ir::Expr& recorded) { return recorded == ir::Expr(dim); });
      if (!fits) {
        return Status(StatusCode::kCorruptData,
                      fmt::format("the constant '{}' came out as {}, which is not what the file says", value.name,
                                  tensor.to_string()));
      }
      ++stats.changes;
      stats.details.push_back(value.name);
      const ir::ValueId weight = edit_.add_weight("folded_" + value.name, tensor);
      const NodeIndex producer = edit_.producer(id);
      edit_.replace_uses(id, weight);
      edit_.erase_unused(producer);
    }
    return stats;
  }

  PassContext& context_;
  GraphEdit edit_;
  std::vector<Fixed> fixed_;          // by value
  std::vector<ir::ValueId> results_;  // what the rest of the graph uses
};

Result<PassStats> run_fold_constants(ir::Graph& graph, PassContext& context) {
  if (!context.evaluator) return PassStats{0, {"nothing folded: there is no evaluator"}};
  return ConstantFolding(graph, context).run();
}

Support applies_fold_constants(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kFoldConstants = {"fold_constants", "what depends on no input is computed once, now", true,
                             applies_fold_constants, run_fold_constants};

}  // namespace kpt
