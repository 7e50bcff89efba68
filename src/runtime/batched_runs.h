// Runs of a model whose rows are independent: padded to a few sizes, or in parts. Runs of one whose sequences may be
// longer: padded to a few lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/execution.h"
#include "kpt/model.h"
#include "runtime/batch_rows.h"
#include "runtime/sequence_rows.h"

namespace kpt::detail {

struct BatchPolicy {
  bool split = false;      // option memory.split_batches
  bool buckets = false;    // option memory.batch_buckets; only where the device's sizes cost (Capabilities::sizes_cost)
  bool sequences = false;  // option memory.sequence_buckets; in the same way
};

// Thread safe, but for the state in a context.
class BatchedRuns {
 public:
  // Executable and device must outlive it. Where rows are not known to be independent, or the policy asks for nothing,
  // every run is whole.
  BatchedRuns(Executable& executable, Device& device, const ir::Graph& graph, const WeightNumbers& numbers,
              const BatchPolicy& policy);

  // `event`: where the device queues runs, outputs are right once it was waited for; they, this and `context` must stay
  // where they are until then. Runs in parts are over when this returns.
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, RunReport* report,
             Event* event = nullptr) const;

 private:
  void find_sequence(const ir::Graph& graph, const WeightNumbers& numbers);
  Status run_batch(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, RunReport* report,
                   bool may_split, Event* event) const;
  // The length of the sequences, and the one to run them with; nothing where they run as they are.
  struct Lengths {
    std::int64_t own = 0;
    std::int64_t wanted = 0;
  };
  std::optional<Lengths> choose_lengths(const RunContext& context, std::span<const Tensor> inputs) const;
  Status run_longer(RunContext& context, std::span<const Tensor> inputs, const Lengths& lengths,
                    std::vector<Tensor>& outputs, RunReport* report, Event* event) const;
  Status cut_positions(std::int64_t length, std::vector<Tensor>& outputs) const;
  Status cut_rows(std::int64_t rows, std::vector<Tensor>& outputs) const;
  // With what number of rows a batch is to be run.
  std::int64_t choose_rows(const RunContext& context, std::span<const Tensor> inputs) const;
  std::int64_t half(std::int64_t rows) const;
  Status run_padded(RunContext& context, std::span<const Tensor> inputs, std::int64_t rows,
                    std::vector<Tensor>& outputs, Event* event) const;
  Status run_parts(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                   RunReport* report) const;
  Status run_part(RunContext& context, std::span<const Tensor> inputs, std::vector<std::vector<Tensor>>& parts) const;

  Executable& executable_;
  Device& device_;
  BatchPolicy policy_;
  std::size_t outputs_ = 0;
  std::optional<BatchRows> batch_;                     // nothing: all runs are whole
  std::int64_t multiple_ = 1;                          // Executable::row_multiple()
  std::optional<SequenceRows> sequence_;               // nothing: all sequences run as they are
  std::vector<std::vector<std::size_t>> input_axes_;   // along the sequence, of each input
  std::vector<std::vector<std::size_t>> output_axes_;  // and of each output
};

}  // namespace kpt::detail
