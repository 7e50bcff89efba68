#include "graph_run.h"

#include <algorithm>

#include "passes/memory_facts.h"

namespace kpt::xla_test {
namespace {

// Everything that shares memory with a value without lowering is without, too, when somebody writes it.
class Cut {
 public:
  explicit Cut(const ir::Graph& graph) : gone_(graph.values.size(), false), dead_(graph.nodes.size(), false) {}

  bool uses_gone(const ir::Node& node) const {
    bool found = false;
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { found = found || gone_[ir::index_of(id)]; });
    }
    return found;
  }

  bool remove(const ir::Node& node, std::size_t index) {
    if (dead_[index]) return false;
    dead_[index] = true;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) gone_[ir::index_of(id)] = true;
      }
    }
    if (is_in_place(node)) {
      if (const ir::ValueId* id = node.arguments[0].value.value_id()) gone_[ir::index_of(*id)] = true;
    }
    return true;
  }

  bool is_dead(std::size_t index) const { return dead_[index]; }
  bool is_gone(ir::ValueId id) const { return gone_[ir::index_of(id)]; }

 private:
  std::vector<bool> gone_;
  std::vector<bool> dead_;
};

}  // namespace

std::set<std::string> cut_unsupported(ir::Graph& graph) {
  std::set<std::string> reasons;
  const auto answers = xla::check_lowering(graph).value();
  Cut cut(graph);
  for (std::size_t index = 0; index < answers.size(); ++index) {
    if (answers[index].supported) continue;
    reasons.insert(graph.nodes[index].target + ": " + answers[index].reason);
    cut.remove(graph.nodes[index], index);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
      const ir::Node& node = graph.nodes[index];
      if (cut.uses_gone(node) && cut.remove(node, index)) changed = true;
    }
  }
  std::vector<ir::Node> kept;
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    if (!cut.is_dead(index)) kept.push_back(graph.nodes[index]);
  }
  graph.nodes = std::move(kept);
  std::erase_if(graph.outputs, [&](const ir::GraphOutput& output) {
    const ir::ValueId* id = output.value.value_id();
    return id != nullptr && cut.is_gone(*id);
  });
  return reasons;
}

GraphRun::GraphRun(ModuleRunner& runner, const ir::Graph& graph, const Weights& weights)
    : runner_(runner), graph_(graph), weights_(weights) {}

Result<xla::LoweredModule> GraphRun::get_module(const std::map<std::string, Tensor>& inputs) {
  xla::SymbolValues sizes;
  std::vector<std::int64_t> key;
  for (const ir::GraphInput& input : graph_.inputs) {
    if (input.kind != ir::InputKind::kUser || input.value == ir::kNoValue) continue;
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) return Status(StatusCode::kInvalidArgument, "no input '" + input.name + "'");
    const std::vector<ir::Expr>& dims = graph_.at(input.value).tensor.dims;
    for (std::size_t axis = 0; axis < dims.size() && axis < given->second.dims().size(); ++axis) {
      if (dims[axis].is_symbol()) sizes.set(dims[axis].name(), given->second.dims()[axis]);
      key.push_back(given->second.dims()[axis]);
    }
  }
  const auto found = modules_.find(key);
  if (found != modules_.end()) return found->second;
  KPT_ASSIGN_OR_RETURN(xla::LoweredModule module, xla::lower(graph_, sizes));
  return modules_.emplace(key, std::move(module)).first->second;
}

Result<std::vector<NamedTensor>> GraphRun::run(const std::map<std::string, Tensor>& inputs) {
  KPT_ASSIGN_OR_RETURN(const xla::LoweredModule module, get_module(inputs));
  std::vector<Tensor> arguments;
  for (const xla::ModulePlace& place : module.arguments) {
    const ir::GraphInput& input = graph_.inputs[place.index];
    Tensor tensor;
    if (const auto written = state_.find(place.index); written != state_.end()) {
      tensor = written->second;
    } else if (input.kind == ir::InputKind::kUser) {
      tensor = inputs.at(input.name);
    } else {
      const auto weight = weights_.find(input.name);
      if (weight == weights_.end()) return Status(StatusCode::kInvalidArgument, "no weight '" + input.name + "'");
      tensor = weight->second;
    }
    if (tensor.dtype() != place.dtype ||
        !std::equal(tensor.dims().begin(), tensor.dims().end(), place.dims.begin(), place.dims.end())) {
      return Status(StatusCode::kInvalidArgument, "'" + input.name + "' is " + tensor.to_string());
    }
    KPT_ASSIGN_OR_RETURN(Tensor dense, tensor.contiguous_copy());
    arguments.push_back(std::move(dense));
  }
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> results, runner_.run(module, arguments));
  std::vector<NamedTensor> outputs;
  for (std::size_t index = 0; index < results.size(); ++index) {
    const std::uint32_t place = module.results[index].index;
    if (index < module.output_count) {
      outputs.push_back({graph_.outputs[place].name, results[index]});
    } else if (graph_.inputs[place].kind != ir::InputKind::kUser) {
      state_.insert_or_assign(place, results[index]);
    }
  }
  return outputs;
}

}  // namespace kpt::xla_test
