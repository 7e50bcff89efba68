// Runs of a model whose rows are independent: padded to a few sizes, or in parts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/execution.h"
#include "kpt/model.h"
#include "runtime/batch_rows.h"

namespace kpt::detail {

struct BatchPolicy {
  bool split = false;    // option memory.split_batches
  bool buckets = false;  // option memory.batch_buckets; only where the device's sizes cost (Capabilities::sizes_cost)
};

// Thread safe, but for the state in a context.
class BatchedRuns {
 public:
  // Both must outlive it. Where rows are not known to be independent, or the policy asks for nothing, every run is
  // whole.
  BatchedRuns(Executable& executable, Device& device, const ir::Graph& graph, const BatchPolicy& policy);

  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
             RunReport* report) const;

 private:
  // With what number of rows a batch is to be run.
  std::int64_t choose_rows(const RunContext& context, std::span<const Tensor> inputs) const;
  std::int64_t half(std::int64_t rows) const;
  Status run_padded(RunContext& context, std::span<const Tensor> inputs, std::int64_t rows,
                    std::vector<Tensor>& outputs) const;
  Status run_parts(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                   RunReport* report) const;
  Status run_part(RunContext& context, std::span<const Tensor> inputs, std::vector<std::vector<Tensor>>& parts) const;

  Executable& executable_;
  Device& device_;
  BatchPolicy policy_;
  std::size_t outputs_ = 0;
  std::optional<BatchRows> batch_;  // nothing: all runs are whole
  std::int64_t multiple_ = 1;       // Executable::row_multiple()
};

}  // namespace kpt::detail
