// The loops of attention.cpp, compiled once for each instruction set (simd_kernels.h).
#pragma once

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/attention_pack_simd.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_kernels.h"
#include "kernels/cpu/tile_simd.h"

namespace kpt::kernels::KPT_SIMD {

// How many of the keys [first, first + count) a row sees.
inline std::int64_t seen_keys(const Attention& call, const AttentionRow& row, std::int64_t first, std::int64_t count) {
  if (!call.causal) return count;
  const std::int64_t seen = row.query - first + 1;
  return seen < 0 ? 0 : seen < count ? seen : count;
}

// Turns the scores of a panel, [count][kTileColumns], into exponentials relative to each row's greatest score so far.
// `factors`: what the rows' sums so far must be multiplied with. Not inlined: the constants of the exponential stay in
// registers then.
[[gnu::noinline]] inline void soften_panel(float* scores, const float* mask, std::int64_t count, float* greatest,
                                           float* totals, float* factors) {
  Floats highest[kTileVectors];
  KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) highest[vector] = load(greatest + vector * kLanes);
  for (std::int64_t key = 0; key < count; ++key) {
    KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
      float* place = scores + key * kTileColumns + vector * kLanes;
      Floats value = load(place);
      if (mask != nullptr) {
        value += load(mask + key * kTileColumns + vector * kLanes);
        store(place, value);
      }
      highest[vector] = greater_of(value, highest[vector]);
    }
  }
  Floats shifts[kTileVectors];
  Floats sums[kTileVectors];
  KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
    // A row that has seen nothing yet: all its exponentials are zero, whatever finite number is subtracted.
    shifts[vector] = highest[vector] == splat(kMinusInfinity) ? Floats{} : highest[vector];
    sums[vector] = Floats{};
  }
  for (std::int64_t key = 0; key < count; ++key) {
    KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
      float* place = scores + key * kTileColumns + vector * kLanes;
      const Floats value = exp_of_nonpositive(load(place) - shifts[vector]);
      store(place, value);
      sums[vector] += value;
    }
  }
  KPT_UNROLL for (int vector = 0; vector < kTileVectors; ++vector) {
    const std::int64_t place = vector * kLanes;
    const Floats factor = exp_of_nonpositive(load(greatest + place) - shifts[vector]);
    store(factors + place, factor);
    store(totals + place, load(totals + place) * factor + sums[vector]);
    store(greatest + place, highest[vector]);
  }
}

inline void store_result(const Attention& call, const AttentionRow& row, float* sums, float total) {
  const float inverse = total == 0 ? 0 : 1 / total;
  for (std::int64_t index = 0; index < call.width; ++index) sums[index] *= inverse;
  const std::int64_t place = ((row.batch * call.queries + row.query) * call.heads + row.head) * call.width;
  store_row(sums, call.width, call.dtype, static_cast<char*>(call.result) + place * size_of(call.dtype));
}

// The last key that any row of the task may look at.
inline std::int64_t visible_keys(const Attention& call, const AttentionTask& task) {
  if (!call.causal) return call.keys;
  std::int64_t last = 0;
  for (std::int64_t index = 0; index < task.count; ++index) {
    const std::int64_t query = task.row(call, index).query;
    last = query > last ? query : last;
  }
  return last + 1 < call.keys ? last + 1 : call.keys;
}

// One panel of rows against one block of keys.
inline void attend_panel(const Attention& call, const AttentionTask& task, std::int64_t panel, std::int64_t first,
                         std::int64_t count, const AttentionScratch& scratch) {
  const std::int64_t rows = task.count - panel < kTileColumns ? task.count - panel : kTileColumns;
  std::int64_t keys = 0;
  for (std::int64_t index = 0; index < rows; ++index) {
    const std::int64_t seen = seen_keys(call, task.row(call, panel + index), first, count);
    keys = seen > keys ? seen : keys;
  }
  if (keys == 0) return;
  for (std::int64_t key = 0; key < keys; key += kTileRows) {
    multiply_tile({scratch.keys + key * call.width, kTileRows, scratch.query + panel * call.width, kTileColumns,
                   call.width, scratch.scores + key * kTileColumns, kTileColumns, nullptr});
  }
  if (call.causal) {
    for (std::int64_t index = 0; index < rows; ++index) {
      for (std::int64_t key = seen_keys(call, task.row(call, panel + index), first, count); key < keys; ++key) {
        scratch.scores[key * kTileColumns + index] = kMinusInfinity;
      }
    }
  }
  const bool masked = call.mask_kind != MaskKind::kNone;
  if (masked) pack_mask(call, task, panel, first, keys, scratch);
  soften_panel(scratch.scores, masked ? scratch.mask : nullptr, keys, scratch.greatest + panel, scratch.totals + panel,
               scratch.factors + panel);
  for (std::int64_t column = 0; column < call.width; column += kTileColumns) {
    for (std::int64_t row = 0; row < rows; row += kTileRows) {
      multiply_tile({scratch.scores + row, kTileColumns, scratch.values + column * kKeyBlock, kTileColumns, keys,
                     scratch.sums + (panel + row) * scratch.width + column, scratch.width,
                     first == 0 ? nullptr : scratch.factors + panel + row});
    }
  }
}

// Many rows: products by tiles on packed blocks.
inline void attend_by_tiles(const Attention& call, const AttentionTask& task, const AttentionScratch& scratch) {
  pack_queries(call, task, scratch);
  for (std::int64_t index = 0; index < scratch.row_count; ++index) {
    scratch.greatest[index] = kMinusInfinity;
    scratch.totals[index] = 0;
  }
  const std::int64_t keys = visible_keys(call, task);
  for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
    const std::int64_t count = keys - first < kKeyBlock ? keys - first : kKeyBlock;
    pack_keys(call, task, first, count, scratch);
    pack_values(call, task, first, count, scratch);
    for (std::int64_t panel = 0; panel < task.count; panel += kTileColumns) {
      attend_panel(call, task, panel, first, count, scratch);
    }
  }
  for (std::int64_t index = 0; index < task.count; ++index) {
    store_result(call, task.row(call, index), scratch.sums + index * scratch.width, scratch.totals[index]);
  }
}

// The scores of one row; as soften_panel(). `padded`: `count` rounded up to whole vectors.
[[gnu::noinline]] inline float soften_row(float* scores, std::int64_t count, std::int64_t padded, float* greatest,
                                          float* total) {
  for (std::int64_t key = count; key < padded; ++key) scores[key] = kMinusInfinity;
  Floats highest = splat(*greatest);
  for (std::int64_t key = 0; key < padded; key += kLanes) highest = greater_of(load(scores + key), highest);
  const float now = greatest_of(highest);
  const Floats shift = splat(now == kMinusInfinity ? 0 : now);
  Floats sums{};
  for (std::int64_t key = 0; key < padded; key += kLanes) {
    const Floats value = exp_of_nonpositive(load(scores + key) - shift);
    store(scores + key, value);
    sums += value;
  }
  const float factor = exp_of_nonpositive(splat(*greatest) - shift)[0];
  *total = *total * factor + sum_of(sums);
  *greatest = now;
  return factor;
}

// Few rows: keys and values are read where they lie.
inline void attend_by_rows(const Attention& call, const AttentionTask& task, const AttentionScratch& scratch) {
  for (std::int64_t index = 0; index < task.count; ++index) {
    const AttentionRow row = task.row(call, index);
    float* query = scratch.query;
    load_row(element_address(call.query, call.dtype, row.batch, row.head, row.query), call.dtype, call.query.strides[3],
             call.width, query);
    for (std::int64_t element = 0; element < call.width; ++element) query[element] *= call.scale;
    for (std::int64_t element = 0; element < scratch.width; ++element) scratch.sums[element] = 0;
    float greatest = kMinusInfinity;
    float total = 0;
    const std::int64_t keys = seen_keys(call, row, 0, call.keys);
    for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
      const std::int64_t count = keys - first < kKeyBlock ? keys - first : kKeyBlock;
      BlockRows block{element_address(call.key, call.dtype, task.batch, task.group, first), call.key.strides[2],
                      call.key.strides[3], call.dtype, is_plain(call, call.key)};
      multiply_by_rows(query, call.width, block, count, scratch.rows_buffer, scratch.width, scratch.scores);
      if (call.mask_kind != MaskKind::kNone) {
        const float* added = mask_row(call, row, first, count, scratch.mask);
        for (std::int64_t key = 0; key < count; ++key) scratch.scores[key] += added[key];
      }
      const float factor = soften_row(scratch.scores, count, round_up(count, kLanes), &greatest, &total);
      block = {element_address(call.value, call.dtype, task.batch, task.group, first), call.value.strides[2],
               call.value.strides[3], call.dtype, is_plain(call, call.value)};
      add_rows_weighted(scratch.scores, block, count, call.width, factor, scratch.rows_buffer, scratch.sums);
    }
    store_result(call, row, scratch.sums, total);
  }
}

inline void attend(const Attention& call, const AttentionPlan& plan, std::int64_t index, float* memory) {
  const AttentionTask task(call, plan, index);
  const AttentionScratch scratch(call, plan.rows, memory);
  if (visible_keys(call, task) == 0) {
    for (std::int64_t row = 0; row < task.count; ++row) {
      for (std::int64_t element = 0; element < call.width; ++element) scratch.sums[element] = 0;
      store_result(call, task.row(call, row), scratch.sums, 0);
    }
    return;
  }
  // Packing a block of keys pays when several rows use it.
  if (2 * plan.head_share * call.queries < kTileColumns) {
    attend_by_rows(call, task, scratch);
  } else {
    attend_by_tiles(call, task, scratch);
  }
}

}  // namespace kpt::kernels::KPT_SIMD
