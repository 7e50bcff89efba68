#include "cli/commands/compile_command.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/model_loading.h"
#include "api/target_list.h"
#include "artifact/artifact.h"
#include "artifact/model_hash.h"
#include "base/build_info.h"
#include "base/text.h"
#include "cli/model_arguments.h"
#include "cli/terminal.h"
#include "device/compile_figures_json.h"
#include "device/hardware_json.h"
#include "importer/model_file.h"
#include "ir/figures.h"

namespace kpt::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct CompileArguments {
  std::string model;
  std::string target;
  std::string output;
  std::string name;
  std::string weights;
  std::vector<std::string> sizes;
  std::optional<double> price;
  bool no_cache = false;
};

struct CompileOutcome {
  std::string target;
  CompileFigures figures;
  HardwareRates rates;
  double graph_flops = 0;              // counted from the graph, for comparison
  std::optional<double> our_seconds;   // from published rates
  std::optional<double> dollars_hour;  // of one chip, as the user says
  std::uint64_t program_bytes = 0;
  std::string written;  // empty: nothing
  double seconds = 0;
};

Result<ir::Bindings> bind(const ir::Graph& graph, const std::map<std::string, std::int64_t, std::less<>>& sizes) {
  ir::Bindings bindings;
  for (const auto& [name, size] : sizes) {
    const auto symbol = std::ranges::find(graph.symbols, name, &ir::SymbolRange::name);
    if (symbol == graph.symbols.end()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("the model has no symbol '{}'", name));
    }
    bindings.set(symbol->name, size);
  }
  return bindings;
}

Json describe(const CompileOutcome& outcome) {
  Json json = {{"target", outcome.target}, {"figures", to_json(outcome.figures)}};
  const auto total = outcome.figures.total_bytes();
  json["total_bytes"] = total ? Json(*total) : Json();
  json["device_memory_bytes"] = outcome.rates.memory_bytes;
  json["graph_flops"] = outcome.graph_flops;
  // Neither was measured.
  json["estimates"] = {
      {"compiler_seconds", outcome.figures.compiler_seconds ? Json(*outcome.figures.compiler_seconds) : Json()},
      {"published_rates_seconds", outcome.our_seconds ? Json(*outcome.our_seconds) : Json()},
      {"dollars_per_hour", outcome.dollars_hour ? Json(*outcome.dollars_hour) : Json()}};
  return json;
}

Status write(const CompileArguments& arguments, const ImportedModel& model, const Program& program,
             const Json& report) {
  Artifact artifact;
  artifact.producer = fmt::format("kpt {}", build_info().version);
  artifact.source = fs::path(arguments.model).filename().string();
  KPT_ASSIGN_OR_RETURN(artifact.source_sha256, hash_model(model.graph, model.weights));
  ArtifactTarget& target = artifact.targets.emplace_back();
  target.name = program.target();
  target.graph = program.graph();
  target.weights = model.weights;
  target.report = dump_json(report);
  KPT_ASSIGN_OR_RETURN(target.program, program.serialize());
  return write_artifact(arguments.output, artifact);
}

Result<CompileOutcome> compile(const CompileArguments& arguments, const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const auto sizes, parse_sizes(arguments.sizes));
  KPT_ASSIGN_OR_RETURN(const PlacedTarget placed, find_absent_target(arguments.target, context));
  ImportOptions options;
  options.model_name = arguments.name;
  options.weights = arguments.weights;
  KPT_ASSIGN_OR_RETURN(const ImportedModel model, import_model(arguments.model, options));
  KPT_ASSIGN_OR_RETURN(const ir::Bindings bindings, bind(model.graph, sizes));
  KPT_ASSIGN_OR_RETURN(const auto program, placed.target->compile_sized(model.graph, bindings));
  const CompileFigures* figures = program->figures();
  const HardwareRates* rates = placed.target->rates();
  if (figures == nullptr || rates == nullptr) {
    return Status(StatusCode::kInternal, fmt::format("{} gives no figures", placed.target->name()));
  }
  CompileOutcome outcome;
  outcome.target = program->target();
  outcome.figures = *figures;
  outcome.rates = *rates;
  outcome.graph_flops = ir::count_figures(model.graph, bindings).flops;
  outcome.our_seconds = estimate_seconds(*figures, *rates);
  outcome.dollars_hour = arguments.price;
  KPT_ASSIGN_OR_RETURN(const std::string bytes, program->serialize());
  outcome.program_bytes = bytes.size();
  if (!arguments.output.empty()) {
    Json report = {{"compiled", describe(outcome)}};
    for (const auto& [name, size] : sizes) report["sizes"][name] = size;
    KPT_RETURN_IF_ERROR(write(arguments, model, *program, report));
    outcome.written = arguments.output;
  }
  return outcome;
}

std::string bytes_text(const std::optional<std::uint64_t>& bytes) { return bytes ? format_bytes(*bytes) : "not told"; }

// 1234567 → "1.235 M".
std::string scaled(const std::optional<double>& value, std::string_view unit) {
  if (!value) return "not told";
  constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  double rest = *value;
  std::size_t step = 0;
  while (rest >= 1000 && step + 1 < std::size(kPrefixes)) {
    rest /= 1000;
    ++step;
  }
  return fmt::format("{:.4g} {}{}", rest, kPrefixes[step], unit);
}

std::string time_text(const std::optional<double>& seconds) {
  if (!seconds) return "not told";
  return *seconds < 1e-3 ? fmt::format("{:.3g} us", *seconds * 1e6) : fmt::format("{:.4g} ms", *seconds * 1e3);
}

std::string render(const CompileOutcome& outcome) {
  const CompileFigures& figures = outcome.figures;
  std::vector<std::vector<std::string>> rows = {
      {"target", fmt::format("{} ({}), one device", outcome.target, figures.device_kind)},
      {"compiler", figures.compiler},
      {"code", bytes_text(figures.code_bytes)},
      {"memory: arguments", bytes_text(figures.argument_bytes)},
      {"memory: outputs", bytes_text(figures.output_bytes)},
      {"memory: temporaries", bytes_text(figures.temporary_bytes)},
      {"memory: peak", bytes_text(figures.peak_bytes)},
      {"memory: of the device", format_bytes(outcome.rates.memory_bytes)},
      {"work", fmt::format("{} ({} counted from the graph)", scaled(figures.flops, "FLOP"),
                           scaled(outcome.graph_flops, "FLOP"))},
      {"memory traffic", scaled(figures.bytes_accessed, "B")},
      {"time, estimate of the compiler", time_text(figures.compiler_seconds)},
      {"time, estimate from published rates", time_text(outcome.our_seconds)},
  };
  if (outcome.dollars_hour) {
    rows.push_back({"price", fmt::format("{:.2f} $ per chip and hour, as given", *outcome.dollars_hour)});
    const bool told = figures.compiler_seconds.has_value();
    if (const auto time = told ? figures.compiler_seconds : outcome.our_seconds) {
      rows.push_back({"price of a million runs, estimate",
                      fmt::format("{:.3g} $ by {}", *outcome.dollars_hour * *time / 3600 * 1e6,
                                  told ? "the compiler's time" : "published rates")});
    }
  }
  std::string text = format_table(rows);
  if (!outcome.written.empty()) {
    text += fmt::format("\nwrote {} with a program of {}\n", outcome.written, format_bytes(outcome.program_bytes));
  }
  return text + fmt::format("compiled in {:.1f} s; nothing was run: all figures are the compiler's or computed\n",
                            outcome.seconds);
}

void add_arguments(CLI::App& command, CompileArguments& arguments) {
  command.add_option("MODEL", arguments.model, "a .pt2 file")->required();
  command.add_option("--target", arguments.target, "what to compile for: tpu:v4, v5e, v5p, v6e or v7, with a slice")
      ->type_name("TARGET")
      ->required();
  command.add_option("-o,--output", arguments.output, "a .kpt file to write, with weights and compiled program")
      ->type_name("FILE");
  command.add_option("--size", arguments.sizes, "the sizes that the model leaves free: symbol=number")
      ->type_name("S=N");
  command.add_option("--price", arguments.price, "dollars for one chip and hour, to be shown beside the time")
      ->check(CLI::NonNegativeNumber)
      ->type_name("USD");
  command.add_flag("--no-cache", arguments.no_cache, "neither take the program from the compile cache nor keep it");
  command.add_option("--model", arguments.name, "which model of a file that holds several");
  command.add_option("--weights", arguments.weights, "a safetensors file that replaces weights by name");
}

}  // namespace

void add_compile_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "compile", "compile a model for hardware that is not here; shows what the compiler says about it");
  command->footer(
      "Example: kpt compile model.pt2 --target tpu:v5e:2x2 --size s0=8 -o model.kpt\n"
      "         kpt compile model.pt2 --target tpu:v6e --price 2.70 --json");
  auto arguments = std::make_shared<CompileArguments>();
  add_arguments(*command, *arguments);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    if (arguments->no_cache) backend_context->compile_cache_folder.clear();
    const auto start = std::chrono::steady_clock::now();
    auto outcome = compile(*arguments, *backend_context);
    if (!outcome.ok()) return context.fail(outcome.status());
    outcome->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (context.flags().json) {
      Json json = describe(*outcome);
      json["program_bytes"] = outcome->program_bytes;
      json["written"] = outcome->written.empty() ? Json() : Json(outcome->written);
      json["seconds"] = outcome->seconds;
      context.out() << dump_json(json, 2) << "\n";
    } else {
      context.out() << render(*outcome);
    }
    context.finish(kExitOk);
  });
}

}  // namespace kpt::cli
