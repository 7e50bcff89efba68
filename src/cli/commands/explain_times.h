// The view `kpt explain --times`: where the time of a run goes, and which share of the machine's limits its largest
// nodes reach.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "benchmark/node_floor.h"

namespace kpt::cli {

struct NodeTime {
  std::string node;
  std::string target;
  double microseconds = 0;  // the median
  NodeFloor floor;
};

struct NodeTimes {
  MachineFloor machine;
  int runs = 0;
  std::vector<NodeTime> nodes;  // all of them, longest first
};

nlohmann::ordered_json to_json(const NodeTimes& times);
// The machine's limits, the longest `shown` nodes, and all nodes by operator.
std::string render_times(const NodeTimes& times, std::size_t shown);

}  // namespace kpt::cli
