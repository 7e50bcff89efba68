#include "runtime/split_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ir/verifier.h"

namespace kpt {
namespace {

void add_symbols(const ir::Expr& expression, std::set<std::string>& symbols) {
  if (expression.constant()) return;
  for (std::string& symbol : expression.symbols()) symbols.insert(std::move(symbol));
}

void add_symbols(const std::vector<ir::Expr>& expressions, std::set<std::string>& symbols) {
  for (const ir::Expr& expression : expressions) add_symbols(expression, symbols);
}

// Of values, whether they matter to a run or not, and of those in sub-graphs.
void add_all_symbols(const ir::Graph& graph, std::set<std::string>& symbols) {
  for (const ir::Value& value : graph.values) {
    add_symbols(value.tensor.dims, symbols);
    add_symbols(value.tensor.strides, symbols);
    add_symbols(value.tensor.storage_offset, symbols);
    add_symbols(value.expression, symbols);
  }
  for (const ir::Node& node : graph.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) {
      const auto* body = std::get_if<ir::Subgraph>(&argument.value.value);
      if (body != nullptr && body->graph != nullptr) add_all_symbols(*body->graph, symbols);
    }
  }
}

class PartsBuilder {
 public:
  explicit PartsBuilder(const SplitPlan& plan)
      : plan_(plan),
        whole_(plan.graph),
        told_(plan.graph),
        input_of_(whole_.values.size(), kNoSlot),
        user_of_(whole_.values.size(), kNoSlot),
        slot_of_(whole_.values.size(), kNoSlot),
        read_elsewhere_(whole_.values.size(), false) {
    find_inputs();
    find_travellers();
  }

  Result<SplitGraph> build(const std::string& device, const std::string& host);

 private:
  void find_inputs();
  void find_travellers();
  void add_input(std::size_t index, ir::ValueId id);
  void add_node(std::size_t index, const ir::Node& node);
  void add_results(std::size_t index);
  void tell_sizes(std::size_t index);
  ir::ValueId copy_value(ir::ValueId id);
  ir::Argument copy_argument(const ir::Argument& argument) const;
  std::size_t find_slot(ir::ValueId id);
  std::size_t size_slot(const std::string& symbol);
  void read_slot(std::size_t slot, std::size_t part);
  Status add_outputs();
  bool is_size(ir::ValueId id) const { return told_.is_size(whole_.at(id)); }

  const SplitPlan& plan_;
  const ir::Graph& whole_;
  ToldSymbols told_;
  std::vector<std::size_t> input_of_;  // by value: which of the graph's inputs it is
  std::vector<std::size_t> user_of_;   // likewise, of the caller's
  std::vector<std::size_t> slot_of_;   // by value
  std::vector<bool> read_elsewhere_;   // by value: another part reads it, or callers receive it
  std::map<std::string, std::size_t> size_slots_;
  SplitGraph split_;
  ir::Graph* graph_ = nullptr;                      // of the part at work
  std::map<std::uint32_t, ir::ValueId> new_value_;  // there, by old value
};

void PartsBuilder::find_inputs() {
  std::size_t user = 0;
  for (std::size_t index = 0; index < whole_.inputs.size(); ++index) {
    const ir::GraphInput& input = whole_.inputs[index];
    const bool of_user = input.kind == ir::InputKind::kUser;
    if (input.value != ir::kNoValue) {
      input_of_[ir::index_of(input.value)] = index;
      if (of_user) user_of_[ir::index_of(input.value)] = user;
    }
    if (of_user) ++user;
  }
}

void PartsBuilder::find_travellers() {
  std::vector<std::size_t> maker(whole_.values.size(), kNoSlot);  // part
  for (std::size_t part = 0; part < plan_.parts.size(); ++part) {
    for (const std::size_t node : plan_.parts[part].nodes) {
      for (const ir::Output& output : whole_.nodes[node].outputs) {
        for (const ir::ValueId id : output.values) {
          if (id != ir::kNoValue) maker[ir::index_of(id)] = part;
        }
      }
    }
  }
  const auto read = [&](ir::ValueId id, std::size_t reader) {
    const std::size_t made = maker[ir::index_of(id)];
    if (made != kNoSlot && made != reader && !is_size(id)) read_elsewhere_[ir::index_of(id)] = true;
  };
  for (std::size_t part = 0; part < plan_.parts.size(); ++part) {
    for (const std::size_t node : plan_.parts[part].nodes) {
      for (const ir::NamedArgument& argument : whole_.nodes[node].arguments) {
        ir::for_each_value(argument.value, [&](ir::ValueId id) { read(id, part); });
      }
    }
  }
  for (const ir::GraphOutput& output : whole_.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId id) { read(id, kNoSlot); });
  }
}

ir::ValueId PartsBuilder::copy_value(ir::ValueId id) {
  const ir::ValueId copy = graph_->add_value(whole_.at(id));
  new_value_[ir::index_of(id)] = copy;
  return copy;
}

std::size_t PartsBuilder::find_slot(ir::ValueId id) {
  std::size_t& slot = slot_of_[ir::index_of(id)];
  if (slot != kNoSlot) return slot;
  slot = split_.slots.size();
  SplitSlot made;
  made.value = id;
  made.user = user_of_[ir::index_of(id)];
  made.is_size = made.user == kNoSlot && is_size(id);
  if (made.is_size) made.size = whole_.at(id).expression;
  split_.slots.push_back(std::move(made));
  return slot;
}

std::size_t PartsBuilder::size_slot(const std::string& symbol) {
  const auto found = size_slots_.find(symbol);
  if (found != size_slots_.end()) return found->second;
  SplitSlot made;
  made.is_size = true;
  made.size = ir::Expr::symbol(symbol);
  split_.slots.push_back(std::move(made));
  return size_slots_[symbol] = split_.slots.size() - 1;
}

void PartsBuilder::read_slot(std::size_t slot, std::size_t part) {
  SplitSlot& read = split_.slots[slot];
  if (read.last_reader != kNoSlot) read.last_reader = part;  // parts come in order
  if (split_.parts[part].side == Side::kHost) read.read_on_host = true;
}

void PartsBuilder::add_input(std::size_t index, ir::ValueId id) {
  if (new_value_.contains(ir::index_of(id))) return;
  SplitPart& part = split_.parts[index];
  const std::size_t given = input_of_[ir::index_of(id)];
  ir::GraphInput input;
  if (given != kNoSlot && whole_.inputs[given].kind != ir::InputKind::kUser) {
    input = whole_.inputs[given];
    input.value = copy_value(id);
    graph_->inputs.push_back(std::move(input));
    return;
  }
  input.kind = ir::InputKind::kUser;
  input.value = copy_value(id);
  input.name = whole_.at(id).name;  // names of values are unique, those of inputs only among inputs
  graph_->inputs.push_back(std::move(input));
  const std::size_t slot = find_slot(id);
  part.inputs.push_back(slot);
  read_slot(slot, index);
  if (split_.slots[slot].user == kNoSlot && !split_.slots[slot].is_size) {
    split_.placement.parts[index].received.push_back(id);
  }
}

ir::Argument PartsBuilder::copy_argument(const ir::Argument& argument) const {
  ir::Argument copy = argument;
  if (const ir::ValueId* id = argument.value_id()) copy.value = new_value_.at(ir::index_of(*id));
  if (auto* list = std::get_if<ir::List>(&copy.value)) {
    for (ir::Argument& item : list->items) item = copy_argument(item);
  }
  return copy;
}

void PartsBuilder::add_node(std::size_t index, const ir::Node& node) {
  for (const ir::NamedArgument& argument : node.arguments) {
    ir::for_each_value(argument.value, [&](ir::ValueId id) { add_input(index, id); });
  }
  ir::Node copy = node;
  for (ir::NamedArgument& argument : copy.arguments) argument.value = copy_argument(argument.value);
  for (ir::Output& output : copy.outputs) {
    for (ir::ValueId& id : output.values) {
      if (id != ir::kNoValue) id = copy_value(id);
    }
  }
  graph_->nodes.push_back(std::move(copy));
}

void PartsBuilder::add_results(std::size_t index) {
  SplitPart& part = split_.parts[index];
  for (const std::size_t node : part.nodes) {
    for (const ir::Output& output : whole_.nodes[node].outputs) {
      for (const ir::ValueId id : output.values) {
        if (id == ir::kNoValue || !read_elsewhere_[ir::index_of(id)]) continue;
        const std::size_t slot = find_slot(id);
        split_.slots[slot].last_reader = index;
        part.outputs.push_back(slot);
        graph_->outputs.push_back({ir::OutputKind::kUser, {new_value_.at(ir::index_of(id))}, whole_.at(id).name});
      }
    }
  }
}

// A device may need every size before a run, and learns sizes from what it is given.
void PartsBuilder::tell_sizes(std::size_t index) {
  SplitPart& part = split_.parts[index];
  const ToldSymbols told(*graph_);
  std::set<std::string> needed;
  std::set<std::string> names;
  for (const ir::Value& value : graph_->values) {
    add_symbols(value.tensor.dims, needed);
    add_symbols(value.expression, needed);
    names.insert(value.name);
  }
  for (const std::string& symbol : needed) {
    if (told.contains(symbol) || !told_.contains(symbol)) continue;
    ir::Value size;
    size.name = "size_" + symbol;
    while (names.contains(size.name)) size.name += "_";
    names.insert(size.name);
    size.kind = ir::ValueKind::kInt;
    size.expression = ir::Expr::symbol(symbol);
    ir::GraphInput input;
    input.name = size.name;
    input.value = graph_->add_value(std::move(size));
    graph_->inputs.push_back(std::move(input));
    const std::size_t slot = size_slot(symbol);
    part.inputs.push_back(slot);
    read_slot(slot, index);
  }
}

Status PartsBuilder::add_outputs() {
  for (const ir::GraphOutput& output : whole_.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind != ir::OutputKind::kUser || id == nullptr) continue;
    const std::size_t given = input_of_[ir::index_of(*id)];
    if (given != kNoSlot && ir::is_weight(whole_.inputs[given])) {
      split_.outputs.push_back({kNoSlot, whole_.inputs[given].name});
      continue;
    }
    if (given != kNoSlot && whole_.inputs[given].kind == ir::InputKind::kFixed) {
      return {StatusCode::kUnsupported, fmt::format("output '{}' is an argument that export fixed", output.name)};
    }
    const std::size_t slot = find_slot(*id);
    split_.slots[slot].last_reader = kNoSlot;
    split_.outputs.push_back({slot, {}});
  }
  return {};
}

Result<SplitGraph> PartsBuilder::build(const std::string& device, const std::string& host) {
  split_.parts.resize(plan_.parts.size());
  split_.placement.parts.resize(plan_.parts.size());
  for (std::size_t index = 0; index < plan_.parts.size(); ++index) {
    SplitPart& part = split_.parts[index];
    part.side = plan_.parts[index].side;
    part.nodes = plan_.parts[index].nodes;
    split_.placement.parts[index].device = part.side == Side::kHost ? host : device;
    split_.placement.parts[index].nodes = part.nodes;
    graph_ = &part.graph;
    new_value_.clear();
    for (const std::size_t node : part.nodes) add_node(index, whole_.nodes[node]);
    add_results(index);
    if (part.side == Side::kDevice) tell_sizes(index);
    std::set<std::string> symbols;
    add_all_symbols(part.graph, symbols);
    for (const ir::SymbolRange& symbol : whole_.symbols) {
      if (symbols.contains(symbol.name)) part.graph.symbols.push_back(symbol);
    }
    const Status sound = ir::verify(part.graph);
    if (!sound.ok()) {
      return Status(StatusCode::kInternal, fmt::format("part {} of the split graph: {}", index, sound.message()));
    }
  }
  KPT_RETURN_IF_ERROR(add_outputs());
  for (std::size_t node = 0; node < plan_.sides.size(); ++node) {
    if (plan_.sides[node] == Side::kNowhere) split_.placement.size_nodes.push_back(node);
  }
  return std::move(split_);
}

}  // namespace

Result<SplitGraph> build_parts(const SplitPlan& plan, const std::string& device, const std::string& host) {
  return PartsBuilder(plan).build(device, host);
}

Result<SplitGraph> split_graph(const ir::Graph& graph, const Device& device, const Device& host) {
  std::vector<std::size_t> kept;
  while (true) {  // `kept` grows by a node at least
    KPT_ASSIGN_OR_RETURN(const SplitPlan plan, plan_split(graph, device.target(), host.target(), kept));
    KPT_ASSIGN_OR_RETURN(SplitGraph split, build_parts(plan, device.info().name, host.info().name));
    const std::size_t before = kept.size();
    for (const SplitPart& part : split.parts) {
      if (part.side != Side::kDevice) continue;
      KPT_ASSIGN_OR_RETURN(const std::vector<Support> answers, device.target().supports(part.graph));
      for (std::size_t node = 0; node < answers.size(); ++node) {
        if (!answers[node].supported) kept.push_back(part.nodes[node]);
      }
    }
    if (kept.size() == before) return split;
  }
}

}  // namespace kpt
