#include "optimize/cached.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "artifact/model_hash.h"
#include "base/build_info.h"
#include "base/files.h"
#include "base/log.h"
#include "base/scratch_folder.h"
#include "base/temporary_names.h"
#include "base/text.h"
#include "base/timing.h"
#include "device/hardware_json.h"
#include "optimize/optimize_json.h"

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxKeptBytes = std::size_t{4} << 30U;

Result<std::string> hash_tensors(const std::vector<NamedTensor>& tensors) {
  Weights named;
  for (const NamedTensor& tensor : tensors) named.insert_or_assign(tensor.name, tensor.tensor);
  return hash_model({}, named);
}

// What every result depends on.
void add_surroundings(CacheKey& key, const std::string& model_hash, const OptimizeOptions& options,
                      const PlacedDevice& device, int threads) {
  const BuildInfo& build = build_info();
  std::vector<std::string> disabled = options.disabled;
  std::vector<std::string> enabled = options.enabled;
  std::ranges::sort(disabled);
  std::ranges::sort(enabled);
  key.add("model", model_hash)
      .add("level", level_name(options.level))
      .add("disabled", join(disabled, ","))
      .add("enabled", join(enabled, ","))
      .add("target", device.device->target().name())
      .add("device", device.device->info().description)
      .add("features", join(device.device->target().capabilities().features, ","))
      .add("arithmetic", device.device->target().arithmetic())
      .add("threads", static_cast<std::uint64_t>(threads))
      .add("version", build.version)
      .add("commit", build.commit)
      .add("torch", build.torch_version);
}

// What a measurement depends on, whatever the model.
std::string describe_surroundings(const PlacedDevice& device, int threads) {
  const BuildInfo& build = build_info();
  return fmt::format("{} {} {} {} {} {} {} {}", device.device->target().name(), device.device->info().description,
                     join(device.device->target().capabilities().features, ","), device.device->target().arithmetic(),
                     threads, build.version, build.commit, build.torch_version);
}

Result<CacheKey> make_result_key(const ImportedModel& model, const std::string& model_hash,
                                 const OptimizeOptions& options, const PlacedDevice& device, int threads) {
  CacheKey key("optimize");
  add_surroundings(key, model_hash, options, device, threads);
  key.add("tolerance", options.tolerance ? fmt::format("{}", *options.tolerance) : "none")
      .add("draws", static_cast<std::uint64_t>(options.draws.count))
      .add("fill_up", std::uint64_t{options.draws.fill_up})
      .add("seed", options.draws.seed)
      .add("measure", std::uint64_t{options.measure})
      .add("source", options.source);
  for (const auto& [symbol, size] : options.draws.sizes) key.add("size " + symbol, static_cast<std::uint64_t>(size));
  KPT_ASSIGN_OR_RETURN(const std::string sample, hash_tensors(model.sample_inputs));
  key.add("sample", sample);
  for (const GivenInputs& given : options.draws.given) {
    KPT_ASSIGN_OR_RETURN(const std::string inputs, hash_tensors(given.tensors));
    key.add("inputs", inputs);
  }
  return key;
}

// Which passes lose depends on the sizes that they were timed at: those of the first draw, whatever its numbers.
Result<CacheKey> make_tuning_key(const ImportedModel& model, const std::string& model_hash,
                                 const OptimizeOptions& options, const PlacedDevice& device, int threads) {
  CacheKey key("tuning");
  add_surroundings(key, model_hash, options, device, threads);
  DrawOptions first = options.draws;
  first.count = std::min<std::size_t>(first.count, 1);
  KPT_ASSIGN_OR_RETURN(const std::vector<Draw> draws, make_draws(model, first));
  if (draws.empty()) return key;
  for (const NamedTensor& input : draws.front().inputs) key.add("timed " + input.name, input.tensor.to_string());
  return key;
}

// Where the results of one optimization are kept.
struct KeptPlace {
  CompileCache& cache;
  CacheKey result;
  CacheKey tuning;
};

// The losers of earlier measurements, if somebody measured.
std::optional<std::vector<DroppedPass>> read_losers(const KeptPlace& place) {
  const auto bytes = place.cache.get(place.tuning);
  if (!bytes.ok() || !bytes->has_value()) return std::nullopt;
  try {
    std::vector<DroppedPass> losers;
    for (const Json& entry : Json::parse(**bytes)) {
      losers.push_back({entry.at("pass").get<std::string>(), entry.at("reason").get<std::string>()});
    }
    return losers;
  } catch (const Json::exception&) {
    return std::nullopt;  // of another version: measured anew
  }
}

// A file beside `path` that nobody else knows: another process may write the same `path`.
struct PrivateFile {
  std::optional<ScratchFolder> folder;
  std::filesystem::path path;

  static Result<PrivateFile> make_beside(const std::filesystem::path& path) {
    // A part of a file for several devices lies in such a folder already, which may hold files alone.
    if (is_temporary(folder_of(path).filename().native())) {
      return PrivateFile{std::nullopt, folder_of(path) / fmt::format("new {}", path.filename().string())};
    }
    KPT_ASSIGN_OR_RETURN(ScratchFolder folder, ScratchFolder::make_beside(path));
    std::filesystem::path file = folder.path() / path.filename();
    return PrivateFile{std::move(folder), std::move(file)};
  }
};

// The report of a kept artifact, if it is of this model and level.
Result<OptimizeReport> read_kept(const std::filesystem::path& path, const OptimizeOptions& options) {
  KPT_ASSIGN_OR_RETURN(const Artifact artifact, read_artifact(path, {.check_weights = false}));
  KPT_ASSIGN_OR_RETURN(OptimizeReport report, read_optimize_report(artifact.targets.at(0).report));
  if (artifact.source_sha256 == options.source_sha256 && report.level == options.level) return report;
  return Status(StatusCode::kCorruptData, "it is of another model or level");
}

// Copies a kept artifact to its place. Nothing when there is none that can be used.
Result<std::optional<OptimizeReport>> take_kept(const KeptPlace& place, const OptimizeOptions& options,
                                                const std::filesystem::path& path) {
  const auto bytes = place.cache.get(place.result);
  if (!bytes.ok() || !bytes->has_value()) return std::optional<OptimizeReport>();
  KPT_ASSIGN_OR_RETURN(const PrivateFile file, PrivateFile::make_beside(path));
  KPT_RETURN_IF_ERROR(write_file_atomically(file.path, **bytes));
  auto report = read_kept(file.path, options);
  if (!report.ok()) {
    log::warn(fmt::format("what the compile cache holds for this optimization is not used: {}; it is made anew",
                          report.status().message()));
    return std::optional<OptimizeReport>();
  }
  KPT_RETURN_IF_ERROR(move_into_place(file.path, path));
  return std::optional<OptimizeReport>(std::move(*report));
}

Status keep(const KeptPlace& place, const OptimizeReport& report, bool measured, const Result<std::string>& bytes) {
  if (measured) {
    Json losers = Json::array();
    for (const DroppedPass& dropped : report.dropped) {
      losers.push_back({{"pass", dropped.pass}, {"reason", dropped.reason}});
    }
    KPT_RETURN_IF_ERROR(place.cache.put(place.tuning, dump_json(losers)));
  }
  return bytes.ok() ? place.cache.put(place.result, *bytes) : bytes.status();
}

}  // namespace

Result<WrittenOptimization> optimize_to_file(const ImportedModel& model, OptimizeOptions options,
                                             const PlacedDevice& device, const PlacedDevice& cpu, int threads,
                                             const std::filesystem::path& path, CompileCache* cache) {
  KPT_ASSIGN_OR_RETURN(options.source_sha256, hash_model(model.graph, model.weights));
  // In no key: what the caller's own passes do, and hardware that is not here.
  if (!options.added.empty() || options.target != nullptr) cache = nullptr;
  std::optional<KeptPlace> place;
  if (cache != nullptr) {  // the keys hash all inputs and draw some
    KPT_ASSIGN_OR_RETURN(CacheKey result, make_result_key(model, options.source_sha256, options, device, threads));
    KPT_ASSIGN_OR_RETURN(CacheKey tuning, make_tuning_key(model, options.source_sha256, options, device, threads));
    place.emplace(KeptPlace{*cache, std::move(result), std::move(tuning)});
  }
  const bool shows = options.check_each || options.dump_after;
  WrittenOptimization written;
  if (place && !shows) {
    KPT_ASSIGN_OR_RETURN(auto kept, take_kept(*place, options, path));
    if (kept) {
      written.report = std::move(*kept);
      written.written = true;
      written.from_cache = true;
      return written;
    }
  }
  if (place && options.measure) options.known_losers = read_losers(*place);
  options.cache = cache;
  options.surroundings = describe_surroundings(device, threads);
  const bool measured = options.measure && !options.known_losers;
  const auto start = std::chrono::steady_clock::now();
  KPT_ASSIGN_OR_RETURN(OptimizeOutcome outcome, optimize_model(model, options, device, cpu));
  log::info("model optimized", {{"model", options.source},
                                {"device", std::string(device.device->target().name())},
                                {"level", std::string(level_name(options.level))},
                                {"gate", outcome.artifact ? "passed" : "refused"},
                                {"milliseconds", fmt::format("{:.1f}", milliseconds_since(start))}});
  written.report = std::move(outcome.report);
  if (!outcome.artifact) return written;
  written.written = true;
  if (!place || shows) {
    KPT_RETURN_IF_ERROR(write_artifact(path, *outcome.artifact));
    return written;
  }
  KPT_ASSIGN_OR_RETURN(const PrivateFile file, PrivateFile::make_beside(path));
  KPT_RETURN_IF_ERROR(write_artifact(file.path, *outcome.artifact));
  const Result<std::string> bytes = read_text_file(file.path, kMaxKeptBytes);
  KPT_RETURN_IF_ERROR(move_into_place(file.path, path));
  const Status status = keep(*place, written.report, measured, bytes);
  if (!status.ok()) written.cache_note = status.message();
  return written;
}

}  // namespace kpt
