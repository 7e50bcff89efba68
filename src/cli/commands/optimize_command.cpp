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
#include "cli/progress.h"
#include "cli/terminal.h"
#include "compile_cache/configured_cache.h"
#include "device/hardware_json.h"
#include "ir/text.h"
#include "optimize/cached.h"
#include "optimize/optimize_json.h"

namespace kpt::cli {
namespace {

namespace fs = std::filesystem;

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
  WrittenOptimization result;
  std::string path;
  std::vector<std::string> notes;  // of reading the model
};

Result<OptimizeOutcome> optimize(const OptimizeArguments& arguments, const BackendContext& backend_context,
                                 CompileCache* cache, Progress& progress) {
  KPT_ASSIGN_OR_RETURN(OptimizeOptions options, make_options(arguments));
  KPT_RETURN_IF_ERROR(choose_passes(options).status());  // a wrong name is told before anything is read
  ImportOptions import_options;
  import_options.model_name = arguments.name;
  import_options.weights = arguments.weights;
  import_options.read_sample_inputs = true;
  KPT_ASSIGN_OR_RETURN(const ImportedModel model, import_model(arguments.model, import_options));
  KPT_ASSIGN_OR_RETURN(const PlacedDevice device, find_runnable_device(arguments.device, backend_context));
  // fp64 answers come from the processor.
  KPT_ASSIGN_OR_RETURN(const PlacedDevice cpu, device.device->target().capabilities().host_processor
                                                   ? Result<PlacedDevice>(device)
                                                   : find_runnable_device("cpu", backend_context));
  Status dump_failure;
  if (!arguments.dump_after.empty()) options.dump_after = make_dump(arguments.dump_after, dump_failure);
  options.progress = [&progress](std::string_view step, double done) { progress.tell(step, done); };
  OptimizeOutcome outcome;
  outcome.path =
      arguments.output.empty() ? fs::path(arguments.model).replace_extension(".kpt").string() : arguments.output;
  KPT_ASSIGN_OR_RETURN(outcome.result,
                       optimize_to_file(model, options, device, cpu, backend_context.threads, outcome.path, cache));
  KPT_RETURN_IF_ERROR(dump_failure);
  outcome.notes = model.notes;
  return outcome;
}

void print(CommandContext& context, const Config& config, const OptimizeOutcome& outcome, double seconds) {
  const WrittenOptimization& result = outcome.result;
  if (context.flags().json) {
    auto json = to_json(result.report);
    json["written"] = result.written ? nlohmann::ordered_json(outcome.path) : nlohmann::ordered_json();
    json["from_cache"] = result.from_cache;
    json["cache_note"] = result.cache_note;
    json["seconds"] = seconds;
    context.out() << dump_json(json, 2) << "\n";
    return;
  }
  context.out() << render_report(result.report, context.use_color(config));
  if (!result.cache_note.empty()) context.out() << "not kept in the compile cache: " << result.cache_note << "\n";
  if (!result.written) return;
  context.out() << fmt::format(
      "wrote {} in {:.2f} s{}\n", outcome.path, seconds,
      result.from_cache ? ", from the compile cache: the figures are those of the first time" : "");
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
      .add_option("--device", arguments.device, "for which device; auto: the first accelerator that is here, else cpu")
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
  command.add_option("--tolerance", arguments.tolerance,
                     "in place of the level's own: see docs/how_to/is_my_model_still_right.md");
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
      "         kpt optimize model.pt2 --level aggressive --inputs calibration.npz");
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
    Progress progress(context.err(), context.is_terminal(), !context.flags().json);
    const auto start = std::chrono::steady_clock::now();
    const auto outcome = optimize(*arguments, *backend_context, cache ? &*cache : nullptr, progress);
    progress.finish();
    if (!outcome.ok()) return context.fail(outcome.status());
    context.tell(outcome->notes);
    print(context, *config, *outcome, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    context.finish(outcome->result.report.passed() ? kExitOk : kExitRefused);
  });
}

}  // namespace kpt::cli
