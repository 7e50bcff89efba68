// Tells a NodeObserver of the tensors' memory that libtorch allocates on this thread while the object lives.
#pragma once

#include <memory>
#include <optional>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "device/execution.h"

namespace kpt::aten {

class AllocationReport {
 public:
  // An observer that is null or does not want it costs nothing.
  explicit AllocationReport(NodeObserver* observer) {
    if (observer == nullptr || !observer->wants_allocations()) return;
    guard_.emplace(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Listener>(observer));
  }

 private:
  class Listener final : public c10::MemoryReportingInfoBase {
   public:
    explicit Listener(NodeObserver* observer) : observer_(observer) {}
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
      if (bytes > 0) observer_->tensor_allocated(static_cast<std::size_t>(bytes));  // below zero: given back
    }
    bool memoryProfilingEnabled() const override { return true; }

   private:
    NodeObserver* observer_;
  };

  std::optional<c10::DebugInfoGuard> guard_;
};

}  // namespace kpt::aten
