// A graph in parts, compiled for two targets, and its runs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/execution.h"
#include "device/weights.h"
#include "runtime/split_graph.h"

namespace kpt {

// A backend and one of its devices.
struct DevicePlace {
  std::shared_ptr<Backend> backend;
  Device* device = nullptr;
};

// Not stored: it is made of two targets' programs, and the split is quickly made again.
class SplitProgram final : public Program {
 public:
  // `split` is of `graph`. Fails as the targets' compile() does.
  static Result<std::unique_ptr<Program>> make(ir::Graph graph, SplitGraph split, const Target& device,
                                               const Target& host);

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return graph_; }
  Result<std::string> serialize() const override;
  const Placement* placement() const override { return &split_.placement; }

  const SplitGraph& split() const { return split_; }
  const std::vector<std::shared_ptr<const Program>>& programs() const { return programs_; }

 private:
  SplitProgram(std::string target, ir::Graph graph, SplitGraph split)
      : target_(std::move(target)), graph_(std::move(graph)), split_(std::move(split)) {}

  std::string target_;
  ir::Graph graph_;
  SplitGraph split_;                                      // the parts' graphs have moved into the programs
  std::vector<std::shared_ptr<const Program>> programs_;  // by part
};

// Runs the parts one after the other. Outputs are on the host. Limits of a run are looked at between parts, and inside
// them as their engines do. Thread safe, as executables are.
class SplitExecutable final : public Executable {
 public:
  // Fails as the backends' load() does, and with kModelPreparation when a part turns out to write buffers.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const SplitProgram> program, const Weights& weights,
                                                  DevicePlace device, DevicePlace host);

  std::string_view device() const override { return name_; }
  bool is_stateful() const override { return false; }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override;
  std::int64_t row_multiple() const override;
  std::string describe_runs() const override;
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

 private:
  SplitExecutable(std::shared_ptr<const SplitProgram> program, DevicePlace device, DevicePlace host);
  const SplitGraph& split() const { return program_->split(); }
  Status fill_slots(std::span<const Tensor> inputs, ir::Bindings& sizes, std::vector<Tensor>& slots) const;
  Status run_part(std::size_t index, RunContext& context, const ir::Bindings& sizes, std::vector<Tensor>& slots) const;
  // On the host, and as PyTorch would lay it out where a part of the host reads it.
  Result<Tensor> receive(const Tensor& output, const SplitSlot& slot, const ir::Bindings& sizes) const;
  Status give_outputs(const std::vector<Tensor>& slots, std::vector<Tensor>& outputs) const;

  std::shared_ptr<const SplitProgram> program_;
  DevicePlace device_;
  DevicePlace host_;
  std::string name_;
  std::size_t user_inputs_ = 0;
  std::vector<std::unique_ptr<Executable>> parts_;
  Weights returned_;  // weights that callers receive as they are
};

}  // namespace kpt
