#include "benchmark/baseline.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/text.h"
#include "device/hardware_json.h"

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMaxBaselineBytes = std::size_t{64} << 20U;
constexpr std::size_t kMaxEntries = 100000;

Json to_json(const BaselineEntry& entry) {
  const BaselineKey& key = entry.key;
  const SampleSummary& summary = entry.summary;
  return {{"key",
           {{"model", key.model},
            {"model_sha256", key.model_sha256},
            {"device", key.device},
            {"device_model", key.device_model},
            {"cpu_model", key.cpu_model},
            {"threads", key.threads},
            {"kpt_version", key.kpt_version},
            {"torch_version", key.torch_version},
            {"what", key.what},
            {"sizes", key.sizes}}},
          {"date", entry.date},
          {"commit", entry.commit},
          {"samples", summary.count},
          {"median_ms", summary.median},
          {"interval_ms", {summary.median_interval.low, summary.median_interval.high}},
          {"mad_ms", summary.mad},
          {"mean_ms", summary.mean},
          {"stddev_ms", summary.stddev},
          {"min_ms", summary.least},
          {"max_ms", summary.most},
          {"p90_ms", summary.p90},
          {"p99_ms", summary.p99}};
}

// Reads members of one object; the first failure stays.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  void text(const char* name, std::string& value) {
    if (const Json* member = find(name); member != nullptr && member->is_string()) {
      value = member->get<std::string>();
    } else {
      complain(name, "text");
    }
  }
  // Finite and not negative, as all figures here are.
  void number(const char* name, double& value) { take_number(find(name), name, value); }
  template <typename Integer>
  void count(const char* name, Integer& value, std::int64_t most) {
    const Json* member = find(name);
    if (member == nullptr || !member->is_number_integer() || *member < 0 || *member > most) {
      return complain(name, "a count");
    }
    value = member->get<Integer>();
  }
  void interval(const char* name, Interval& value) {
    const Json* member = find(name);
    if (member == nullptr || !member->is_array() || member->size() != 2) return complain(name, "two numbers");
    take_number(&member->at(0), name, value.low);
    take_number(&member->at(1), name, value.high);
  }
  void sizes(const char* name, Sizes& value) {
    const Json* member = find(name);
    if (member == nullptr || !member->is_object()) return complain(name, "sizes by symbol");
    for (const auto& [symbol, size] : member->items()) {
      if (!size.is_number_integer()) return complain(name, "sizes by symbol");
      value[symbol] = size.get<std::int64_t>();
    }
  }
  const Json* find(const char* name) const {
    return json_.is_object() && json_.contains(name) ? &json_.at(name) : nullptr;
  }
  const Status& status() const { return status_; }

 private:
  void take_number(const Json* member, const char* name, double& value) {
    if (member == nullptr || !member->is_number()) return complain(name, "a number");
    value = member->get<double>();
    if (!std::isfinite(value) || value < 0) complain(name, "a finite number of at least 0");
  }
  void complain(const char* name, const char* expected) {
    if (status_.ok()) status_ = {StatusCode::kCorruptData, fmt::format("{}: '{}' must be {}", where_, name, expected)};
  }

  const Json& json_;
  std::string where_;
  Status status_;
};

Result<BaselineEntry> parse_entry(const Json& json, const std::string& where) {
  BaselineEntry entry;
  Members members(json, where);
  const Json* key = members.find("key");
  const Json none = Json::object();
  Members key_members(key == nullptr ? none : *key, where + ", key");
  key_members.text("model", entry.key.model);
  key_members.text("model_sha256", entry.key.model_sha256);
  key_members.text("device", entry.key.device);
  if (key_members.find("device_model") != nullptr) key_members.text("device_model", entry.key.device_model);
  key_members.text("cpu_model", entry.key.cpu_model);
  key_members.count("threads", entry.key.threads, 1 << 20);
  key_members.text("kpt_version", entry.key.kpt_version);
  key_members.text("torch_version", entry.key.torch_version);
  key_members.text("what", entry.key.what);
  key_members.sizes("sizes", entry.key.sizes);
  KPT_RETURN_IF_ERROR(key_members.status());
  members.text("date", entry.date);
  members.text("commit", entry.commit);
  SampleSummary& summary = entry.summary;
  members.count("samples", summary.count, std::int64_t{1} << 40);
  members.number("median_ms", summary.median);
  members.interval("interval_ms", summary.median_interval);
  members.number("mad_ms", summary.mad);
  members.number("mean_ms", summary.mean);
  members.number("stddev_ms", summary.stddev);
  members.number("min_ms", summary.least);
  members.number("max_ms", summary.most);
  members.number("p90_ms", summary.p90);
  members.number("p99_ms", summary.p99);
  KPT_RETURN_IF_ERROR(members.status());
  const Interval& interval = summary.median_interval;
  if (!(0 < interval.low && interval.low <= summary.median && summary.median <= interval.high)) {
    return Status(StatusCode::kCorruptData, where + ": the median must lie inside its interval and above 0");
  }
  return entry;
}

// How far two keys are apart: the first difference that is not allowed, from the one that matters most.
struct KeyDifference {
  int weight = 0;  // 0: comparable; larger: further apart
  std::string sentence;
};

KeyDifference find_difference(const BaselineKey& before, const BaselineKey& now, const BaselineDifferences& allowed) {
  const auto differs = [](const char* what, const auto& then, const auto& today) {
    return fmt::format("its {} is {}, here it is {}", what, then, today);
  };
  if (!allowed.model && before.model_sha256 != now.model_sha256) {
    if (before.model != now.model) return {8, differs("model", before.model, now.model)};
    return {
        7, fmt::format("it was made with another file of the name {} (use --across model to compare them)", now.model)};
  }
  if (before.device != now.device) return {6, differs("device", before.device, now.device)};
  if (before.device_model != now.device_model) {
    if (before.device_model.empty()) {  // of before it was kept
      return {6, fmt::format("it does not tell what its {} was, here it is {}; save it anew", now.device,
                             now.device_model)};
    }
    return {6, differs(now.device.c_str(), before.device_model, now.device_model)};
  }
  if (before.cpu_model != now.cpu_model) return {5, differs("CPU", before.cpu_model, now.cpu_model)};
  if (before.what != now.what) return {4, differs("subject", before.what, now.what)};
  if (before.sizes != now.sizes) {
    const auto text = [](const Sizes& sizes) { return sizes.empty() ? "the default" : describe_sizes(sizes, ""); };
    return {3, differs("size", text(before.sizes), text(now.sizes))};
  }
  if (!allowed.threads && before.threads != now.threads) {
    return {2, differs("number of threads", before.threads, now.threads)};
  }
  if (!allowed.versions && before.kpt_version != now.kpt_version) {
    return {1, differs("version of kpt", before.kpt_version, now.kpt_version) + " (--across versions compares them)"};
  }
  if (!allowed.versions && before.torch_version != now.torch_version) {
    return {1, differs("version of libtorch", before.torch_version, now.torch_version) +
                   " (--across versions compares them)"};
  }
  return {};
}

bool same_key(const BaselineKey& a, const BaselineKey& b) { return find_difference(a, b, {}).weight == 0; }

}  // namespace

Result<BaselineDifferences> parse_differences(std::span<const std::string> words) {
  BaselineDifferences differences;
  for (const std::string& word : words) {
    if (word == "model") {
      differences.model = true;
    } else if (word == "versions") {
      differences.versions = true;
    } else if (word == "threads") {
      differences.threads = true;
    } else {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("'{}' is nothing to compare across; there are model, versions and threads", word));
    }
  }
  return differences;
}

std::vector<BaselineEntry> make_entries(const BenchmarkReport& report) {
  const BenchmarkContext& context = report.context;
  BaselineEntry entry;
  entry.key = {context.model,
               context.model_sha256,
               context.device,
               context.device_model,
               context.cpu_model,
               context.threads,
               context.kpt_version,
               context.torch_version,
               {},
               "run"};
  entry.date = context.date;
  entry.commit = context.commit;
  std::vector<BaselineEntry> entries;
  for (const PointReport& point : report.points) {
    entries.push_back(entry);
    entries.back().key.sizes = point.sizes;
    entries.back().summary = point.measurement.summary;
  }
  for (const StartupReport& startup : report.startups) {
    entries.push_back(entry);
    entries.back().key.what = "startup, " + startup.kind;
    entries.back().summary = startup.summary;
  }
  return entries;
}

Result<std::vector<BaselineEntry>> read_baseline(const std::filesystem::path& path) {
  KPT_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxBaselineBytes));
  const std::string name = path.string();
  // A depth of 8 is more than the form has; deeper documents would cost the parser's stack.
  const auto limit = [](int depth, Json::parse_event_t, Json&) { return depth <= 8; };
  const Json json = Json::parse(text, limit, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("kpt_baseline") || !json.at("kpt_baseline").is_number_integer()) {
    return Status(StatusCode::kCorruptData, name + " is no baseline of kpt bench");
  }
  if (json.at("kpt_baseline") != kBaselineVersion) {
    return Status(StatusCode::kVersionMismatch, fmt::format("{} has form {}, this kpt reads {}; save it anew", name,
                                                            json.at("kpt_baseline").dump(), kBaselineVersion));
  }
  if (!json.contains("entries") || !json.at("entries").is_array() || json.at("entries").size() > kMaxEntries) {
    return Status(StatusCode::kCorruptData, name + ": 'entries' must be a list");
  }
  std::vector<BaselineEntry> entries;
  for (const Json& item : json.at("entries")) {
    KPT_ASSIGN_OR_RETURN(BaselineEntry entry, parse_entry(item, fmt::format("{}: entry {}", name, entries.size())));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Status save_baseline(const std::filesystem::path& path, const BenchmarkReport& report) {
  std::vector<BaselineEntry> entries;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    KPT_ASSIGN_OR_RETURN(entries, read_baseline(path));
  }
  for (BaselineEntry& fresh : make_entries(report)) {
    std::erase_if(entries, [&](const BaselineEntry& old) { return same_key(old.key, fresh.key); });
    entries.push_back(std::move(fresh));
  }
  Json json = {{"kpt_baseline", kBaselineVersion}, {"entries", Json::array()}};
  for (const BaselineEntry& entry : entries) json["entries"].push_back(to_json(entry));
  return write_file_atomically(path, dump_json(json, 1) + "\n");
}

Result<std::vector<ComparedEntry>> compare_with_baseline(std::span<const BaselineEntry> baseline,
                                                         const BenchmarkReport& report, double least_effect,
                                                         const BaselineDifferences& allowed,
                                                         std::vector<std::string>& missing) {
  std::vector<ComparedEntry> compared;
  KeyDifference nearest{100, "it holds no entry"};
  for (BaselineEntry& now : make_entries(report)) {
    const BaselineEntry* match = nullptr;
    for (const BaselineEntry& before : baseline) {
      const KeyDifference difference = find_difference(before.key, now.key, allowed);
      if (difference.weight == 0) match = &before;  // of several the last: the newest
      if (difference.weight != 0 && difference.weight < nearest.weight) nearest = difference;
    }
    if (match == nullptr) {
      missing.push_back(now.key.what == "run" ? describe_sizes(now.key.sizes, report.batch_symbol) : now.key.what);
      continue;
    }
    compared.push_back({*match, now, compare_times(match->summary, now.summary, least_effect)});
  }
  if (compared.empty()) {
    return Status(StatusCode::kInvalidArgument, "the baseline does not fit this measurement: " + nearest.sentence);
  }
  return compared;
}

}  // namespace kpt
