#include "cli/commands/compile_command.h"

#include <algorithm>
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
#include "cli/program_text.h"
#include "cli/terminal.h"
#include "config/options.h"
#include "device/compile_figures_json.h"
#include "device/hardware_json.h"
#include "device/model_findings.h"
#include "importer/model_file.h"
#include "ir/figures.h"
#include "ir/own_operators.h"
#include "runtime/loaded_model.h"

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
  bool check = false;
};

struct CompiledTarget {
  std::unique_ptr<Program> program;
  std::vector<ModelFinding> findings;
  bool has_figures = false;  // a compiler made code, and told of it
  CompileFigures figures;
  std::optional<HardwareRates> rates;
  std::optional<CompileStatistics> statistics;
  std::optional<double> graph_flops;   // counted from the graph, for comparison; nothing while sizes are free
  std::optional<double> our_seconds;   // from published rates
  std::optional<double> dollars_hour;  // of one chip, as the user says
  std::string bytes;                   // the program, as it is stored
};

struct CompileOutcome {
  std::vector<CompiledTarget> targets;
  std::string written;  // empty: nothing
  double seconds = 0;
};

Result<ir::Bindings> bind_sizes(const ir::Graph& graph, const std::map<std::string, std::int64_t, std::less<>>& sizes) {
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

Json describe(const std::vector<ModelFinding>& findings) {
  Json list = Json::array();
  for (const ModelFinding& finding : findings) {
    list.push_back({{"kind", to_string(finding.kind)},
                    {"refuses", finding.refuses},
                    {"place", finding.place},
                    {"text", finding.text}});
  }
  return list;
}

Json describe(const CompiledTarget& compiled) {
  Json json = {{"target", compiled.program->target()},
               {"figures", compiled.has_figures ? to_json(compiled.figures) : Json()}};
  json["findings"] = describe(compiled.findings);
  const auto total = compiled.figures.total_bytes();
  json["total_bytes"] = total ? Json(*total) : Json();
  json["device_memory_bytes"] = compiled.rates ? Json(compiled.rates->memory_bytes) : Json();
  json["graph_flops"] = compiled.graph_flops ? Json(*compiled.graph_flops) : Json();
  // Neither was measured.
  json["estimates"] = {
      {"compiler_seconds", compiled.figures.compiler_seconds ? Json(*compiled.figures.compiler_seconds) : Json()},
      {"published_rates_seconds", compiled.our_seconds ? Json(*compiled.our_seconds) : Json()},
      {"dollars_per_hour", compiled.dollars_hour ? Json(*compiled.dollars_hour) : Json()}};
  return json;
}

Json to_json(const CompileOutcome& outcome) {
  Json json = {{"targets", Json::array()}};
  for (const CompiledTarget& compiled : outcome.targets) {
    Json entry = describe(compiled);
    entry["statistics"] = compiled.statistics ? kpt::to_json(*compiled.statistics) : Json();
    entry["program_bytes"] = compiled.bytes.size();
    json["targets"].push_back(std::move(entry));
  }
  json["written"] = outcome.written.empty() ? Json() : Json(outcome.written);
  json["seconds"] = outcome.seconds;
  return json;
}

Status write(const CompileArguments& arguments, const ImportedModel& model,
             const std::map<std::string, std::int64_t, std::less<>>& sizes, const CompileOutcome& outcome) {
  Artifact artifact;
  artifact.producer = fmt::format("kpt {}", build_info().version);
  artifact.source = fs::path(arguments.model).filename().string();
  KPT_ASSIGN_OR_RETURN(artifact.source_sha256, hash_model(model.graph, model.weights));
  for (const CompiledTarget& compiled : outcome.targets) {
    Json report = {{"compiled", describe(compiled)}};
    for (const auto& [name, size] : sizes) report["sizes"][name] = size;
    ArtifactTarget& target = artifact.targets.emplace_back();
    target.name = compiled.program->target();
    target.graph = compiled.program->graph();
    target.weights = model.weights;
    target.report = dump_json(report);
    target.program = compiled.bytes;
  }
  return write_artifact(arguments.output, artifact);
}

// A target that was found, and what it says about the model before compiling.
struct CheckedTarget {
  PlacedTarget placed;
  std::vector<ModelFinding> findings;
  Status verdict;  // what must be mended first
};

// A model that was read, for targets that were found.
struct Job {
  std::vector<CheckedTarget> targets;
  ImportedModel model;
  std::map<std::string, std::int64_t, std::less<>> sizes;
  ir::Bindings bindings;
  std::vector<std::string> prices;  // "v5e=1.20"
};

// Of the generation of a TPU target such as "tpu:v5e:2x2"; nothing for others and where the table lacks it.
std::optional<double> find_price(std::string_view target, const std::vector<std::string>& prices) {
  const std::vector<std::string_view> parts = split(target, ':');
  if (parts.size() < 2 || parts[0] != "tpu") return std::nullopt;
  for (const std::string& price : prices) {
    const auto equals = price.find('=');
    if (std::string_view(price).substr(0, equals) == parts[1]) return parse_double(price.substr(equals + 1));
  }
  return std::nullopt;
}

// What must be mended first: all that refuses; with the option strict, all.
Status judge(const std::vector<ModelFinding>& findings, std::string_view target, bool strict) {
  const auto counts = [strict](const ModelFinding& finding) { return strict || finding.refuses; };
  const auto count = std::ranges::count_if(findings, counts);
  if (count == 0) return {};
  return {StatusCode::kValidation,
          fmt::format("{} finding{} of the check must be mended before the model is compiled for {}; the first is: {}",
                      count, count == 1 ? "" : "s", target, std::ranges::find_if(findings, counts)->text)};
}

std::vector<ModelFinding> find_refused_nodes(const ir::Graph& graph, const Target& target) {
  const auto answers = target.supports(graph);
  if (!answers.ok()) {
    return {{FindingKind::kOperator, false, "",
             fmt::format("whether all operators can run is not known: {}", answers.status().message())}};
  }
  std::vector<ModelFinding> findings;
  for (std::size_t index = 0; index < answers->size(); ++index) {
    if ((*answers)[index].supported) continue;
    const ir::Node& node = graph.nodes[index];
    findings.push_back({FindingKind::kOperator, true, node.name,
                        fmt::format("{}: {}", printable(node.target, 200), (*answers)[index].reason)});
  }
  return findings;
}

Result<Job> prepare(const CompileArguments& arguments, const BackendContext& context, bool strict) {
  Job job;
  KPT_ASSIGN_OR_RETURN(job.sizes, parse_sizes(arguments.sizes));
  KPT_ASSIGN_OR_RETURN(std::vector<PlacedTarget> targets, find_absent_targets(arguments.target, context));
  ImportOptions options;
  options.model_name = arguments.name;
  options.weights = arguments.weights;
  KPT_ASSIGN_OR_RETURN(job.model, import_model(arguments.model, options));
  KPT_ASSIGN_OR_RETURN(job.bindings, bind_sizes(job.model.graph, job.sizes));
  for (PlacedTarget& placed : targets) {
    CheckedTarget checked;
    const auto* examiner = dynamic_cast<const ModelExaminer*>(placed.target);
    if (examiner != nullptr) checked.findings = examiner->examine(job.model.graph, job.bindings);
    const bool told = examiner != nullptr && examiner->tells_operators();
    if (arguments.check && !told) {  // compiling says it by itself
      std::vector<ModelFinding> refused = find_refused_nodes(job.model.graph, *placed.target);
      checked.findings.insert(checked.findings.begin(), refused.begin(), refused.end());
    }
    checked.verdict = judge(checked.findings, placed.target->name(), strict);
    checked.placed = std::move(placed);
    job.targets.push_back(std::move(checked));
  }
  return job;
}

Result<CompiledTarget> compile_for(const CheckedTarget& checked, const CompileArguments& arguments, const Job& job) {
  const Target& target = *checked.placed.target;
  KPT_RETURN_IF_ERROR(detail::check_support(job.model, target));
  CompiledTarget compiled;
  KPT_ASSIGN_OR_RETURN(compiled.program, target.compile_sized(job.model.graph, job.bindings));
  const CompileFigures* figures = compiled.program->figures();
  compiled.findings = checked.findings;
  compiled.has_figures = figures != nullptr;
  if (figures != nullptr) compiled.figures = *figures;
  compiled.statistics = target.compile_statistics();
  if (const HardwareRates* rates = target.rates()) {
    compiled.rates = *rates;
    if (figures != nullptr) compiled.our_seconds = estimate_seconds(*figures, *rates);
  }
  if (job.bindings.entries().size() == job.model.graph.symbols.size()) {
    compiled.graph_flops = ir::count_figures(job.model.graph, job.bindings).flops;
  }
  compiled.dollars_hour = arguments.price ? arguments.price : find_price(target.name(), job.prices);
  KPT_ASSIGN_OR_RETURN(compiled.bytes, compiled.program->serialize());
  return compiled;
}

Result<CompileOutcome> compile(const CompileArguments& arguments, const Job& job) {
  CompileOutcome outcome;
  for (const CheckedTarget& checked : job.targets) {
    KPT_ASSIGN_OR_RETURN(CompiledTarget compiled, compile_for(checked, arguments, job));
    outcome.targets.push_back(std::move(compiled));
  }
  if (arguments.output.empty()) return outcome;
  KPT_RETURN_IF_ERROR(write(arguments, job.model, job.sizes, outcome));
  outcome.written = arguments.output;
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

std::string render(const std::vector<ModelFinding>& findings) {
  std::string text;
  for (const ModelFinding& finding : findings) {
    text += fmt::format("{} {}{}{}\n", finding.refuses ? "refused:" : "costs time:", finding.place,
                        finding.place.empty() ? "" : ": ", finding.text);
  }
  return text;
}

// One program for the whole graph, as the compiler describes it.
std::vector<std::vector<std::string>> program_rows(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  std::vector<std::vector<std::string>> rows = {
      {"code", bytes_text(figures.code_bytes)},
      {"memory: arguments", bytes_text(figures.argument_bytes)},
      {"memory: outputs", bytes_text(figures.output_bytes)},
      {"memory: temporaries", bytes_text(figures.temporary_bytes)},
      {"memory: peak", bytes_text(figures.peak_bytes)},
      {"memory: of the device", compiled.rates ? format_bytes(compiled.rates->memory_bytes) : "not told"},
      {"work", fmt::format("{} ({} counted from the graph)", scaled(figures.flops, "FLOP"),
                           scaled(compiled.graph_flops, "FLOP"))},
      {"memory traffic", scaled(figures.bytes_accessed, "B")},
      {"time, estimate of the compiler", time_text(figures.compiler_seconds)},
      {"time, estimate from published rates", time_text(compiled.our_seconds)},
  };
  if (!compiled.dollars_hour) return rows;
  rows.push_back({"price", fmt::format("{:.2f} $ per chip and hour, as given", *compiled.dollars_hour)});
  const bool told = figures.compiler_seconds.has_value();
  if (const auto time = told ? figures.compiler_seconds : compiled.our_seconds) {
    rows.push_back(
        {"price of a million runs, estimate", fmt::format("{:.3g} $ by {}", *compiled.dollars_hour * *time / 3600 * 1e6,
                                                          told ? "the compiler's time" : "published rates")});
  }
  return rows;
}

// Launches of kernels: no compiler has seen the whole graph, so there is no estimate of its time.
std::vector<std::vector<std::string>> launch_rows(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  const std::string free_sizes = "known when sizes are";
  return {
      {"code", fmt::format("{}, {} kernels launched", bytes_text(figures.code_bytes), figures.kernels.size())},
      {"memory: of a run", figures.temporary_bytes ? format_bytes(*figures.temporary_bytes) : free_sizes},
      {"memory: with weights", figures.peak_bytes ? format_bytes(*figures.peak_bytes) : free_sizes},
      {"work", compiled.graph_flops ? scaled(compiled.graph_flops, "FLOP") + ", counted from the graph" : free_sizes},
  };
}

// Nodes that the engine runs one by one: it knows them all, and no code was made.
std::vector<std::vector<std::string>> node_rows(const CompiledTarget& compiled) {
  const std::vector<ir::Node>& nodes = compiled.program->graph().nodes;
  const auto own =
      std::ranges::count_if(nodes, [](const ir::Node& node) { return node.target.starts_with(ir::kOwnPrefix); });
  return {{"target", fmt::format("{}, one device", compiled.program->target())},
          {"nodes",
           fmt::format("{}, {} of them kernels of ours and the others libtorch's; all are there", nodes.size(), own)},
          {"code", "none: kernels are chosen when the file is loaded"},
          {"work", compiled.graph_flops ? scaled(compiled.graph_flops, "FLOP") + ", counted from the graph"
                                        : "known when sizes are"}};
}

std::vector<std::vector<std::string>> figure_rows(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  std::vector<std::vector<std::string>> rows = {
      {"target", fmt::format("{} ({}), one device", compiled.program->target(), figures.device_kind)},
      {"compiler", figures.compiler}};
  for (auto& row : figures.kernels.empty() ? program_rows(compiled) : launch_rows(compiled)) rows.push_back(row);
  return rows;
}

std::string render(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  std::vector<std::vector<std::string>> rows = compiled.has_figures ? figure_rows(compiled) : node_rows(compiled);
  if (compiled.statistics) {
    rows.push_back({"compile cache",
                    fmt::format("{} compilations, {} hits, {} misses, {} errors", compiled.statistics->compilations,
                                compiled.statistics->hits, compiled.statistics->misses, compiled.statistics->errors)});
  }
  std::string text = format_table(rows);
  if (!figures.kernels.empty()) text += "\n" + render_kernels(figures.kernels);
  if (!compiled.findings.empty()) text += "\n" + render(compiled.findings);
  return text;
}

std::string render(const CompileOutcome& outcome) {
  std::string text;
  std::uint64_t bytes = 0;
  for (const CompiledTarget& compiled : outcome.targets) {
    text += (text.empty() ? "" : "\n") + render(compiled);
    bytes += compiled.bytes.size();
  }
  if (!outcome.written.empty()) {
    const std::size_t count = outcome.targets.size();
    text += fmt::format("\nwrote {} with {} of {}\n", outcome.written,
                        count == 1 ? "a program" : fmt::format("{} programs", count), format_bytes(bytes));
  }
  return text + fmt::format("compiled in {:.1f} s; nothing was run: all figures are the compiler's or computed\n",
                            outcome.seconds);
}

void add_arguments(CLI::App& command, CompileArguments& arguments) {
  command.add_option("MODEL", arguments.model, "a .pt2 file")->required();
  command
      .add_option("--target", arguments.target,
                  "what to compile for, several with commas: tpu:v4, v5e, v5p, v6e or v7, with a slice; amd:gfx942 and "
                  "others, or amd for the GPU at hand (amd.architecture); nvidia:sm_90 and others")
      ->type_name("TARGET")
      ->required();
  command.add_option("-o,--output", arguments.output, "a .kpt file to write, with weights and compiled program")
      ->type_name("FILE");
  command.add_option("--size", arguments.sizes, "the sizes that the model leaves free: symbol=number")
      ->type_name("S=N");
  command.add_option("--price", arguments.price, "dollars for one chip and hour, to be shown beside the time")
      ->check(CLI::NonNegativeNumber)
      ->type_name("USD");
  command.add_flag("--check", arguments.check, "only say what the target would refuse or waste; compile nothing");
  command.add_flag("--no-cache", arguments.no_cache, "neither take the program from the compile cache nor keep it");
  command.add_option("--model", arguments.name, "which model of a file that holds several");
  command.add_option("--weights", arguments.weights, "a safetensors file that replaces weights by name");
}

// Findings alone; the exit code says whether one must be mended.
void finish_check(CommandContext& context, const Job& job) {
  const auto failed = std::ranges::find_if(job.targets, [](const CheckedTarget& one) { return !one.verdict.ok(); });
  if (context.flags().json) {
    Json json = {{"targets", Json::array()}};
    for (const CheckedTarget& checked : job.targets) {
      json["targets"].push_back({{"target", checked.placed.target->name()},
                                 {"findings", describe(checked.findings)},
                                 {"must_be_mended", checked.verdict.ok() ? Json() : Json(checked.verdict.message())}});
    }
    context.out() << dump_json(json, 2) << "\n";
    return context.finish(failed == job.targets.end() ? kExitOk : kExitFailed);
  }
  for (const CheckedTarget& checked : job.targets) {
    const std::size_t count = checked.findings.size();
    context.out() << render(checked.findings)
                  << fmt::format("{}: {} finding{}; nothing was compiled\n", checked.placed.target->name(), count,
                                 count == 1 ? "" : "s");
  }
  if (failed != job.targets.end()) context.fail(failed->verdict);
}

}  // namespace

void add_compile_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "compile", "compile a model for hardware that is not here; shows what the compiler says about it");
  command->footer(
      "Example: kpt compile model.pt2 --target tpu:v5e:2x2 --size s0=8 -o model.kpt\n"
      "         kpt compile model.pt2 --target tpu:v6e --price 2.70 --json\n"
      "         kpt compile model.pt2 --target amd:gfx90a,gfx942,gfx1100 -o model.kpt\n"
      "         kpt compile model.pt2 --target nvidia:sm_90 --check");
  auto arguments = std::make_shared<CompileArguments>();
  add_arguments(*command, *arguments);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    if (arguments->no_cache) backend_context->compile_cache_folder.clear();
    const auto start = std::chrono::steady_clock::now();
    const bool strict = config->get(options::kStrict);
    auto job = prepare(*arguments, *backend_context, strict);
    if (!job.ok()) return context.fail(job.status());
    job->prices = config->get(options::kTpuPrices);
    context.tell(job->model.notes);
    if (arguments->check) return finish_check(context, *job);
    for (const CheckedTarget& checked : job->targets) {
      if (strict && !checked.verdict.ok()) return context.fail(checked.verdict);
    }
    auto outcome = compile(*arguments, *job);
    if (!outcome.ok()) return context.fail(outcome.status());
    outcome->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (context.flags().json) {
      context.out() << dump_json(to_json(*outcome), 2) << "\n";
    } else {
      context.out() << render(*outcome);
    }
    context.finish(kExitOk);
  });
}

}  // namespace kpt::cli
