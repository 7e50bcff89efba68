#include "cli/commands/compile_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "api/target_list.h"
#include "artifact/artifact.h"
#include "artifact/model_hash.h"
#include "base/text.h"
#include "cli/commands/compile_estimate.h"
#include "cli/commands/compile_text.h"
#include "cli/model_arguments.h"
#include "cli/output_file.h"
#include "config/options.h"
#include "device/hardware_json.h"
#include "device/model_findings.h"
#include "importer/model_file.h"
#include "ir/figures.h"
#include "optimize/compile_level.h"
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
  std::string level;  // empty: the model as it is
  std::optional<double> price;
  std::size_t repeat = 0;  // 0: once, and nothing is said of the times
  bool no_cache = false;
  bool check = false;
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

// What the target's own device answered, for the check when the part is loaded.
void add_samples(const CompiledTarget& compiled, Artifact& artifact) {
  if (!compiled.level) return;
  for (const ArtifactSample& sample : compiled.level->samples) {
    artifact.samples.push_back(sample);
    artifact.samples.back().target = compiled.name;
  }
}

Status write(const CompileArguments& arguments, const ImportedModel& model,
             const std::map<std::string, std::int64_t, std::less<>>& sizes, const CompileOutcome& outcome) {
  Artifact artifact;
  artifact.producer = this_producer();
  artifact.source = fs::path(arguments.model).filename().string();
  KPT_ASSIGN_OR_RETURN(artifact.source_sha256, hash_model(model.graph, model.weights));
  for (const CompiledTarget& compiled : outcome.targets) {
    ArtifactTarget& target = artifact.targets.emplace_back();
    target.name = compiled.name;
    target.graph = compiled.program->graph();
    target.weights = compiled.level ? compiled.level->model.weights : model.weights;
    if (compiled.level) target.needs = compiled.level->needs;
    target.report = dump_json(make_report(compiled, sizes));
    target.program = compiled.bytes;
    add_samples(compiled, artifact);
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
  std::optional<Level> level;
  std::optional<Result<PlacedDevice>> cpu;  // for the gate, where there is a level
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
  KPT_RETURN_IF_ERROR(check_output(arguments.output, {arguments.model, arguments.weights}));
  // A damaged weight would go into the artifact with a checksum that fits it.
  if (!arguments.output.empty()) KPT_RETURN_IF_ERROR(check_model_file(arguments.model).status());
  ImportOptions options;
  options.model_name = arguments.name;
  options.weights = arguments.weights;
  options.read_sample_inputs = !arguments.level.empty();
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
  job.level = find_level(arguments.level);
  if (job.level) job.cpu.emplace(find_runnable_device("cpu", context));
  return job;
}

// A device of the target. Hardware that cannot be used only leaves the CPU to judge; options that are wrong, or belong
// to other hardware than is here, are the user's to mend.
Result<DeviceHere> find_device_of(const PlacedTarget& placed) {
  const auto devices = placed.backend->devices_named(placed.target->name());
  const Status status = devices.status();
  // tpu.topology names it; a GPU of that code is only one that this release does not know.
  const bool other_slice = status.code() == StatusCode::kInvalidArchitecture && status.vendor() == Vendor::kTpu;
  if (status.code() == StatusCode::kConfiguration || other_slice) return status;
  if (!status.ok()) return DeviceHere{std::nullopt, status.message()};
  for (Device* const device : *devices) {
    if (device->target().name() == placed.target->name()) return DeviceHere{PlacedDevice{placed.backend, device}, ""};
  }
  return DeviceHere{};
}

Result<LevelOutcome> run_level(const PlacedTarget& placed, const Job& job) {
  DrawOptions draws;
  draws.sizes = job.sizes;
  KPT_ASSIGN_OR_RETURN(const DeviceHere here, find_device_of(placed));
  return apply_level(job.model, *job.level, draws, *placed.target, here, *job.cpu);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<CompiledTarget> compile_for(const CheckedTarget& checked, const CompileArguments& arguments, const Job& job) {
  const Target& target = *checked.placed.target;
  KPT_RETURN_IF_ERROR(detail::check_support(job.model, target));
  CompiledTarget compiled;
  compiled.name = target.name();
  if (job.level) {
    KPT_ASSIGN_OR_RETURN(compiled.level, run_level(checked.placed, job));
    if (compiled.level->refused()) return compiled;
  }
  const ir::Graph& graph = compiled.level ? compiled.level->model.graph : job.model.graph;
  const auto start = std::chrono::steady_clock::now();
  KPT_ASSIGN_OR_RETURN(compiled.program, target.compile_sized(graph, job.bindings));
  compiled.compile_seconds = seconds_since(start);
  const CompileFigures* figures = compiled.program->figures();
  compiled.findings = checked.findings;
  compiled.has_figures = figures != nullptr;
  if (figures != nullptr) compiled.figures = *figures;
  compiled.statistics = target.compile_statistics();
  if (const HardwareRates* rates = target.rates()) {
    compiled.rates = *rates;
    if (figures != nullptr) {
      const CompileFigures counted = with_counts(*figures, graph, job.bindings);
      compiled.our_seconds = estimate_seconds(counted, rates_for(graph, job.bindings, counted, *rates));
    }
  }
  if (job.bindings.entries().size() == job.model.graph.symbols.size()) {
    compiled.graph_flops = ir::count_figures(graph, job.bindings).flops;
  }
  compiled.dollars_hour = arguments.price ? arguments.price : find_price(target.name(), job.prices);
  KPT_ASSIGN_OR_RETURN(compiled.bytes, compiled.program->serialize());
  return compiled;
}

// The other compilations of --repeat, each by a backend of its own: some keep in memory what they compiled.
Status compile_again(std::size_t runs, const Job& job, const BackendContext& context, CompiledTarget& compiled) {
  const ir::Graph& graph = compiled.level ? compiled.level->model.graph : job.model.graph;
  compiled.repeated = {compiled.compile_seconds};
  while (compiled.repeated.size() < runs) {
    KPT_ASSIGN_OR_RETURN(const PlacedTarget fresh, find_absent_target(compiled.name, context));
    const auto start = std::chrono::steady_clock::now();
    KPT_RETURN_IF_ERROR(fresh.target->compile_sized(graph, job.bindings).status());
    compiled.repeated.push_back(seconds_since(start));
    const auto more = fresh.target->compile_statistics();
    if (compiled.statistics && more) *compiled.statistics += *more;
  }
  return {};
}

Result<CompileOutcome> compile(const CompileArguments& arguments, const Job& job, const BackendContext& context) {
  CompileOutcome outcome;
  for (const CheckedTarget& checked : job.targets) {
    KPT_ASSIGN_OR_RETURN(CompiledTarget compiled, compile_for(checked, arguments, job));
    outcome.targets.push_back(std::move(compiled));
    if (outcome.refused()) return outcome;
    if (arguments.repeat > 0) {
      KPT_RETURN_IF_ERROR(compile_again(arguments.repeat, job, context, outcome.targets.back()));
    }
  }
  if (arguments.output.empty()) return outcome;
  KPT_RETURN_IF_ERROR(write(arguments, job.model, job.sizes, outcome));
  outcome.written = arguments.output;
  return outcome;
}

void add_arguments(CLI::App& command, CompileArguments& arguments) {
  command.add_option("MODEL", arguments.model, "a .pt2 file")->required();
  command
      .add_option(
          "--target", arguments.target,
          "what to compile for, several with commas: tpu:v4, v5e, v5p, v6e or v7, with a slice, or tpu for that "
          "at hand (tpu.topology); amd:gfx942 and others, or amd for the GPU at hand (amd.architecture); nvidia:sm_90 "
          "and others; xla:cpu, xla:cuda "
          "and others, by the PJRT plugin that is here")
      ->type_name("TARGET")
      ->required();
  CLI::Option* const output =
      command.add_option("-o,--output", arguments.output, "a .kpt file to write, with weights and compiled program")
          ->type_name("FILE");
  command.add_option("--size", arguments.sizes, "the sizes that the model leaves free: symbol=number")
      ->type_name("S=N");
  CLI::Option* const level =
      command
          .add_option("--level", arguments.level,
                      "run the passes of conservative, balanced or aggressive before, and the gate where the target or "
                      "the CPU can run what they give")
          ->check([](const std::string& text) {
            return find_level(text) ? std::string() : fmt::format("'{}' is no level", text);
          });
  command.add_option("--price", arguments.price, "dollars for one chip and hour, to be shown beside the time")
      ->check(check_amount)
      ->type_name("USD");
  CLI::Option* const repeat =
      command
          .add_option(
              "--repeat", arguments.repeat,
              "compile this often, without the compile cache, and show the least, greatest, mean and whole time")
          ->check(CLI::Range(1, 1000))
          ->type_name("N");
  command.add_flag("--check", arguments.check, "only say what the target would refuse or waste; compile nothing")
      ->excludes(output)
      ->excludes(level)
      ->excludes(repeat);
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
                                 {"findings", to_json(checked.findings)},
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
      "compile", "compile a model ahead of time, for hardware that need not be here; shows what the compiler says");
  command->footer(
      "Exit code 3 when the accuracy gate refuses what the level did; then nothing is written.\n"
      "Example: kpt compile model.pt2 --target tpu:v5e:2x2 --size s0=8 -o model.kpt\n"
      "         kpt compile model.pt2 --target tpu:v5e --level balanced -o model.kpt\n"
      "         kpt compile model.pt2 --target xla:cpu -o model.kpt\n"
      "         kpt compile model.pt2 --target tpu:v6e --price 2.70 --json\n"
      "         kpt compile model.pt2 --target tpu:v5e --repeat 5\n"
      "         kpt compile model.pt2 --target amd:gfx90a,gfx942,gfx1100 -o model.kpt\n"
      "         kpt compile model.pt2 --target nvidia:sm_90 --check");
  auto arguments = std::make_shared<CompileArguments>();
  add_arguments(*command, *arguments);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    if (arguments->no_cache || arguments->repeat > 0) backend_context->compile_cache_folder.clear();
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
    auto outcome = compile(*arguments, *job, *backend_context);
    if (!outcome.ok()) return context.fail(outcome.status());
    outcome->seconds = seconds_since(start);
    if (context.flags().json) {
      context.out() << dump_json(to_json(*outcome), 2) << "\n";
    } else {
      context.out() << render(*outcome, context.use_color(*config));
    }
    context.finish(outcome->refused() ? kExitRefused : kExitOk);
  });
}

}  // namespace kpt::cli
