// A graph on one device of a PJRT plugin, or spread over several.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/call_threads.h"
#include "device/execution.h"
#include "engines/xla/execution/device_parts.h"
#include "engines/xla/execution/matrix_precision.h"
#include "engines/xla/execution/module_compiler.h"
#include "engines/xla/execution/program_maker.h"
#include "engines/xla/execution/shape_programs.h"
#include "engines/xla/execution/sharding.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/execution/xla_run.h"
#include "engines/xla/execution/xla_state.h"

namespace kpt {

struct XlaLoadOptions {
  std::string device;            // its name
  std::size_t first_device = 0;  // of the client, which the run begins on
  ShardPlan shards;
  std::string matrix_precision{kHighestPrecision};                        // of matrix_precision.h
  std::function<Status(const pjrt::ProgramMemory& memory)> check_memory;  // as in ProgramMaker
  // Taken for its sizes instead of compiling; one that the plugin refuses is a line in the log, and compiled anew.
  std::optional<StoredExecutable> stored;
  // What the plugin may take to take a weight and to let them go, and for a run that has no deadline.
  std::chrono::milliseconds call_limit = kLongestCall;
  bool limits_runs = true;  // false: such a run has no limit, and is done on the thread of its caller
};

// Weights are uploaded once, when it is loaded. A graph without symbols is compiled then too; others for each set of
// sizes when it is first run, sixteen of them kept. Outputs are on the host. A queued program cannot be stopped: a run
// that passes its deadline or is cancelled goes on in the plugin, with all that it uses, and nobody waits for it.
// Further runs wait until it has come back, within their own limits; after one that passed `call_limit` they are
// refused at once (kDeviceNotAvailable) until it has. A run that is over while its program is compiled leaves the
// compiler at work, for the next one with these sizes; others do not wait for it.
class XlaExecutable final : public Executable {
 public:
  // Fails with kInvalidArgument for weights that are missing or do not fit, with kModelPreparation for weights that
  // are written and share memory, and as ModuleCompiler::compile(), ShardPlan::cut() and the options' check_memory do.
  // The compiler's settings and its client must be for the devices of the options.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const XlaProgram> program, const Weights& weights,
                                                  std::shared_ptr<const ModuleCompiler> compiler,
                                                  XlaLoadOptions options);
  XlaExecutable(const XlaExecutable&) = delete;
  XlaExecutable& operator=(const XlaExecutable&) = delete;
  ~XlaExecutable() override;

  std::string_view device() const override { return model_->device; }
  bool is_stateful() const override { return !written_.empty(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override;
  std::int64_t row_multiple() const override { return shards_.row_multiple(); }
  std::string describe_runs() const override { return shards_.describe(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

  static constexpr std::size_t kMostShapes = 16;

 private:
  XlaExecutable(std::shared_ptr<const XlaProgram> program, std::shared_ptr<const pjrt::Client> client,
                const XlaLoadOptions& options);
  const XlaProgram& program() const { return *model_->program; }
  const ir::Graph& graph() const { return program().graph(); }
  const pjrt::Client& client() const { return *model_->client; }
  Vendor vendor() const { return client().plugin().vendor(); }
  Status find_written(const Weights& weights);
  Status give_weights(const Weights& weights);
  Result<ShapePrograms::Program> find_program(const RunContext& context, std::span<const Tensor> inputs);
  ShapePrograms::Key make_key(const ir::Bindings& sizes) const;
  Result<XlaState*> find_state(const RunContext& context) const;
  bool may_be_left(const RunContext& context) const;
  CallLimit limit_of(const RunContext& context) const;
  Status wait_for_given_up(const RunContext& context);

  std::chrono::milliseconds call_limit_;
  bool limits_runs_;
  ShardPlan shards_;
  std::shared_ptr<XlaModel> model_;                          // not changed once it is loaded
  std::map<std::string, std::size_t, std::less<>> written_;  // name of a written weight → graph input
  std::shared_ptr<CallThreads> threads_;
  std::atomic<bool> stuck_{false};  // a run passed call_limit_ and has not come back
  std::shared_ptr<ShapePrograms> programs_;
  std::shared_ptr<const ProgramMaker> maker_;
  CallThreads compiling_;  // for runs that may leave; runs of other sizes do not wait for what they leave here
};

}  // namespace kpt
