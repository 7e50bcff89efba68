#include "validation/gate_report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

double read_number(const Json& json) { return json.is_number() ? json.get<double>() : std::nan(""); }

OutputVerdict read_verdict(const Json& json) {
  OutputVerdict verdict;
  verdict.output = json.at("name").get<std::string>();
  verdict.draw = json.at("draw").get<std::size_t>();
  verdict.dtype = json.at("dtype").get<std::string>();
  verdict.passed = json.at("passed").get<bool>();
  verdict.candidate_error = read_number(json.at("candidate_error"));
  verdict.plain_error = read_number(json.at("plain_error"));
  if (json.at("bf16_error").is_number()) verdict.bf16_error = json.at("bf16_error").get<double>();
  // Artifacts written before it was kept lack it.
  if (const auto found = json.find("allowed_error"); found != json.end() && found->is_number()) {
    verdict.allowed_error = found->get<double>();
  }
  verdict.max_difference = read_number(json.at("max_difference"));
  verdict.cosine = read_number(json.at("cosine"));
  verdict.rule = json.at("rule").get<std::string>();
  verdict.reason = json.at("reason").get<std::string>();
  // Artifacts written before outputs could be judged at some positions lack it.
  if (const auto found = json.find("positions"); found != json.end() && found->is_object()) {
    verdict.positions = {found->at("mask").get<std::string>(), found->at("kept").get<std::size_t>(),
                         found->at("all").get<std::size_t>(), read_number(found->at("error_over_all"))};
  }
  if (const auto found = json.find("draws_together"); found != json.end()) {
    verdict.draws_together = found->get<std::size_t>();
  }
  return verdict;
}

}  // namespace

Json to_json(const OutputVerdict& verdict) {
  Json json = {{"name", verdict.output},
               {"draw", verdict.draw},
               {"dtype", verdict.dtype},
               {"passed", verdict.passed},
               {"candidate_error", number(verdict.candidate_error)},
               {"plain_error", number(verdict.plain_error)},
               {"bf16_error", verdict.bf16_error ? number(*verdict.bf16_error) : Json()},
               {"max_difference", number(verdict.max_difference)},
               {"cosine", number(verdict.cosine)},
               {"rule", verdict.rule},
               {"reason", verdict.reason}};
  if (verdict.allowed_error) json["allowed_error"] = number(*verdict.allowed_error);
  if (verdict.positions) {
    json["positions"] = {{"mask", verdict.positions->mask},
                         {"kept", verdict.positions->kept},
                         {"all", verdict.positions->all},
                         {"error_over_all", number(verdict.positions->error_over_all)}};
  }
  if (verdict.draws_together) json["draws_together"] = *verdict.draws_together;
  return json;
}

Json to_json(const GateReport& report) {
  Json json = {{"passed", report.passed()},
               {"level", std::string(level_name(report.level))},
               {"tolerance", report.tolerance ? Json(*report.tolerance) : Json()},
               {"last_position", report.last_position},
               {"bf16_run", report.bf16_run},
               {"draws", report.draws},
               {"notes", report.notes},
               {"outputs", Json::array()}};
  for (const OutputVerdict& verdict : report.outputs) json["outputs"].push_back(to_json(verdict));
  return json;
}

Json to_json(const LayerError& layer) {
  return {{"node", layer.node},
          {"target", layer.target},
          {"source", layer.source},
          {"excess", number(layer.excess)},
          {"value", to_json(layer.verdict)}};
}

Json to_json(const Culprit& culprit) {
  return {{"pass", culprit.pass},
          {"problem", culprit.problem},
          {"node", culprit.node ? to_json(*culprit.node) : Json()},
          {"suspects", culprit.suspects},
          {"sentence", culprit.sentence()}};
}

Result<GateReport> read_gate_report(const Json& json) {
  try {
    GateReport report;
    const auto level = find_level(json.at("level").get<std::string>());
    if (!level) return Status(StatusCode::kCorruptData, "a stored verdict names a level that does not exist");
    report.level = *level;
    if (json.at("tolerance").is_number()) report.tolerance = json.at("tolerance").get<double>();
    report.last_position = json.value("last_position", false);  // artifacts written before it was told lack it
    report.bf16_run = json.at("bf16_run").get<std::string>();
    report.draws = json.at("draws").get<std::vector<std::string>>();
    report.notes = json.at("notes").get<std::vector<std::string>>();
    for (const Json& verdict : json.at("outputs")) report.outputs.push_back(read_verdict(verdict));
    return report;
  } catch (const Json::exception&) {
    return Status(StatusCode::kCorruptData, "a stored verdict does not have the form of one");
  }
}

std::vector<std::vector<std::string>> table_rows(const GateReport& report) {
  const bool bf16 = report.level == Level::kBalanced;
  std::vector<std::vector<std::string>> rows = {{"output", "error", "plain error", "max diff", "cosine", "verdict"}};
  if (bf16) rows[0].insert(rows[0].begin() + 3, "bf16 error");
  for (const OutputVerdict& verdict : report.worst()) {
    const bool exact = verdict.rule == "equal" || verdict.rule == "form";
    std::string text =
        verdict.passed ? fmt::format("passed ({})", verdict.rule) : fmt::format("REFUSED: {}", verdict.reason);
    if (verdict.positions) {
      text += fmt::format("; judged at the {} of {} positions that {} keeps, error over all {:.2e}",
                          verdict.positions->kept, verdict.positions->all, verdict.positions->mask,
                          verdict.positions->error_over_all);
    }
    if (verdict.draws_together) text += fmt::format("; judged over {} draws together", *verdict.draws_together);
    std::vector<std::string> row = {verdict.output,
                                    exact ? "-" : fmt::format("{:.2e}", verdict.candidate_error),
                                    exact ? "-" : fmt::format("{:.2e}", verdict.plain_error),
                                    exact ? "-" : fmt::format("{:.2e}", verdict.max_difference),
                                    exact ? "-" : fmt::format("{:.6f}", verdict.cosine),
                                    std::move(text)};
    if (bf16) {
      row.insert(row.begin() + 3, verdict.bf16_error && !exact ? fmt::format("{:.2e}", *verdict.bf16_error) : "-");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace kpt
