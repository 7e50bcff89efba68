// A graph that was found fit for XLA, with its module where the sizes are known already.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "device/execution.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {

class XlaProgram final : public Program {
 public:
  // Fails with kUnsupported, listing all nodes that cannot be lowered.
  static Result<std::unique_ptr<Program>> make(std::string target, ir::Graph graph);
  // The stored form is the graph: its module follows from it, and lowering takes milliseconds. Fails with kCorruptData,
  // and with kVersionMismatch for another version of the form or another target.
  static Result<std::unique_ptr<Program>> deserialize(std::string_view target, std::string_view bytes);

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return graph_; }
  Result<std::string> serialize() const override;

  // Of a graph without symbols.
  const std::optional<xla::LoweredModule>& module() const { return module_; }

 private:
  XlaProgram(std::string target, ir::Graph graph) : target_(std::move(target)), graph_(std::move(graph)) {}
  std::string target_;
  ir::Graph graph_;
  std::optional<xla::LoweredModule> module_;
};

}  // namespace kpt
