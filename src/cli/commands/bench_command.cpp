#include "cli/commands/bench_command.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/artifact_loading.h"
#include "api/model_loading.h"
#include "artifact/artifact.h"
#include "base/files.h"
#include "base/timing.h"
#include "benchmark/baseline.h"
#include "benchmark/model_benchmark.h"
#include "benchmark/page.h"
#include "benchmark/report_json.h"
#include "benchmark/startup.h"
#include "cli/commands/bench_print.h"
#include "cli/model_arguments.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "device/hardware_json.h"
#include "memory/process_memory.h"
#include "runtime/generate_inputs.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct BenchArguments : RunArguments {
  std::string batch;
  std::vector<std::string> sweeps;
  double duration_s = 2;
  double warmup_s = 0.5;
  double time_limit_s = 0;
  std::size_t least_samples = 10;
  bool startup = false;
  std::size_t startup_runs = 7;
  bool first_answer = false;
  std::string baseline_to_save;
  std::string baseline_to_compare;
  std::vector<std::string> across;
  double least_effect_percent = 5;
  std::string html;
};

// How far the work is when the sizes are done and processes are started.
constexpr double kStartupShare = 0.8;

struct BenchOutcome {
  BenchmarkReport report;
  std::vector<ComparedEntry> compared;
};

Status check_combination(const BenchArguments& arguments) {
  if (!arguments.inputs.empty() && (!arguments.batch.empty() || !arguments.sweeps.empty())) {
    return {StatusCode::kInvalidArgument, "--inputs has its sizes already; leave out --batch and --sweep, or --inputs"};
  }
  if (arguments.baseline_to_compare.empty() && !arguments.across.empty()) {
    return {StatusCode::kInvalidArgument, "--across says how to --compare; give that too"};
  }
  return {};
}

// What a process that --startup starts does: load, answer once, say when.
Status answer_once(CommandContext& context, const BenchArguments& arguments, const BackendContext& backend_context) {
  KPT_ASSIGN_OR_RETURN(const auto sizes, parse_sizes(arguments.sizes));
  KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> inputs, read_input_files(arguments.inputs));
  FirstAnswer answer;
  const auto start = Clock::now();
  KPT_ASSIGN_OR_RETURN(const auto loaded, load_model_with(arguments.model, arguments.load, backend_context));
  answer.load_ms = milliseconds_since(start);
  GenerateOptions generate{arguments.seed, sizes, {}};
  for (const NamedTensor& input : inputs) generate.given.push_back(input.name);
  KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> generated, generate_inputs(loaded->graph(), generate));
  std::ranges::move(generated, std::back_inserter(inputs));
  KPT_ASSIGN_OR_RETURN(Session session, Model(loaded).start_session());
  const auto begin = Clock::now();
  KPT_RETURN_IF_ERROR(session.run(inputs).status());
  answer.run_ms = milliseconds_since(begin);
  answer.answered_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
  answer.cpu_ms = 1e3 * MeasureClock::real().cpu_seconds();
  const auto memory = read_process_memory(backend_context.detection.files);
  if (memory.ok()) answer.peak_bytes = memory->peak_bytes;
  context.out() << encode_first_answer(answer) << "\n";
  return {};
}

// The command line of such a process: this one's, reduced to what loading and running depend on.
std::vector<std::string> first_answer_arguments(const BenchArguments& arguments, const GlobalFlags& flags) {
  std::vector<std::string> line = {"bench",
                                   arguments.model,
                                   "--first-answer",
                                   "--device",
                                   arguments.load.device,
                                   "--seed",
                                   std::to_string(arguments.seed)};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) line.insert(line.end(), {flag, value});
  };
  add("--model", arguments.load.model_name);
  add("--weights", arguments.weights);
  for (const std::string& input : arguments.inputs) add("--inputs", input);
  for (const std::string& size : arguments.sizes) add("--size", size);
  if (!arguments.load.self_check) line.emplace_back("--no-self-check");
  add("--config", flags.config_file.value_or(""));
  add("--preset", flags.preset.value_or(""));
  for (const std::string& setting : flags.settings) add("--set", setting);
  return line;
}

Result<std::vector<StartupReport>> start_processes(const BenchArguments& arguments, const GlobalFlags& flags,
                                                   Progress& progress) {
  StartupOptions options;
  std::error_code error;
  options.program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status(StatusCode::kUnsupported, "--startup cannot find this program: " + error.message());
  options.arguments = first_answer_arguments(arguments, flags);
  options.runs = arguments.startup_runs;
  options.on_kind = [&](const std::string& kind) { progress.tell("starting processes: " + kind, kStartupShare); };
  return measure_startup(options);
}

Result<std::vector<Sizes>> choose_points(const BenchArguments& arguments, const ir::Graph& graph,
                                         std::string& batch_symbol) {
  KPT_ASSIGN_OR_RETURN(const Sizes sizes, parse_sizes(arguments.sizes));
  std::vector<SweepAxis> axes;
  if (!arguments.batch.empty()) {
    KPT_ASSIGN_OR_RETURN(batch_symbol, find_batch_symbol(graph));
    KPT_ASSIGN_OR_RETURN(std::vector<std::int64_t> batches, parse_values(arguments.batch));
    axes.push_back({batch_symbol, std::move(batches)});
  }
  for (const std::string& text : arguments.sweeps) {
    KPT_ASSIGN_OR_RETURN(SweepAxis axis, parse_sweep(text));
    axes.push_back(std::move(axis));
  }
  return plan_sweep(graph, sizes, axes);
}

ModelBenchmarkOptions make_options(const BenchArguments& arguments, Progress& progress) {
  ModelBenchmarkOptions options;
  options.measure.duration = std::chrono::duration<double>(arguments.duration_s);
  options.measure.warmup = std::chrono::duration<double>(arguments.warmup_s);
  options.measure.least_samples = arguments.least_samples;
  if (arguments.time_limit_s > 0) {
    options.measure.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                  std::chrono::duration<double>(arguments.time_limit_s));
  }
  options.seed = arguments.seed;
  const double share = arguments.startup ? kStartupShare : 1;
  options.on_point = [&progress, share](std::size_t index, std::size_t count, const std::string& label) {
    progress.tell(fmt::format("measuring {} of {}{}{}", index + 1, count, label.empty() ? "" : ": ", label),
                  share * static_cast<double>(index) / static_cast<double>(count));
  };
  return options;
}

// What the report of the artifact's part for a target says about its outputs; nothing for a file that is none.
Result<std::vector<OutputError>> read_errors(const BenchArguments& arguments, std::string_view target) {
  if (!is_artifact(arguments.model)) return std::vector<OutputError>();
  KPT_ASSIGN_OR_RETURN(Artifact artifact, read_artifact(arguments.model, {.check_weights = false}));
  const ArtifactTarget* const part = find_part(artifact, target);
  if (part == nullptr || part->report.empty()) return std::vector<OutputError>();
  return read_output_errors(part->report);
}

Status write_page(const BenchArguments& arguments, const BenchOutcome& outcome, std::string_view target) {
  KPT_ASSIGN_OR_RETURN(const auto errors, read_errors(arguments, target));
  const PageContent content{&outcome.report, outcome.compared, arguments.least_effect_percent / 100, errors};
  return write_file_atomically(arguments.html, make_page(content));
}

// The baseline that is compared with may also be where the result is kept.
Status check_outputs(const BenchArguments& arguments) {
  std::vector<std::string> read = input_paths(arguments.inputs);
  read.insert(read.end(), {arguments.model, arguments.weights});
  KPT_RETURN_IF_ERROR(check_output(arguments.baseline_to_save, read));
  read.insert(read.end(), {arguments.baseline_to_compare, arguments.baseline_to_save});
  return check_output(arguments.html, read);
}

Result<BenchOutcome> bench(const BenchArguments& arguments, const GlobalFlags& flags,
                           const BackendContext& backend_context, Progress& progress) {
  BenchOutcome outcome;
  BenchmarkReport& report = outcome.report;
  KPT_ASSIGN_OR_RETURN(const BaselineDifferences allowed, parse_differences(arguments.across));
  KPT_RETURN_IF_ERROR(check_outputs(arguments));
  std::vector<BaselineEntry> baseline;
  if (!arguments.baseline_to_compare.empty()) {  // before the long work, so that a wrong file fails at once
    KPT_ASSIGN_OR_RETURN(baseline, read_baseline(arguments.baseline_to_compare));
  }
  const SystemFiles& files = backend_context.detection.files;
  ModelBenchmarkOptions options = make_options(arguments, progress);
  KPT_ASSIGN_OR_RETURN(options.inputs, read_input_files(arguments.inputs));
  const std::vector<double> load_average = read_load_average(files);
  const auto before = read_process_memory(files);
  if (before.ok()) options.anonymous_bytes_before = before->anonymous_bytes;
  const auto start = Clock::now();
  KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, find_runnable_device(arguments.load.device, backend_context));
  KPT_ASSIGN_OR_RETURN(const auto loaded, load_model_on(placed, arguments.model, arguments.load, backend_context));
  report.load_ms = milliseconds_since(start);
  KPT_ASSIGN_OR_RETURN(const std::vector<Sizes> points, choose_points(arguments, loaded->graph(), report.batch_symbol));
  options.batch_symbol = report.batch_symbol;
  options.device = placed.device;
  KPT_ASSIGN_OR_RETURN(report.points, benchmark_points(loaded, points, options, files, report.notes));
  report.notes.insert(report.notes.end(), loaded->notes().begin(), loaded->notes().end());
  if (arguments.startup) {
    KPT_ASSIGN_OR_RETURN(report.startups, start_processes(arguments, flags, progress));
  }
  // Last, since it brings the whole file into memory.
  KPT_ASSIGN_OR_RETURN(report.context, describe_benchmark(arguments.model, *loaded, *placed.device, backend_context));
  report.context.load_average = load_average;
  // Work of others that began later cannot be told from the model's own.
  if (!load_average.empty() && load_average[0] > 0.5 * report.context.cpus) {
    report.notes.push_back(fmt::format("other work was running before (load {:.1f} on {} processors): expect noise",
                                       load_average[0], report.context.cpus));
  }
  if (!arguments.baseline_to_compare.empty()) {
    std::vector<std::string> missing;
    KPT_ASSIGN_OR_RETURN(outcome.compared, compare_with_baseline(baseline, report, arguments.least_effect_percent / 100,
                                                                 allowed, missing));
    for (const std::string& name : missing) report.notes.push_back("the baseline has nothing for " + name);
  }
  if (!arguments.baseline_to_save.empty()) KPT_RETURN_IF_ERROR(save_baseline(arguments.baseline_to_save, report));
  if (!arguments.html.empty()) KPT_RETURN_IF_ERROR(write_page(arguments, outcome, loaded->program().target()));
  return outcome;
}

Json to_json(const BenchOutcome& outcome, double least_effect) {
  Json json = to_google_benchmark(outcome.report);
  if (outcome.compared.empty()) return json;
  json["comparison"] = {{"least_effect", least_effect}, {"entries", Json::array()}};
  for (const ComparedEntry& entry : outcome.compared) {
    const TimeComparison& result = entry.comparison;
    json["comparison"]["entries"].push_back(
        {{"what", entry.after.key.what},
         {"sizes", entry.after.key.sizes},
         {"before_ms", entry.before.summary.median},
         {"after_ms", entry.after.summary.median},
         {"ratio", result.ratio},
         {"ratio_interval", {result.ratio_interval.low, result.ratio_interval.high}},
         {"verdict", to_string(result.verdict)},
         {"baseline_date", entry.before.date},
         {"baseline_commit", entry.before.commit}});
  }
  return json;
}

void print(CommandContext& context, const Config& config, const BenchArguments& arguments,
           const BenchOutcome& outcome) {
  const double least_effect = arguments.least_effect_percent / 100;
  if (context.flags().json) {
    context.out() << dump_json(to_json(outcome, least_effect), 2) << "\n";
  } else {
    context.out() << format_benchmark(outcome.report, outcome.compared, least_effect, context.use_color(config));
    if (!arguments.baseline_to_save.empty()) context.out() << "saved " << arguments.baseline_to_save << "\n";
    if (!arguments.html.empty()) context.out() << "wrote " << arguments.html << "\n";
  }
  const bool worse = std::ranges::any_of(
      outcome.compared, [](const ComparedEntry& entry) { return entry.comparison.verdict == Verdict::kWorse; });
  context.finish(worse ? kExitFailed : kExitOk);
}

void add_flags(CLI::App& command, BenchArguments& arguments) {
  add_run_arguments(command, arguments);
  command.add_option("--batch", arguments.batch, "batches to measure, e.g. 1,2,4,8")->type_name("N,N,…");
  command.add_option("--sweep", arguments.sweeps, "sizes of a symbol to measure, e.g. s1=32,64,128 (repeatable)")
      ->type_name("S=N,N,…");
  command.add_option("--duration", arguments.duration_s, "seconds of sampling for each size")
      ->check(check_amount)
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_option("--warmup", arguments.warmup_s, "seconds of warm-up for each size, at least one run")
      ->check(check_amount)
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_option("--samples", arguments.least_samples, "least number of samples, also if they take longer")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--time-limit", arguments.time_limit_s, "seconds after which no run starts; 0: none")
      ->check(check_amount)
      ->check(CLI::Range(0.0, 864000.0))
      ->capture_default_str();
  CLI::Option* const startup =
      command.add_flag("--startup", arguments.startup, "also measure fresh processes from start to first answer");
  command.add_option("--startup-runs", arguments.startup_runs, "how many processes of each kind")
      ->needs(startup)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_flag("--first-answer", arguments.first_answer, "what --startup starts")->group("");
  command.add_option("--save-baseline", arguments.baseline_to_save, "keep the result in this file")->type_name("FILE");
  CLI::Option* const compare =
      command.add_option("--compare", arguments.baseline_to_compare, "hold the result against this baseline")
          ->type_name("FILE");
  command.add_option("--across", arguments.across, "what may differ from the baseline: model, versions, threads")
      ->delimiter(',');
  command.add_option("--least-effect", arguments.least_effect_percent, "difference, in percent, that matters")
      ->needs(compare)
      ->check(check_amount)
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command.add_option("--html", arguments.html, "write one page with charts that needs nothing else")->type_name("FILE");
}

}  // namespace

void add_bench_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("bench", "measure a model: latency, throughput, memory, start-up");
  command->footer(
      "Medians with their 95 % interval; --json is Google Benchmark's form. Threads: --set threads.count=N.\n"
      "--compare ends with exit code 1 when something became slower beyond the noise.\n"
      "Example: kpt bench model.pt2 --batch 1,2,4,8 --startup\n"
      "         kpt bench model.pt2 --save-baseline base.json && kpt bench model.pt2 --compare base.json");
  auto arguments = std::make_shared<BenchArguments>();
  add_flags(*command, *arguments);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    if (const Status status = check_combination(*arguments); !status.ok()) return context.fail(status, kExitUsage);
    arguments->load.weights = arguments->weights;
    const auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    if (arguments->first_answer) {
      const Status status = answer_once(context, *arguments, *backend_context);
      return status.ok() ? context.finish(kExitOk) : context.fail(status);
    }
    Progress progress(context.err(), context.err_is_terminal(), !context.flags().json);
    const auto outcome = bench(*arguments, context.flags(), *backend_context, progress);
    progress.finish();
    if (!outcome.ok()) return context.fail(outcome.status());
    print(context, *config, *arguments, *outcome);
  });
}

}  // namespace kpt::cli
