// A graph on one device of a PJRT plugin, or spread over several.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/execution.h"
#include "engines/xla/execution/device_parts.h"
#include "engines/xla/execution/matrix_precision.h"
#include "engines/xla/execution/module_compiler.h"
#include "engines/xla/execution/shape_programs.h"
#include "engines/xla/execution/sharding.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/execution/xla_state.h"

namespace kpt {

// What another process made of the graph for one set of sizes.
struct StoredExecutable {
  ir::Bindings sizes;  // of the graph's symbols
  std::string bytes;   // that Client::deserialize() takes
};

struct XlaLoadOptions {
  std::string device;            // its name
  std::size_t first_device = 0;  // of the client, which the run begins on
  ShardPlan shards;
  std::string matrix_precision{kHighestPrecision};  // of matrix_precision.h
  // Refuses a program by the memory that it needs; empty: none is. Not asked where the plugin does not tell.
  std::function<Status(const pjrt::ProgramMemory& memory)> check_memory;
  // Taken for its sizes instead of compiling; one that the plugin refuses is a line in the log, and compiled anew.
  std::optional<StoredExecutable> stored;
};

// Weights are uploaded once, when it is loaded. A graph without symbols is compiled then too; others for each set of
// sizes when it is first run, sixteen of them kept. Outputs are on the host; the limits of a run are looked at before
// its inputs are uploaded and before it is queued, since a queued program cannot be stopped.
class XlaExecutable final : public Executable {
 public:
  // Fails with kInvalidArgument for weights that are missing or do not fit, with kUnsupported for weights that are
  // written and share memory, and as ModuleCompiler::compile(), ShardPlan::cut() and the options' check_memory do. The
  // compiler's settings and its client must be for the devices of the options.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const XlaProgram> program, const Weights& weights,
                                                  std::shared_ptr<const ModuleCompiler> compiler,
                                                  XlaLoadOptions options);

  std::string_view device() const override { return device_; }
  bool is_stateful() const override { return !written_.empty(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override;
  std::int64_t row_multiple() const override { return shards_.row_multiple(); }
  std::string describe_runs() const override { return shards_.describe(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

  static constexpr std::size_t kMostShapes = 16;

 private:
  // One run: what it was given, by device and by position of the module's argument.
  struct Arguments {
    std::vector<std::vector<const pjrt::DeviceBuffer*>> buffers;
    std::vector<std::shared_ptr<pjrt::DeviceBuffer>> uploaded;
    std::vector<std::size_t> given_away;  // buffers of the state that the run may overwrite
  };

  XlaExecutable(std::shared_ptr<const XlaProgram> program, std::shared_ptr<const ModuleCompiler> compiler,
                XlaLoadOptions options);
  const ir::Graph& graph() const { return program_->graph(); }
  const pjrt::Client& client() const { return compiler_->client(); }
  Status find_written(const Weights& weights);
  Status upload_weights(const Weights& weights);
  Result<ShapePrograms::Program> find_program(std::span<const Tensor> inputs);
  DeviceRange devices() const { return {first_device_, shards_.devices()}; }
  ShapePrograms::Key make_key(const ir::Bindings& sizes) const;
  // `stored`: bytes that may spare the compiler; null: none.
  Result<ShapePrograms::Program> compile(const ir::Bindings& sizes, const std::string* stored) const;
  Result<CompiledModule> find_executable(const std::string& text, const std::string* stored) const;
  Status check_memory(const pjrt::LoadedExecutable& executable) const;
  Status check_module(const xla::LoweredModule& module, std::size_t outputs) const;
  Result<XlaState*> find_state(const RunContext& context) const;
  std::string write_module(const xla::LoweredModule& module, const ModuleCuts& cuts) const;
  Result<DeviceParts> give_input(const Tensor& given, Cut cut) const;
  Result<Arguments> gather(const ShapeProgram& program, std::span<const Tensor> inputs, const XlaState* state) const;
  static Status fetch_outputs(const ShapeProgram& program, const pjrt::Execution& execution,
                              std::vector<Tensor>& outputs);
  Status hand_back_written(const xla::LoweredModule& module, const pjrt::Execution& execution,
                           std::span<const Tensor> inputs, XlaState* state) const;

  std::shared_ptr<const XlaProgram> program_;
  std::string device_;
  std::size_t first_device_;
  std::string matrix_precision_;
  std::function<Status(const pjrt::ProgramMemory& memory)> check_memory_;
  std::shared_ptr<const ModuleCompiler> compiler_;
  std::vector<std::optional<std::size_t>> user_position_;  // by graph input: which of run()'s inputs
  ShardPlan shards_;
  std::vector<DeviceParts> weights_;                         // by graph input; empty for others
  std::map<std::string, std::size_t, std::less<>> written_;  // name of a written weight → graph input
  std::vector<bool> is_written_;                             // by graph input, weights only
  mutable ShapePrograms programs_{kMostShapes};
};

}  // namespace kpt
