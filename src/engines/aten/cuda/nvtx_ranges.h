// Ranges on the time line of NVIDIA's profilers, in the domain "kpt". Nothing happens where no profiler listens, nor in
// builds without NVTX's headers (has_nvtx()).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/execution.h"

namespace kpt::aten {

bool has_nvtx() noexcept;

// From here to the end of its life, on this thread; ranges nest.
class NvtxRange {
 public:
  // Null: no range.
  explicit NvtxRange(const std::string* name);
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
  ~NvtxRange();

 private:
  bool open_;
};

// A range for each node, around what `inner` (may be null) does. One that failed ends with the observer.
class NvtxNodes final : public NodeObserver {
 public:
  // `names`: of all nodes; must outlive this.
  NvtxNodes(const std::vector<std::string>& names, NodeObserver* inner) : names_(names), inner_(inner) {}
  NvtxNodes(const NvtxNodes&) = delete;
  NvtxNodes& operator=(const NvtxNodes&) = delete;
  ~NvtxNodes() override;
  void begin_node(std::size_t node) override;
  void end_node(std::size_t node) override;

 private:
  const std::vector<std::string>& names_;
  NodeObserver* inner_;
  bool open_ = false;
};

}  // namespace kpt::aten
