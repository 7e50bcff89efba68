#include "cli/commands/explain_placement.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/terminal.h"
#include "runtime/split_plan.h"
#include "validation/draws.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::optional<PlacementTable> make_placement_table(const Program& program, std::span<const NamedTensor> inputs) {
  const Placement* placement = program.placement();
  if (placement == nullptr) return std::nullopt;
  const ir::Graph& graph = program.graph();
  const ir::Bindings sizes = bind_sizes(graph, inputs);
  PlacementTable table;
  table.size_nodes = placement->size_nodes.size();
  for (const PlacedPart& part : placement->parts) {
    PlacementRow row;
    row.device = part.device;
    row.nodes = part.nodes.size();
    row.first = graph.nodes[part.nodes.front()].name;
    row.received = part.received.size();
    row.received_bytes = count_received_bytes(graph, part, sizes);
    table.parts.push_back(std::move(row));
    for (const std::size_t node : part.nodes) table.device_of.emplace(graph.nodes[node].name, part.device);
  }
  return table;
}

Json to_json(const PlacementTable& table) {
  Json parts = Json::array();
  for (const PlacementRow& row : table.parts) {
    parts.push_back({{"device", row.device},
                     {"nodes", row.nodes},
                     {"first", row.first},
                     {"received", row.received},
                     {"received_bytes", row.received_bytes ? Json(*row.received_bytes) : Json()}});
  }
  return {{"parts", std::move(parts)}, {"size_nodes", table.size_nodes}};
}

std::string render(const PlacementTable& table) {
  std::vector<std::vector<std::string>> rows = {{"part", "device", "nodes", "first node", "from other parts"}};
  for (std::size_t index = 0; index < table.parts.size(); ++index) {
    const PlacementRow& row = table.parts[index];
    const std::string bytes = row.received_bytes ? format_bytes(*row.received_bytes) : "unknown size";
    rows.push_back({fmt::format("{}", index + 1), row.device, fmt::format("{}", row.nodes), row.first,
                    row.received == 0 ? "-" : fmt::format("{} in {}", bytes, row.received)});
  }
  std::string text = format_table(rows);
  if (table.size_nodes > 0) text += fmt::format("{} nodes give sizes only and run nowhere\n", table.size_nodes);
  return text;
}

}  // namespace kpt::cli
