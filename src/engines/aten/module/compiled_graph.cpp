#include "engines/aten/module/compiled_graph.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "device/unsupported_nodes.h"
#include "engines/aten/module/out_variants.h"

namespace kpt::aten {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

// Last step that uses each value; kNever for values that must outlive the steps.
std::vector<std::uint32_t> last_uses(const ir::Graph& graph, std::size_t step_count) {
  std::vector<std::uint32_t> last(graph.values.size(), 0);
  for (std::uint32_t index = 0; index < step_count; ++index) {
    const ir::Node& node = graph.nodes[index];
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { last[ir::index_of(id)] = index; });
    }
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) last[ir::index_of(id)] = std::max(last[ir::index_of(id)], index);
      }
    }
  }
  for (const ir::GraphOutput& output : graph.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId id) { last[ir::index_of(id)] = kNever; });
  }
  return last;
}

// What a sub-graph writes, the node writes.
void mark_body_writes(const Step& step, AliasSets& aliases) {
  const std::size_t first = step.kind == Step::Kind::kCond ? 1 : 0;  // before the operands stands the predicate
  for (const auto& body : step.bodies) {
    for (std::size_t index = 0; index < body->graph().inputs.size(); ++index) {
      const ir::ValueId input = body->graph().inputs[index].value;
      const ArgumentSource& operand = step.arguments[first + index];
      if (input == ir::kNoValue || operand.kind != ArgumentSource::Kind::kSlot) continue;
      if (body->aliases().is_written(ir::index_of(input))) aliases.mark_written(operand.slot);
    }
  }
}

bool is_plannable(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() != 1 || node.outputs[0].is_list || node.outputs[0].values[0] == ir::kNoValue) return false;
  const ir::Value& value = graph.at(node.outputs[0].values[0]);
  return value.kind == ir::ValueKind::kTensor && value.tensor.layout == ir::Layout::kStrided &&
         value.tensor.strides.size() == value.tensor.dims.size();
}

}  // namespace

std::vector<Support> CompiledGraph::check(const ir::Graph& graph, at::Device device) {
  std::vector<Support> answers;
  BindingContext context{graph, device};
  for (std::uint32_t index = 0; index < graph.nodes.size(); ++index) {
    const auto step = bind_node(graph, index, context);
    answers.push_back(step.ok() ? Support{} : Support{false, step.status().message()});
  }
  return answers;
}

Result<std::unique_ptr<CompiledGraph>> CompiledGraph::compile(const ir::Graph& graph, at::Device device,
                                                              bool plan_memory, const NvidiaPolicy& policy) {
  std::unique_ptr<CompiledGraph> compiled(new CompiledGraph(graph, device, policy));
  KPT_RETURN_IF_ERROR(compiled->bind());
  compiled->plan_releases();
  if (plan_memory) compiled->plan_memory();
  return compiled;
}

Status CompiledGraph::bind() {
  BindingContext context{*graph_, device_, policy_};
  std::vector<Support> answers(graph_->nodes.size());
  for (std::uint32_t index = 0; index < graph_->nodes.size(); ++index) {
    const ir::Node& node = graph_->nodes[index];
    auto step = bind_node(*graph_, index, context);
    if (!step.ok()) {
      answers[index] = {false, step.status().message()};
      continue;
    }
    if (step->kind != Step::Kind::kOwn) aliases_.add_node(node, step->op);  // own nodes share and write nothing
    mark_body_writes(*step, aliases_);
    max_arguments_ = std::max(max_arguments_, static_cast<std::uint32_t>(step->arguments.size()));
    steps_.push_back(std::move(step).value());
  }
  list_count_ = context.list_count;
  return list_unsupported(*graph_, answers, "cannot run");
}

void CompiledGraph::plan_releases() {
  const std::vector<std::uint32_t> last = last_uses(*graph_, steps_.size());
  std::vector<bool> kept(graph_->values.size(), false);  // weights stay in the frame from run to run
  for (const ir::GraphInput& input : graph_->inputs) {
    if (input.value != ir::kNoValue && input.kind != ir::InputKind::kUser) kept[ir::index_of(input.value)] = true;
  }
  for (std::uint32_t value = 0; value < last.size(); ++value) {
    if (kept[value]) continue;
    if (last[value] != kNever && !steps_.empty()) {
      steps_[last[value]].release.push_back(value);
    } else {
      final_releases_.push_back(value);
    }
  }
}

void CompiledGraph::plan_memory() {
  const std::vector<std::uint32_t> last = last_uses(*graph_, steps_.size());
  // Memory lives as long as anything that may share it. What callers receive is never planned; what is copied into a
  // buffer after the run lives to the end of it.
  std::vector<std::uint32_t> set_last(last.size(), 0);
  std::vector<bool> set_kept(last.size(), false);
  for (std::uint32_t value = 0; value < last.size(); ++value) {
    std::uint32_t& end = set_last[aliases_.root(value)];
    end = std::max(end, last[value]);
  }
  const auto keep = [&](ir::ValueId id) { set_kept[aliases_.root(ir::index_of(id))] = true; };
  for (const ir::GraphOutput& output : graph_->outputs) {
    if (output.kind == ir::OutputKind::kUser) ir::for_each_value(output.value, keep);
  }
  // Sub-graphs keep no memory of ours, but what they receive may come back as a result.
  for (Step& step : steps_) {
    if (step.kind == Step::Kind::kOwn) plan_own_results(step, set_last, set_kept);
    if (!is_plannable(*graph_, graph_->nodes[step.node])) continue;
    const std::uint32_t value = step.result();
    const std::uint32_t set = aliases_.root(value);
    if (set_kept[set] || aliases_.is_reshaped(value) || !use_planned_result(*graph_, step, scratch_count_)) continue;
    step.planned = static_cast<std::int32_t>(planned_.size());
    planned_.push_back({value, step.node, set_last[set], false});
  }
}

void CompiledGraph::plan_own_results(Step& step, const std::vector<std::uint32_t>& set_last,
                                     const std::vector<bool>& set_kept) {
  for (std::size_t index = 0; index < step.results.size(); ++index) {
    OwnStep::ExpectedResult& result = step.own->results[index];
    const auto value = static_cast<std::uint32_t>(step.results[index].slots[0]);
    const std::uint32_t set = aliases_.root(value);
    if (!result.wanted || set_kept[set] || aliases_.is_reshaped(value)) continue;
    result.place = static_cast<std::int32_t>(planned_.size());
    planned_.push_back({value, step.node, set_last[set], !step.own->node->keeps_strides()});
  }
}

Status CompiledGraph::prepare(std::span<const at::Tensor* const> constants) {
  for (Step& step : steps_) {
    if (step.kind != Step::Kind::kOwn) continue;
    const Status status = step.own->node->prepare(OwnWeights(step, constants));
    if (status.ok()) continue;
    const ir::Node& node = graph_->nodes[step.node];
    return {status.code(), fmt::format("node '{}' ({}): {}", node.name, node.target, status.message())};
  }
  return {};
}

std::vector<NodePlan> CompiledGraph::describe() const {
  std::vector<NodePlan> plans;
  for (const Step& step : steps_) {
    const ir::Node& node = graph_->nodes[step.node];
    std::string how = "boxed";
    bool planned = step.planned >= 0;
    if (step.kind == Step::Kind::kTyped) how = "typed";
    if (step.kind == Step::Kind::kReplaced) how = "own step";
    if (step.kind == Step::Kind::kNumber) how = "own";
    if (step.kind == Step::Kind::kOwn) {
      how = "own: " + step.own->node->describe();
      for (const OwnStep::ExpectedResult& result : step.own->results) planned = planned || result.place >= 0;
    }
    if (step.kind == Step::Kind::kCond || step.kind == Step::Kind::kWhile) how = "own";
    if (planned) how += ", planned";
    plans.push_back({node.name, node.target, std::move(how)});
  }
  return plans;
}

}  // namespace kpt::aten
