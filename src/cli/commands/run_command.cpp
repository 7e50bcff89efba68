#include "cli/commands/run_command.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/model_loading.h"
#include "base/timing.h"
#include "cli/model_arguments.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "device/hardware_json.h"
#include "runtime/generate_inputs.h"
#include "runtime/split_plan.h"
#include "tensor_files/tensor_file.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct RunCommandArguments : RunArguments {
  std::string outputs;
  int repeat = 1;
};

struct RunOutcome {
  std::vector<NamedTensor> inputs;
  std::vector<std::string> generated;  // names of the inputs that no file gave
  std::vector<NamedTensor> outputs;
  std::vector<double> milliseconds;
  double load_milliseconds = 0;
  std::string device;
  std::string placement;           // of a model that was split
  std::vector<std::string> notes;  // of reading the model
  RunReport report;                // of the last run
};

Result<RunOutcome> run(const RunCommandArguments& arguments, const BackendContext& backend_context) {
  KPT_ASSIGN_OR_RETURN(const auto sizes, parse_sizes(arguments.sizes));
  if (!arguments.outputs.empty()) {
    KPT_RETURN_IF_ERROR(check_tensor_file_name(arguments.outputs));
    std::vector<std::string> read = input_paths(arguments.inputs);
    read.insert(read.end(), {arguments.model, arguments.weights});
    KPT_RETURN_IF_ERROR(check_output(arguments.outputs, read));
  }
  KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> given, read_input_files(arguments.inputs));
  RunOutcome outcome;
  const auto start = Clock::now();
  KPT_ASSIGN_OR_RETURN(const auto loaded, load_model_with(arguments.model, arguments.load, backend_context));
  outcome.load_milliseconds = milliseconds_since(start);
  outcome.device = loaded->executable().device();
  if (const Placement* placement = loaded->program().placement()) outcome.placement = describe_parts(*placement);
  outcome.notes = loaded->notes();
  GenerateOptions generate{arguments.seed, sizes, {}};
  for (const NamedTensor& input : given) generate.given.push_back(input.name);
  KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> generated, generate_inputs(loaded->graph(), generate));
  for (NamedTensor& input : generated) {
    outcome.generated.push_back(input.name);
    given.push_back(std::move(input));
  }
  KPT_ASSIGN_OR_RETURN(Session session, Model(loaded).start_session());
  for (int round = 0; round < arguments.repeat; ++round) {
    KPT_RETURN_IF_ERROR(session.reset());
    std::vector<NamedTensor> inputs = given;  // a model may write its inputs: each round gets its own
    for (NamedTensor& input : inputs) {
      KPT_ASSIGN_OR_RETURN(input.tensor, input.tensor.contiguous_copy());
    }
    const auto begin = Clock::now();
    RunOptions options;
    options.report = &outcome.report;
    KPT_ASSIGN_OR_RETURN(outcome.outputs, session.run(inputs, options));
    outcome.milliseconds.push_back(milliseconds_since(begin));
  }
  outcome.inputs = std::move(given);
  if (!arguments.outputs.empty()) KPT_RETURN_IF_ERROR(write_tensors(arguments.outputs, outcome.outputs));
  return outcome;
}

Json describe(const NamedTensor& named) {
  return {{"name", named.name},
          {"dtype", std::string(to_string(named.tensor.dtype()))},
          {"dims", std::vector<std::int64_t>(named.tensor.dims().begin(), named.tensor.dims().end())}};
}

void print(CommandContext& context, const Config& config, const RunCommandArguments& arguments,
           const RunOutcome& outcome) {
  std::vector<double> sorted = outcome.milliseconds;
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  if (context.flags().json) {
    Json json = {{"device", outcome.device},
                 {"load_ms", outcome.load_milliseconds},
                 {"run_ms", outcome.milliseconds},
                 {"parts", outcome.report.parts},
                 {"padded_rows", outcome.report.padded_rows},
                 {"padded_positions", outcome.report.padded_positions},
                 {"placement", outcome.placement.empty() ? Json() : Json(outcome.placement)},
                 {"generated", outcome.generated},
                 {"notes", outcome.notes},
                 {"inputs", Json::array()},
                 {"outputs", Json::array()}};
    for (const NamedTensor& input : outcome.inputs) json["inputs"].push_back(describe(input));
    for (const NamedTensor& output : outcome.outputs) json["outputs"].push_back(describe(output));
    context.out() << dump_json(json, 2) << "\n";
    return;
  }
  const bool color = context.use_color(config);
  std::vector<std::vector<std::string>> rows;
  std::string title = paint("inputs", Color::kBold, color);
  for (const NamedTensor& input : outcome.inputs) {
    const bool made = std::ranges::find(outcome.generated, input.name) != outcome.generated.end();
    rows.push_back({std::exchange(title, ""), input.name,
                    input.tensor.to_string() + (made ? fmt::format(", made from seed {}", arguments.seed) : "")});
  }
  title = paint("outputs", Color::kBold, color);
  for (const NamedTensor& output : outcome.outputs) {
    rows.push_back({std::exchange(title, ""), output.name, output.tensor.to_string()});
  }
  context.out() << format_table(rows)
                << fmt::format("\nran on {} in {:.3f} ms{}, loaded in {:.1f} ms\n", outcome.device, median,
                               sorted.size() > 1 ? fmt::format(" (median of {})", sorted.size()) : "",
                               outcome.load_milliseconds);
  if (!outcome.placement.empty()) context.out() << "split into " << outcome.placement << "\n";
  if (outcome.report.parts > 1) {
    context.out() << fmt::format("the batch did not fit into memory and ran in {} parts of at most {} rows\n",
                                 outcome.report.parts, outcome.report.part_rows);
  }
  if (outcome.report.padded_rows > 0) {
    context.out() << fmt::format("the batch ran with {} more rows, so that fewer sizes are compiled or captured\n",
                                 outcome.report.padded_rows);
  }
  if (outcome.report.padded_positions > 0) {
    context.out() << fmt::format("sequences ran with {} more positions, so that fewer sizes are compiled or captured\n",
                                 outcome.report.padded_positions);
  }
  if (!arguments.outputs.empty()) context.out() << "wrote " << arguments.outputs << "\n";
}

}  // namespace

void add_run_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("run", "run a model once (or --repeat times) on given or generated inputs");
  command->footer(
      "Inputs that no file gives are made from the seed and their name.\n"
      "Example: kpt run model.pt2 --inputs in.npz --outputs out.safetensors\n"
      "         kpt run model.pt2 --seed 7 --size s0=8 --repeat 20");
  auto arguments = std::make_shared<RunCommandArguments>();
  add_run_arguments(*command, *arguments);
  command->add_option("--outputs", arguments->outputs, "where to write: .npz, .safetensors, or .npy for one output")
      ->type_name("FILE");
  command->add_option("--repeat", arguments->repeat, "how often; a model's own buffers start anew each time")
      ->check(check_positive)
      ->capture_default_str();
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    arguments->load.weights = arguments->weights;
    const auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    const auto outcome = run(*arguments, *backend_context);
    if (!outcome.ok()) return context.fail(outcome.status());
    context.tell(outcome->notes);
    print(context, *config, *arguments, *outcome);
    context.finish(kExitOk);
  });
}

}  // namespace kpt::cli
