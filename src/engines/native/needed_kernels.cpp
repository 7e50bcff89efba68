#include <bit>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "engines/native/graph_plan.h"
#include "engines/native/rules.h"

namespace kpt::native {
namespace {

struct TrialSizes {
  std::int64_t first;
  std::int64_t step;
};
// As nodes are tried; so small that rows fit a wave; multiples of what kernels take at once; long rows.
constexpr TrialSizes kTrials[] = {{kTrialFirst, kTrialStep}, {1, 0}, {64, 64}, {2048, 0}};

// At addresses that nobody follows.
Result<std::vector<BoundLaunch>> bind_nowhere(const GraphPlan& plan, const gpu::DeviceShape& shape) {
  std::vector<std::byte*> blocks;
  for (std::size_t block = 0; block < plan.blocks.size(); ++block) {
    blocks.push_back(std::bit_cast<std::byte*>(std::uintptr_t{block + 1} << 40U));
  }
  return bind_plan(plan, blocks, shape);
}

// "own kernels: norm_block4_f32, 2 x copy_f32".
std::string describe_launches(const std::vector<std::string>& kernels) {
  if (kernels.empty()) return "no launch";
  std::vector<std::string> words;
  for (std::size_t at = 0; at < kernels.size();) {
    std::size_t next = at;
    while (next < kernels.size() && kernels[next] == kernels[at]) ++next;
    words.push_back(next - at == 1 ? kernels[at] : fmt::format("{} x {}", next - at, kernels[at]));
    at = next;
  }
  return "own kernels: " + kpt::join(words, ", ");
}

std::vector<NodePlan> describe_nodes(const ir::Graph& graph, const std::vector<BoundLaunch>& launches) {
  std::map<std::size_t, std::vector<std::string>> by_node;
  for (const BoundLaunch& launch : launches) by_node[launch.node].push_back(launch.launch.kernel);
  std::vector<NodePlan> nodes;
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    nodes.push_back({graph.nodes[index].name, graph.nodes[index].target, describe_launches(by_node[index])});
  }
  return nodes;
}

}  // namespace

Result<NeededKernels> find_needed_kernels(const ir::Graph& graph, const Traits& traits) {
  NeededKernels needed;
  std::set<std::string> kernels;
  std::set<std::string> families;
  bool first = true;
  for (const TrialSizes& trial : kTrials) {
    const auto plan = plan_graph(graph, trial_sizes(graph, trial.first, trial.step), traits);
    // Only the sizes that nodes are tried with are known to be ones that the graph's own arithmetic allows.
    if (!plan.ok() && !first) continue;
    KPT_RETURN_IF_ERROR(plan.status());
    KPT_ASSIGN_OR_RETURN(const auto launches, bind_nowhere(*plan, traits.shape));
    for (const BoundLaunch& launch : launches) {
      kernels.insert(launch.launch.kernel);
      families.emplace(launch.family);
    }
    if (first) needed.nodes = describe_nodes(graph, launches);
    first = false;
    if (!graph.symbols.empty()) continue;
    needed.arena_bytes = plan->arena_bytes;
    std::size_t weights = 0;
    for (const Block& block : plan->blocks) weights += block.weight ? block.bytes : 0;
    needed.weight_bytes = weights;
    break;
  }
  needed.kernels.assign(kernels.begin(), kernels.end());
  needed.families.assign(families.begin(), families.end());
  return needed;
}

}  // namespace kpt::native
