#include "cli/commands/inspect_command.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/artifact_loading.h"
#include "api/backend_list.h"
#include "api/model_loading.h"
#include "artifact/artifact.h"
#include "base/text.h"
#include "cli/model_arguments.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "device/hardware_json.h"
#include "importer/check_progress.h"
#include "importer/model_file.h"
#include "ir/figures.h"
#include "ir/text.h"
#include "runtime/loaded_model.h"
#include "runtime/split_plan.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  std::string model;
  std::string name;
  std::string weights;
  std::string device = "cpu";
  std::vector<std::string> sizes;
  bool graph = false;
  bool check = false;
};

struct Unsupported {
  std::string node;
  std::string target;
  std::string reason;
  std::string source;
};

// What there is to say about a model.
struct Inspection {
  ImportedModel model;
  ir::Figures figures;
  std::map<std::string, std::uint64_t> bytes_by_dtype;
  std::uint64_t parameters = 0;
  std::uint64_t weight_bytes = 0;
  std::vector<Unsupported> unsupported;
  std::string support_problem;             // why the operators could not be looked up
  Placement placement;                     // where the parts would run, or what to do about operators that cannot
  std::optional<OpenedArtifact> artifact;  // of a .kpt; its model has moved to `model`
  std::optional<CheckedFile> checked;      // with --check
};

std::string type_text(const ir::Value& value) {
  if (value.kind != ir::ValueKind::kTensor) return "number";
  std::vector<std::string> dims;
  for (const ir::Expr& dim : value.tensor.dims) dims.push_back(dim.to_string());
  return fmt::format("{}[{}]", to_string(value.tensor.dtype), join(dims, ", "));
}

std::string range_text(const ir::SymbolRange& range) {
  return fmt::format("{} to {}", range.min ? std::to_string(*range.min) : "any",
                     range.max ? std::to_string(*range.max) : "any");
}

void count_weights(Inspection& inspection) {
  std::unordered_set<const void*> seen;  // tied weights count once
  for (const ir::GraphInput& input : inspection.model.graph.inputs) {
    const auto weight = inspection.model.weights.find(input.name);
    if (input.kind == ir::InputKind::kUser || weight == inspection.model.weights.end()) continue;
    const Tensor& tensor = weight->second;
    if (!seen.insert(tensor.data()).second && tensor.bytes() > 0) continue;
    if (input.kind == ir::InputKind::kParameter) {
      inspection.parameters += static_cast<std::uint64_t>(tensor.element_count());
    }
    inspection.bytes_by_dtype[std::string(to_string(tensor.dtype()))] += tensor.bytes();
    inspection.weight_bytes += tensor.bytes();
  }
}

Status read_model(const InspectArguments& arguments, const Result<PlacedDevice>& placed, Inspection& inspection) {
  if (!is_artifact(arguments.model)) {
    ImportOptions options;
    options.model_name = arguments.name;
    options.weights = arguments.weights;
    KPT_ASSIGN_OR_RETURN(inspection.model, import_model(arguments.model, options));
    return {};
  }
  if (!arguments.name.empty() || !arguments.weights.empty()) {
    return {StatusCode::kInvalidArgument, "--model and --weights are for .pt2 files"};
  }
  // A device that is not here still has its name, which is that of its target where there is one kind of it.
  const std::string target(placed.ok() ? placed->device->target().name() : std::string_view(arguments.device));
  KPT_ASSIGN_OR_RETURN(inspection.artifact, open_artifact(arguments.model, target));
  inspection.model = std::move(inspection.artifact->model);
  return {};
}

void find_unsupported(const Result<PlacedDevice>& placed, const std::string& path, Inspection& inspection) {
  const auto answers = placed.ok() ? detail::find_support(inspection.model, placed->device->target()) : placed.status();
  if (!answers.ok()) {
    inspection.support_problem = answers.status().message();
    return;
  }
  if (inspection.artifact) {
    const Status status = check_needs(path, inspection.artifact->needs, placed->device->target());
    if (!status.ok()) inspection.support_problem = status.message();
  }
  for (std::size_t index = 0; index < answers->size(); ++index) {
    if ((*answers)[index].supported) continue;
    const ir::Node& node = inspection.model.graph.nodes[index];
    inspection.unsupported.push_back(
        {node.name, node.target, (*answers)[index].reason, find_source_line(inspection.model, node)});
  }
  inspection.placement = placed->device->target().place(inspection.model.graph);
}

Result<Inspection> inspect(const InspectArguments& arguments, const Config& config, const Environment& environment,
                           Progress& progress) {
  KPT_ASSIGN_OR_RETURN(const auto sizes, parse_sizes(arguments.sizes));
  const auto context = make_backend_context(config, environment);
  const auto placed = context.ok() ? find_runnable_device(arguments.device, *context) : context.status();
  Inspection inspection;
  if (arguments.check) {
    KPT_ASSIGN_OR_RETURN(inspection.checked, check_model_file(arguments.model, [&progress](double done) {
                           progress.tell("comparing checksums", done);
                         }));
  }
  KPT_RETURN_IF_ERROR(read_model(arguments, placed, inspection));
  ir::Bindings symbols;
  for (const ir::SymbolRange& range : inspection.model.graph.symbols) {
    symbols.set(range.name, std::max<std::int64_t>(range.min.value_or(1), 1));
  }
  for (const auto& [name, size] : sizes) {
    if (!symbols.find(name)) {
      return Status(StatusCode::kInvalidArgument, fmt::format("the model has no symbol '{}'", name));
    }
    symbols.set(name, size);
  }
  inspection.figures = ir::count_figures(inspection.model.graph, symbols);
  count_weights(inspection);
  find_unsupported(placed, arguments.model, inspection);
  return inspection;
}

Json to_json(const Inspection& inspection) {
  const ir::Graph& graph = inspection.model.graph;
  Json json = {{"producer", inspection.model.producer}, {"schema_version", inspection.model.schema_version}};
  if (inspection.artifact) {
    json["artifact"] = {{"source", inspection.artifact->source},
                        {"targets", inspection.artifact->targets},
                        {"needs", inspection.artifact->needs},
                        {"samples", inspection.artifact->samples.size()},
                        {"report", Json::parse(inspection.artifact->report, nullptr, false)}};
  }
  json["inputs"] = Json::array();
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser) {
      json["inputs"].push_back({{"name", input.name}, {"type", type_text(graph.at(input.value))}});
    }
  }
  json["outputs"] = Json::array();
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind == ir::OutputKind::kUser) {
      json["outputs"].push_back(
          {{"name", output.name}, {"type", id != nullptr ? type_text(graph.at(*id)) : "constant"}});
    }
  }
  json["symbols"] = Json::array();
  for (const ir::SymbolRange& range : graph.symbols) {
    json["symbols"].push_back({{"name", range.name},
                               {"min", range.min ? Json(*range.min) : Json()},
                               {"max", range.max ? Json(*range.max) : Json()}});
  }
  json["parameters"] = inspection.parameters;
  json["weight_bytes"] = inspection.bytes_by_dtype;
  json["nodes"] = inspection.figures.nodes;
  json["operators"] = inspection.figures.histogram;
  json["flops"] = inspection.figures.flops;
  for (const auto& [name, figures] : inspection.figures.classes) {
    json["flops_by_class"][name] = {{"nodes", figures.nodes}, {"flops", figures.flops}};
  }
  json["unsupported"] = Json::array();
  for (const Unsupported& entry : inspection.unsupported) {
    json["unsupported"].push_back(
        {{"node", entry.node}, {"target", entry.target}, {"reason", entry.reason}, {"source", entry.source}});
  }
  json["placement"] = inspection.placement.parts.empty() ? Json() : Json(describe_parts(inspection.placement));
  json["advice"] = inspection.placement.advice.empty() ? Json() : Json(inspection.placement.advice);
  json["support_problem"] = inspection.support_problem.empty() ? Json() : Json(inspection.support_problem);
  json["notes"] = inspection.model.notes;
  if (inspection.checked) {
    json["checked"] = {{"entries", inspection.checked->entries}, {"bytes", inspection.checked->bytes}};
  }
  return json;
}

std::string flops_text(double flops) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (flops >= 1000 && unit + 1 < std::size(kUnits)) {
    flops /= 1000;
    ++unit;
  }
  return fmt::format("{:.4g} {}FLOP", flops, kUnits[unit]);
}

std::string render(const Inspection& inspection, bool color) {
  const ir::Graph& graph = inspection.model.graph;
  std::vector<std::vector<std::string>> rows;
  const auto heading = [&](std::string_view text) { return paint(text, Color::kBold, color); };
  if (inspection.artifact) {
    const OpenedArtifact& artifact = *inspection.artifact;
    rows.push_back({heading("model"), "written by", printable(inspection.model.producer, 200)});
    rows.push_back({"", "made from", printable(artifact.source, 200)});
    rows.push_back({"", "for", printable(join(artifact.targets, ", "), 500)});
    if (!artifact.needs.empty()) rows.push_back({"", "needs", printable(join(artifact.needs, ", "), 500)});
    rows.push_back({"", "samples", fmt::format("{}", artifact.samples.size())});
  } else {
    rows.push_back({heading("model"), "written by",
                    "PyTorch " + inspection.model.producer + ", schema " + inspection.model.schema_version});
  }
  if (inspection.checked) {
    rows.push_back(
        {"", "checksums",
         fmt::format("right: {} entries, {}", inspection.checked->entries, format_bytes(inspection.checked->bytes))});
  }
  rows.push_back({"", "parameters", fmt::format("{}", inspection.parameters)});
  for (const auto& [dtype, bytes] : inspection.bytes_by_dtype) rows.push_back({"", dtype, format_bytes(bytes)});
  std::string title = heading("inputs");
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    rows.push_back({std::exchange(title, ""), input.name, type_text(graph.at(input.value))});
  }
  title = heading("outputs");
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind != ir::OutputKind::kUser) continue;
    rows.push_back({std::exchange(title, ""), output.name, id != nullptr ? type_text(graph.at(*id)) : "constant"});
  }
  title = heading("sizes");
  for (const ir::SymbolRange& range : graph.symbols) {
    rows.push_back({std::exchange(title, ""), range.name, range_text(range)});
  }
  title = heading("work");
  for (const auto& [name, figures] : inspection.figures.classes) {
    rows.push_back(
        {std::exchange(title, ""), name, fmt::format("{} nodes, {}", figures.nodes, flops_text(figures.flops))});
  }
  const ir::Figures& figures = inspection.figures;
  rows.push_back({"", "all",
                  fmt::format("{} nodes, {}{}", figures.nodes, flops_text(figures.flops),
                              figures.has_loops ? ", loops counted for one turn" : "")});
  title = heading("operators");
  std::vector<std::pair<std::string, std::uint64_t>> histogram(inspection.figures.histogram.begin(),
                                                               inspection.figures.histogram.end());
  std::ranges::stable_sort(histogram, [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [target, count] : histogram)
    rows.push_back({std::exchange(title, ""), target, fmt::format("{}", count)});
  for (const std::string& note : inspection.model.notes) rows.push_back({heading("note"), "", note});
  std::string text = format_table(rows);
  if (!inspection.support_problem.empty()) {
    text += fmt::format("\nwhether the operators can run is unknown: {}\n", inspection.support_problem);
  } else if (inspection.unsupported.empty()) {
    text += "\nall operators can run\n";
  }
  for (const Unsupported& entry : inspection.unsupported) {
    text += fmt::format("{} '{}' {}: {}{}\n", paint("cannot run", Color::kRed, color), entry.node, entry.target,
                        entry.reason, entry.source.empty() ? "" : " (" + entry.source + ")");
  }
  if (!inspection.placement.parts.empty()) {
    text += fmt::format("split into {}\n", describe_parts(inspection.placement));
  }
  if (!inspection.placement.advice.empty()) text += inspection.placement.advice + "\n";
  return text;
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("inspect", "what a model file holds: inputs, outputs, weights, operators, work");
  command->footer(
      "Exit code 0 when every operator can run, 1 when one cannot or nobody knows.\n"
      "Example: kpt inspect model.pt2 --size s0=8");
  auto arguments = std::make_shared<InspectArguments>();
  command->add_option("MODEL", arguments->model, "a .pt2 or .kpt file")->required();
  command->add_option("--model", arguments->name, "which model of a file that holds several");
  command->add_option("--weights", arguments->weights, "a safetensors file that replaces weights by name");
  command->add_option("--device", arguments->device, "whose operators to look up")->capture_default_str();
  command->add_option("--size", arguments->sizes, "sizes for the count of work: symbol=number")->type_name("S=N");
  command->add_flag("--graph", arguments->graph, "print the graph itself");
  command->add_flag("--check", arguments->check, "read the whole file and compare the checksum of every entry");
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    Progress progress(context.err(), context.err_is_terminal(), !context.flags().json);
    const auto inspection = inspect(*arguments, *config, context.environment(), progress);
    progress.finish();
    if (!inspection.ok()) return context.fail(inspection.status());
    if (context.flags().json) {
      Json json = to_json(*inspection);
      if (arguments->graph) json["graph"] = ir::print_graph(inspection->model.graph);
      context.out() << dump_json(json, 2) << "\n";
    } else if (arguments->graph) {
      context.out() << ir::print_graph(inspection->model.graph);
    } else {
      context.out() << render(*inspection, context.use_color(*config));
    }
    const bool can_run = inspection->unsupported.empty() && inspection->support_problem.empty();
    context.finish(can_run ? kExitOk : kExitFailed);
  });
}

}  // namespace kpt::cli
