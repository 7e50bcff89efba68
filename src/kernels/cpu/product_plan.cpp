#include "kernels/cpu/product_plan.h"

#include <algorithm>

namespace kpt::kernels {
namespace {

constexpr std::size_t kRowBlockBytes = 256 << 10;
// In times of one tile: fetching a panel of W from beyond L2, and waiting until all rows are packed.
constexpr double kPanelCost = 0.35;
constexpr double kBarrierCost = 2.0;
// Threads are never equally fast: those that are done first wait for such a part of a task.
constexpr double kWaitingShare = 0.1;
// In times of one tile: packing one panel of rows late.
constexpr double kLatePacking = 0.25;
constexpr std::int64_t kTasksPerThread = 8;

std::int64_t divide_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

ProductPlan make_plan(const ProductShape& shape, std::int64_t row_blocks, std::int64_t column_blocks) {
  ProductPlan plan;
  plan.row_block = divide_up(shape.row_panels, row_blocks);
  plan.row_blocks = divide_up(shape.row_panels, plan.row_block);
  plan.column_block = divide_up(shape.column_panels, column_blocks);
  plan.column_blocks = divide_up(shape.column_panels, plan.column_block);
  return plan;
}

double estimate(const ProductPlan& plan, const ProductShape& shape) {
  const auto rounds = static_cast<double>(divide_up(plan.tasks(), shape.threads));
  const auto rows = static_cast<double>(plan.row_block);
  const auto columns = static_cast<double>(plan.column_block);
  if (shape.packs_late) return (rounds + kWaitingShare) * ((rows + kPanelCost) * columns + rows * kLatePacking);
  // Waiting costs nothing when there is one panel of rows: the caller packs it before the threads start.
  const double barrier = plan.shares_input() && plan.row_blocks * plan.row_block > 1 ? kBarrierCost : 0.0;
  return (rounds + kWaitingShare) * (rows + kPanelCost) * columns + barrier;
}

}  // namespace

ProductPlan plan_product(const ProductShape& shape) {
  if (shape.row_panels == 0 || shape.column_panels == 0) return {};
  const auto fitting = static_cast<std::int64_t>(kRowBlockBytes / std::max<std::size_t>(shape.stretch_bytes, 1));
  const std::int64_t least = divide_up(shape.row_panels, std::clamp<std::int64_t>(fitting, 1, 32));
  const std::int64_t most_tasks = kTasksPerThread * shape.threads;
  if (shape.threads <= 1) return make_plan(shape, least, 1);
  if (least >= most_tasks) return make_plan(shape, divide_up(least, shape.threads) * shape.threads, 1);
  ProductPlan best = make_plan(shape, least, 1);
  double least_time = estimate(best, shape);
  for (std::int64_t rows = least; rows <= std::min(most_tasks, shape.row_panels); ++rows) {
    for (std::int64_t columns = 1; columns <= std::min(most_tasks / rows, shape.column_panels); ++columns) {
      const ProductPlan plan = make_plan(shape, rows, columns);
      const double time = estimate(plan, shape);
      if (time >= least_time) continue;
      best = plan;
      least_time = time;
    }
  }
  return best;
}

}  // namespace kpt::kernels
