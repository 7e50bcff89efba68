#include "cli/commands/explain_times.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/figures_text.h"
#include "cli/terminal.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastShare = 0.005;  // of the time, for an operator to get a row

double sum_of(const std::vector<NodeTime>& nodes) {
  double all = 0;
  for (const NodeTime& node : nodes) all += node.microseconds;
  return all;
}

std::string bound_text(const NodeTime& node) {
  if (node.floor.bound == Bound::kNone) return "-";
  if (node.floor.bound == Bound::kMemory) return "memory";
  return node.floor.type;
}

std::string render_machine(const MachineFloor& machine) {
  std::string text = fmt::format("measured limits, {} threads\n", machine.threads);
  for (const ArithmeticPeak& peak : machine.peaks) {
    text += fmt::format("  {:<10} {:8.1f} GFLOP/s ({})\n", peak.type, peak.gflops, peak.instructions);
  }
  if (machine.peaks.size() == 1) text += "  fp32 only: no instructions for narrower types are known here\n";
  for (const CopySpeed& copy : machine.copies) {
    text += fmt::format("  {:<10} {:8.1f} GB/s (copies within {})\n", "memory", copy.gbytes, format_bytes(copy.bytes));
  }
  return text;
}

std::string render_nodes(const NodeTimes& times, std::size_t shown, double all) {
  std::vector<std::vector<std::string>> rows = {
      {"node", "operator", "median", "share", "MFLOP", "GFLOP/s", "KB", "GB/s", "bound by", "of the limit"}};
  for (std::size_t index = 0; index < std::min(shown, times.nodes.size()); ++index) {
    const NodeTime& node = times.nodes[index];
    const auto reached = share_of_floor(node.floor, node.microseconds);
    rows.push_back({node.node, node.target, fmt::format("{:.1f} us", node.microseconds),
                    percent_or_dash(node.microseconds, all),
                    node.floor.flops ? fmt::format("{:.2f}", *node.floor.flops / 1e6) : "-",
                    number_or_dash(giga_per_second(node.floor.flops, node.microseconds)),
                    node.floor.bytes ? fmt::format("{:.0f}", *node.floor.bytes / 1e3) : "-",
                    number_or_dash(giga_per_second(node.floor.bytes, node.microseconds)), bound_text(node),
                    reached ? percent(*reached) : "-"});
  }
  return format_table(rows);
}

struct OperatorTimes {
  std::size_t nodes = 0;
  double microseconds = 0;
  double floor = 0;
  double with_floor = 0;  // time of the nodes that have one
};

// Nodes of one operator that are bound alike, the longest first.
std::string render_operators(const NodeTimes& times, double all) {
  std::map<std::pair<std::string, std::string>, OperatorTimes> sums;
  for (const NodeTime& node : times.nodes) {
    OperatorTimes& sum = sums[{node.target, bound_text(node)}];
    ++sum.nodes;
    sum.microseconds += node.microseconds;
    if (node.floor.bound == Bound::kNone) continue;
    sum.floor += node.floor.microseconds;
    sum.with_floor += node.microseconds;
  }
  std::vector<std::pair<std::pair<std::string, std::string>, OperatorTimes>> sorted(sums.begin(), sums.end());
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second.microseconds > b.second.microseconds; });
  std::vector<std::vector<std::string>> rows = {{"operator", "bound by", "nodes", "time", "share", "of the limit"}};
  OperatorTimes small;
  for (const auto& [key, sum] : sorted) {
    if (sum.microseconds < kLeastShare * all) {
      small.nodes += sum.nodes;
      small.microseconds += sum.microseconds;
      continue;
    }
    rows.push_back({key.first, key.second, std::to_string(sum.nodes), fmt::format("{:.1f} us", sum.microseconds),
                    percent_or_dash(sum.microseconds, all), percent_or_dash(sum.floor, sum.with_floor)});
  }
  if (small.nodes > 0) {
    rows.push_back({"others", "-", std::to_string(small.nodes), fmt::format("{:.1f} us", small.microseconds),
                    percent(small.microseconds / all), "-"});
  }
  return format_table(rows);
}

}  // namespace

Json to_json(const NodeTimes& times) {
  Json json = {{"threads", times.machine.threads},
               {"runs", times.runs},
               {"peaks", Json::array()},
               {"copies", Json::array()},
               {"nodes", Json::array()}};
  for (const ArithmeticPeak& peak : times.machine.peaks) {
    json["peaks"].push_back({{"type", peak.type}, {"instructions", peak.instructions}, {"gflops", peak.gflops}});
  }
  for (const CopySpeed& copy : times.machine.copies) {
    json["copies"].push_back({{"bytes", copy.bytes}, {"gbytes_per_second", copy.gbytes}});
  }
  const double all = sum_of(times.nodes);
  for (const NodeTime& node : times.nodes) {
    json["nodes"].push_back({{"node", node.node},
                             {"operator", node.target},
                             {"median_microseconds", node.microseconds},
                             {"share", all > 0 ? Json(node.microseconds / all) : Json()},
                             {"flops", optional_json(node.floor.flops)},
                             {"gflops_per_second", optional_json(giga_per_second(node.floor.flops, node.microseconds))},
                             {"bytes", optional_json(node.floor.bytes)},
                             {"gbytes_per_second", optional_json(giga_per_second(node.floor.bytes, node.microseconds))},
                             {"computes_in", node.floor.type.empty() ? Json() : Json(node.floor.type)},
                             {"bound", std::string(to_string(node.floor.bound))},
                             {"share_of_limit", optional_json(share_of_floor(node.floor, node.microseconds))}});
  }
  return json;
}

std::string render_times(const NodeTimes& times, std::size_t shown) {
  const double all = sum_of(times.nodes);
  double floor = 0;
  for (const NodeTime& node : times.nodes) floor += node.floor.microseconds;
  std::string text = render_machine(times.machine) + "\n";
  text += render_nodes(times, shown, all) + "\n" + render_operators(times, all) + "\n";
  text += fmt::format("all {} nodes: {:.1f} us in the median of {} runs; their limits add up to {:.1f} us{}\n",
                      times.nodes.size(), all, times.runs, floor,
                      all > 0 ? fmt::format(", {}", percent(floor / all)) : std::string());
  return text;
}

}  // namespace kpt::cli
