#include "optimize/optimize_json.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "validation/gate_report.h"

namespace kpt {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 3> kTaken = {"own", "aten", "unquantized"};  // by Taken

Result<Taken> read_taken(const std::string& name) {
  const auto found = std::ranges::find(kTaken, name);
  if (found != kTaken.end()) return static_cast<Taken>(found - kTaken.begin());
  return Status(StatusCode::kCorruptData,
                "the stored report says '" + name + "' of a kernel, which this version does not know");
}

}  // namespace

Json to_json(const OptimizeReport& report) {
  Json json = {{"level", std::string(level_name(report.level))},
               {"device", report.device},
               {"seed", report.seed},
               {"tolerance", report.gate.tolerance ? Json(*report.gate.tolerance) : Json()},
               {"passed", report.passed()},
               {"passes", Json::array()},
               {"dropped", Json::array()},
               {"kept_precise", report.kept_precise},
               {"not_quantized", report.not_quantized},
               {"kernels", Json::array()},
               {"speed", Json()},
               {"gate", to_json(report.gate)},
               {"culprit", report.culprit ? to_json(*report.culprit) : Json()},
               {"notes", report.notes}};
  for (const PassRecord& record : report.passes) {
    json["passes"].push_back({{"pass", record.pass},
                              {"changes", record.changes},
                              {"milliseconds", record.milliseconds},
                              {"skipped", record.skipped},
                              {"details", record.details}});
  }
  for (const DroppedPass& dropped : report.dropped) {
    json["dropped"].push_back({{"pass", dropped.pass}, {"reason", dropped.reason}});
  }
  for (const KernelChoice& choice : report.kernels) {
    json["kernels"].push_back({{"nodes", choice.nodes},
                               {"operator", choice.operator_target},
                               {"taken", std::string(kTaken.at(static_cast<std::size_t>(choice.taken)))},
                               {"reason", choice.reason}});
  }
  if (report.speed) {
    json["speed"] = {{"plain_ms", report.speed->first_ms}, {"optimized_ms", report.speed->second_ms},
                     {"speedup", report.speed->ratio},     {"low", report.speed->low},
                     {"high", report.speed->high},         {"pairs", report.speed->pairs},
                     {"measured_on", report.measured_on}};
  }
  return json;
}

Result<OptimizeReport> read_optimize_report(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    OptimizeReport report;
    KPT_ASSIGN_OR_RETURN(report.gate, read_gate_report(json.at("gate")));
    report.level = report.gate.level;
    report.device = json.at("device").get<std::string>();
    report.seed = json.at("seed").get<std::uint64_t>();
    for (const Json& entry : json.at("passes")) {
      report.passes.push_back({entry.at("pass").get<std::string>(), entry.at("changes").get<std::size_t>(),
                               entry.at("details").get<std::vector<std::string>>(),
                               entry.at("milliseconds").get<double>(), entry.at("skipped").get<std::string>()});
    }
    for (const Json& entry : json.at("dropped")) {
      report.dropped.push_back({entry.at("pass").get<std::string>(), entry.at("reason").get<std::string>()});
    }
    for (const Json& entry : json.at("kernels")) {
      KPT_ASSIGN_OR_RETURN(const Taken taken, read_taken(entry.at("taken").get<std::string>()));
      report.kernels.push_back({entry.at("nodes").get<std::vector<std::string>>(),
                                entry.at("operator").get<std::string>(), taken, entry.at("reason").get<std::string>()});
    }
    report.kept_precise = json.at("kept_precise").get<std::vector<std::string>>();
    report.not_quantized = json.at("not_quantized").get<std::vector<std::string>>();
    report.notes = json.at("notes").get<std::vector<std::string>>();
    if (const Json& speed = json.at("speed"); speed.is_object()) {
      report.speed = PairedTimes{speed.at("plain_ms").get<double>(), speed.at("optimized_ms").get<double>(),
                                 speed.at("speedup").get<double>(),  speed.at("low").get<double>(),
                                 speed.at("high").get<double>(),     speed.at("pairs").get<std::size_t>()};
      report.measured_on = speed.at("measured_on").get<std::string>();
    }
    return report;
  } catch (const Json::exception&) {
    return Status(StatusCode::kCorruptData, "the stored report does not have the form of an optimization's");
  }
}

Result<std::optional<OptimizeReport>> find_optimize_report(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("compiled")) {
    if (!json.contains("optimized")) return std::optional<OptimizeReport>();
    KPT_ASSIGN_OR_RETURN(OptimizeReport report, read_optimize_report(json["optimized"].dump()));
    return std::optional(std::move(report));
  }
  KPT_ASSIGN_OR_RETURN(OptimizeReport report, read_optimize_report(text));
  return std::optional(std::move(report));
}

Level find_stored_level(const std::string& text) {
  if (const auto report = find_optimize_report(text); report.ok() && *report) return (*report)->level;
  const Json json = Json::parse(text, nullptr, false);
  const Json::json_pointer name("/not_judged/name");
  if (!json.is_object() || !json.contains(name) || !json.at(name).is_string()) return Level::kConservative;
  return find_level(json.at(name).get<std::string>()).value_or(Level::kConservative);
}

}  // namespace kpt
