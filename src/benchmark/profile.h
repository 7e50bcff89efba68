// Where the time of a model's runs goes: kernels and nodes, and a timeline that Perfetto and chrome://tracing open.
//
// A recording has two parts: runs as they always are (on a GPU: one launch of a captured graph), and runs node by node,
// which tell what belongs to which node. Nothing here needs a device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/activity.h"

namespace kpt {

// Begin and end in nanoseconds of the system clock.
struct Period {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

struct NodePeriod {
  std::size_t node = 0;  // in the graph's nodes
  Period elapsed;        // from its start on the host until it was done, also on a device
};

struct Recording {
  std::vector<Activity> activities;
  std::vector<Period> runs;           // as they always are
  std::vector<Period> observed_runs;  // node by node
  std::vector<NodePeriod> nodes;      // of all observed runs, in the order they ran
};

// One kernel, or copies of one kind, summed over the runs as they always are.
struct KernelTime {
  std::string name;
  bool copy = false;
  double calls = 0;         // in one run
  double microseconds = 0;  // likewise
  double least = 0;         // microseconds of a single call, over all runs
  double greatest = 0;
  double mean() const { return calls > 0 ? microseconds / calls : 0; }
};

// On the device, longest first. Empty when everything ran on the host.
std::vector<KernelTime> sum_kernels(const Recording& recording);

// How long the device had something to do in one run, in microseconds: work side by side counts once.
double busy_microseconds(const Recording& recording);

// Microseconds of one observed run, by node: of what the node's calls started on the device, or else until it was done.
std::vector<double> sum_nodes(const Recording& recording, std::size_t nodes, bool on_device);

// The JSON of the trace event format, with sum_kernels() under "otherData". `names`: of the graph's nodes. `device`:
// how the row of the device is called.
std::string write_trace(const Recording& recording, std::span<const std::string> names, std::string_view device);

}  // namespace kpt
