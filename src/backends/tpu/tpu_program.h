// A graph compiled for a TPU topology: the serialized executable, what the compiler said, and the graph it came from.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/execution.h"
#include "engines/xla/pjrt/topology_process.h"

namespace kpt {

class TpuProgram final : public Program {
 public:
  // `sizes`: the values of the graph's symbols, "s0=4,s1=16"; empty for a graph without. `precision`: of products of
  // float32, as XLA calls it.
  TpuProgram(std::string target, ir::Graph graph, std::string sizes, std::string precision,
             pjrt::TopologyProgram compiled)
      : target_(std::move(target)),
        graph_(std::move(graph)),
        sizes_(std::move(sizes)),
        precision_(std::move(precision)),
        compiled_(std::move(compiled)) {}
  // Fails with kCorruptData, and with kVersionMismatch for another version of the form or another target.
  static Result<std::unique_ptr<Program>> deserialize(std::string_view target, std::string_view bytes);

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return graph_; }
  const CompileFigures* figures() const override { return &compiled_.figures; }
  Result<std::string> serialize() const override;

  const std::string& sizes() const { return sizes_; }
  const std::string& precision() const { return precision_; }
  // What libtpu of the version that compiled it loads on such a slice.
  const std::string& executable() const { return compiled_.executable; }

 private:
  std::string target_;
  ir::Graph graph_;
  std::string sizes_;
  std::string precision_;
  pjrt::TopologyProgram compiled_;
};

// Whether the bytes begin as a stored one does, of whichever version.
bool is_tpu_program(std::string_view bytes);

// The values of the graph's symbols from TpuProgram::sizes(); the names are those of the graph. Fails with kCorruptData
// when a symbol has no value or one out of its range.
Result<ir::Bindings> read_sizes(const ir::Graph& graph, std::string_view sizes);

// A compiled module as bytes, for the compile cache. Fails with kCorruptData.
std::string pack_topology_program(const pjrt::TopologyProgram& program);
Result<pjrt::TopologyProgram> unpack_topology_program(std::string_view bytes);

}  // namespace kpt
