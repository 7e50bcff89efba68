#include "validation/production.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "artifact/artifact.h"
#include "base/files.h"
#include "base/scratch_folder.h"
#include "base/text.h"
#include "base/timing.h"
#include "passes/promote_to_fp64.h"
#include "validation/determinism.h"
#include "validation/model_run.h"

namespace kpt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTimedRuns = 30;

// Greatest resident memory so far, in MiB.
std::optional<double> read_peak_memory() {
  const auto status = SystemFiles().read("/proc/self/status");
  if (!status.ok()) return std::nullopt;
  const auto place = status->find("VmHWM:");
  if (place == std::string::npos) return std::nullopt;
  const auto digits = status->find_first_of("0123456789", place);
  double kib = 0;
  if (digits == std::string::npos) return std::nullopt;
  std::from_chars(status->data() + digits, status->data() + status->size(), kib);
  return kib / 1024;
}

bool is_finite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return true;
  const auto wide = promote_to_fp64(tensor);
  const auto dense = wide.ok() ? wide->contiguous_copy() : wide;
  return dense.ok() &&
         std::ranges::all_of(dense->elements<double>(), [](double value) { return std::isfinite(value); });
}

// The first output that is not finite, as a clause; empty where all are.
std::string find_non_finite(const std::vector<NamedTensor>& outputs) {
  const auto found = std::ranges::find_if(outputs, [](const NamedTensor& each) { return !is_finite(each.tensor); });
  return found != outputs.end() ? fmt::format("output '{}' is not finite", found->name) : "";
}

bool same_bits(const std::vector<NamedTensor>& first, const std::vector<NamedTensor>& second) {
  if (first.size() != second.size()) return false;
  for (std::size_t index = 0; index < first.size(); ++index) {
    const auto a = first[index].tensor.contiguous_copy();
    const auto b = second[index].tensor.contiguous_copy();
    if (!a.ok() || !b.ok() || a->bytes() != b->bytes() || std::memcmp(a->data(), b->data(), a->bytes()) != 0)
      return false;
  }
  return true;
}

class Production {
 public:
  Production(const ImportedModel& model, const DrawOptions& draws, const Requirements& requirements,
             const BackendContext& context, const std::string& device, const std::string& stored_program)
      : model_(model),
        draw_options_(draws),
        requirements_(requirements),
        context_(context),
        device_(device),
        stored_program_(stored_program) {}

  Result<ProductionReport> run() {
    KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, find_runnable_device(device_, context_));
    KPT_ASSIGN_OR_RETURN(const std::vector<Draw> draws, make_draws(model_, draw_options_));
    const Status reset = placed.device->reset_peak_memory();
    const auto start = Clock::now();
    auto loaded = ModelRun::load(model_, placed, stored_program_);
    if (!loaded.ok()) {
      add("load", "error", loaded.status().message(), {});
      return std::move(report_);
    }
    const double load_ms = milliseconds_since(start);
    add("load", "ok", fmt::format("loaded on {} in {:.1f} ms", loaded->loaded().executable().device(), load_ms),
        load_ms);
    const Draw& draw = check_forward(*loaded, draws);
    check_latency(*loaded, draw);
    check_batches(*loaded);
    check_memory(*placed.device, reset);
    check_repetition(draw);
    check_round_trip(*loaded, draw, placed);
    return std::move(report_);
  }

 private:
  void add(std::string name, std::string severity, std::string text, std::optional<double> value) {
    report_.checks.push_back({std::move(name), std::move(severity), std::move(text), value, device_});
  }

  // What is wrong with a draw is an error where it is the user's or the file's. Generated ones may be no fair question:
  // as at the gate they are told of and left out, as long as one draw is answered with numbers. Gives the first draw
  // that runs, for the other checks; the first of all where none does.
  const Draw& check_forward(ModelRun& run, const std::vector<Draw>& draws) {
    const Draw* first = nullptr;
    std::size_t answered = 0;
    std::vector<std::string> notes;
    for (const Draw& draw : draws) {
      const Status reset = run.reset();
      const auto outputs = reset.ok() ? run.run(draw.inputs) : reset;
      if (outputs.ok() && first == nullptr) first = &draw;
      const std::string problem = outputs.ok() ? find_non_finite(*outputs) : outputs.status().message();
      if (problem.empty()) {
        ++answered;
      } else if (draw.generated) {
        notes.push_back(fmt::format("draw '{}' is left out: {}", draw.origin, problem));
      } else {
        add("forward", "error", fmt::format("{}: {}", draw.origin, problem), {});
        return first != nullptr ? *first : draws.front();
      }
    }
    if (answered > 0) notes.insert(notes.begin(), fmt::format("{} draws, all outputs finite", answered));
    add("forward", answered > 0 ? "ok" : "error", join(notes, "; "), {});
    return first != nullptr ? *first : draws.front();
  }

  // Median and 95th percentile of a run; nothing when it fails.
  std::optional<std::pair<double, double>> time_runs(ModelRun& run, const std::vector<NamedTensor>& inputs) {
    std::vector<double> times;
    for (std::size_t round = 0; round < kTimedRuns + 3; ++round) {
      if (!run.reset().ok()) return std::nullopt;
      const auto start = Clock::now();
      if (!run.run(inputs).ok()) return std::nullopt;
      if (round >= 3) times.push_back(milliseconds_since(start));
    }
    std::ranges::sort(times);
    return std::pair(times[times.size() / 2], times[times.size() * 95 / 100]);
  }

  void check_latency(ModelRun& run, const Draw& draw) {
    const auto times = time_runs(run, draw.inputs);
    if (!times) return add("latency", "error", "the model cannot be timed: it does not run", {});
    const std::string text = fmt::format("median {:.3f} ms, 95 % within {:.3f} ms, {} runs on {}", times->first,
                                         times->second, kTimedRuns, draw.origin);
    const bool late = requirements_.max_latency_ms && times->second > *requirements_.max_latency_ms;
    add("latency",
        !requirements_.max_latency_ms ? "info"
        : late                        ? "error"
                                      : "ok",
        late ? fmt::format("{}; at most {} ms is required", text, *requirements_.max_latency_ms) : text, times->second);
  }

  void check_batches(ModelRun& run) {
    double throughput = 0;
    for (const std::int64_t batch : requirements_.batch_sizes) {
      const std::string name = fmt::format("batch_{}", batch);
      DrawOptions options = draw_options_;
      options.given.clear();
      options.count = 1;
      for (const ir::GraphInput& input : model_.graph.inputs) {
        if (input.kind != ir::InputKind::kUser || model_.graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
        const auto& dims = model_.graph.at(input.value).tensor.dims;
        if (!dims.empty() && dims[0].is_symbol()) options.sizes.insert_or_assign(std::string(dims[0].name()), batch);
      }
      const auto draws = make_draws(model_, options);
      if (!draws.ok()) {
        add(name, "error", draws.status().message(), {});
        continue;
      }
      const std::vector<NamedTensor>& inputs = draws->front().inputs;
      const bool fits = std::ranges::all_of(inputs, [&](const NamedTensor& input) {
        return input.tensor.dims().empty() || input.tensor.dims()[0] == batch;
      });
      const auto times = fits ? time_runs(run, inputs) : std::nullopt;
      if (!times) {
        add(name, "error",
            fits ? "the model does not run with this batch" : "the model's batch is fixed to another size", {});
        continue;
      }
      throughput = static_cast<double>(batch) * 1000 / times->first;
      add(name, "ok", fmt::format("median {:.3f} ms, {:.1f} rows per second", times->first, throughput), throughput);
    }
    if (requirements_.min_throughput) {
      const bool enough = throughput >= *requirements_.min_throughput;
      add("throughput", enough ? "ok" : "error",
          requirements_.batch_sizes.empty() ? "a required throughput needs --batch-sizes"
                                            : fmt::format("{:.1f} rows per second, at least {} are required",
                                                          throughput, *requirements_.min_throughput),
          throughput);
    }
  }

  // Of the device, or of the host where the processor is the device. `reset`: whether the peak began with the model.
  void check_memory(Device& device, const Status& reset) {
    const auto resident = read_peak_memory();
    if (device.target().capabilities().host_processor) {
      return judge_memory(resident, "resident", "this system does not tell it");
    }
    const auto memory = device.memory();
    std::optional<double> peak;
    if (memory.ok() && memory->peak_bytes) peak = static_cast<double>(*memory->peak_bytes) / (1 << 20);
    judge_memory(peak, fmt::format("on {}{}", device.info().name, reset.ok() ? "" : ", since the process began"),
                 memory.ok() ? device.info().name + " does not tell it" : memory.status().message());
    if (resident) add("host_memory", "info", fmt::format("at most {:.0f} MiB resident", *resident), resident);
  }

  void judge_memory(std::optional<double> peak, const std::string& where, const std::string& absent) {
    if (!peak) return add("memory", requirements_.max_memory_mb ? "error" : "info", absent, {});
    const bool much = requirements_.max_memory_mb && *peak > *requirements_.max_memory_mb;
    add("memory",
        !requirements_.max_memory_mb ? "info"
        : much                       ? "error"
                                     : "ok",
        fmt::format("at most {:.1f} MiB {}{}", *peak, where,
                    much ? fmt::format("; at most {} are required", *requirements_.max_memory_mb) : ""),
        peak);
  }

  void check_repetition(const Draw& draw) {
    const auto result = check_determinism(model_, draw, context_, device_, stored_program_);
    if (!result.ok()) return add("determinism", "error", result.status().message(), {});
    add("determinism", result->repeatable() ? "ok" : "error",
        result->repeatable() ? "the same input gives the same bits"
                             : fmt::format("the same input gives answers that differ by {:.3g}", result->twice),
        result->twice);
  }

  void check_round_trip(ModelRun& run, const Draw& draw, const PlacedDevice& placed) {
    const auto attempt = [&]() -> Result<bool> {
      KPT_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make("kpt-validate-"));
      const std::filesystem::path path = folder.path() / "round_trip.kpt";
      Artifact artifact;
      artifact.producer = "kpt validate";
      artifact.source = "round_trip";
      artifact.source_sha256 = std::string(64, '0');
      artifact.targets.push_back(
          {std::string(placed.device->target().name()), {}, model_.graph, model_.weights, "{}", stored_program_});
      KPT_RETURN_IF_ERROR(write_artifact(path, artifact));
      KPT_ASSIGN_OR_RETURN(Artifact back, read_artifact(path));
      ImportedModel copy;
      copy.graph = std::move(back.targets.at(0).graph);
      copy.weights = std::move(back.targets.at(0).weights);
      KPT_ASSIGN_OR_RETURN(ModelRun again, ModelRun::load(std::move(copy), placed, back.targets.at(0).program));
      KPT_RETURN_IF_ERROR(run.reset());
      KPT_ASSIGN_OR_RETURN(const auto first, run.run(draw.inputs));
      KPT_ASSIGN_OR_RETURN(const auto second, again.run(draw.inputs));
      return same_bits(first, second);
    };
    const Result<bool> same = attempt();
    if (!same.ok()) return add("round_trip", "error", same.status().message(), {});
    add("round_trip", *same ? "ok" : "error",
        *same ? "written, read back and run: the same bits" : "the model read back gives other answers", {});
  }

  const ImportedModel& model_;
  const DrawOptions& draw_options_;
  const Requirements& requirements_;
  const BackendContext& context_;
  const std::string& device_;
  const std::string& stored_program_;
  ProductionReport report_;
};

}  // namespace

bool ProductionReport::passed() const {
  return !checks.empty() && std::ranges::all_of(checks, [](const ProductionCheck& check) { return check.passed(); });
}

Result<ProductionReport> check_production(const ImportedModel& model, const DrawOptions& draws,
                                          const Requirements& requirements, const BackendContext& context,
                                          const std::string& device, const std::string& stored_program) {
  return Production(model, draws, requirements, context, device, stored_program).run();
}

nlohmann::ordered_json to_json(const ProductionReport& report) {
  nlohmann::ordered_json json = {{"passed", report.passed()}, {"checks", nlohmann::ordered_json::array()}};
  for (const ProductionCheck& check : report.checks) {
    json["checks"].push_back(
        {{"device", check.device},
         {"name", check.name},
         {"severity", check.severity},
         {"text", check.text},
         {"value", check.value ? nlohmann::ordered_json(*check.value) : nlohmann::ordered_json()}});
  }
  return json;
}

}  // namespace kpt
