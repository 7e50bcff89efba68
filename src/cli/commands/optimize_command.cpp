#include "cli/commands/optimize_command.h"

#include <chrono>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/model_arguments.h"
#include "cli/optimize_text.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "compile_cache/configured_cache.h"
#include "device/hardware_json.h"
#include "importer/check_progress.h"
#include "ir/text.h"
#include "optimize/optimize_json.h"
#include "optimize/several_devices.h"

namespace kpt::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct OptimizeArguments : DrawArguments {
  std::string model;
  std::string name;
  std::string weights;
  std::string output;
  std::string level = "balanced";
  std::string device = "cpu";
  std::vector<std::string> disabled;
  std::vector<std::string> enabled;
  std::optional<double> tolerance;
  bool check_each = false;
  std::string dump_after;
  bool no_measure = false;
  bool no_cache = false;
};

bool is_for_several(const OptimizeArguments& arguments) { return arguments.device.find(',') != std::string::npos; }

Result<OptimizeOptions> make_options(const OptimizeArguments& arguments) {
  OptimizeOptions options;
  options.level = *find_level(arguments.level);
  options.disabled = arguments.disabled;
  options.enabled = arguments.enabled;
  options.tolerance = arguments.tolerance;
  options.check_each = arguments.check_each;
  options.measure = !arguments.no_measure;
  options.source = fs::path(arguments.model).filename().string();
  KPT_ASSIGN_OR_RETURN(options.draws, make_draw_options(arguments));
  return options;
}

// "07_fuse_linear_activation.graph", in the order of the passes.
std::function<void(const Pass&, const ir::Graph&)> make_dump(const std::string& folder, Status& failure) {
  auto count = std::make_shared<int>(0);
  return [folder, count, &failure](const Pass& pass, const ir::Graph& graph) {
    const fs::path path = fs::path(folder) / fmt::format("{:02}_{}.graph", (*count)++, pass.name);
    if (Status status = write_file_atomically(path, ir::print_graph(graph)); !status.ok()) failure = std::move(status);
  };
}

struct OptimizeOutcome {
  SeveralOptimizations result;
  std::string path;
  std::vector<std::string> notes;  // of reading the model
};

// One job for each device of the list, with the same options but for what a reader sees on the way.
Result<std::vector<DeviceJob>> make_jobs(const OptimizeArguments& arguments, const OptimizeOptions& options,
                                         const BackendContext& backend_context, Progress& progress,
                                         Status& dump_failure) {
  const std::vector<std::string_view> names = kpt::split(arguments.device, ',');
  std::vector<DeviceJob> jobs;
  for (std::size_t index = 0; index < names.size(); ++index) {
    const std::string_view name = trim(names[index]);
    KPT_ASSIGN_OR_RETURN(PlacedDevice device, find_runnable_device(name, backend_context));
    DeviceJob job{std::move(device), options};
    const std::string label = names.size() > 1 ? job.device.device->info().name : "";
    if (!arguments.dump_after.empty()) {
      job.options.dump_after = make_dump(fs::path(arguments.dump_after) / label, dump_failure);
    }
    const double begin = static_cast<double>(index) / static_cast<double>(names.size());
    const double share = 1 / static_cast<double>(names.size());
    job.options.progress = [&progress, label, begin, share](std::string_view step, double done) {
      progress.tell(label.empty() ? std::string(step) : fmt::format("{}: {}", label, step), begin + share * done);
    };
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// fp64 answers come from the processor.
Result<PlacedDevice> find_processor(const std::vector<DeviceJob>& jobs, const BackendContext& backend_context) {
  for (const DeviceJob& job : jobs) {
    if (job.device.device->target().capabilities().host_processor) return job.device;
  }
  return find_runnable_device("cpu", backend_context);
}

Result<OptimizeOutcome> optimize(const OptimizeArguments& arguments, const BackendContext& backend_context,
                                 CompileCache* cache, Progress& progress) {
  KPT_ASSIGN_OR_RETURN(const OptimizeOptions options, make_options(arguments));
  KPT_RETURN_IF_ERROR(choose_passes(options).status());  // a wrong name is told before anything is read
  for (const std::string_view device : kpt::split(arguments.device, ',')) {
    if (trim(device) != "auto") KPT_RETURN_IF_ERROR(check_device_name(trim(device)));
  }
  OptimizeOutcome outcome;
  outcome.path =
      arguments.output.empty() ? fs::path(arguments.model).replace_extension(".kpt").string() : arguments.output;
  std::vector<std::string> read = input_paths(arguments.inputs);
  read.insert(read.end(), {arguments.model, arguments.weights});
  KPT_RETURN_IF_ERROR(check_output(outcome.path, read));
  // A damaged weight would go into the artifact with a checksum that fits it.
  const auto tell = [&progress](double) { progress.tell("comparing checksums", 0); };
  KPT_RETURN_IF_ERROR(check_model_file(arguments.model, tell).status());
  ImportOptions import_options;
  import_options.model_name = arguments.name;
  import_options.weights = arguments.weights;
  import_options.read_sample_inputs = true;
  KPT_ASSIGN_OR_RETURN(const ImportedModel model, import_model(arguments.model, import_options));
  Status dump_failure;
  KPT_ASSIGN_OR_RETURN(const std::vector<DeviceJob> jobs,
                       make_jobs(arguments, options, backend_context, progress, dump_failure));
  KPT_ASSIGN_OR_RETURN(const PlacedDevice cpu, find_processor(jobs, backend_context));
  KPT_ASSIGN_OR_RETURN(outcome.result,
                       optimize_for_devices(model, jobs, cpu, backend_context.threads, outcome.path, cache));
  KPT_RETURN_IF_ERROR(dump_failure);
  outcome.notes = model.notes;
  return outcome;
}

Json part_json(const WrittenOptimization& part) {
  Json json = to_json(part.report);
  json["from_cache"] = part.from_cache;
  json["cache_note"] = part.cache_note;
  return json;
}

// The report of a device; of several devices one for each.
Json make_json(const OptimizeArguments& arguments, const OptimizeOutcome& outcome, double seconds) {
  const SeveralOptimizations& result = outcome.result;
  Json json = part_json(result.parts.front());
  if (is_for_several(arguments)) {
    json = {{"passed", result.passed()},
            {"refused_on", result.passed() ? Json() : Json(result.parts.back().report.device)},
            {"devices", Json::array()}};
    for (const WrittenOptimization& part : result.parts) json["devices"].push_back(part_json(part));
  }
  json["written"] = result.written ? Json(outcome.path) : Json();
  json["seconds"] = seconds;
  return json;
}

void print(CommandContext& context, const Config& config, const OptimizeArguments& arguments,
           const OptimizeOutcome& outcome, double seconds) {
  const SeveralOptimizations& result = outcome.result;
  if (context.flags().json) {
    context.out() << dump_json(make_json(arguments, outcome, seconds), 2) << "\n";
    return;
  }
  bool from_cache = true;
  for (const WrittenOptimization& part : result.parts) {
    context.out() << render_report(part.report, context.use_color(config));
    if (!part.cache_note.empty()) context.out() << "not kept in the compile cache: " << part.cache_note << "\n";
    if (is_for_several(arguments)) context.out() << "\n";
    from_cache = from_cache && part.from_cache;
  }
  if (!result.passed() && is_for_several(arguments)) {
    context.out() << fmt::format("refused on {}: no part is written\n", result.parts.back().report.device);
  }
  if (!result.written) return;
  context.out() << fmt::format("wrote {} in {:.2f} s{}\n", outcome.path, seconds,
                               from_cache ? ", from the compile cache: the figures are those of the first time" : "");
}

void add_arguments(CLI::App& command, OptimizeArguments& arguments) {
  command.add_option("MODEL", arguments.model, "a .pt2 file")->required();
  command.add_option("-o,--output", arguments.output, "what to write (default: the model's name with .kpt)")
      ->type_name("FILE");
  command.add_option("--level", arguments.level, "conservative, balanced or aggressive")
      ->check([](const std::string& text) {
        return find_level(text) ? std::string() : fmt::format("'{}' is no level", text);
      })
      ->capture_default_str();
  command
      .add_option(
          "--device", arguments.device,
          "for which device; auto: the first accelerator that is here, else cpu; several with commas: a part of "
          "the file for each")
      ->capture_default_str();
  command.add_option("--disable-pass", arguments.disabled, "leave a pass out, by name (repeatable)")
      ->type_name("PASS")
      ->expected(1)
      ->take_all();
  command
      .add_option("--enable-pass", arguments.enabled, "add a pass that the level lacks, or keep it even if it loses")
      ->type_name("PASS")
      ->expected(1)
      ->take_all();
  command
      .add_option("--tolerance", arguments.tolerance,
                  "in place of the level's own: see docs/how_to/is_my_model_still_right.md")
      ->check(check_amount);
  add_draw_arguments(command, arguments);
  command.add_flag("--check-each", arguments.check_each, "the gate after every pass; one that fails is taken back");
  command.add_option("--dump-after", arguments.dump_after, "write the graph after every pass into this folder")
      ->type_name("DIR");
  command.add_flag("--no-measure", arguments.no_measure, "time nothing and take no pass out for being slow");
  command.add_flag("--no-cache", arguments.no_cache, "neither take the result from the compile cache nor keep it");
  command.add_option("--model", arguments.name, "which model of a file that holds several");
  command.add_option("--weights", arguments.weights, "a safetensors file that replaces weights by name");
}

}  // namespace

void add_optimize_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("optimize", "make a model faster and prove that its answers hold; writes one .kpt file");
  command->footer(
      "Exit code 3 when the accuracy gate refuses; then nothing is written.\n"
      "Example: kpt optimize model.pt2 --level balanced -o model.kpt\n"
      "         kpt optimize model.pt2 --level aggressive --inputs calibration.npz\n"
      "         kpt optimize model.pt2 --device cpu,nvidia:0 -o model.kpt");
  auto arguments = std::make_shared<OptimizeArguments>();
  add_arguments(*command, *arguments);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    const auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    std::optional<CompileCache> cache;
    if (!arguments->no_cache) {
      auto opened = open_compile_cache(*config, context.environment());
      if (opened.ok()) {
        cache.emplace(std::move(*opened));
      } else {
        context.err() << "kpt: going on without the compile cache: " << opened.status().message() << "\n";
      }
    }
    Progress progress(context.err(), context.err_is_terminal(), !context.flags().json);
    const auto start = std::chrono::steady_clock::now();
    const auto outcome = optimize(*arguments, *backend_context, cache ? &*cache : nullptr, progress);
    progress.finish();
    if (!outcome.ok()) return context.fail(outcome.status());
    context.tell(outcome->notes);
    print(context, *config, *arguments, *outcome,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    context.finish(outcome->result.passed() ? kExitOk : kExitRefused);
  });
}

}  // namespace kpt::cli
