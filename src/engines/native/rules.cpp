#include "engines/native/rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "device/graph_arguments.h"
#include "device/unsupported_nodes.h"

namespace kpt::native {
namespace {

const std::vector<RuleRow>& all_rules() {
  static const std::vector<RuleRow> kRows = [] {
    std::vector<RuleRow> all;
    for (const auto& rules : {number_rules(), view_rules(), element_rules(), product_rules(), attention_rules(),
                              row_rules(), convolution_rules(), index_rules(), window_rules()}) {
      all.insert(all.end(), rules.begin(), rules.end());
    }
    std::ranges::sort(all, {}, &RuleRow::target);
    return all;
  }();
  return kRows;
}

Status check_symbols(const ir::Graph& graph) {
  if (graph.symbols.empty()) return {};
  const auto told = find_shown_symbols(graph);
  const auto check = [&](const ir::Value& value, const ir::Expr& size) -> Status {
    for (const std::string& symbol : size.symbols()) {
      if (told.contains(symbol)) continue;
      return {
          StatusCode::kModelPreparation,
          fmt::format("the size {} of '{}' is no input's own, and planned launches must know all sizes before a run",
                      symbol, value.name)};
    }
    return {};
  };
  for (const ir::Value& value : graph.values) {
    if (value.kind == ir::ValueKind::kInt) KPT_RETURN_IF_ERROR(check(value, value.expression));
    if (value.kind != ir::ValueKind::kTensor) continue;
    for (const ir::Expr& dim : value.tensor.dims) KPT_RETURN_IF_ERROR(check(value, dim));
  }
  return {};
}

// Whether the elements lie one behind the other, as those of blocks do. Free sizes are refused elsewhere.
bool is_dense(const ir::TensorType& type) {
  if (type.strides.size() != type.dims.size()) return false;
  std::int64_t expected = 1;
  bool dense = true;
  for (std::size_t axis = type.dims.size(); axis-- > 0;) {
    const auto extent = type.dims[axis].constant();
    const auto stride = type.strides[axis].constant();
    if (!extent || !stride || *extent == 0) return true;
    if (*extent == 1) continue;
    dense = dense && *stride == expected;
    if (__builtin_mul_overflow(expected, *extent, &expected)) return false;
  }
  return dense;
}

Status check_written(const ir::Graph& graph, const MemoryFacts& facts) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.value == ir::kNoValue || !facts.is_written(input.value)) continue;
    if (input.kind != ir::InputKind::kBuffer) {
      return {StatusCode::kModelPreparation,
              fmt::format("the model writes '{}', and planned launches write buffers only", input.name)};
    }
    // By how it lies PyTorch decides what of it is a view and what a copy, which does not see what is written later.
    if (graph.at(input.value).kind == ir::ValueKind::kTensor && !is_dense(graph.at(input.value).tensor)) {
      return {StatusCode::kModelPreparation,
              fmt::format("buffer '{}' is written and has strides of its own, and planned launches write buffers "
                          "without gaps only",
                          input.name)};
    }
  }
  return {};
}

std::vector<Support> plan_nodes(PlanBuilder& builder) {
  std::vector<Support> answers;
  for (std::size_t index = 0; index < builder.graph().nodes.size(); ++index) {
    const Status status = builder.plan_node(index);
    answers.push_back(status.ok() ? Support{} : Support{false, status.message()});
  }
  return answers;
}

}  // namespace

ir::Bindings trial_sizes(const ir::Graph& graph, std::int64_t first, std::int64_t step) {
  ir::Bindings sizes;
  std::int64_t wish = first;
  for (const ir::SymbolRange& symbol : graph.symbols) {
    const std::int64_t least = symbol.min.value_or(0);
    sizes.set(symbol.name, std::min(std::max(wish, least), std::max(least, symbol.max.value_or(wish))));
    wish += step;
  }
  return sizes;
}

Rule find_rule(std::string_view target) {
  const auto& rules = all_rules();
  const auto found = std::ranges::lower_bound(rules, target, {}, &RuleRow::target);
  return found == rules.end() || found->target != target ? nullptr : found->rule;
}

std::vector<std::string_view> covered_targets() {
  std::vector<std::string_view> targets;
  for (const RuleRow& row : all_rules()) targets.push_back(row.target);
  return targets;
}

Status list_refused(const ir::Graph& graph, const std::vector<Support>& answers) {
  return list_unsupported(graph, answers, "have no kernel of ours");
}

Status check_graph(const ir::Graph& graph, const MemoryFacts& facts) {
  KPT_RETURN_IF_ERROR(check_written(graph, facts));
  for (const ir::GraphOutput& output : graph.outputs) {
    if (output.kind != ir::OutputKind::kUser && output.kind != ir::OutputKind::kBufferMutation) {
      return {StatusCode::kModelPreparation,
              fmt::format("the model writes '{}', and planned launches write buffers only", output.name)};
    }
    const ir::ValueId* id = output.value.value_id();
    if (id == nullptr) continue;
    const ir::ValueKind kind = graph.at(*id).kind;
    if (kind == ir::ValueKind::kFloat || kind == ir::ValueKind::kBool) {
      return {StatusCode::kModelPreparation,
              fmt::format("output '{}' is a number that the model computes", output.name)};
    }
  }
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || input.value == ir::kNoValue) continue;
    const ir::ValueKind kind = graph.at(input.value).kind;
    if (kind == ir::ValueKind::kFloat || kind == ir::ValueKind::kBool) {
      return {StatusCode::kModelPreparation,
              fmt::format("input '{}' is a number, and planned launches take sizes and tensors", input.name)};
    }
  }
  return check_symbols(graph);
}

std::vector<Support> check_nodes(const ir::Graph& graph, const Traits& traits) {
  const ir::Bindings sizes = trial_sizes(graph, kTrialFirst, kTrialStep);
  const MemoryFacts facts(graph, {});
  PlanBuilder builder(graph, facts, sizes, traits);
  const Status inputs = builder.plan_inputs();
  if (!inputs.ok()) return std::vector<Support>(graph.nodes.size(), Support{false, inputs.message()});
  return plan_nodes(builder);
}

Result<GraphPlan> plan_graph(const ir::Graph& graph, const ir::Bindings& sizes, const Traits& traits) {
  const MemoryFacts facts(graph, {});
  KPT_RETURN_IF_ERROR(check_graph(graph, facts));
  PlanBuilder builder(graph, facts, sizes, traits);
  KPT_RETURN_IF_ERROR(builder.plan_inputs());
  KPT_RETURN_IF_ERROR(list_refused(graph, plan_nodes(builder)));
  KPT_RETURN_IF_ERROR(builder.plan_outputs());
  return builder.finish();
}

}  // namespace kpt::native
