// A graph compiled for a gfx target: the code objects of the kernels that it launches, and the graph. The launches
// themselves follow when sizes and a device are known (engines/native).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/architecture.h"
#include "backends/amd/kernel_store.h"
#include "device/execution.h"
#include "engines/native/graph_plan.h"

namespace kpt {

// Kernels of one family.
struct KernelObject {
  std::string source_digest;  // of what it was made of: source_digest()
  std::string code;
};

class AmdProgram final : public Program {
 public:
  // Compiles up to `threads` families at once. `matrix_cores`: whether kernels for them may be among these. Fails with
  // kUnsupported and all nodes that no kernel covers, and as `kernels` does.
  static Result<std::unique_ptr<AmdProgram>> make(const AmdArchitecture& architecture, ir::Graph graph,
                                                  const KernelSource& kernels, int threads, bool matrix_cores = true);
  // Describes what will be launched here, whatever the program was made for. Fails with kCorruptData, also for code
  // that is for another target, and with kVersionMismatch for another version of the form or another target.
  static Result<std::unique_ptr<Program>> deserialize(const AmdArchitecture& architecture, std::string_view bytes,
                                                      bool matrix_cores = true);

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return *graph_; }
  const CompileFigures* figures() const override { return &figures_; }
  std::vector<NodePlan> plan() const override { return nodes_; }
  Result<std::string> serialize() const override;

  std::shared_ptr<const ir::Graph> shared_graph() const { return graph_; }
  // Whether it came from bytes: its code is a stranger's then, and serves no other program.
  bool is_stored() const { return stored_; }
  // Code of a family that was made of the source in this build; null when there is none. Other code may take other
  // arguments.
  const KernelObject* find_current(std::string_view family) const;
  // Whether its code was made with these options beside the compiler's own, or none are asked for.
  bool has_options(const std::vector<std::string>& wanted) const { return wanted.empty() || wanted == options_; }
  // The compiler is for people; empty where it is not known.
  void set_compiler(std::string compiler, std::vector<std::string> options);

 private:
  AmdProgram(const AmdArchitecture& architecture, ir::Graph graph);
  // Figures of the kernels that are launched, from the code objects. Fails with kCorruptData for what is none.
  Status describe(const AmdArchitecture& architecture, const native::NeededKernels& needed);

  std::string target_;
  std::shared_ptr<const ir::Graph> graph_;
  std::map<std::string, KernelObject, std::less<>> objects_;  // by family
  CompileFigures figures_;
  std::vector<NodePlan> nodes_;
  std::vector<std::string> options_;  // of the compiler, beside its own
  bool stored_ = false;
};

}  // namespace kpt
