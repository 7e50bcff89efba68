#include "validation/locate.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

constexpr std::size_t kMaxSuspects = 12;

// From the diverging value back to values that agree (or inputs): what lies between cannot be told apart by value.
std::vector<std::string> find_suspects(const ir::Graph& graph, const std::vector<LayerError>& layers,
                                       const LayerError& culprit) {
  std::map<ir::ValueId, const ir::Node*> makers;
  std::map<std::string, ir::ValueId, std::less<>> ids;
  for (const ir::Node& node : graph.nodes) {
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id == ir::kNoValue) continue;
        makers.emplace(id, &node);
        ids.emplace(graph.at(id).name, id);
      }
    }
  }
  std::set<std::string, std::less<>> compared;
  for (const LayerError& layer : layers) compared.insert(layer.value);
  std::vector<const ir::Node*> found;
  const auto start = ids.find(culprit.value);
  if (start == ids.end()) return {};
  found.push_back(makers.at(start->second));
  for (std::size_t next = 0; next < found.size() && found.size() < kMaxSuspects; ++next) {
    for (const ir::NamedArgument& argument : found[next]->arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) {
        const auto maker = makers.find(id);
        if (maker == makers.end() || compared.contains(graph.at(id).name)) return;
        if (std::ranges::find(found, maker->second) == found.end()) found.push_back(maker->second);
      });
    }
  }
  std::vector<std::string> names;
  for (const ir::Node* node : found) names.push_back(node->name);
  return names;
}

// The draw on which an output was worst.
std::size_t find_failed_draw(const GateReport& report) {
  for (const OutputVerdict& verdict : report.worst()) {
    if (!verdict.passed) return verdict.draw;
  }
  return 0;
}

}  // namespace

std::string Culprit::sentence() const {
  if (pass.empty() && !problem.empty()) return problem;
  std::string text = pass.empty() ? std::string("the first divergence is") : fmt::format("pass {} broke it:", pass);
  if (!problem.empty()) return fmt::format("{} the model cannot run after it: {}", text, problem);
  if (!node) return fmt::format("{} no value inside differs beyond the tolerance, only the outputs do", text);
  text += fmt::format(" node '{}' ({}), {}", node->node, node->target, node->verdict.reason);
  if (suspects.size() > 1) text += fmt::format("; it may be any of {}", join(suspects, ", "));
  if (!node->source.empty()) text += fmt::format("; from {}", node->source);
  return text;
}

Result<std::optional<Culprit>> locate_culprit(const ImportedModel& model, const Gate& gate,
                                              std::span<const PassStage> stages, const PlacedDevice& cpu) {
  KPT_ASSIGN_OR_RETURN(const GateReport itself, gate.judge(model));
  if (!itself.passed()) {
    Culprit culprit;
    culprit.problem = "the model itself does not meet this tolerance, so no pass is to blame";
    return std::optional<Culprit>(std::move(culprit));
  }
  for (const PassStage& stage : stages) {
    Culprit culprit;
    culprit.pass = stage.pass;
    const auto report = gate.judge(stage.model);
    if (!report.ok()) {
      culprit.problem = report.status().message();
      return std::optional<Culprit>(std::move(culprit));
    }
    if (report->passed()) continue;
    KPT_ASSIGN_OR_RETURN(const std::vector<LayerError> layers,
                         compare_layers(model, stage.model, gate, find_failed_draw(*report), gate.device(), cpu));
    if (const auto first = find_first_divergence(layers)) {
      culprit.node = layers[*first];
      culprit.suspects = find_suspects(stage.model.graph, layers, layers[*first]);
    }
    return std::optional<Culprit>(std::move(culprit));
  }
  return std::optional<Culprit>();
}

}  // namespace kpt
