#include "cli/commands/explain_command.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "base/text.h"
#include "cli/commands/explain_placement.h"
#include "cli/commands/explain_target.h"
#include "cli/commands/explain_times.h"
#include "cli/model_arguments.h"
#include "cli/opened_model.h"
#include "cli/optimize_text.h"
#include "cli/program_text.h"
#include "cli/terminal.h"
#include "device/compile_figures_json.h"
#include "device/hardware_json.h"
#include "optimize/optimize_json.h"
#include "runtime/batch_rows.h"
#include "runtime/sequence_rows.h"
#include "validation/draws.h"
#include "validation/model_run.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct ExplainArguments {
  ModelSource model;
  std::string device = "cpu";
  std::string target;
  int runs = 10;
  bool times = false;
  std::size_t top = 15;
};

// What a library allocated inside a node, in the last run.
struct Allocations {
  std::size_t count = 0;
  std::size_t bytes = 0;
};

// The times of every node over several runs.
class NodeClock final : public NodeObserver {
 public:
  explicit NodeClock(std::size_t nodes) : taken_(nodes), allocations_(nodes) {}
  void begin_node(std::size_t node) override {
    node_ = node;
    if (node < allocations_.size()) allocations_[node] = {};
    start_ = Clock::now();
  }
  void end_node(std::size_t node) override {
    const double taken = std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
    if (node < taken_.size()) taken_[node].push_back(taken);
  }
  bool wants_allocations() const override { return true; }
  void tensor_allocated(std::size_t bytes) override {
    if (node_ >= allocations_.size()) return;
    ++allocations_[node_].count;
    allocations_[node_].bytes += bytes;
  }
  // -1 where the node was never heard of.
  double least(std::size_t node) const { return taken_[node].empty() ? -1 : *std::ranges::min_element(taken_[node]); }
  double median(std::size_t node) const {
    if (taken_[node].empty()) return -1;
    std::vector<double> sorted = taken_[node];
    std::ranges::sort(sorted);
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
  const std::vector<Allocations>& allocations() const { return allocations_; }

 private:
  Clock::time_point start_;
  std::size_t node_ = 0;
  std::vector<std::vector<double>> taken_;  // microseconds
  std::vector<Allocations> allocations_;
};

struct Explanation {
  std::string device;
  std::vector<std::string> hidden_isa;      // option cpu.isa
  std::string runs;                         // how they are started, where the engine has something to say
  std::string sequences;                    // whether they are padded
  std::string batches;                      // whether one that does not fit into memory is split
  std::optional<PlacementTable> placement;  // of a model that was split
  std::vector<NodePlan> plan;
  std::vector<double> microseconds;      // by node of the plan; -1 where nobody knows
  std::vector<Allocations> allocations;  // likewise
  std::optional<OptimizeReport> report;  // of an artifact
  std::optional<NodeTimes> times;        // with --times
  std::vector<KernelFigures> kernels;    // of a program that is launches of kernels
};

// What was found when a kernel of ours was held against libtorch's; null where that was not done for this node.
const KernelChoice* find_choice(const std::optional<OptimizeReport>& report, const std::string& node) {
  if (!report) return nullptr;
  const auto found = std::ranges::find_if(report->kernels, [&](const KernelChoice& choice) {
    return std::ranges::find(choice.nodes, node) != choice.nodes.end();
  });
  return found == report->kernels.end() ? nullptr : &*found;
}

// Why a node is executed so and not otherwise, from the word that the engine gives and what was measured.
std::string reason_for(const NodePlan& plan, const std::optional<OptimizeReport>& report) {
  std::string why;
  if (plan.how.starts_with("own kernels")) return "kernels of ours, launched on planned memory";
  if (plan.how == "no launch") return "a view or a size: nothing is launched";
  const KernelChoice* choice = find_choice(report, plan.node);
  if (plan.how.starts_with("own:")) {
    why = "a kernel of ours, since a pass put this operator there; ";
    why += choice != nullptr ? choice->reason : "it was not held against libtorch's";
  } else if (plan.how == "own step") {
    why = "a step of ours: libtorch's own kernel does not take every form of this operator here";
  } else if (plan.how.starts_with("own")) {
    why = "numbers and control flow are ours: no operator is called";
  } else if (plan.how.starts_with("typed")) {
    why = "one kernel of libtorch, called directly: its arguments are known";
  } else {
    why = "through libtorch's dispatcher: there is no direct call for this operator";
  }
  if (!plan.how.starts_with("own")) {
    const char* none = report ? "no pass found a use for one" : "no pass ran on this file";
    why += "; not by a kernel of ours: " + (choice != nullptr ? choice->reason : none);
  }
  why += plan.how.find("planned") != std::string::npos ? "; its result lies in planned memory"
                                                       : "; nothing is planned: its result is a view, an output, or "
                                                         "allocated by libtorch in every run";
  return why;
}

NodeTimes hold_against(const MachineFloor& machine, const ir::Graph& graph, const NodeClock& clock,
                       const std::vector<NamedTensor>& inputs, int runs) {
  NodeTimes times{machine, runs, {}};
  const ir::Bindings sizes = bind_sizes(graph, inputs);
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    const ir::Node& node = graph.nodes[index];
    const double median = clock.median(index);
    if (median >= 0) times.nodes.push_back({node.name, node.target, median, find_floor(graph, node, sizes, machine)});
  }
  std::ranges::stable_sort(times.nodes,
                           [](const NodeTime& a, const NodeTime& b) { return a.microseconds > b.microseconds; });
  return times;
}

Status run_observed(RepeatedRun& run, int rounds, NodeObserver* observer) {
  for (int round = 0; round < rounds; ++round) {
    KPT_RETURN_IF_ERROR(run.prepare());
    KPT_RETURN_IF_ERROR(run.run(observer));
  }
  return {};
}

std::string describe_batches(const detail::LoadedModel& model, const Capabilities& capabilities,
                             const BackendContext& context) {
  if (model.executable().is_stateful()) return "run whole: the model writes buffers";
  const auto rows = find_batch_rows(model.graph());
  if (!rows.ok()) return "run whole: " + rows.status().message();
  const bool padded = capabilities.sizes_cost && context.batch_buckets;
  return fmt::format("{}{} along {} when memory runs out{}", padded ? "padded to a few sizes; " : "",
                     context.split_batches ? "split" : "could be split", rows->symbol,
                     context.split_batches ? "" : ": set memory.split_batches");
}

std::string describe_sequences(const detail::LoadedModel& model, const Capabilities& capabilities,
                               const BackendContext& context) {
  if (model.executable().is_stateful()) return "run as they are: the model writes buffers";
  const auto rows = find_sequence_rows(model.graph(), model.weight_numbers());
  if (!rows.ok()) return "run as they are: " + rows.status().message();
  const bool padded = capabilities.sizes_cost && context.sequence_buckets;
  return fmt::format("{} along {} to a few lengths: {}", padded ? "padded" : "could be padded", rows->symbol,
                     rows->masked ? "masks hide what is behind the end" : "no position looks at later ones");
}

Result<Explanation> explain(const ExplainArguments& arguments, const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice device, find_runnable_device(arguments.device, context));
  if (arguments.times && !device.device->target().capabilities().host_processor) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("--times holds nodes against the limits of the processor, not of '{}': use --device cpu",
                              printable(arguments.device, 64)));
  }
  KPT_ASSIGN_OR_RETURN(OpenedModel opened, open_model(arguments.model, device));
  Explanation explanation;
  explanation.report = std::move(opened.report);
  explanation.hidden_isa = context.detection.hidden_isa;
  // Before the model runs: afterwards libtorch's threads look for work for a while and would be measured with it.
  std::optional<MachineFloor> machine;
  if (arguments.times) {
    const std::vector<std::string>& hidden = context.detection.hidden_isa;
    machine = measure_floor(context.threads, kernels::cpu_features().without(hidden));
  }
  KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(std::move(opened.model), device, opened.program));
  explanation.device = run.loaded().executable().device();
  explanation.plan = run.loaded().executable().plan();
  if (const CompileFigures* figures = run.loaded().program().figures()) explanation.kernels = figures->kernels;
  explanation.batches = describe_batches(run.loaded(), device.device->target().capabilities(), context);
  explanation.sequences = describe_sequences(run.loaded(), device.device->target().capabilities(), context);
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, run.loaded().order_inputs(opened.inputs));
  explanation.placement = make_placement_table(run.loaded().program(), opened.inputs);
  KPT_ASSIGN_OR_RETURN(RepeatedRun repeated, RepeatedRun::make(run, inputs));
  NodeClock clock(run.loaded().graph().nodes.size());
  KPT_RETURN_IF_ERROR(run_observed(repeated, arguments.runs, &clock));
  if (machine) {
    explanation.times = hold_against(*machine, run.loaded().graph(), clock, opened.inputs, arguments.runs);
  }
  if (!run.loaded().executable().describe_runs().empty()) {
    // An engine that captures runs does so when nobody watches, and not in the first one.
    KPT_RETURN_IF_ERROR(run_observed(repeated, 2, nullptr));
    explanation.runs = run.loaded().executable().describe_runs();
  }
  std::map<std::string, std::size_t> by_name;
  const std::vector<ir::Node>& nodes = run.loaded().graph().nodes;
  for (std::size_t index = 0; index < nodes.size(); ++index) by_name.emplace(nodes[index].name, index);
  for (const NodePlan& plan : explanation.plan) {
    const auto found = by_name.find(plan.node);
    const bool known = found != by_name.end();
    explanation.microseconds.push_back(known ? clock.least(found->second) : -1);
    explanation.allocations.push_back(known ? clock.allocations()[found->second] : Allocations{});
  }
  return explanation;
}

const std::string& node_device(const Explanation& explanation, const std::string& node) {
  if (!explanation.placement) return explanation.device;
  const auto found = explanation.placement->device_of.find(node);
  return found != explanation.placement->device_of.end() ? found->second : explanation.device;
}

Json to_json(const Explanation& explanation) {
  Json json = {{"device", explanation.device},
               {"cpu_isa", explanation.hidden_isa},
               {"runs", explanation.runs},
               {"batches", explanation.batches},
               {"sequences", explanation.sequences},
               {"report", explanation.report ? to_json(*explanation.report) : Json()},
               {"nodes", Json::array()}};
  if (explanation.times) json["times"] = to_json(*explanation.times);
  if (explanation.placement) json["placement"] = to_json(*explanation.placement);
  for (const KernelFigures& kernel : explanation.kernels) json["kernels"].push_back(kpt::to_json(kernel));
  for (std::size_t index = 0; index < explanation.plan.size(); ++index) {
    const NodePlan& plan = explanation.plan[index];
    const double time = explanation.microseconds[index];
    json["nodes"].push_back({{"node", plan.node},
                             {"operator", plan.target},
                             {"device", node_device(explanation, plan.node)},
                             {"how", plan.how},
                             {"why", reason_for(plan, explanation.report)},
                             {"microseconds", time >= 0 ? Json(time) : Json()},
                             {"allocations", explanation.allocations[index].count},
                             {"allocated_bytes", explanation.allocations[index].bytes}});
  }
  return json;
}

std::string render_passes(const OptimizeReport& report) {
  std::vector<std::vector<std::string>> rows = {{"pass", "changes", "what it did"}};
  for (const PassRecord& record : report.passes) {
    const Pass* pass = find_pass(record.pass);
    std::string text = record.skipped.empty() ? std::string(pass != nullptr ? pass->summary : "") : record.skipped;
    rows.push_back({record.pass, std::to_string(record.changes), std::move(text)});
    for (const std::string& detail : record.details) rows.push_back({"", "", "  " + detail});
  }
  for (const DroppedPass& dropped : report.dropped) rows.push_back({dropped.pass, "taken out", dropped.reason});
  for (const std::string& kept : report.not_quantized) rows.push_back({"", "not quantized", kept + ": for accuracy"});
  for (const std::string& kept : report.kept_precise) rows.push_back({"", "kept precise", kept});
  return format_table(rows);
}

// Which kernels were held against each other when the model was optimized.
std::string render_choices(const OptimizeReport& report) {
  std::vector<std::vector<std::string>> rows = {{"operator", "nodes", "kernel", "why"}};
  for (const KernelChoice& choice : report.kernels) {
    const std::string nodes = choice.nodes.size() == 1
                                  ? choice.nodes.front()
                                  : fmt::format("{} and {} more", choice.nodes.front(), choice.nodes.size() - 1);
    const char* taken = choice.taken == Taken::kOwn ? "ours" : "not quantized";
    if (choice.taken == Taken::kLibrary) taken = "aten";
    rows.push_back({choice.operator_target, nodes, taken, choice.reason});
  }
  return format_table(rows);
}

std::string render_place(const Explanation& explanation) {
  std::string text = "on " + explanation.device;
  if (!explanation.hidden_isa.empty()) {
    text += ", instruction sets hidden by cpu.isa: " + join(explanation.hidden_isa, " ");
  }
  if (!explanation.runs.empty()) text += "\nruns: " + explanation.runs;
  text += "\nbatches: " + explanation.batches;
  text += "\nsequences: " + explanation.sequences;
  return text + "\n\n";
}

std::string render(const Explanation& explanation) {
  std::string text = render_place(explanation);
  if (explanation.placement) text += render(*explanation.placement) + "\n";
  if (explanation.report) text += render_passes(*explanation.report) + "\n";
  if (explanation.report && !explanation.report->kernels.empty()) {
    text += render_choices(*explanation.report) + "\n";
  }
  double all = 0;
  for (const double time : explanation.microseconds) all += std::max(0.0, time);
  std::vector<std::vector<std::string>> rows = {{"node", "operator", "time", "share", "allocated", "how"}};
  if (explanation.placement) rows[0].emplace_back("device");
  std::map<std::string, std::size_t> ways;
  for (std::size_t index = 0; index < explanation.plan.size(); ++index) {
    const NodePlan& plan = explanation.plan[index];
    const double time = explanation.microseconds[index];
    const Allocations& allocations = explanation.allocations[index];
    ++ways[reason_for(plan, explanation.report)];
    rows.push_back(
        {plan.node, plan.target, time >= 0 ? fmt::format("{:.1f} us", time) : "-",
         time >= 0 && all > 0 ? fmt::format("{:.1f} %", 100 * time / all) : "-",
         allocations.count == 0 ? "-" : fmt::format("{} in {}", format_bytes(allocations.bytes), allocations.count),
         plan.how});
    if (explanation.placement) rows.back().push_back(node_device(explanation, plan.node));
  }
  text += format_table(rows) + "\n";
  for (const auto& [why, count] : ways) text += fmt::format("{} nodes: {}\n", count, why);
  if (!explanation.kernels.empty()) text += "\n" + render_kernels(explanation.kernels);
  return text;
}

}  // namespace

void add_explain_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("explain", "what the passes did to a model, and how and why each node runs as it does");
  command->footer(
      "Example: kpt explain model.kpt\n         kpt explain model.pt2 --json\n"
      "         kpt explain model.kpt --times --size s0=1 --size s1=128\n"
      "         kpt explain model.kpt --target amd:gfx942");
  auto arguments = std::make_shared<ExplainArguments>();
  add_source_arguments(*command, arguments->model);
  CLI::Option* device = command->add_option("--device", arguments->device, "where it runs")->capture_default_str();
  CLI::Option* runs =
      command->add_option("--runs", arguments->runs, "how often to time the nodes; the least time is shown")
          ->check(check_positive)
          ->capture_default_str();
  CLI::Option* times = command->add_flag(
      "--times", arguments->times,
      "only the longest nodes: median times, and which share of the measured limits of this processor they reach");
  command->add_option("--top", arguments->top, "how many nodes --times lists")
      ->needs(times)
      ->check(check_positive)
      ->capture_default_str();
  command
      ->add_option("--target", arguments->target,
                   "instead: hardware that is not here, such as amd:gfx942; nothing is run, kernels and what they take")
      ->excludes(device)
      ->excludes(runs)
      ->excludes(command->get_option("--size"))
      ->excludes(times);
  command->callback([&context, arguments] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    const auto backend_context = make_backend_context(*config, context.environment());
    if (!backend_context.ok()) return context.fail(backend_context.status());
    if (!arguments->target.empty()) {
      const auto elsewhere = explain_target(arguments->model, arguments->target, *backend_context);
      if (!elsewhere.ok()) return context.fail(elsewhere.status());
      context.out() << (context.flags().json ? dump_json(to_json(*elsewhere), 2) + "\n" : render(*elsewhere));
      return context.finish(kExitOk);
    }
    const auto explanation = explain(*arguments, *backend_context);
    if (!explanation.ok()) return context.fail(explanation.status());
    if (context.flags().json) {
      context.out() << dump_json(to_json(*explanation), 2) << "\n";
    } else if (explanation->times) {
      context.out() << render_place(*explanation) << render_times(*explanation->times, arguments->top);
    } else {
      context.out() << render(*explanation);
    }
    context.finish(kExitOk);
  });
}

}  // namespace kpt::cli
