// Which passes an optimize runs.
#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "optimize/optimize.h"

namespace kpt {
namespace {

void put_named_first(std::vector<const Pass*>& chosen, const std::set<const Pass*>& named) {
  std::vector<const Pass*> order;
  std::ranges::copy_if(chosen, std::back_inserter(order), quantizes_weights);
  std::stable_partition(order.begin(), order.end(), [&](const Pass* pass) { return named.contains(pass); });
  auto next = order.begin();
  for (const Pass*& pass : chosen) {
    if (quantizes_weights(pass)) pass = *next++;
  }
}

Result<const Pass*> pass_named(const std::string& name) {
  if (const Pass* pass = find_pass(name)) return pass;
  std::vector<std::string> names;
  for (const Pass* pass : all_passes()) names.emplace_back(pass->name);
  const auto nearest = find_nearest(name, names);
  return Status(StatusCode::kInvalidArgument, fmt::format("there is no pass '{}'; {}", printable(name, 64),
                                                          nearest ? fmt::format("did you mean '{}'?", *nearest)
                                                                  : fmt::format("there are {}", join(names, ", "))));
}

}  // namespace

bool quantizes_weights(const Pass* pass) {
  return std::ranges::any_of(
      pipeline(), [&](const PipelineRow& row) { return row.pass == pass && row.accuracy >= Accuracy::kInt8; });
}

Result<std::vector<const Pass*>> choose_passes(const OptimizeOptions& options) {
  std::set<const Pass*> named;
  std::set<const Pass*> left_out;
  for (const std::string& name : options.enabled) {
    KPT_ASSIGN_OR_RETURN(const Pass* pass, pass_named(name));
    named.insert(pass);
  }
  for (const std::string& name : options.disabled) {
    KPT_ASSIGN_OR_RETURN(const Pass* pass, pass_named(name));
    if (named.contains(pass)) {
      return Status(StatusCode::kInvalidArgument, fmt::format("pass '{}' is both enabled and disabled", name));
    }
    left_out.insert(pass);
  }
  std::vector<const Pass*> chosen(level_passes(options.level).begin(), level_passes(options.level).end());
  const auto rank = [](const Pass* pass) { return std::ranges::find(all_passes(), pass) - all_passes().begin(); };
  for (const Pass* pass : named) {
    if (std::ranges::find(chosen, pass) != chosen.end()) continue;
    const auto place = std::ranges::find_if(chosen, [&](const Pass* other) { return rank(other) > rank(pass); });
    chosen.insert(place, pass);
  }
  for (const AddedPass& added : options.added) {
    KPT_ASSIGN_OR_RETURN(const Pass* front, pass_named(added.behind));
    const auto place = std::ranges::find(chosen, front);
    if (place == chosen.end()) {
      return Status(StatusCode::kModelOptimization,
                    fmt::format("pass '{}' is to run behind '{}', which is none of {}'s", added.pass->name,
                                added.behind, level_name(options.level)));
    }
    chosen.insert(place + 1, added.pass);
  }
  std::erase_if(chosen, [&](const Pass* pass) { return left_out.contains(pass); });
  put_named_first(chosen, named);
  return chosen;
}

}  // namespace kpt
