#include "optimize/optimize.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "artifact/model_hash.h"
#include "base/reword.h"
#include "base/text.h"
#include "device/hardware_json.h"
#include "optimize/evaluator.h"
#include "optimize/fp8_inputs.h"
#include "optimize/make_samples.h"
#include "optimize/optimize_json.h"
#include "optimize/precision_search.h"
#include "passes/last_token_logits.h"
#include "passes/library_form.h"
#include "passes/own_calls.h"

#include <nlohmann/json.hpp>

namespace kpt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRounds = 6;           // of keeping layers precise
constexpr int kMaxGivenBack = 4;        // trials to raise fewer of them than the last round did
constexpr double kMeasureSeconds = 90;  // for the question which passes lose
constexpr std::string_view kLibraryKernels = "library_kernels";  // in the records, behind the passes

// They only remove work, so nobody asks the clock about them.
bool needs_measuring(std::string_view pass) {
  constexpr std::array<std::string_view, 5> kCleaning = {"remove_in_place", "remove_dead_code", "fold_constants",
                                                         "common_subexpressions", "share_masks"};
  return std::ranges::find(kCleaning, pass) == kCleaning.end();
}

struct Candidate {
  ImportedModel model;
  std::vector<PassRecord> records;
};

class Optimizer {
 public:
  Optimizer(const ImportedModel& model, const OptimizeOptions& options, const PlacedDevice& device,
            const PlacedDevice& cpu)
      : model_(model), options_(options), device_(device), cpu_(cpu), capabilities_(target().capabilities()) {}

  Result<OptimizeOutcome> run() {
    report_.level = options_.level;
    report_.device = device_.device->info().name;
    report_.seed = options_.draws.seed;
    KPT_ASSIGN_OR_RETURN(passes_, choose_passes(options_));
    tell("running the plain model and its fp64 form", 0);
    KPT_ASSIGN_OR_RETURN(std::vector<Draw> draws, make_draws(model_, options_.draws));
    const GateOptions gate_options{options_.level, options_.tolerance, is_named(kLastTokenLogits.name), options_.draws};
    KPT_ASSIGN_OR_RETURN(Gate gate, Gate::prepare(model_, std::move(draws), gate_options, device_, cpu_));
    gate_.emplace(std::move(gate));
    tell("running the passes", 0.25);
    if (options_.measure && options_.known_losers) report_.dropped = *options_.known_losers;
    KPT_ASSIGN_OR_RETURN(Candidate candidate, build_first());
    KPT_RETURN_IF_ERROR(leave_what_cannot_run(candidate));
    KPT_RETURN_IF_ERROR(choose_fp8_inputs(candidate));
    if (options_.measure) KPT_RETURN_IF_ERROR(leave_slow_products(candidate));
    if (options_.measure && !options_.known_losers) KPT_RETURN_IF_ERROR(drop_losers(candidate));
    if (options_.measure) KPT_RETURN_IF_ERROR(choose_kernels(candidate));
    tell("checking the answers", 0.75);
    KPT_RETURN_IF_ERROR(judge(candidate));
    note_idle_passes(candidate.records);
    if (options_.measure && report_.gate.passed()) KPT_RETURN_IF_ERROR(measure_whole(candidate));
    if (!report_.gate.passed()) {  // also what measuring built anew
      find_culprit();
      report_.passes = std::move(candidate.records);
      return OptimizeOutcome{std::move(report_), std::nullopt};
    }
    report_.passes = std::move(candidate.records);
    tell("collecting the artifact", 0.95);
    KPT_ASSIGN_OR_RETURN(Artifact artifact, make_artifact(std::move(candidate.model)));
    return OptimizeOutcome{std::move(report_), std::move(artifact)};
  }

 private:
  void tell(std::string_view step, double done) const {
    if (options_.progress) options_.progress(step, done);
  }

  // Whether the user asked for the pass by name.
  bool is_named(std::string_view pass) const {
    return std::ranges::find(options_.enabled, pass) != options_.enabled.end();
  }

  // That a pass which the user asked for changed nothing, with what it said itself. Why one was skipped is told anyway.
  void note_idle_passes(const std::vector<PassRecord>& records) {
    constexpr std::size_t kMostReasons = 3;
    for (const std::string& name : options_.enabled) {
      std::vector<std::string> reasons;
      bool idle = true;
      for (const PassRecord& record : records) {
        if (record.pass != name) continue;
        idle = idle && record.changes == 0 && record.skipped.empty();
        reasons.insert(reasons.end(), record.details.begin(), record.details.end());
      }
      if (!idle) continue;
      const std::size_t more = reasons.size() - std::min(reasons.size(), kMostReasons);
      reasons.resize(reasons.size() - more);
      if (more > 0) reasons.push_back(fmt::format("and {} more", more));
      report_.notes.push_back(
          fmt::format("{} was asked for by name and changed nothing: {}", name,
                      reasons.empty() ? "the graph has nothing for it at its place" : join(reasons, "; ")));
    }
  }

  // What the passes are for.
  const Target& target() const { return options_.target != nullptr ? *options_.target : device_.device->target(); }

  // With the types that are only tried, where whole models are measured, the device takes what comes of them, and the
  // model is faster by them.
  Result<Candidate> build_first() {
    const Capabilities known = capabilities_;
    if (!options_.measure || known.tried_dtypes.empty()) return build({}, nullptr, options_.check_each);
    std::ranges::copy(known.tried_dtypes, std::back_inserter(capabilities_.matrix_dtypes));
    KPT_ASSIGN_OR_RETURN(Candidate candidate, build({}, nullptr, options_.check_each));
    std::vector<std::string> asked;
    for (const PassRecord& record : candidate.records) {
      if (record.changes == 0 || !record.skipped.empty() || is_named(record.pass)) continue;
      const Pass* const pass = find_pass(record.pass);
      if (pass != nullptr && !pass->applies(known).supported) asked.push_back(record.pass);
    }
    if (asked.empty() || options_.known_losers) return candidate;
    tell("measuring products of fewer bits", 0.28);
    KPT_ASSIGN_OR_RETURN(Candidate wider, build(asked, nullptr, options_.check_each));
    KPT_ASSIGN_OR_RETURN(const std::string why, find_loss(candidate, wider));
    if (why.empty()) return candidate;
    for (const std::string& pass : asked) report_.dropped.push_back({pass, why});
    capabilities_ = known;
    return wider;
  }

  // Whether it can be loaded and run on all draws.
  Status try_run(const ImportedModel& model) const {
    KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(model, device_));
    return run_each(run, gate_->draws()).status();
  }

  // Where the candidate cannot run, it is built anew without the passes after which it cannot. What a device that only
  // judges cannot run says nothing of the target.
  Status leave_what_cannot_run(Candidate& candidate) {
    if (options_.check_each || options_.target != nullptr || try_run(candidate.model).ok()) return {};
    KPT_ASSIGN_OR_RETURN(candidate, build({}, nullptr, true));
    return {};
  }

  // Why the model with types that are only tried is not taken; empty: it is.
  Result<std::string> find_loss(const Candidate& tried, const Candidate& wider) {
    auto run = ModelRun::load(tried.model, device_);
    const Status status = run.ok() ? run->run(timed_draw().inputs).status() : run.status();
    if (!status.ok()) return "the device does not take the model with it: " + status.message();
    auto without = ModelRun::load(wider.model, device_);
    if (!without.ok()) return std::string();
    KPT_ASSIGN_OR_RETURN(const PairedTimes times,
                         measure_pair(*run, *without, timed_draw().inputs, options_.seconds_per_pair));
    if (times.second_is_slower()) return std::string();
    return fmt::format("the model is no faster with it, as far as was measured ({:.3f} ms against {:.3f} ms without)",
                       times.first_ms, times.second_ms);
  }

  // The model after the passes, without those that were dropped and those of `without`.
  Result<Candidate> build(const std::vector<std::string>& without, std::vector<PassStage>* stages, bool check) {
    Candidate candidate;
    candidate.model = model_;
    PassContext context{candidate.model.weights, capabilities_,   make_evaluator(cpu_), report_.kept_precise,
                        report_.not_quantized,   slow_quantized_, wide_inputs_};
    std::vector<const Pass*> chosen;
    std::vector<std::size_t> places;  // of these among passes_
    RunnerOptions runner;
    for (std::size_t place = 0; place < passes_.size(); ++place) {
      const Pass* pass = passes_[place];
      const auto is_it = [&](const DroppedPass& dropped) { return dropped.pass == pass->name; };
      const bool out = std::ranges::find(without, pass->name) != without.end();
      if (out || std::ranges::any_of(report_.dropped, is_it)) continue;
      const auto back = taken_back_.find(place);
      if (back != taken_back_.end()) runner.left_out.emplace(chosen.size(), back->second);
      chosen.push_back(pass);
      places.push_back(place);
    }
    if (options_.dump_after && check == options_.check_each && without.empty()) runner.dump_after = options_.dump_after;
    if (check || stages != nullptr) {
      runner.check_each = [&, check](const Pass& pass, const ir::Graph&, const Weights&, const ir::Graph& after,
                                     const Weights& weights_after) -> Status {
        ImportedModel stage = model_;
        stage.graph = after;
        stage.weights = weights_after;
        const Status status = check ? check_stage(pass, stage) : Status();
        if (status.ok() && stages != nullptr) stages->push_back({std::string(pass.name), std::move(stage)});
        return status;
      };
    }
    KPT_ASSIGN_OR_RETURN(candidate.records, run_passes(chosen, candidate.model.graph, context, runner));
    for (std::size_t index = 0; index < places.size(); ++index) {
      const PassRecord& record = candidate.records[index];
      if (record.taken_back) taken_back_.emplace(places[index], record.skipped);
    }
    if (by_library_.empty()) return candidate;
    PassStats stats = use_library_forms(candidate.model.graph, candidate.model.weights, by_library_);
    candidate.records.push_back({std::string(kLibraryKernels), stats.changes, std::move(stats.details), 0, ""});
    if (stages != nullptr) stages->push_back({std::string(kLibraryKernels), candidate.model});
    return candidate;
  }

  // By its answers where that is asked for, else only whether it runs.
  Status check_stage(const Pass& pass, const ImportedModel& stage) {
    constexpr std::string_view kCannotRun = "taken back, the model cannot run after it: {}";
    if (!options_.check_each) {
      tell(fmt::format("running the model after {}", pass.name), 0.26);
      Status runs = try_run(stage);
      if (runs.ok() || runs.code() == StatusCode::kInternal) return runs;
      return {StatusCode::kValidation, fmt::format(kCannotRun, runs.message())};
    }
    tell(fmt::format("checking the answers after {}", pass.name), 0.3);
    const auto report = gate_->judge(stage);
    if (report.ok() && report->passed()) return {};
    if (report.status().code() == StatusCode::kInternal) return report.status();
    std::string reason = "taken back, an output fails after it";
    if (!report.ok()) reason = fmt::format(kCannotRun, report.status().message());
    for (const OutputVerdict& verdict : report.ok() ? report->worst() : std::vector<OutputVerdict>()) {
      if (verdict.passed) continue;
      reason = fmt::format("taken back, output '{}' fails after it: {}", verdict.output, verdict.reason);
      break;
    }
    return {StatusCode::kValidation, std::move(reason)};
  }

  const Draw& timed_draw() const { return gate_->draws().front(); }

  TuneOptions make_tuning() const {
    TuneOptions tuning;
    tuning.cache = options_.cache;
    tuning.surroundings = options_.surroundings;
    return tuning;
  }

  // Inputs of FP8 products take the type that keeps more of them, where the target leaves that to the data.
  Status choose_fp8_inputs(Candidate& candidate) {
    const bool any = std::ranges::find(candidate.model.graph.nodes, kLinearFp8Target, &ir::Node::target) !=
                     candidate.model.graph.nodes.end();
    if (target().capabilities().fp8_inputs != Fp8Inputs::kByData || !any) return {};
    if (options_.target != nullptr) {
      report_.notes.push_back("inputs of FP8 products become float8_e4m3fn: no data is seen without the hardware");
      return {};
    }
    tell("looking at the inputs of FP8 products", 0.27);
    KPT_ASSIGN_OR_RETURN(wide_inputs_, find_wide_inputs(candidate.model, *gate_));
    if (wide_inputs_.empty()) return {};
    KPT_ASSIGN_OR_RETURN(candidate, build({}, nullptr, options_.check_each));
    return {};
  }

  // Quantized products that are slower than what they replace stay that, before whole passes are asked about. Not where
  // whole graphs become programs: a node alone is not what it is among others.
  Status leave_slow_products(Candidate& candidate) {
    if (device_.device->target().capabilities().whole_graph_only) return {};
    std::vector<std::string> asked;
    for (const PassRecord& record : candidate.records) {
      const bool changed = record.changes > 0 && record.skipped.empty();
      if (changed && quantizes_weights(find_pass(record.pass)) && !is_named(record.pass)) asked.push_back(record.pass);
    }
    if (asked.empty()) return {};
    tell("measuring quantized products", 0.28);
    KPT_ASSIGN_OR_RETURN(const Candidate wider, build(asked, nullptr, false));
    report_.kernels = tune_quantized(candidate.model, wider.model, timed_draw().inputs, device_, make_tuning());
    slow_quantized_ = list_nodes(report_.kernels, Taken::kUnquantized);
    return take_choices(candidate, slow_quantized_, report_.kernels);
  }

  // Builds the model with what was chosen for these nodes, and takes it if the whole gains by it.
  Status take_choices(Candidate& candidate, std::vector<std::string>& nodes, std::vector<KernelChoice>& choices) {
    if (nodes.empty()) return {};
    KPT_ASSIGN_OR_RETURN(Candidate other, build({}, nullptr, false));
    KPT_ASSIGN_OR_RETURN(ModelRun before, ModelRun::load(candidate.model, device_));
    KPT_ASSIGN_OR_RETURN(ModelRun after, ModelRun::load(other.model, device_));
    KPT_ASSIGN_OR_RETURN(const PairedTimes times, measure_pair(before, after, timed_draw().inputs,
                                                               options_.seconds_per_pair, find_resident(device_)));
    if (times.ratio > 1) {
      candidate = std::move(other);
      return {};
    }
    nodes.clear();
    for (KernelChoice& choice : choices) {
      if (choice.taken != Taken::kOwn) choice.reason += ", but the whole model gains nothing by it";
      choice.taken = Taken::kOwn;
    }
    return {};
  }

  // Every pass that did something, with and without it; a loser is taken out for good before the next is asked about.
  Status drop_losers(Candidate& candidate) {
    const auto start = Clock::now();
    KPT_ASSIGN_OR_RETURN(ModelRun current, ModelRun::load(candidate.model, device_));
    std::vector<std::string> asked;
    for (const PassRecord& record : candidate.records) {
      const bool asks = record.changes > 0 && record.skipped.empty() && needs_measuring(record.pass);
      if (asks && !is_named(record.pass)) {
        asked.push_back(record.pass);
      }
    }
    std::ranges::reverse(asked);  // later passes build on earlier ones: they can be taken out without side effects
    for (std::size_t index = 0; index < asked.size(); ++index) {
      if (std::chrono::duration<double>(Clock::now() - start).count() > kMeasureSeconds) {
        std::vector<std::string> left(asked.begin() + static_cast<std::ptrdiff_t>(index), asked.end());
        report_.notes.push_back(
            fmt::format("time was up before these passes could be measured singly: {}", join(left, ", ")));
        return {};
      }
      tell(fmt::format("measuring without {}", asked[index]),
           0.3 + 0.4 * static_cast<double>(index) / static_cast<double>(asked.size()));
      KPT_ASSIGN_OR_RETURN(Candidate other, build({asked[index]}, nullptr, false));
      auto without = ModelRun::load(other.model, device_);
      const auto times = without.ok() ? measure_pair(current, *without, timed_draw().inputs, options_.seconds_per_pair)
                                      : Result<PairedTimes>(without.status());
      if (!times.ok()) {
        report_.notes.push_back(fmt::format("{} could not be measured singly, the model cannot run without it: {}",
                                            asked[index], times.status().message()));
        continue;
      }
      if (!times->second_is_faster()) continue;
      report_.dropped.push_back(
          {asked[index], fmt::format("the model is {:.2f} times faster without it ({:.3f} ms against {:.3f} ms)",
                                     times->ratio, times->second_ms, times->first_ms)});
      candidate = std::move(other);
      current = std::move(*without);
    }
    return {};
  }

  // Nodes for which aten's kernel is faster than ours take it, if the model as a whole gains by it.
  Status choose_kernels(Candidate& candidate) {
    tell("measuring kernels", 0.7);
    std::vector<KernelChoice> choices = tune_nodes(candidate.model, timed_draw().inputs, device_, make_tuning());
    forget_dropped(candidate.model.graph);
    for (const KernelChoice& known : report_.kernels) {
      if (known.taken == Taken::kOwn) forget_nodes(choices, known.nodes);  // quantized: aten has nothing like them
    }
    by_library_ = list_nodes(choices, Taken::kLibrary);
    KPT_RETURN_IF_ERROR(take_choices(candidate, by_library_, choices));
    report_.kernels.insert(report_.kernels.end(), choices.begin(), choices.end());
    return {};
  }

  // Takes quantized products out of the choices that are none any longer, because a pass was taken out.
  void forget_dropped(const ir::Graph& graph) {
    std::vector<std::string> gone;
    for (const KernelChoice& choice : report_.kernels) {
      for (const std::string& name : choice.nodes) {
        const auto node = std::ranges::find(graph.nodes, name, &ir::Node::name);
        const bool here = node != graph.nodes.end();
        if (!here || (choice.taken == Taken::kOwn && !is_quantized_product(node->target))) gone.push_back(name);
      }
    }
    forget_nodes(report_.kernels, gone);
  }

  // The same with our own kernels alone: passes know its nodes by their names, of aten's calls they do not.
  Result<Candidate> build_own() {
    std::vector<std::string> library = std::exchange(by_library_, {});
    Result<Candidate> candidate = build({}, nullptr, false);
    by_library_ = std::move(library);
    return candidate;
  }

  // What a round of the search for precision changes.
  struct Raised {
    std::vector<std::string> not_quantized;
    std::vector<std::string> kept_precise;
    std::vector<KernelChoice> kernels;
    std::vector<std::string> by_library;
  };

  Raised get_raised() const { return {report_.not_quantized, report_.kept_precise, report_.kernels, by_library_}; }

  void set_raised(const Raised& raised) {
    report_.not_quantized = raised.not_quantized;
    report_.kept_precise = raised.kept_precise;
    report_.kernels = raised.kernels;
    by_library_ = raised.by_library;
  }

  // One step up for these nodes of `own`, the model with our kernels alone. False when nothing is left to raise.
  bool raise(const ir::Graph& own, const std::vector<std::string>& names) {
    if (!raise_precision(own, names, report_.not_quantized, report_.kept_precise)) return false;
    forget_nodes(report_.kernels, names);  // they were measured in the type that they leave
    by_library_ = list_nodes(report_.kernels, Taken::kLibrary);
    return true;
  }

  // The gate; where low precision costs too much, the layers that cost most stay precise, and again.
  Status judge(Candidate& candidate) {
    KPT_ASSIGN_OR_RETURN(report_.gate, gate_->judge(candidate.model));
    for (int round = 0; round < kMaxRounds; ++round) {
      if (report_.gate.passed() || options_.level == Level::kConservative) return {};
      KPT_ASSIGN_OR_RETURN(Candidate own, by_library_.empty() ? Result<Candidate>(candidate) : build_own());
      const std::vector<std::string> low = list_low_precision(model_, own.model.graph);
      if (low.empty()) return {};
      tell(fmt::format("round {}: {} nodes in low precision, keeping the worst precise", round + 1, low.size()), 0.8);
      std::size_t draw = 0;
      for (const OutputVerdict& verdict : report_.gate.worst()) {
        if (!verdict.passed) draw = verdict.draw;
      }
      KPT_ASSIGN_OR_RETURN(std::vector<std::string> ranked, rank_by_added_error(model_, own.model, *gate_, draw, cpu_));
      keep_quantized_only(own.model.graph, ranked);
      const std::size_t share = round + 1 == kMaxRounds ? ranked.size() : std::max<std::size_t>(1, ranked.size() / 4);
      ranked.resize(std::min(share, ranked.size()));
      const ir::Graph graph = std::move(own.model.graph);
      own = {};  // its weights are not needed any longer
      const Raised before = get_raised();
      if (!raise(graph, ranked)) return {};
      KPT_ASSIGN_OR_RETURN(candidate, build({}, nullptr, false));
      KPT_ASSIGN_OR_RETURN(report_.gate, gate_->judge(candidate.model));
      if (report_.gate.passed()) return give_back(candidate, graph, before, ranked);
    }
    return {};
  }

  // Of the nodes that the last round raised, those that add least error go back, by halves, while the gate passes.
  Status give_back(Candidate& candidate, const ir::Graph& own, const Raised& before,
                   const std::vector<std::string>& names) {
    std::size_t needed = names.size();  // with so many of them the gate passes
    std::size_t too_few = 0;            // with so many it does not
    for (int trial = 0; trial < kMaxGivenBack && needed - too_few > 1; ++trial) {
      const std::size_t count = too_few + (needed - too_few) / 2;
      tell(fmt::format("keeping {} of these {} nodes precise", count, names.size()), 0.82);
      const Raised passing = get_raised();
      set_raised(before);
      raise(own, {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count)});
      KPT_ASSIGN_OR_RETURN(Candidate other, build({}, nullptr, false));
      KPT_ASSIGN_OR_RETURN(GateReport report, gate_->judge(other.model));
      if (report.passed()) {
        candidate = std::move(other);
        report_.gate = std::move(report);
        needed = count;
      } else {
        set_raised(passing);
        too_few = count;
      }
    }
    return {};
  }

  // The refusal is told whether or not the one to blame is found.
  void find_culprit() {
    tell("looking for the pass and the node", 0.9);
    std::vector<PassStage> stages;
    const auto find = [&]() -> Result<std::optional<Culprit>> {
      KPT_ASSIGN_OR_RETURN([[maybe_unused]] const Candidate again, build({}, &stages, false));
      return locate_culprit(model_, *gate_, stages, cpu_);
    };
    auto found = find();
    if (found.ok()) {
      report_.culprit = std::move(*found);
    } else {
      report_.culprit.emplace().problem =
          fmt::format("the pass and the node to blame could not be looked for: {}", found.status().message());
    }
  }

  // Whether the whole is worth it. If not, the model is left as it was, and the report says so. Passes that had found
  // nothing behind the others may find something then, so that model is judged too.
  Status measure_whole(Candidate& candidate) {
    tell("measuring before and after", 0.85);
    KPT_ASSIGN_OR_RETURN(ModelRun plain, ModelRun::load(model_, device_));
    KPT_ASSIGN_OR_RETURN(ModelRun optimized, ModelRun::load(candidate.model, device_));
    KPT_ASSIGN_OR_RETURN(const PairedTimes times,
                         measure_pair(plain, optimized, timed_draw().inputs, 3 * options_.seconds_per_pair));
    report_.speed = times;
    report_.measured_on = timed_draw().origin;
    if (!times.second_is_slower() || !options_.enabled.empty()) return {};
    for (const PassRecord& record : candidate.records) {
      if (record.changes == 0) continue;
      report_.dropped.push_back({record.pass, fmt::format("all passes together make the model slower ({:.3f} ms "
                                                          "instead of {:.3f} ms)",
                                                          times.second_ms, times.first_ms)});
    }
    report_.kept_precise.clear();
    report_.not_quantized.clear();
    report_.kernels.clear();
    by_library_.clear();
    KPT_ASSIGN_OR_RETURN(candidate, build({}, nullptr, false));
    KPT_ASSIGN_OR_RETURN(report_.gate, gate_->judge(candidate.model));
    report_.speed.reset();  // it was that of the passes that are out
    if (!report_.gate.passed()) {
      report_.measured_on.clear();
      return {};
    }
    KPT_ASSIGN_OR_RETURN(ModelRun kept, ModelRun::load(candidate.model, device_));
    KPT_ASSIGN_OR_RETURN(report_.speed, measure_pair(plain, kept, timed_draw().inputs, options_.seconds_per_pair));
    return {};
  }

  Result<Artifact> make_artifact(ImportedModel candidate) {
    Artifact artifact;
    artifact.producer = this_producer();
    artifact.source = options_.source;
    artifact.source_sha256 = options_.source_sha256;
    if (options_.target == nullptr) {  // else no run here shows what the target will give
      KPT_ASSIGN_OR_RETURN(artifact.samples, make_samples(candidate, *gate_, device_, report_.notes));
    }
    ArtifactTarget part;
    part.name = target().name();
    part.needs = list_fast_types(model_, candidate.graph, target().capabilities());
    part.report = dump_json(to_json(report_));
    part.graph = std::move(candidate.graph);
    part.weights = std::move(candidate.weights);
    artifact.targets.push_back(std::move(part));
    return artifact;
  }

  const ImportedModel& model_;
  const OptimizeOptions& options_;
  const PlacedDevice& device_;
  const PlacedDevice& cpu_;
  Capabilities capabilities_;  // of the target, as passes see them
  std::vector<const Pass*> passes_;
  // By the check after each pass in the first build: places among passes_ that later builds leave out, and why.
  std::map<std::size_t, std::string> taken_back_;
  std::vector<std::string> slow_quantized_;  // nodes that are not quantized because that was slower
  std::vector<std::string> wide_inputs_;     // FP8 products whose inputs become float8_e5m2
  std::vector<std::string> by_library_;      // nodes that aten's kernels run
  std::optional<Gate> gate_;
  OptimizeReport report_;
};

// The plain model cannot run there, or its answers cannot be held against fp64.
Status name_refusal(const Status& status) {
  const bool cannot_run = status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kModelPreparation;
  if (!cannot_run) return status;
  return reword(status, StatusCode::kModelOptimization,
                fmt::format("the model cannot be optimized: {}", status.message()));
}

}  // namespace

Result<OptimizeOutcome> optimize_model(const ImportedModel& model, const OptimizeOptions& options,
                                       const PlacedDevice& device, const PlacedDevice& cpu) {
  if (options.target != nullptr && options.measure) {
    return Status(StatusCode::kInvalidArgument, "passes for hardware that is not here cannot be measured");
  }
  auto outcome = Optimizer(model, options, device, cpu).run();
  if (!outcome.ok()) return name_refusal(outcome.status());
  return outcome;
}

}  // namespace kpt
