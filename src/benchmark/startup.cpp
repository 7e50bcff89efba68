#include "benchmark/startup.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "base/text.h"

namespace kpt {
namespace {

// An empty folder for a cache, gone with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    static std::atomic<unsigned> counter = 0;
    std::error_code error;
    const std::filesystem::path base = std::filesystem::temp_directory_path(error);
    if (error) return Status(StatusCode::kIo, "there is no folder for temporary files: " + error.message());
    ScratchFolder folder(base / fmt::format("kpt-startup-{}-{}", ::getpid(), counter++));
    std::filesystem::remove_all(folder.path_, error);
    std::filesystem::create_directory(folder.path_, error);
    if (error)
      return Status(StatusCode::kIo, fmt::format("cannot make {}: {}", folder.path_.string(), error.message()));
    return folder;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }
  bool holds_files() const {
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_, error)) {
      if (entry.is_regular_file(error)) return true;
    }
    return false;
  }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

struct OneStart {
  double milliseconds = 0;
  FirstAnswer answer;
};

Result<OneStart> start_once(const StartupOptions& options, const std::filesystem::path& cache) {
  ChildCommand command;
  command.arguments = {options.program.string()};
  command.arguments.insert(command.arguments.end(), options.arguments.begin(), options.arguments.end());
  command.arguments.insert(command.arguments.end(), {"--set", "cache.dir=" + cache.string()});
  command.time_limit = options.time_limit;
  const auto start = std::chrono::steady_clock::now();
  KPT_ASSIGN_OR_RETURN(const ChildOutcome outcome, run_child(command));
  if (!outcome.succeeded()) {
    return Status(StatusCode::kInternal,
                  fmt::format("a process started to measure start-up failed ({}): {}",
                              outcome.describe(options.time_limit), printable(trim(outcome.standard_error), 400)));
  }
  OneStart one;
  KPT_ASSIGN_OR_RETURN(one.answer, parse_first_answer(outcome.standard_output));
  const auto started_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(start.time_since_epoch()).count();
  one.milliseconds = 1e-6 * static_cast<double>(one.answer.answered_ns - started_ns);
  if (one.milliseconds <= 0) return Status(StatusCode::kCorruptData, "a process answered before it was started");
  return one;
}

StartupReport summarize_starts(std::string kind, const std::vector<OneStart>& starts) {
  StartupReport report;
  report.kind = std::move(kind);
  std::vector<double> load;
  std::vector<double> run;
  std::vector<double> cpu;
  for (const OneStart& one : starts) {
    report.samples_ms.push_back(one.milliseconds);
    load.push_back(one.answer.load_ms);
    run.push_back(one.answer.run_ms);
    cpu.push_back(one.answer.cpu_ms);
    report.peak_bytes = std::max(report.peak_bytes, one.answer.peak_bytes);
  }
  report.summary = summarize(report.samples_ms);
  report.load_ms = median_of(load);
  report.run_ms = median_of(run);
  report.cpu_ms = median_of(cpu);
  return report;
}

}  // namespace

std::string encode_first_answer(const FirstAnswer& answer) {
  const nlohmann::ordered_json json = {{"answered_ns", answer.answered_ns},
                                       {"load_ms", answer.load_ms},
                                       {"run_ms", answer.run_ms},
                                       {"cpu_ms", answer.cpu_ms},
                                       {"peak_bytes", answer.peak_bytes}};
  return json.dump();
}

Result<FirstAnswer> parse_first_answer(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  FirstAnswer answer;
  const auto is_number = [&](const char* key) { return json.contains(key) && json.at(key).is_number(); };
  if (!json.is_object() || !is_number("answered_ns") || !is_number("load_ms") || !is_number("run_ms") ||
      !is_number("cpu_ms") || !is_number("peak_bytes")) {
    return Status(StatusCode::kCorruptData,
                  "a process started to measure start-up gave no answer that can be read: " + printable(text, 200));
  }
  answer.answered_ns = json.at("answered_ns").get<std::int64_t>();
  answer.load_ms = json.at("load_ms").get<double>();
  answer.run_ms = json.at("run_ms").get<double>();
  answer.cpu_ms = json.at("cpu_ms").get<double>();
  answer.peak_bytes = json.at("peak_bytes").get<std::uint64_t>();
  return answer;
}

Result<std::vector<StartupReport>> measure_startup(const StartupOptions& options) {
  // The first start brings file and libraries into memory, and shows whether the model uses the cache.
  KPT_ASSIGN_OR_RETURN(const ScratchFolder warm, ScratchFolder::make());
  KPT_RETURN_IF_ERROR(start_once(options, warm.path()).status());
  const bool uses_cache = warm.holds_files();
  std::vector<StartupReport> reports;
  for (const char* kind : {"cold cache", "warm cache"}) {
    const bool cold = std::string_view(kind) == "cold cache";
    if (!uses_cache && cold) continue;
    const std::string name = uses_cache ? kind : "no cache";
    if (options.on_kind) options.on_kind(name);
    std::vector<OneStart> starts;
    for (std::size_t run = 0; run < std::max<std::size_t>(options.runs, 1); ++run) {
      KPT_ASSIGN_OR_RETURN(const ScratchFolder empty, ScratchFolder::make());
      KPT_ASSIGN_OR_RETURN(const OneStart one, start_once(options, cold ? empty.path() : warm.path()));
      starts.push_back(one);
    }
    reports.push_back(summarize_starts(name, starts));
  }
  return reports;
}

}  // namespace kpt
