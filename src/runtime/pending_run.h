// A run that is waited for later: what kpt::Pending stands on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/execution.h"
#include "kpt/model.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::detail {

class LoadedModel;
struct SessionState;

// Thread safe. Model and state must outlive the run, and so must what the options point to.
class PendingRun {
 public:
  PendingRun(const LoadedModel& model, State* state, std::span<const Tensor> inputs, const RunOptions& options);

  // Does the run, or hands it to the device where that queues work. Called once, by any thread; throws nothing.
  void execute();
  // Ends the run before execute(), which is not called any more then.
  void give_up(Status reason);

  // Whether wait() would return at once.
  bool done() const;
  // Until the run is over: its inputs are let go, its outputs are there, or it gives why not. Again: the same answer.
  Status wait();
  // The outputs, once. Fails as wait(), and with kInvalidArgument when they were taken before.
  Result<std::vector<Tensor>> take_outputs();

 private:
  enum class Phase : std::uint8_t {
    kBegun,    // execute() has not returned
    kQueued,   // the device has it
    kWaiting,  // a thread waits for the device
    kOver,
  };

  void finish(Status status);

  const LoadedModel& model_;
  RunContext context_;
  RunReport* report_;
  std::vector<Tensor> inputs_;

  mutable std::mutex mutex_;  // guards what follows; outputs only when the run is over
  std::condition_variable changed_;
  Phase phase_ = Phase::kBegun;
  Event event_;
  Status status_;
  std::vector<Tensor> outputs_;
  bool taken_ = false;
};

// Starts a run. Fails before anything runs: with kInvalidArgument for inputs that do not fit and for a session whose
// buffers another run is using, with kOutOfMemory where the system refuses a thread. Thread safe.
Result<std::shared_ptr<PendingRun>> start_run(SessionState& session, std::span<const Tensor> inputs,
                                              const RunOptions& options);

}  // namespace kpt::detail
