#include "cli/commands/validate_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/artifact_loading.h"
#include "api/backend_list.h"
#include "api/model_loading.h"
#include "artifact/artifact.h"
#include "artifact/model_hash.h"
#include "base/text.h"
#include "cli/model_arguments.h"
#include "cli/optimize_text.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "device/hardware_json.h"
#include "importer/check_progress.h"
#include "optimize/optimize_json.h"
#include "validation/gate_report.h"
#include "validation/production.h"
#include "validation/validate.h"

namespace kpt::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ValidateArguments : DrawArguments {
  std::string model;
  std::string artifact;
  std::string name;
  std::string weights;
  std::string devices = "cpu";
  std::optional<double> tolerance;
  bool layers = false;
  bool production = false;
  std::string batch_sizes;
  Requirements requirements;
};

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, ',')) {
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

Result<std::vector<std::int64_t>> parse_batches(const std::string& text) {
  std::vector<std::int64_t> batches;
  for (const std::string& part : split_list(text)) {
    std::int64_t batch = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), batch);
    if (error != std::errc() || end != part.data() + part.size() || batch < 1) {
      return Status(StatusCode::kInvalidArgument, fmt::format("'{}' is no batch size", part));
    }
    batches.push_back(batch);
  }
  return batches;
}

// That the artifact was made from this very model: against another one every figure would be a false alarm. The hash is
// of graph and weights, not of the file's name. Nothing to compare where whoever wrote the artifact gave none, and only
// a note where another version wrote it, since that may read a file into another graph.
Status check_pair(const ValidateArguments& arguments, const ImportedModel& model, const Artifact& artifact,
                  std::vector<std::string>& notes) {
  if (artifact.source_sha256.empty()) return {};
  KPT_ASSIGN_OR_RETURN(const std::string hash, hash_model(model.graph, model.weights));
  if (hash == artifact.source_sha256) return {};
  const std::string with = arguments.weights.empty() ? "" : " with the weights of " + arguments.weights;
  const std::string file = fs::path(arguments.artifact).filename().string();
  const std::string own = this_producer();
  if (artifact.producer != own) {
    notes.push_back(fmt::format("{} was written by {}, and {} cannot tell whether it was made from {}{}", file,
                                printable(artifact.producer, 64), own, arguments.model, with));
    return {};
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("{} was made from another graph or other weights than {}{}: give the model that it was made from "
                      "(a file named '{}' then), with the same --weights and --model",
                      file, arguments.model, with, printable(artifact.source, 128))};
}

// The artifact's form for a device, with the level whose rule it must meet.
Result<Contender> open_contender(const std::string& path, Artifact& artifact, const std::string& device,
                                 const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, find_runnable_device(device, context));
  const ArtifactTarget* const target = find_part(artifact, placed.device->target().name());
  if (target == nullptr) {
    return Status(StatusCode::kModelPreparation,
                  fmt::format("{} holds nothing for {}", fs::path(path).filename().string(), device));
  }
  KPT_RETURN_IF_ERROR(check_needs(path, target->needs, placed.device->target()));
  Contender contender;
  contender.label = fmt::format("{} on {}", fs::path(path).filename().string(), device);
  contender.device = device;
  KPT_ASSIGN_OR_RETURN(const auto report, find_optimize_report(target->report));
  contender.level = find_stored_level(target->report);
  contender.last_position = report && report->gate.last_position;
  contender.model.file = path;
  contender.model.graph = target->graph;
  contender.model.weights = target->weights;
  contender.program = target->program;
  return contender;
}

// What runs on one device: the model, and behind it the artifact's part where there is an artifact.
struct DeviceForms {
  std::string device;
  std::vector<Contender> forms;
  ProductionReport production;  // of the last form
};

Result<DeviceForms> open_forms(const ValidateArguments& arguments, const std::string& device,
                               const ImportedModel& model, std::optional<Artifact>& artifact,
                               const BackendContext& context) {
  DeviceForms opened{device, {{device, device, model, Level::kConservative}}, {}};
  if (!artifact) {  // one that is not here is told before the gate's runs
    KPT_RETURN_IF_ERROR(find_runnable_device(device, context).status());
    return opened;
  }
  KPT_ASSIGN_OR_RETURN(Contender optimized, open_contender(arguments.artifact, *artifact, device, context));
  opened.forms.push_back(std::move(optimized));
  return opened;
}

// All devices in the order they are named in, with the checks of --production. The processor comes first all the same:
// its memory is the process's, which grows with every device that is opened.
Result<std::vector<DeviceForms>> open_devices(const ValidateArguments& arguments, const ImportedModel& model,
                                              const DrawOptions& draws, const BackendContext& context,
                                              std::vector<std::string>& notes) {
  std::optional<Artifact> artifact;
  if (!arguments.artifact.empty()) {
    KPT_ASSIGN_OR_RETURN(artifact, read_artifact(arguments.artifact));
    KPT_RETURN_IF_ERROR(check_pair(arguments, model, *artifact, notes));
  }
  Requirements requirements = arguments.requirements;
  KPT_ASSIGN_OR_RETURN(requirements.batch_sizes, parse_batches(arguments.batch_sizes));
  const std::vector<std::string> names = split_list(arguments.devices);
  std::vector<DeviceForms> devices(names.size());
  for (const bool processor : {true, false}) {
    for (std::size_t index = 0; index < names.size(); ++index) {
      if (names_host_processor(names[index], context) != processor) continue;
      KPT_ASSIGN_OR_RETURN(devices[index], open_forms(arguments, names[index], model, artifact, context));
      if (!arguments.production) continue;
      const Contender& judged = devices[index].forms.back();
      KPT_ASSIGN_OR_RETURN(devices[index].production,
                           check_production(judged.model, draws, requirements, context, judged.device, judged.program));
    }
  }
  return devices;
}

// Before anything is read.
Status check_names(const std::string& devices) {
  const std::vector<std::string> names = split_list(devices);
  if (names.empty()) return {StatusCode::kInvalidArgument, "--devices names no device"};
  for (const std::string& name : names) {
    if (name != "auto") KPT_RETURN_IF_ERROR(check_device_name(name));
  }
  return {};
}

struct ValidateOutcome {
  ValidateReport validation;
  std::optional<ProductionReport> production;
  std::vector<std::string> notes;  // of reading the files
  bool passed() const { return validation.passed() && (!production || production->passed()); }
};

Result<ValidateOutcome> validate(const ValidateArguments& arguments, const BackendContext& context,
                                 Progress& progress) {
  // Of the artifact, reading compares all checksums.
  const auto tell = [&progress](double done) { progress.tell("comparing checksums", done); };
  KPT_RETURN_IF_ERROR(check_names(arguments.devices));
  KPT_RETURN_IF_ERROR(check_model_file(arguments.model, tell).status());
  progress.finish();
  ImportOptions import_options;
  import_options.model_name = arguments.name;
  import_options.weights = arguments.weights;
  import_options.read_sample_inputs = true;
  KPT_ASSIGN_OR_RETURN(const ImportedModel model, import_model(arguments.model, import_options));
  ValidateOutcome outcome;
  outcome.notes = model.notes;
  ValidateOptions options;
  options.tolerance = arguments.tolerance;
  options.layers = arguments.layers;
  KPT_ASSIGN_OR_RETURN(options.draws, make_draw_options(arguments));
  // With the checks of --production: the gate's fp64 run would count as the model's memory.
  KPT_ASSIGN_OR_RETURN(std::vector<DeviceForms> devices,
                       open_devices(arguments, model, options.draws, context, outcome.notes));
  std::vector<Contender> contenders;
  if (arguments.production) outcome.production.emplace();
  for (DeviceForms& device : devices) {
    std::ranges::move(device.forms, std::back_inserter(contenders));
    if (!arguments.production) continue;
    std::ranges::move(device.production.checks, std::back_inserter(outcome.production->checks));
  }
  KPT_ASSIGN_OR_RETURN(outcome.validation, validate_model(model, contenders, options, context));
  return outcome;
}

std::string figure(std::optional<double> value) {
  if (!value) return "-";
  return *value == 0 ? "same bits" : std::isfinite(*value) ? fmt::format("{:.2e}", *value) : "different";
}

std::string render_contender(const ContenderResult& result, bool color) {
  std::string text =
      paint(result.label, Color::kBold, color) + fmt::format(" (ran on {}), {} draws, rule {}\n", result.device,
                                                             result.gate.draws.size(), level_name(result.gate.level));
  if (result.gate.tolerance) text += fmt::format("tolerance {} set by the user\n", *result.gate.tolerance);
  text += format_table(table_rows(result.gate));
  const Determinism& same = result.determinism;
  text += format_table({{"asked twice", figure(same.twice)},
                        {same.threads_text, figure(same.threads)},
                        {"other neighbours in the batch", figure(same.neighbours)},
                        {"alone instead of in a batch",
                         figure(same.alone) + (same.batch_note.empty() ? "" : " (" + same.batch_note + ")")}});
  for (const std::string& note : result.gate.notes) text += note + "\n";
  return text;
}

std::string render_layers(const ContenderResult& result) {
  std::vector<std::vector<std::string>> rows = {{"node", "operator", "error", "plain error", "verdict"}};
  for (const LayerError& layer : result.layers) {
    rows.push_back({layer.node, layer.target, fmt::format("{:.2e}", layer.verdict.candidate_error),
                    fmt::format("{:.2e}", layer.verdict.plain_error), layer.verdict.passed ? "" : "beyond"});
  }
  std::string text = format_table(rows);
  if (!result.first_divergence) return text + "no value inside diverges\n";
  const LayerError& first = result.layers[*result.first_divergence];
  return text + fmt::format("the first to diverge is '{}' ({}): {}{}\n", first.node, first.target, first.verdict.reason,
                            first.source.empty() ? "" : "; from " + first.source);
}

// Two cells. Integers and truth values have no error: they are equal, or so many of them are not.
void add_agreement(const Agreement& agreement, std::vector<std::string>& row) {
  if (!agreement.differing) {
    row.push_back(fmt::format("{:.2e}", agreement.max_difference));
    row.push_back(fmt::format("{:.6f}", agreement.cosine));
    return;
  }
  row.push_back(*agreement.differing == 0 ? "equal"
                                          : fmt::format("{} of {} differ", *agreement.differing, agreement.elements));
  row.emplace_back();
}

std::string render_layers(const PairLayers& pair) {
  std::vector<std::vector<std::string>> rows = {{"node", "operator", "max diff", "cosine"}};
  for (const LayerDifference& layer : pair.layers) {
    rows.push_back({layer.node, layer.target});
    add_agreement(layer.agreement, rows.back());
  }
  return fmt::format("{} / {}, values inside\n", pair.first, pair.second) + format_table(rows);
}

std::string render(const ValidateOutcome& outcome, bool color) {
  std::string text;
  for (const ContenderResult& result : outcome.validation.contenders) {
    text += render_contender(result, color) + "\n";
    if (!result.layers.empty()) text += render_layers(result) + "\n";
  }
  if (!outcome.validation.pairs.empty()) {
    std::vector<std::vector<std::string>> rows = {{"pair", "output", "max diff", "cosine"}};
    for (const PairDifference& pair : outcome.validation.pairs) {
      rows.push_back({pair.first + " / " + pair.second, pair.output});
      add_agreement(pair.agreement, rows.back());
    }
    text += format_table(rows) + "\n";
  }
  for (const PairLayers& pair : outcome.validation.pair_layers) text += render_layers(pair) + "\n";
  if (outcome.production) {
    std::vector<std::vector<std::string>> rows;
    for (const ProductionCheck& check : outcome.production->checks) {
      const Color paint_as = check.severity == "error" ? Color::kRed : Color::kGreen;
      rows.push_back({paint(check.severity, paint_as, color), check.device, check.name, check.text});
    }
    text += format_table(rows) + "\n";
  }
  return text + (outcome.passed() ? "valid\n" : "NOT valid\n");
}

int exit_code(const ValidateOutcome& outcome) {
  if (outcome.passed()) return kExitOk;
  const bool refused = std::ranges::any_of(outcome.validation.contenders,
                                           [](const ContenderResult& result) { return !result.gate.passed(); });
  return refused ? kExitRefused : kExitFailed;
}

void add_arguments(CLI::App& command, ValidateArguments& arguments) {
  command.add_option("MODEL", arguments.model, "a .pt2 file")->required();
  command.add_option("ARTIFACT", arguments.artifact, "a .kpt file made from it");
  command.add_option("--devices", arguments.devices, "where to run, with commas between")->capture_default_str();
  command.add_option("--model", arguments.name, "which model of a file that holds several");
  command.add_option("--weights", arguments.weights,
                     "a safetensors file that replaces weights by name: the one the artifact was made with");
  command.add_flag("--layers", arguments.layers,
                   "errors node by node and the first that diverges; of two devices, how far they are apart");
  command.add_option("--tolerance", arguments.tolerance, "in place of the rule's own")->check(check_amount);
  add_draw_arguments(command, arguments);
  CLI::Option* production = command.add_flag(
      "--production", arguments.production,
      "also, on every device named: load, forward, repetition, round trip through a file, latency, memory, "
      "batch sizes");
  command.add_option("--max-latency-ms", arguments.requirements.max_latency_ms, "95 % of runs must take at most this")
      ->check(check_amount)
      ->needs(production);
  command
      .add_option("--min-throughput", arguments.requirements.min_throughput,
                  "rows per second at the last of --batch-sizes")
      ->check(check_amount)
      ->needs(production);
  command
      .add_option("--max-memory-mb", arguments.requirements.max_memory_mb,
                  "greatest memory on the device in MiB; on the CPU what is resident")
      ->check(check_amount)
      ->needs(production);
  command.add_option("--batch-sizes", arguments.batch_sizes, "batches that must run: 1,8,32")->needs(production);
}

}  // namespace

void add_validate_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("validate", "is the model right here? against fp64, across devices, against itself");
  command->footer(
      "The checksums of the file are compared first.\n"
      "Exit code 0 when all is well, 1 when a check failed, 3 when an output is beyond the accuracy rule.\n"
      "Example: kpt validate model.pt2 model.kpt --devices cpu --layers\n"
      "         kpt validate model.pt2 --production --max-latency-ms 20 --batch-sizes 1,8");
  auto arguments = std::make_shared<ValidateArguments>();
  add_arguments(*command, *arguments);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    const auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    Progress progress(context.err(), context.err_is_terminal(), !context.flags().json);
    const auto outcome = validate(*arguments, *backend_context, progress);
    progress.finish();
    if (!outcome.ok()) return context.fail(outcome.status());
    context.tell(outcome->notes);
    if (context.flags().json) {
      Json json = to_json(outcome->validation);
      json["passed"] = outcome->passed();
      json["notes"] = outcome->notes;
      json["production"] = outcome->production ? to_json(*outcome->production) : Json();
      context.out() << dump_json(json, 2) << "\n";
    } else {
      context.out() << render(*outcome, context.use_color(*config));
    }
    context.finish(exit_code(*outcome));
  });
}

}  // namespace kpt::cli
