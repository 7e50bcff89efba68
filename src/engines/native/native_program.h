// A graph that was found to be covered by our kernels. Its launches follow from it when sizes and a device are known.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/execution.h"
#include "engines/native/graph_plan.h"

namespace kpt::native {

class NativeProgram final : public Program {
 public:
  // Fails with kUnsupported and all nodes that are not covered.
  static Result<std::unique_ptr<Program>> make(std::string target, ir::Graph graph, const Traits& traits);
  // Fails with kCorruptData, and with kVersionMismatch for another version of the form or another target.
  static Result<std::unique_ptr<Program>> deserialize(std::string_view target, std::string_view bytes);

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return *graph_; }
  std::shared_ptr<const ir::Graph> shared_graph() const { return graph_; }
  Result<std::string> serialize() const override;

 private:
  NativeProgram(std::string target, ir::Graph graph)
      : target_(std::move(target)), graph_(std::make_shared<const ir::Graph>(std::move(graph))) {}
  std::string target_;
  std::shared_ptr<const ir::Graph> graph_;
};

}  // namespace kpt::native
