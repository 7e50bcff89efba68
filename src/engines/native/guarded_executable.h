// A graph that runs as planned launches on a device whose runtime may never come back from a call.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/execution.h"
#include "device/weights.h"
#include "engines/native/device_calls.h"
#include "engines/native/native_executable.h"

namespace kpt::native {

// A NativeExecutable, all of whose work is DeviceCalls'. A load or a run that was given up goes on with all that it
// uses until the runtime lets it end, and changes nothing that its caller could see: it has copies of what the caller
// may free, and shares of the rest. A run with a state waits for an earlier one that was given up with the same, within
// its limits. What the executable and its states hold is let go by those threads.
class GuardedExecutable final : public Executable {
 public:
  // Fails as NativeExecutable::load() and DeviceCalls do.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const ir::Graph> graph, const Weights& weights,
                                                  std::shared_ptr<Machine> machine, std::shared_ptr<DeviceCalls> calls);
  GuardedExecutable(const GuardedExecutable&) = delete;
  GuardedExecutable& operator=(const GuardedExecutable&) = delete;
  ~GuardedExecutable() override { calls_->let_go(std::move(native_)); }

  std::string_view device() const override { return native_->device(); }
  bool is_stateful() const override { return native_->is_stateful(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override;  // nothing while the device does not answer
  std::string describe_runs() const override { return native_->describe_runs(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

 private:
  class ObserverLink;
  struct SharedState;
  struct Run;
  class GuardedState;

  GuardedExecutable(std::shared_ptr<NativeExecutable> native, std::shared_ptr<DeviceCalls> calls)
      : native_(std::move(native)), calls_(std::move(calls)) {}
  Result<std::shared_ptr<SharedState>> find_state(const RunContext& context) const;

  std::shared_ptr<NativeExecutable> native_;
  std::shared_ptr<DeviceCalls> calls_;
};

}  // namespace kpt::native
