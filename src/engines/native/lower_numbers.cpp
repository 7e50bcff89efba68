// Truths about sizes, which are known before a run as sizes are, and what a model asserts of them. Sizes themselves
// need no rule: the file says each in terms of the inputs' symbols.
#include <functional>

#include <fmt/format.h>

#include "engines/native/rules.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

Status define_truth(PlanBuilder& plan, const ir::Node& node, bool truth) {
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue || plan.graph().at(id).kind != ir::ValueKind::kBool) {
    return not_covered("the result is no truth value");
  }
  plan.define_truth(id, truth);
  return {};
}

// Python's operators have arguments by place.
Result<Number> operand(const PlanBuilder& plan, const ir::Node& node, std::size_t place) {
  if (place >= node.arguments.size()) return not_covered("an operand is missing");
  return plan.number(node.arguments[place].value);
}

// Integers as such: a double cannot tell 2^53 from 2^53 + 1.
template <typename Compare>
Status lower_comparison(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number a, operand(plan, node, 0));
  KPT_ASSIGN_OR_RETURN(const Number b, operand(plan, node, 1));
  return define_truth(plan, node, a.is_real || b.is_real ? Compare()(a.real, b.real) : Compare()(a.whole, b.whole));
}

// Of two truths; of integers it is arithmetic on bits, whose result is a size.
template <typename Join>
Status lower_joined(PlanBuilder& plan, const ir::Node& node) {
  const ir::ValueId id = only_result(node);
  if (id != ir::kNoValue && plan.graph().at(id).kind == ir::ValueKind::kInt) return {};
  KPT_ASSIGN_OR_RETURN(const Number a, operand(plan, node, 0));
  KPT_ASSIGN_OR_RETURN(const Number b, operand(plan, node, 1));
  return define_truth(plan, node, Join()(a.real != 0, b.real != 0));
}

Status lower_not(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number a, operand(plan, node, 0));
  return define_truth(plan, node, a.real == 0);
}

Status lower_assertion(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const Number truth, plan.number(node, "self", std::nullopt));
  if (truth.real != 0) return {};
  plan.forbid_sizes(fmt::format("these sizes break what the model asserts in '{}': {}", node.name,
                                string_argument(node, "assert_msg", "no message")));
  return {};
}

constexpr RuleRow kNumbersRules[] = {
    {"_operator.and_", lower_joined<std::logical_and<>>},
    {"_operator.eq", lower_comparison<std::equal_to<>>},
    {"_operator.ge", lower_comparison<std::greater_equal<>>},
    {"_operator.gt", lower_comparison<std::greater<>>},
    {"_operator.le", lower_comparison<std::less_equal<>>},
    {"_operator.lt", lower_comparison<std::less<>>},
    {"_operator.ne", lower_comparison<std::not_equal_to<>>},
    {"_operator.not_", lower_not},
    {"_operator.or_", lower_joined<std::logical_or<>>},
    {"aten._assert_scalar.default", lower_assertion},
    {"torch.sym_not", lower_not},
};

}  // namespace

std::span<const RuleRow> number_rules() { return kNumbersRules; }

}  // namespace kpt::native
