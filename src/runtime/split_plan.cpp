#include "runtime/split_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "device/graph_arguments.h"
#include "device/unsupported_nodes.h"
#include "passes/memory_facts.h"
#include "passes/remove_in_place.h"

namespace kpt {
namespace {

constexpr std::size_t kNoProducer = static_cast<std::size_t>(-1);
constexpr std::size_t kShown = 100;  // characters of a foreign name

std::string show(const ir::Node& node) {
  return fmt::format("'{}' ({})", printable(node.name, kShown), printable(node.target, kShown));
}

bool takes_tensors(const ir::Graph& graph, const ir::Node& node) {
  bool any = false;
  for (const ir::NamedArgument& argument : node.arguments) {
    ir::for_each_value(argument.value,
                       [&](ir::ValueId id) { any = any || graph.at(id).kind == ir::ValueKind::kTensor; });
  }
  return any;
}

Status check_memory(const ir::Graph& graph) {
  for (const ir::GraphOutput& output : graph.outputs) {
    if (output.kind == ir::OutputKind::kUser) continue;
    return {StatusCode::kUnsupported,
            fmt::format("the model writes '{}', and one that keeps or changes memory is not split",
                        printable(output.name, kShown))};
  }
  for (const ir::Node& node : graph.nodes) {
    if (takes_tensors(graph, node) && may_write(node)) {
      return {StatusCode::kUnsupported,
              fmt::format("node {} writes memory in place or may do so, and other parts would not see it", show(node))};
    }
    // How a result lies in memory is each engine's own.
    if (node.target.starts_with("aten.as_strided")) {
      return {StatusCode::kUnsupported,
              fmt::format("node {} reads memory by strides, which are not the same on two devices", show(node))};
    }
  }
  return {};
}

bool is_number(const ir::Value& value) {
  return value.kind == ir::ValueKind::kFloat || value.kind == ir::ValueKind::kBool;
}

class Placing {
 public:
  explicit Placing(const ir::Graph& graph) : graph_(graph), told_(graph), producers_(graph.values.size(), kNoProducer) {
    for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
      for_each_result(graph.nodes[index], [&](ir::ValueId id) { producers_[ir::index_of(id)] = index; });
    }
  }

  std::vector<Side> choose_sides(const std::vector<Support>& device) const;
  // Parts of the device that give nothing to anybody: no program is made of those.
  bool move_idle_parts(const std::vector<Part>& parts, std::vector<Side>& sides) const;
  std::vector<std::vector<std::size_t>> find_needs() const;
  Status check_travelling(const std::vector<Part>& parts) const;

 private:
  template <typename Visit>
  static void for_each_result(const ir::Node& node, const Visit& visit) {
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) visit(id);
      }
    }
  }
  template <typename Visit>
  static void for_each_operand(const ir::Node& node, const Visit& visit) {
    for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, visit);
  }
  bool gives_sizes_only(const ir::Node& node) const;
  bool is_known_before_run(const ir::Node& node) const;
  bool join_numbers(std::vector<Side>& sides) const;

  const ir::Graph& graph_;
  ToldSymbols told_;
  std::vector<std::size_t> producers_;  // by value; kNoProducer: an input
};

bool Placing::gives_sizes_only(const ir::Node& node) const {
  bool any = false;
  bool all = is_removable(node) || !takes_tensors(graph_, node);
  for_each_result(node, [&](ir::ValueId id) {
    any = true;
    all = all && told_.is_size(graph_.at(id));
  });
  return any && all;
}

bool Placing::is_known_before_run(const ir::Node& node) const {
  bool known = true;
  const auto look = [&](ir::ValueId id) {
    const ir::Value& value = graph_.at(id);
    if (value.kind == ir::ValueKind::kTensor) known = known && told_.tell(value.tensor.dims);
    if (value.kind == ir::ValueKind::kInt) known = known && told_.is_size(value);
  };
  for_each_operand(node, look);
  for_each_result(node, look);
  return known;
}

// Numbers that are computed do not cross between the sides: not every engine takes or gives them. Whether a node moved.
bool Placing::join_numbers(std::vector<Side>& sides) const {
  bool moved = false;
  const auto move = [&](std::size_t node) {
    if (sides[node] != Side::kDevice) return;
    sides[node] = Side::kHost;
    moved = true;
  };
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    for_each_operand(graph_.nodes[index], [&](ir::ValueId id) {
      const std::size_t producer = producers_[ir::index_of(id)];
      if (producer == kNoProducer || !is_number(graph_.at(id)) || sides[producer] == sides[index]) return;
      move(producer);
      move(index);
    });
  }
  for (const ir::GraphOutput& output : graph_.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId id) {
      const std::size_t producer = producers_[ir::index_of(id)];
      if (producer != kNoProducer && is_number(graph_.at(id))) move(producer);
    });
  }
  return moved;
}

std::vector<Side> Placing::choose_sides(const std::vector<Support>& device) const {
  std::vector<Side> sides(graph_.nodes.size(), Side::kDevice);
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    const ir::Node& node = graph_.nodes[index];
    if (gives_sizes_only(node)) {
      sides[index] = Side::kNowhere;
    } else if (!device[index].supported || !is_known_before_run(node)) {
      sides[index] = Side::kHost;
    }
  }
  while (join_numbers(sides)) {
  }
  return sides;
}

std::vector<std::vector<std::size_t>> Placing::find_needs() const {
  std::vector<std::vector<std::size_t>> needs(graph_.nodes.size());
  std::size_t last_effect = kNoProducer;
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    const ir::Node& node = graph_.nodes[index];
    for_each_operand(node, [&](ir::ValueId id) {
      const std::size_t producer = producers_[ir::index_of(id)];
      if (producer != kNoProducer) needs[index].push_back(producer);
    });
    // Random numbers come in the order of their nodes.
    if (is_removable(node) || node.outputs.empty()) continue;
    if (last_effect != kNoProducer) needs[index].push_back(last_effect);
    last_effect = index;
  }
  return needs;
}

bool Placing::move_idle_parts(const std::vector<Part>& parts, std::vector<Side>& sides) const {
  std::vector<std::size_t> part_of(graph_.nodes.size(), kNoProducer);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const std::size_t node : parts[part].nodes) part_of[node] = part;
  }
  std::vector<bool> gives(parts.size(), false);
  const auto read = [&](ir::ValueId id, std::size_t reader) {
    const std::size_t producer = producers_[ir::index_of(id)];
    if (producer == kNoProducer || part_of[producer] == kNoProducer || part_of[producer] == reader) return;
    if (!told_.is_size(graph_.at(id))) gives[part_of[producer]] = true;
  };
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    if (part_of[index] == kNoProducer) continue;
    for_each_operand(graph_.nodes[index], [&](ir::ValueId id) { read(id, part_of[index]); });
  }
  for (const ir::GraphOutput& output : graph_.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId id) { read(id, kNoProducer); });
  }
  bool moved = false;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].side != Side::kDevice || gives[part]) continue;
    for (const std::size_t node : parts[part].nodes) sides[node] = Side::kHost;
    moved = true;
  }
  return moved;
}

Status Placing::check_travelling(const std::vector<Part>& parts) const {
  std::vector<std::size_t> part_of(graph_.nodes.size(), kNoProducer);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const std::size_t node : parts[part].nodes) part_of[node] = part;
  }
  Status status;
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    if (part_of[index] == kNoProducer) continue;
    for_each_operand(graph_.nodes[index], [&](ir::ValueId id) {
      const std::size_t producer = producers_[ir::index_of(id)];
      const ir::Value& value = graph_.at(id);
      if (producer == kNoProducer || part_of[producer] == part_of[index]) return;
      if (value.kind != ir::ValueKind::kTensor || value.tensor.layout == ir::Layout::kStrided || !status.ok()) return;
      status = {StatusCode::kUnsupported,
                fmt::format("'{}' is a sparse tensor, and those do not go from one device to another",
                            printable(value.name, kShown))};
    });
  }
  return status;
}

// A copy without the writes that nobody could see. Nodes and values keep their places.
Result<ir::Graph> without_writes(const ir::Graph& graph) {
  ir::Graph functional = graph;
  Weights none;
  const Capabilities capabilities;
  PassContext context{none, capabilities, {}, {}};
  KPT_ASSIGN_OR_RETURN(const PassStats stats, kRemoveInPlace.run(functional, context));
  (void)stats;
  if (functional.nodes.size() != graph.nodes.size() || functional.values.size() != graph.values.size()) {
    return Status(StatusCode::kInternal, "taking out writes changed the number of nodes");
  }
  return functional;
}

}  // namespace

Result<SplitPlan> plan_split(const ir::Graph& graph, const Target& device, const Target& host,
                             const std::vector<std::size_t>& kept) {
  SplitPlan plan;
  KPT_ASSIGN_OR_RETURN(plan.graph, without_writes(graph));
  KPT_RETURN_IF_ERROR(check_memory(plan.graph));
  KPT_ASSIGN_OR_RETURN(std::vector<Support> on_device, device.supports(plan.graph));
  for (const std::size_t node : kept) on_device[node].supported = false;
  KPT_ASSIGN_OR_RETURN(std::vector<Support> on_host, host.supports(plan.graph));
  const Placing placing(plan.graph);
  plan.sides = placing.choose_sides(on_device);
  const std::vector<std::vector<std::size_t>> needs = placing.find_needs();
  do {
    plan.parts = make_parts(needs, plan.sides);
  } while (placing.move_idle_parts(plan.parts, plan.sides));
  for (std::size_t index = 0; index < plan.sides.size(); ++index) {
    if (plan.sides[index] != Side::kHost) on_host[index] = {};
  }
  KPT_RETURN_IF_ERROR(list_unsupported(plan.graph, on_host,
                                       fmt::format("can run neither on {} nor on {}", device.name(), host.name())));
  const bool used = std::ranges::any_of(plan.parts, [](const Part& part) { return part.side == Side::kDevice; });
  if (!used) {
    return Status(StatusCode::kUnsupported, fmt::format("no node would be left for {}", device.name()));
  }
  KPT_RETURN_IF_ERROR(placing.check_travelling(plan.parts));
  return plan;
}

ToldSymbols::ToldSymbols(const ir::Graph& graph) : symbols_(find_shown_symbols(graph)) {}

bool ToldSymbols::contains(const std::string& symbol) const { return symbols_.contains(symbol); }

bool ToldSymbols::tell(const ir::Expr& expression) const {
  if (expression.constant()) return true;
  if (expression.op() == ir::ExprOp::kOpaque) return false;
  if (expression.is_symbol()) return contains(std::string(expression.name()));
  return std::ranges::all_of(expression.operands(), [this](const ir::Expr& operand) { return tell(operand); });
}

bool ToldSymbols::tell(const std::vector<ir::Expr>& expressions) const {
  return std::ranges::all_of(expressions, [this](const ir::Expr& expression) { return tell(expression); });
}

std::string describe_parts(const Placement& placement) {
  std::vector<std::pair<std::string, std::size_t>> counts;  // in the order of first use
  for (const PlacedPart& part : placement.parts) {
    auto found = std::ranges::find(counts, part.device, &std::pair<std::string, std::size_t>::first);
    if (found == counts.end()) found = counts.insert(counts.end(), {part.device, 0});
    found->second += part.nodes.size();
  }
  std::string text = fmt::format("{} parts: ", placement.parts.size());
  for (std::size_t index = 0; index < counts.size(); ++index) {
    text += fmt::format("{}{}{} on {}", index == 0 ? "" : ", ", counts[index].second,
                        index == 0 ? (counts[index].second == 1 ? " node" : " nodes") : "", counts[index].first);
  }
  return text;
}

std::optional<std::uint64_t> count_received_bytes(const ir::Graph& graph, const PlacedPart& part,
                                                  const ir::Bindings& sizes) {
  std::uint64_t total = 0;
  for (const ir::ValueId id : part.received) {
    const ir::Value& value = graph.at(id);
    std::uint64_t bytes = value.kind == ir::ValueKind::kTensor ? element_bytes(value.tensor.dtype) : 8;
    for (const ir::Expr& dim : value.tensor.dims) {
      const auto extent = dim.evaluate(sizes);
      if (!extent.ok() || *extent < 0) return std::nullopt;
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(*extent), &bytes)) return std::nullopt;
    }
    if (__builtin_add_overflow(total, bytes, &total)) return std::nullopt;
  }
  return total;
}

}  // namespace kpt
