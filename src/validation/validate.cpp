#include "validation/validate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "validation/gate_report.h"
#include "validation/last_position.h"

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;
using Outputs = std::vector<std::vector<NamedTensor>>;  // by draw

Json number(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

// With `last_position` in one form: where one contender gives the last position only, that of the other.
Agreement compare_outputs(const Tensor& first, const Tensor& second, bool last_position) {
  if (!last_position) return measure_agreement(first, second);
  const auto left = take_last_like(first, second.dims());
  const auto right = take_last_like(second, first.dims());
  return left.ok() && right.ok() ? measure_agreement(*left, *right) : Agreement{};
}

// The worst of several draws; what differs is counted together.
void add_draw(Agreement& all, const Agreement& one) {
  all.max_difference = std::max(all.max_difference, one.max_difference);
  all.cosine = std::min(all.cosine, one.cosine);
  all.elements += one.elements;
  if (one.differing) all.differing = all.differing.value_or(0) + *one.differing;
}

void compare_pair(const Outputs& first, const Outputs& second, const Contender& a, const Contender& b,
                  std::vector<PairDifference>& pairs) {
  const bool last_position = a.last_position || b.last_position;
  for (std::size_t index = 0; !first.empty() && index < first[0].size(); ++index) {
    PairDifference pair{a.label, b.label, first[0][index].name, {0, 1, std::nullopt, 0}};
    for (std::size_t draw = 0; draw < first.size(); ++draw) {
      if (index >= second[draw].size()) continue;
      add_draw(pair.agreement, compare_outputs(first[draw][index].tensor, second[draw][index].tensor, last_position));
    }
    pairs.push_back(std::move(pair));
  }
}

Result<PairLayers> compare_inside(const Contender& first, const Contender& second, const std::vector<Draw>& draws,
                                  const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice one, find_runnable_device(first.device, context));
  KPT_ASSIGN_OR_RETURN(const PlacedDevice other, find_runnable_device(second.device, context));
  PairLayers pair{first.label, second.label, {}};
  KPT_ASSIGN_OR_RETURN(pair.layers, compare_layers({first.model, one}, {second.model, other}, draws, 0));
  return pair;
}

}  // namespace

bool ValidateReport::passed() const {
  return !contenders.empty() && std::ranges::all_of(contenders, [](const ContenderResult& result) {
    return result.gate.passed() && result.determinism.repeatable();
  });
}

Result<ValidateReport> validate_model(const ImportedModel& model, const std::vector<Contender>& contenders,
                                      const ValidateOptions& options, const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice cpu, find_runnable_device("cpu", context));
  KPT_ASSIGN_OR_RETURN(const std::vector<Draw> draws, make_draws(model, options.draws));
  std::map<std::pair<Level, bool>, Gate> gates;  // by level and last_position
  std::vector<Outputs> outputs;
  ValidateReport report;
  for (const Contender& contender : contenders) {
    const std::pair rule(contender.level, contender.last_position);
    if (!gates.contains(rule)) {
      const GateOptions gate_options{contender.level, options.tolerance, contender.last_position, options.draws};
      KPT_ASSIGN_OR_RETURN(Gate gate, Gate::prepare(model, draws, gate_options, cpu, cpu));
      gates.emplace(rule, std::move(gate));
    }
    const Gate& gate = gates.at(rule);
    KPT_ASSIGN_OR_RETURN(const PlacedDevice device, find_runnable_device(contender.device, context));
    KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(contender.model, device, contender.program));
    ContenderResult result;
    result.label = contender.label;
    result.device = run.loaded().executable().device();
    KPT_ASSIGN_OR_RETURN(result.gate, gate.judge(run));
    KPT_RETURN_IF_ERROR(run.reset());
    KPT_ASSIGN_OR_RETURN(Outputs given, run_each(run, gate.draws()));
    outputs.push_back(std::move(given));
    const Draw& asked = gate.draws()[find_draw_of_rows(contender.model, gate.draws())];
    KPT_ASSIGN_OR_RETURN(result.determinism,
                         check_determinism(contender.model, asked, context, contender.device, contender.program));
    if (options.layers) {
      // On the draw that shows the fault, if there is one.
      const auto wrong = std::ranges::find(result.gate.outputs, false, &OutputVerdict::passed);
      const std::size_t draw = wrong == result.gate.outputs.end() ? 0 : wrong->draw;
      KPT_ASSIGN_OR_RETURN(result.layers, compare_layers(model, contender.model, gate, draw, device, cpu));
      result.first_divergence = find_first_divergence(result.layers);
    }
    report.contenders.push_back(std::move(result));
  }
  if (gates.empty()) return report;
  // Every gate left out the same ones: what the model itself cannot run.
  const std::vector<Draw>& judged = gates.begin()->second.draws();
  for (std::size_t first = 0; first < outputs.size(); ++first) {
    for (std::size_t second = first + 1; second < outputs.size(); ++second) {
      compare_pair(outputs[first], outputs[second], contenders[first], contenders[second], report.pairs);
      if (!options.layers) continue;
      KPT_ASSIGN_OR_RETURN(PairLayers pair, compare_inside(contenders[first], contenders[second], judged, context));
      report.pair_layers.push_back(std::move(pair));
    }
  }
  return report;
}

Json to_json(const Determinism& determinism) {
  return {{"repeatable", determinism.repeatable()},
          {"twice", number(determinism.twice)},
          {"threads", number(determinism.threads)},
          {"threads_text", determinism.threads_text},
          {"other_neighbours", number(determinism.neighbours)},
          {"alone", number(determinism.alone)},
          {"batch_note", determinism.batch_note}};
}

Json to_json(const Agreement& agreement) {
  return {{"max_difference", number(agreement.max_difference)},
          {"cosine", number(agreement.cosine)},
          {"elements", agreement.elements},
          {"differing", agreement.differing ? Json(*agreement.differing) : Json()}};
}

Json to_json(const ValidateReport& report) {
  Json json = {{"passed", report.passed()}, {"contenders", Json::array()}, {"pairs", Json::array()}};
  for (const ContenderResult& result : report.contenders) {
    Json entry = {{"label", result.label},        {"device", result.device},
                  {"gate", to_json(result.gate)}, {"determinism", to_json(result.determinism)},
                  {"layers", Json::array()},      {"first_divergence", Json()}};
    for (const LayerError& layer : result.layers) entry["layers"].push_back(to_json(layer));
    if (result.first_divergence) entry["first_divergence"] = result.layers[*result.first_divergence].node;
    json["contenders"].push_back(std::move(entry));
  }
  for (const PairDifference& pair : report.pairs) {
    Json entry = {{"first", pair.first}, {"second", pair.second}, {"output", pair.output}};
    entry.update(to_json(pair.agreement));
    json["pairs"].push_back(std::move(entry));
  }
  for (const PairLayers& pair : report.pair_layers) {
    Json layers = Json::array();
    for (const LayerDifference& layer : pair.layers) {
      Json entry = {{"node", layer.node}, {"operator", layer.target}, {"value", layer.value}};
      entry.update(to_json(layer.agreement));
      layers.push_back(std::move(entry));
    }
    json["pair_layers"].push_back({{"first", pair.first}, {"second", pair.second}, {"layers", std::move(layers)}});
  }
  return json;
}

}  // namespace kpt
