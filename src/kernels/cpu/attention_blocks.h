// How a task of attention is cut into blocks, and the memory that it works in. Files of several instruction sets
// include this: its functions are always inlined, so that no file runs another's copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention.h"

namespace kpt::kernels {

inline constexpr std::int64_t kMostRows = 128;  // of a task
inline constexpr std::int64_t kLeastRows = 16;  // a task is not cut below
inline constexpr std::int64_t kKeyBlock = 256;  // keys whose scores are in memory at once
inline constexpr std::int64_t kPadding = 32;  // rows and widths are padded to a multiple: the widest tile of any kernel

[[gnu::always_inline]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The parts of a worker's memory. With `memory` null only floats() means something.
struct AttentionScratch {
  [[gnu::always_inline]] AttentionScratch(const Attention& call, std::int64_t rows, float* memory)
      : width(round_up(call.width, kPadding)), row_count(round_up(rows, kPadding)), next_(memory) {
    query = take(row_count * width);
    keys = take(kKeyBlock * width);
    values = take(kKeyBlock * width);
    scores = take(kKeyBlock * kPadding);
    mask = take(kKeyBlock * kPadding);
    rows_buffer = take(4 * (width > kKeyBlock ? width : kKeyBlock));
    sums = take(row_count * width);
    greatest = take(row_count);
    totals = take(row_count);
    factors = take(row_count);
  }
  [[gnu::always_inline]] std::size_t floats() const { return taken_; }

  std::int64_t width;      // padded
  std::int64_t row_count;  // padded
  float* query;            // scaled, in panels: [row_count / columns of a tile][width][columns of a tile]
  float* keys;             // panels: [kKeyBlock / rows of a tile][width][rows of a tile]
  float* values;           // panels: [width / columns of a tile][kKeyBlock][columns of a tile]
  float* scores;           // of one panel of rows: [kKeyBlock][columns of a tile]
  float* mask;             // likewise: what is added to them
  float* rows_buffer;      // four rows of an operand or of the mask
  float* sums;             // [row_count][width]
  float* greatest;         // [row_count]: the greatest score so far
  float* totals;           // [row_count]: of the exponentials so far
  float* factors;          // [row_count]: what sums so far are to be multiplied with

 private:
  [[gnu::always_inline]] float* take(std::int64_t count) {
    float* part = next_;
    const std::size_t padded = (static_cast<std::size_t>(count) + 15) / 16 * 16;
    if (next_ != nullptr) next_ += padded;
    taken_ += padded;
    return part;
  }
  float* next_;
  std::size_t taken_ = 0;
};

// One row of a task.
struct AttentionRow {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
};

// Which rows a task has.
struct AttentionTask {
  [[gnu::always_inline]] AttentionTask(const Attention& call, const AttentionPlan& plan, std::int64_t task) {
    const std::int64_t shares = call.heads / plan.head_share;
    const std::int64_t share = task / plan.blocks;
    batch = share / shares;
    first_head = share % shares * plan.head_share;
    first = task % plan.blocks * plan.rows;
    const std::int64_t all = plan.head_share * call.queries;
    count = plan.rows < all - first ? plan.rows : all - first;
    group = first_head / (call.heads / call.groups);
  }
  [[gnu::always_inline]] AttentionRow row(const Attention& call, std::int64_t index) const {
    const std::int64_t place = first + index;
    if (place < call.queries) return {batch, first_head, place};  // the usual case, without divisions
    return {batch, first_head + place / call.queries, place % call.queries};
  }

  std::int64_t batch;
  std::int64_t first_head;
  std::int64_t group;
  std::int64_t first;
  std::int64_t count;
};

}  // namespace kpt::kernels
