#include "device/unsupported_nodes.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

// Nodes of one operator that cannot run for the same reason.
struct Group {
  std::size_t first = 0;  // index in the graph's nodes
  std::size_t count = 0;
};

}  // namespace

Status list_unsupported(const ir::Graph& graph, const std::vector<Support>& answers, std::string_view predicate,
                        const FindSource& find_source) {
  std::vector<Group> groups;  // in the order of their first nodes
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> places;
  std::size_t count = 0;
  for (std::size_t index = 0; index < answers.size(); ++index) {
    if (answers[index].supported) continue;
    ++count;
    const auto place = places.try_emplace({graph.nodes[index].target, answers[index].reason}, groups.size());
    if (place.second) groups.push_back({index, 0});
    ++groups[place.first->second].count;
  }
  if (count == 0) return {};
  constexpr std::size_t kShown = 200;        // names of the file may have any length
  constexpr std::size_t kMostGroups = 1000;  // and it may have any number of them
  std::string list;
  for (const Group& group : std::span(groups).first(std::min(groups.size(), kMostGroups))) {
    const ir::Node& node = graph.nodes[group.first];
    const std::string source = find_source ? find_source(node) : "";
    list +=
        fmt::format("{}'{}' {}{}: {}{}", list.empty() ? "" : "; ", printable(node.name, kShown),
                    printable(node.target, kShown), group.count > 1 ? fmt::format(" (first of {})", group.count) : "",
                    answers[group.first].reason, source.empty() ? "" : " (" + source + ")");
  }
  if (groups.size() > kMostGroups) list += fmt::format("; and {} more operators", groups.size() - kMostGroups);
  return {StatusCode::kUnsupported, fmt::format("{} of {} nodes {}: {}", count, graph.nodes.size(), predicate, list)};
}

}  // namespace kpt
