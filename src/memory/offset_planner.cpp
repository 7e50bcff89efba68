#include "memory/offset_planner.h"

#include <algorithm>
#include <numeric>

namespace kpt {
namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

ArenaPlan plan_offsets(std::span<const Lifetime> lifetimes, std::size_t alignment) {
  ArenaPlan plan;
  plan.offsets.resize(lifetimes.size());
  const auto padded = [&](std::size_t index) {
    return (lifetimes[index].bytes + alignment - 1) / alignment * alignment;
  };
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const std::size_t size = padded(index);
    std::size_t best_offset = 0;
    std::size_t best_gap = 0;
    bool found = false;
    std::size_t free_from = 0;
    for (const std::size_t other : placed) {
      if (!overlap_in_time(lifetimes[index], lifetimes[other])) continue;
      const std::size_t start = plan.offsets[other];
      if (start > free_from && start - free_from >= size && (!found || start - free_from < best_gap)) {
        best_offset = free_from;
        best_gap = start - free_from;
        found = true;
      }
      free_from = std::max(free_from, start + padded(other));
    }
    plan.offsets[index] = found ? best_offset : free_from;
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[index] + size);
    const auto position = std::upper_bound(placed.begin(), placed.end(), index, [&](std::size_t a, std::size_t b) {
      return plan.offsets[a] < plan.offsets[b];
    });
    placed.insert(position, index);
  }
  return plan;
}

}  // namespace kpt
