#include "kernels/cpu/attention.h"

#include <algorithm>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/simd_kernels.h"

namespace kpt::kernels {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// With fewer queries than this a task takes all heads that share keys and values.
constexpr std::int64_t kFewQueries = 16;

}  // namespace

AttentionPlan plan_attention(const Attention& call, int threads) {
  AttentionPlan plan;
  plan.head_share = call.queries < kFewQueries ? call.heads / call.groups : 1;
  const std::int64_t all_rows = plan.head_share * call.queries;
  const std::int64_t shares = call.batch * (call.heads / plan.head_share);
  // The more rows a task has, the less often keys and values are read and packed; but every thread should have work.
  plan.rows = kMostRows;
  while (plan.rows > kLeastRows && shares * divide_up(all_rows, plan.rows) < threads) plan.rows /= 2;
  plan.rows = std::min(plan.rows, all_rows);
  plan.blocks = divide_up(all_rows, std::max<std::int64_t>(plan.rows, 1));
  plan.tasks = shares * plan.blocks;
  plan.scratch_floats = AttentionScratch(call, plan.rows, nullptr).floats();
  return plan;
}

std::size_t attention_workspace(const AttentionPlan& plan, int threads) {
  return plan.scratch_floats * sizeof(float) * static_cast<std::size_t>(threads);
}

void run_attention(const Attention& call, const AttentionPlan& plan, const Parallel& parallel, void* workspace) {
  const SimdKernels& simd = simd_kernels();
  auto run_task = [&](std::int64_t task, int worker) {
    float* memory = static_cast<float*>(workspace) + static_cast<std::size_t>(worker) * plan.scratch_floats;
    simd.attend(call, plan, task, memory);
  };
  parallel.for_each(plan.tasks, run_task);
}

}  // namespace kpt::kernels
