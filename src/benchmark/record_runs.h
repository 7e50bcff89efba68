// Runs of a model while its device listens: as they always are, then node by node.
#pragma once

#include <functional>
#include <string>

#include "benchmark/profile.h"
#include "device/execution.h"
#include "kpt/status.h"

namespace kpt {

struct RunToRecord {
  std::function<Status()> prepare;  // before each run, and not timed
  std::function<Status(NodeObserver* observer)> run;
};

struct RecordedRuns {
  Recording recording;
  // Why it has nothing of what the device did, and where the engine runs graphs as a whole nothing of nodes; empty
  // where it has.
  std::string note;
};

// `rounds` runs of each way. Where nobody listens, the runs alone are timed; where the listener heard nothing of the
// device, nodes still are, until they are done. Fails as the runs do, and as Device::record() in other ways.
Result<RecordedRuns> record_runs(Device& device, int rounds, const RunToRecord& run);

}  // namespace kpt
