#include "benchmark/profile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

bool on_device(const Activity& activity) {
  return activity.kind == Activity::Kind::kKernel || activity.kind == Activity::Kind::kCopy;
}

bool within(std::int64_t moment, const Period& period) { return moment >= period.begin_ns && moment <= period.end_ns; }

// The last of the periods that began before a moment. They follow one another.
template <typename Item, typename Begin>
const Item* last_before(const std::vector<Item>& periods, std::int64_t moment, const Begin& begin) {
  const auto after = std::ranges::upper_bound(periods, moment, {}, begin);
  return after == periods.begin() ? nullptr : &*std::prev(after);
}

// Work on a device may end after the run's last call but not begin outside all of them.
bool in_runs(const Activity& activity, const Recording& recording) {
  const Period* const run = last_before(recording.runs, activity.begin_ns, &Period::begin_ns);
  return run != nullptr && within(activity.begin_ns, *run);
}

// The node that was at work when something began.
std::optional<std::size_t> node_at(const std::vector<NodePeriod>& nodes, std::int64_t moment) {
  const NodePeriod* const found =
      last_before(nodes, moment, [](const NodePeriod& period) { return period.elapsed.begin_ns; });
  if (found == nullptr || !within(moment, found->elapsed)) return std::nullopt;
  return found->node;
}

// When the host asked for what has this number. A number names one call.
std::unordered_map<std::uint64_t, std::int64_t> find_calls(const Recording& recording) {
  std::unordered_map<std::uint64_t, std::int64_t> calls;
  for (const Activity& activity : recording.activities) {
    if (activity.kind == Activity::Kind::kCall && activity.correlation != 0) {
      calls.emplace(activity.correlation, activity.begin_ns);
    }
  }
  return calls;
}

double per_run(double nanoseconds, std::size_t runs) {
  return runs == 0 ? 0 : nanoseconds / 1e3 / static_cast<double>(runs);
}

// Rows of the trace: the host's threads under one process, the device's streams under another.
constexpr int kHost = 1;
constexpr int kDevice = 2;
constexpr std::int64_t kNodeLane = 1;
constexpr std::int64_t kRunLane = 0;
constexpr std::int64_t kFirstThreadLane = 2;

std::string_view category(Activity::Kind kind) {
  switch (kind) {
    case Activity::Kind::kOperator: return "operator";
    case Activity::Kind::kCall: return "call";
    case Activity::Kind::kKernel: return "kernel";
    case Activity::Kind::kCopy: return "copy";
  }
  return "";
}

class TraceWriter {
 public:
  explicit TraceWriter(std::int64_t zero_ns) : zero_ns_(zero_ns) {}

  void name_row(std::string_view what, int process, std::int64_t lane, std::string_view name) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", lane}, {"args", {{"name", name}}}});
  }

  void add(std::string_view name, std::string_view kind, int process, std::int64_t lane, std::int64_t begin_ns,
           std::int64_t duration_ns) {
    events_.push_back({{"ph", "X"},
                       {"name", printable(name, 200)},
                       {"cat", kind},
                       {"pid", process},
                       {"tid", lane},
                       {"ts", static_cast<double>(begin_ns - zero_ns_) / 1e3},
                       {"dur", static_cast<double>(duration_ns) / 1e3}});
  }

  std::string text(const std::vector<KernelTime>& kernels) && {
    Json rows = Json::array();
    for (const KernelTime& kernel : kernels) {
      rows.push_back({{"name", printable(kernel.name, 200)},
                      {"calls", kernel.calls},
                      {"microseconds", kernel.microseconds},
                      {"mean_microseconds", kernel.mean()},
                      {"least_microseconds", kernel.least},
                      {"greatest_microseconds", kernel.greatest}});
    }
    const Json trace = {
        {"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}, {"otherData", {{"kernels", std::move(rows)}}}};
    return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  std::int64_t zero_ns_;
  Json events_ = Json::array();
};

}  // namespace

std::vector<KernelTime> sum_kernels(const Recording& recording) {
  std::map<std::string, KernelTime> sums;
  const std::size_t runs = recording.runs.size();
  for (const Activity& activity : recording.activities) {
    if (!on_device(activity) || !in_runs(activity, recording)) continue;
    KernelTime& sum = sums[activity.name];
    const double taken = static_cast<double>(activity.duration_ns) / 1e3;
    sum.least = sum.calls > 0 ? std::min(sum.least, taken) : taken;
    sum.greatest = std::max(sum.greatest, taken);
    sum.copy = activity.kind == Activity::Kind::kCopy;
    sum.calls += 1.0 / static_cast<double>(runs);
    sum.microseconds += per_run(static_cast<double>(activity.duration_ns), runs);
  }
  std::vector<KernelTime> sorted;
  for (auto& [name, sum] : sums) {
    sum.name = name;
    sorted.push_back(std::move(sum));
  }
  std::ranges::stable_sort(sorted,
                           [](const KernelTime& a, const KernelTime& b) { return a.microseconds > b.microseconds; });
  return sorted;
}

double busy_microseconds(const Recording& recording) {
  std::vector<Period> periods;
  for (const Activity& activity : recording.activities) {
    if (!on_device(activity) || !in_runs(activity, recording)) continue;
    periods.push_back({activity.begin_ns, activity.begin_ns + activity.duration_ns});
  }
  std::ranges::sort(periods, {}, &Period::begin_ns);
  double busy = 0;
  std::int64_t reached = 0;
  for (const Period& period : periods) {
    const std::int64_t begin = std::max(period.begin_ns, reached);
    if (period.end_ns <= begin) continue;
    busy += static_cast<double>(period.end_ns - begin);
    reached = period.end_ns;
  }
  return per_run(busy, recording.runs.size());
}

std::vector<double> sum_nodes(const Recording& recording, std::size_t nodes, bool on_device_only) {
  std::vector<double> sums(nodes, 0);
  const std::size_t runs = recording.observed_runs.size();
  if (!on_device_only) {
    for (const NodePeriod& period : recording.nodes) {
      if (period.node >= nodes) continue;
      sums[period.node] += per_run(static_cast<double>(period.elapsed.end_ns - period.elapsed.begin_ns), runs);
    }
    return sums;
  }
  const auto calls = find_calls(recording);
  for (const Activity& activity : recording.activities) {
    if (!on_device(activity)) continue;
    const auto call = calls.find(activity.correlation);
    if (call == calls.end()) continue;
    const auto node = node_at(recording.nodes, call->second);
    if (node && *node < nodes) sums[*node] += per_run(static_cast<double>(activity.duration_ns), runs);
  }
  return sums;
}

std::string write_trace(const Recording& recording, std::span<const std::string> names, std::string_view device) {
  std::int64_t zero = INT64_MAX;
  for (const Activity& activity : recording.activities) zero = std::min(zero, activity.begin_ns);
  for (const Period& run : recording.runs) zero = std::min(zero, run.begin_ns);
  for (const Period& run : recording.observed_runs) zero = std::min(zero, run.begin_ns);
  TraceWriter writer(zero == INT64_MAX ? 0 : zero);
  writer.name_row("process_name", kHost, 0, "host");
  writer.name_row("thread_name", kHost, kRunLane, "runs");
  writer.name_row("thread_name", kHost, kNodeLane, "nodes");
  for (const Period& run : recording.runs) {
    writer.add("run", "run", kHost, kRunLane, run.begin_ns, run.end_ns - run.begin_ns);
  }
  for (const Period& run : recording.observed_runs) {
    writer.add("run node by node", "run", kHost, kRunLane, run.begin_ns, run.end_ns - run.begin_ns);
  }
  for (const NodePeriod& period : recording.nodes) {
    const std::string_view name = period.node < names.size() ? std::string_view(names[period.node]) : "node";
    writer.add(name, "node", kHost, kNodeLane, period.elapsed.begin_ns,
               period.elapsed.end_ns - period.elapsed.begin_ns);
  }
  std::map<std::int64_t, std::int64_t> threads;  // to rows, in the order they are met
  std::set<std::int64_t> streams;
  for (const Activity& activity : recording.activities) {
    std::int64_t lane = activity.lane;
    if (on_device(activity)) {
      streams.insert(lane);
    } else {
      const auto next = kFirstThreadLane + static_cast<std::int64_t>(threads.size());
      lane = threads.emplace(lane, next).first->second;
    }
    writer.add(activity.name, category(activity.kind), on_device(activity) ? kDevice : kHost, lane, activity.begin_ns,
               activity.duration_ns);
  }
  for (const auto& [thread, lane] : threads) {
    writer.name_row("thread_name", kHost, lane, "thread " + std::to_string(lane - kFirstThreadLane + 1));
  }
  if (!streams.empty()) writer.name_row("process_name", kDevice, 0, device);
  for (const std::int64_t stream : streams) {
    writer.name_row("thread_name", kDevice, stream, "stream " + std::to_string(stream));
  }
  return std::move(writer).text(sum_kernels(recording));
}

}  // namespace kpt
