#include "validation/layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"
#include "validation/bf16_form.h"

namespace kpt {
namespace {

// A run holds all observed values at once.
constexpr std::size_t kObservedPerRun = 128;

using Values = std::map<std::string, Tensor, std::less<>>;

bool is_wanted(const ir::Graph& graph, ir::ValueId id) {
  return id != ir::kNoValue && graph.at(id).kind == ir::ValueKind::kTensor && !is_complex(graph.at(id).tensor.dtype);
}

// The model with some of its values as further outputs, each copied as soon as it is there: a later operator may write
// into its memory.
ImportedModel add_outputs(const ImportedModel& model, const std::set<std::string, std::less<>>& names) {
  ImportedModel observed = model;
  ir::Graph& graph = observed.graph;
  std::vector<ir::Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (ir::Node& node : nodes) {
    const std::vector<ir::Output> outputs = node.outputs;
    graph.nodes.push_back(std::move(node));
    for (const ir::Output& output : outputs) {
      for (const ir::ValueId id : output.values) {
        if (!is_wanted(graph, id) || !names.contains(graph.at(id).name)) continue;
        ir::Value copy;
        copy.name = fmt::format("observed_{}", graph.values.size());
        copy.tensor = graph.at(id).tensor;
        ir::Node clone;
        clone.name = copy.name;
        clone.target = "aten.clone.default";
        clone.arguments = {{"self", {id}}};
        const std::string name = graph.at(id).name;
        const ir::ValueId copy_id = graph.add_value(std::move(copy));
        clone.outputs = {{false, {copy_id}}};
        graph.nodes.push_back(std::move(clone));
        graph.outputs.push_back({ir::OutputKind::kUser, {copy_id}, "value " + name});
      }
    }
  }
  return observed;
}

Result<Values> observe(const ImportedModel& model, const std::set<std::string, std::less<>>& names,
                       const PlacedDevice& device, const std::vector<Draw>& draws, std::size_t draw, bool as_written) {
  ImportedModel observed = add_outputs(model, names);
  KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(std::move(observed), device));
  if (as_written) run.run_as_written();
  std::vector<NamedTensor> outputs;
  for (std::size_t step = run.is_stateful() ? 0 : draw; step <= draw; ++step) {
    KPT_ASSIGN_OR_RETURN(outputs, run.run(draws[step].inputs));
  }
  Values values;
  for (NamedTensor& output : outputs) {
    if (output.name.starts_with("value ")) values.insert_or_assign(output.name.substr(6), std::move(output.tensor));
  }
  return values;
}

double excess_of(const OutputVerdict& verdict, Level level) {
  if (verdict.passed) return 0;
  if (verdict.rule == "equal" || !std::isfinite(verdict.candidate_error) || verdict.candidate_error == 0) return 1e9;
  double allowed = 2 * verdict.plain_error;
  if (verdict.bf16_error) allowed = std::max(allowed, 3 * *verdict.bf16_error);
  if (level == Level::kAggressive) return 1 / std::max(1e-9, std::min(1.0, std::fabs(verdict.cosine)));
  return std::min(1e9, verdict.candidate_error / std::max(allowed, 1e-30));
}

std::map<std::string, const ir::Node*, std::less<>> find_makers(const ir::Graph& graph) {
  std::map<std::string, const ir::Node*, std::less<>> makers;
  for (const ir::Node& node : graph.nodes) {
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) makers.emplace(graph.at(id).name, &node);
      }
    }
  }
  return makers;
}

// The forms beside the candidate, as far as the level needs them.
struct Forms {
  ImportedModel exact;
  std::optional<ImportedModel> bf16;
};

Result<Forms> make_forms(const ImportedModel& model, const Gate& gate) {
  Forms forms;
  forms.exact = model;
  KPT_RETURN_IF_ERROR(promote_to_fp64(forms.exact.graph));
  KPT_ASSIGN_OR_RETURN(forms.exact.weights, promote_to_fp64(model.weights));
  if (gate.bf16_way()) {
    KPT_ASSIGN_OR_RETURN(forms.bf16, make_bf16_form(model, *gate.bf16_way()));
  }
  return forms;
}

struct Observed {
  Values candidate;
  Values plain;
  Values exact;
  Values bf16;
};

// False when the value cannot be compared: another shape or kind under the same name is another value.
bool judge_layer(const Gate& gate, const Observed& observed, LayerError& layer) {
  const auto given = observed.candidate.find(layer.value);
  const auto plain = observed.plain.find(layer.value);
  const auto exact = observed.exact.find(layer.value);
  if (given == observed.candidate.end() || plain == observed.plain.end() || exact == observed.exact.end()) return false;
  if (!(given->second.dims() == plain->second.dims())) return false;
  if (is_floating(given->second.dtype()) != is_floating(plain->second.dtype())) return false;
  Tensor tensor = given->second;
  if (is_floating(tensor.dtype()) && tensor.dtype() != plain->second.dtype()) {
    const auto converted = convert_floating(tensor, plain->second.dtype());
    if (!converted.ok()) return false;
    tensor = *converted;
  }
  const auto low = observed.bf16.find(layer.value);
  layer.verdict =
      gate.judge_tensor(tensor, plain->second, exact->second, low != observed.bf16.end() ? &low->second : nullptr);
  layer.verdict.output = layer.value;
  layer.excess = excess_of(layer.verdict, gate.options().level);
  return true;
}

// Values of the candidate that the model has too, in order.
std::vector<LayerError> list_layers(const ir::Graph& graph,
                                    const std::map<std::string, const ir::Node*, std::less<>>& makers) {
  std::vector<LayerError> layers;
  for (const ir::Node& node : graph.nodes) {
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (!is_wanted(graph, id) || !makers.contains(graph.at(id).name)) continue;
        LayerError layer;
        layer.node = node.name;
        layer.target = node.target;
        layer.value = graph.at(id).name;
        layers.push_back(std::move(layer));
      }
    }
  }
  return layers;
}

}  // namespace

Result<std::vector<LayerError>> compare_layers(const ImportedModel& model, const ImportedModel& candidate,
                                               const Gate& gate, std::size_t draw, const PlacedDevice& device,
                                               const PlacedDevice& cpu) {
  KPT_ASSIGN_OR_RETURN(const Forms forms, make_forms(model, gate));
  const auto makers = find_makers(model.graph);
  std::vector<LayerError> layers = list_layers(candidate.graph, makers);
  std::vector<LayerError> judged;
  for (std::size_t begin = 0; begin < layers.size(); begin += kObservedPerRun) {
    const std::size_t end = std::min(layers.size(), begin + kObservedPerRun);
    std::set<std::string, std::less<>> names;
    for (std::size_t index = begin; index < end; ++index) names.insert(layers[index].value);
    Observed observed;
    KPT_ASSIGN_OR_RETURN(observed.candidate, observe(candidate, names, device, gate.draws(), draw, false));
    KPT_ASSIGN_OR_RETURN(observed.plain, observe(model, names, gate.device(), gate.draws(), draw, true));
    KPT_ASSIGN_OR_RETURN(observed.exact, observe(forms.exact, names, cpu, gate.draws(), draw, true));
    if (forms.bf16) {
      KPT_ASSIGN_OR_RETURN(observed.bf16, observe(*forms.bf16, names, gate.device(), gate.draws(), draw, true));
    }
    for (std::size_t index = begin; index < end; ++index) {
      if (!judge_layer(gate, observed, layers[index])) continue;
      layers[index].verdict.draw = draw;
      layers[index].source = find_source_line(model, *makers.at(layers[index].value));
      judged.push_back(std::move(layers[index]));
    }
  }
  return judged;
}

Result<std::vector<LayerDifference>> compare_layers(const PlacedForm& first, const PlacedForm& second,
                                                    const std::vector<Draw>& draws, std::size_t draw) {
  const std::vector<LayerError> layers = list_layers(first.model.graph, find_makers(second.model.graph));
  std::vector<LayerDifference> differences;
  for (std::size_t begin = 0; begin < layers.size(); begin += kObservedPerRun) {
    const std::size_t end = std::min(layers.size(), begin + kObservedPerRun);
    std::set<std::string, std::less<>> names;
    for (std::size_t index = begin; index < end; ++index) names.insert(layers[index].value);
    KPT_ASSIGN_OR_RETURN(const Values left, observe(first.model, names, first.device, draws, draw, false));
    KPT_ASSIGN_OR_RETURN(const Values right, observe(second.model, names, second.device, draws, draw, false));
    for (std::size_t index = begin; index < end; ++index) {
      const auto one = left.find(layers[index].value);
      const auto other = right.find(layers[index].value);
      if (one == left.end() || other == right.end()) continue;
      const bool same = one->second.dims() == other->second.dims() &&
                        is_floating(one->second.dtype()) == is_floating(other->second.dtype());
      if (!same) continue;  // another value under the same name
      differences.push_back({layers[index].node, layers[index].target, layers[index].value,
                             measure_agreement(one->second, other->second)});
    }
  }
  return differences;
}

Result<Values> observe_values(const PlacedForm& form, const std::set<std::string, std::less<>>& names,
                              const std::vector<Draw>& draws, std::size_t draw) {
  return observe(form.model, names, form.device, draws, draw, false);
}

std::optional<std::size_t> find_first_divergence(const std::vector<LayerError>& layers) {
  double greatest = 0;
  for (const LayerError& layer : layers) greatest = std::max(greatest, layer.excess);
  const double threshold = std::clamp(0.001 * greatest, 1.0, 10.0);
  std::optional<std::size_t> first;
  for (std::size_t index = 0; index < layers.size(); ++index) {
    if (layers[index].verdict.passed) continue;
    if (layers[index].excess >= threshold) return index;
    if (!first) first = index;
  }
  return first;
}

}  // namespace kpt
