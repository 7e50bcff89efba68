#include "cli/commands/profile_command.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "base/files.h"
#include "base/text.h"
#include "benchmark/node_floor.h"
#include "benchmark/profile.h"
#include "benchmark/record_runs.h"
#include "cli/figures_text.h"
#include "cli/memory_text.h"
#include "cli/model_arguments.h"
#include "cli/opened_model.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "device/hardware_json.h"
#include "validation/draws.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ProfileArguments {
  ModelSource model;
  std::string device = "cpu";
  int runs = 10;
  int warmup = 3;
  std::size_t top = 15;
  std::string trace;
};

struct NodeRow {
  std::string node;
  std::string target;
  double elapsed = 0;  // microseconds of one run, until it was done
  double device = 0;   // of kernels and copies that it started; 0 for what ran on the host
  NodeFloor floor;
};

struct Profile {
  std::string device;
  std::string runs;  // how they are started
  int rounds = 0;
  double median = 0;  // microseconds of a run as it always is
  double busy = 0;    // of the device in one run
  std::vector<KernelTime> kernels;
  std::vector<NodeRow> nodes;  // longest first
  bool on_device = false;      // whether a device beside the host worked
  std::string limits;          // what the shares are of; empty without any
  std::string trace;           // the file that was written
  std::uint64_t weight_bytes = 0;
  std::optional<MemoryStatistics> memory;  // after the runs; the peak is theirs
  std::string note;                        // why nothing is told of the device
  std::string memory_note;                 // why there is none, or whose peak it is
};

double median_microseconds(const std::vector<Period>& runs) {
  std::vector<double> taken;
  for (const Period& run : runs) taken.push_back(static_cast<double>(run.end_ns - run.begin_ns) / 1e3);
  std::ranges::sort(taken);
  if (taken.empty()) return 0;
  return (taken[(taken.size() - 1) / 2] + taken[taken.size() / 2]) / 2;
}

Result<RecordedRuns> record(RepeatedRun& run, Device& device, const ProfileArguments& arguments) {
  for (int round = 0; round < arguments.warmup; ++round) {
    KPT_RETURN_IF_ERROR(run.prepare());
    KPT_RETURN_IF_ERROR(run.run(nullptr));
  }
  return record_runs(device, arguments.runs,
                     {[&run] { return run.prepare(); }, [&run](NodeObserver* observer) { return run.run(observer); }});
}

void read_memory(Device& device, const Status& reset, Profile& profile) {
  const auto memory = device.memory();
  if (!memory.ok()) {
    profile.memory_note = memory.status().message();
    return;
  }
  profile.memory = *memory;
  if (!reset.ok()) profile.memory_note = "the peak is that of the whole process: " + reset.message();
}

Result<Profile> profile(const ProfileArguments& arguments, const BackendContext& context) {
  KPT_RETURN_IF_ERROR(check_output(arguments.trace, {arguments.model.file, arguments.model.weights}));
  KPT_ASSIGN_OR_RETURN(const PlacedDevice device, find_runnable_device(arguments.device, context));
  KPT_ASSIGN_OR_RETURN(OpenedModel opened, open_model(arguments.model, device));
  Profile profile;
  std::optional<MachineFloor> floor;
  if (const HardwareRates* rates = device.device->rates(); rates != nullptr) {
    floor = published_floor(*rates, device.device->target().capabilities());
    profile.limits = "published rates of " + device.device->info().description;
  } else if (device.device->target().capabilities().host_processor) {
    // Before the model runs: afterwards libtorch's threads look for work for a while and would be measured with it.
    floor = measure_floor(context.threads, kernels::cpu_features().without(context.detection.hidden_isa));
    profile.limits = fmt::format("measured limits of this processor, {} threads", context.threads);
  }
  for (const auto& [name, weight] : opened.model.weights) profile.weight_bytes += weight.bytes();
  KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(std::move(opened.model), device, opened.program));
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, run.loaded().order_inputs(opened.inputs));
  KPT_ASSIGN_OR_RETURN(RepeatedRun repeated, RepeatedRun::make(run, inputs));
  const Status reset = device.device->reset_peak_memory();
  KPT_ASSIGN_OR_RETURN(RecordedRuns recorded, record(repeated, *device.device, arguments));
  const Recording& recording = recorded.recording;
  profile.note = std::move(recorded.note);
  read_memory(*device.device, reset, profile);

  const ir::Graph& graph = run.loaded().graph();
  profile.device = run.loaded().executable().device();
  profile.runs = run.loaded().executable().describe_runs();
  profile.rounds = arguments.runs;
  profile.median = median_microseconds(recording.runs);
  profile.kernels = sum_kernels(recording);
  profile.busy = busy_microseconds(recording);
  profile.on_device = !profile.kernels.empty();
  const std::vector<double> elapsed = sum_nodes(recording, graph.nodes.size(), false);
  const std::vector<double> on_device = sum_nodes(recording, graph.nodes.size(), true);
  const ir::Bindings sizes = bind_sizes(graph, opened.inputs);
  std::vector<std::string> names;
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    const ir::Node& node = graph.nodes[index];
    names.push_back(node.name + " " + node.target);
    if (elapsed[index] <= 0 && on_device[index] <= 0) continue;
    profile.nodes.push_back({node.name, node.target, elapsed[index], on_device[index],
                             find_floor(graph, node, sizes, floor.value_or(MachineFloor{}))});
  }
  std::ranges::stable_sort(profile.nodes, [&](const NodeRow& a, const NodeRow& b) {
    return profile.on_device ? a.device > b.device : a.elapsed > b.elapsed;
  });
  if (!arguments.trace.empty()) {
    KPT_RETURN_IF_ERROR(write_file_atomically(arguments.trace, write_trace(recording, names, profile.device)));
    profile.trace = arguments.trace;
  }
  return profile;
}

double time_of(const NodeRow& node, bool on_device) { return on_device ? node.device : node.elapsed; }

Json memory_json(const Profile& profile) {
  Json json = {{"weights_bytes", profile.weight_bytes},
               {"note", profile.memory_note.empty() ? Json() : Json(profile.memory_note)}};
  if (profile.memory) json.update(cli::to_json(*profile.memory));
  return json;
}

Json to_json(const Profile& profile) {
  Json json = {{"device", profile.device},
               {"how", profile.runs},
               {"note", profile.note.empty() ? Json() : Json(profile.note)},
               {"runs", profile.rounds},
               {"median_microseconds", profile.median},
               {"device_busy_microseconds", profile.on_device ? Json(profile.busy) : Json()},
               {"limits", profile.limits.empty() ? Json() : Json(profile.limits)},
               {"trace", profile.trace.empty() ? Json() : Json(profile.trace)},
               {"memory", memory_json(profile)},
               {"kernels", Json::array()},
               {"nodes", Json::array()}};
  for (const KernelTime& kernel : profile.kernels) {
    json["kernels"].push_back({{"name", kernel.name},
                               {"kind", kernel.copy ? "copy" : "kernel"},
                               {"calls", kernel.calls},
                               {"microseconds", kernel.microseconds},
                               {"mean_microseconds", kernel.mean()},
                               {"least_microseconds", kernel.least},
                               {"greatest_microseconds", kernel.greatest}});
  }
  for (const NodeRow& node : profile.nodes) {
    const double taken = time_of(node, profile.on_device);
    json["nodes"].push_back({{"node", node.node},
                             {"operator", node.target},
                             {"elapsed_microseconds", node.elapsed},
                             {"device_microseconds", profile.on_device ? Json(node.device) : Json()},
                             {"flops", optional_json(node.floor.flops)},
                             {"bytes", optional_json(node.floor.bytes)},
                             {"gflops_per_second", optional_json(giga_per_second(node.floor.flops, taken))},
                             {"gbytes_per_second", optional_json(giga_per_second(node.floor.bytes, taken))},
                             {"bound", std::string(to_string(node.floor.bound))},
                             {"share_of_limit", optional_json(share_of_floor(node.floor, taken))}});
  }
  return json;
}

std::string render_kernels(const Profile& profile, std::size_t shown) {
  constexpr std::size_t kNameWidth = 72;
  std::vector<std::vector<std::string>> rows = {
      {"on the device", "calls a run", "time", "of busy", "a call", "least", "greatest"}};
  const auto time = [](double microseconds) { return fmt::format("{:.1f} us", microseconds); };
  for (std::size_t index = 0; index < std::min(shown, profile.kernels.size()); ++index) {
    const KernelTime& kernel = profile.kernels[index];
    rows.push_back({printable(kernel.name, kNameWidth), fmt::format("{:.4g}", kernel.calls), time(kernel.microseconds),
                    percent_or_dash(kernel.microseconds, profile.busy), time(kernel.mean()), time(kernel.least),
                    time(kernel.greatest)});
  }
  std::string text = format_table(rows);
  if (profile.kernels.size() > shown) text += fmt::format("and {} more\n", profile.kernels.size() - shown);
  return text + "\n";
}

std::string render_nodes(const Profile& profile, std::size_t shown) {
  double all = 0;
  for (const NodeRow& node : profile.nodes) all += time_of(node, profile.on_device);
  std::vector<std::string> head = {"node", "operator", profile.on_device ? "on the device" : "time", "share"};
  if (profile.on_device) head.emplace_back("until done");
  for (const char* title : {"GFLOP/s", "GB/s", "of the limit"}) head.emplace_back(title);
  std::vector<std::vector<std::string>> rows = {head};
  for (std::size_t index = 0; index < std::min(shown, profile.nodes.size()); ++index) {
    const NodeRow& node = profile.nodes[index];
    const double taken = time_of(node, profile.on_device);
    std::vector<std::string> row = {node.node, node.target, fmt::format("{:.1f} us", taken),
                                    percent_or_dash(taken, all)};
    if (profile.on_device) row.push_back(fmt::format("{:.1f} us", node.elapsed));
    const auto reached = share_of_floor(node.floor, taken);
    row.push_back(number_or_dash(giga_per_second(node.floor.flops, taken)));
    row.push_back(number_or_dash(giga_per_second(node.floor.bytes, taken)));
    row.push_back(reached ? percent(*reached) : "-");
    rows.push_back(std::move(row));
  }
  std::string text = format_table(rows);
  if (profile.nodes.size() > shown) text += fmt::format("and {} more\n", profile.nodes.size() - shown);
  if (!profile.limits.empty()) text += fmt::format("the limit: {}\n", profile.limits);
  return text;
}

std::string render(const Profile& profile, std::size_t shown) {
  std::string text =
      fmt::format("on {}: {:.1f} us a run in the median of {}", profile.device, profile.median, profile.rounds);
  if (profile.on_device) {
    text += fmt::format("; the device works {:.1f} us of it ({})", profile.busy,
                        percent_or_dash(profile.busy, profile.median));
  }
  text += "\n";
  if (!profile.runs.empty()) text += "runs: " + profile.runs + "\n";
  text += "memory: weights " + format_bytes(profile.weight_bytes);
  if (profile.memory) text += "; " + describe_memory(*profile.memory);
  if (!profile.memory_note.empty()) text += fmt::format(" ({})", profile.memory_note);
  text += "\n";
  text += "\n";
  if (profile.on_device) text += render_kernels(profile, shown);
  if (!profile.note.empty()) text += profile.note + "\n";
  if (profile.note.empty() || !profile.nodes.empty()) text += "node by node\n" + render_nodes(profile, shown);
  if (!profile.trace.empty()) text += fmt::format("wrote {}: open it at ui.perfetto.dev\n", profile.trace);
  return text;
}

}  // namespace

void add_profile_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("profile", "where the time of a model's runs goes, by kernel and by node");
  command->footer(
      "Example: kpt profile model.kpt\n         kpt profile model.kpt --device nvidia:0 --trace profile.json\n"
      "Recording costs time itself: for latencies use kpt bench.");
  auto arguments = std::make_shared<ProfileArguments>();
  add_source_arguments(*command, arguments->model);
  command->add_option("--device", arguments->device, "where it runs")->capture_default_str();
  command->add_option("--runs", arguments->runs, "recorded runs of each way: as always, and node by node")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--warmup", arguments->warmup, "runs before them")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  command->add_option("--top", arguments->top, "how many rows a table has")
      ->check(check_positive)
      ->capture_default_str();
  command->add_option("--trace", arguments->trace, "writes the timeline, for Perfetto or chrome://tracing");
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    const auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    const auto made = profile(*arguments, *backend_context);
    if (!made.ok()) return context.fail(made.status());
    if (context.flags().json) {
      context.out() << dump_json(to_json(*made), 2) << "\n";
    } else {
      context.out() << render(*made, arguments->top);
    }
    context.finish(kExitOk);
  });
}

}  // namespace kpt::cli
