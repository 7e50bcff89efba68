#include <algorithm>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {

std::vector<std::span<const Rule>> rule_families() {
  return {activation_rules(), arithmetic_rules(), attention_rules(), comparison_rules(), convolution_rules(),
          creation_rules(),   einsum_rules(),     indexing_rules(),  matmul_rules(),     norm_rules(),
          order_rules(),      own_rules(),        pooling_rules(),   reduction_rules(),  resize_rules(),
          shape_rules(),      unary_rules(),      view_rules()};
}

const Rule* find_rule(std::string_view target) {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> all;
    for (const std::span<const Rule> family : rule_families()) all.insert(all.end(), family.begin(), family.end());
    std::sort(all.begin(), all.end(), [](const Rule& a, const Rule& b) { return a.target < b.target; });
    return all;
  }();
  const auto found = std::lower_bound(kRules.begin(), kRules.end(), target,
                                      [](const Rule& rule, std::string_view name) { return rule.target < name; });
  return found != kRules.end() && found->target == target ? &*found : nullptr;
}

}  // namespace kpt::xla
