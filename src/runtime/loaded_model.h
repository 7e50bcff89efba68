// A model on a device: what kpt::Model and kpt::Session stand on.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "device/execution.h"
#include "importer/model_file.h"
#include "kpt/model.h"
#include "runtime/batched_runs.h"
#include "runtime/input_check.h"
#include "runtime/pending_run.h"

namespace kpt::detail {

// Immutable; shared by all sessions and threads.
class LoadedModel {
 public:
  // Compiles for the device's target and loads. `backend` and `device` must outlive the result unless `keep_alive` owns
  // them. Fails with kUnsupported listing all operators that the target cannot run, with their Python source lines, and
  // what Target::place() advises.
  // Failures begin with the file that the model was read from.
  // `stored_program`: what Program::serialize() gave for this graph, to be used instead of compiling; one of another
  // version of the form is left aside, a damaged one fails with kCorruptData.
  static Result<std::shared_ptr<const LoadedModel>> load(ImportedModel imported, Backend& backend, Device& device,
                                                         std::shared_ptr<void> keep_alive = nullptr,
                                                         const BatchPolicy& batches = {},
                                                         std::string_view stored_program = {});

  const ir::Graph& graph() const { return program_->graph(); }
  const Program& program() const { return *program_; }
  Executable& executable() const { return *executable_; }
  const WeightNumbers& weight_numbers() const { return weight_numbers_; }
  const InputCheck& input_check() const { return *input_check_; }
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  // What was ignored when the model was read, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  // One run, in parts or with padding where the policy says so. Thread safe, but for the state in `context`. With an
  // event as BatchedRuns::run().
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, RunReport* report,
             Event* event = nullptr) const;

  // Whether the device takes runs and works on them later. Where it does not, runs that are waited for later are done
  // one after the other by a thread of the model's.
  bool queues_runs() const { return queues_runs_; }
  // Makes that thread, where one is needed and not there. Fails with kOutOfMemory when the system refuses it.
  Status prepare_queue() const;
  // Begins a run, after prepare_queue(). Runs are done in the order in which they come here.
  void queue(const std::shared_ptr<PendingRun>& run) const;

  // Puts tensors given by name into the model's order. Fails with kInvalidArgument for unknown, repeated and missing
  // names, naming the nearest valid one.
  Result<std::vector<Tensor>> order_inputs(std::span<const NamedTensor> inputs) const;

 private:
  LoadedModel() = default;
  void describe();

  std::shared_ptr<void> keep_alive_;  // first: goes last
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<InputCheck> input_check_;
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
  std::vector<std::string> notes_;
  WeightNumbers weight_numbers_;
  std::optional<BatchedRuns> runs_;  // set when loaded
  bool queues_runs_ = false;
  mutable std::mutex worker_mutex_;             // held while `worker_` is made
  mutable std::unique_ptr<ThreadPool> worker_;  // of one thread, for runs that are waited for later; ends first
};

// What the target says about each node; of nodes inside a sub-graph that cannot run, with their source lines.
Result<std::vector<Support>> find_support(const ImportedModel& model, const Target& target);
// Ok when the target runs all nodes, else kUnsupported as load() gives it.
Status check_support(const ImportedModel& model, const Target& target);

struct SessionState {
  std::shared_ptr<const LoadedModel> model;
  std::mutex mutex;                // held while `buffers` is in use, but for the run in flight
  std::unique_ptr<State> buffers;  // null for models that write none
  // Uses `buffers` until it is over; null when none was started. Whoever takes the lock waits for it.
  std::shared_ptr<PendingRun> in_flight;
};

Result<Session> start_session(std::shared_ptr<const LoadedModel> model);

// Waits for the run in flight; `session.mutex` is held.
void finish_flight(SessionState& session);

// One run. Thread safe.
Status run_session(SessionState& session, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                   const RunOptions& options);

}  // namespace kpt::detail
