// How operands of attention are laid out for products by tiles, compiled once for each instruction set
// (simd_kernels.h).
#pragma once

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_simd.h"

namespace kpt::kernels::KPT_SIMD {

inline constexpr float kMinusInfinity = -__builtin_inff();

inline const char* element_address(const AttentionOperand& operand, DType dtype, std::int64_t batch, std::int64_t head,
                                   std::int64_t position) {
  const std::int64_t offset = batch * operand.strides[0] + head * operand.strides[1] + position * operand.strides[2];
  return static_cast<const char*>(operand.data) + offset * size_of(dtype);
}

// Whether rows of the operand can be used where they lie.
inline bool is_plain(const Attention& call, const AttentionOperand& operand) {
  return call.dtype == DType::kFloat32 && operand.strides[3] == 1;
}

// Four rows at a time, `count` of them, become columns of panels that are `panel` wide, `depth` long; rows that are
// missing in the last panel are zero. `row_of(index, buffer)` gives a row of `width` elements.
template <typename RowOf>
inline void pack_panels(std::int64_t count, std::int64_t panel, std::int64_t width, std::int64_t depth, float* buffer,
                        std::int64_t pitch, const RowOf& row_of, float* target) {
  const std::int64_t padded = round_up(count, panel);
  for (std::int64_t start = 0; start < padded; start += 4) {
    const float* rows[4];
    for (std::int64_t lane = 0; lane < 4; ++lane) {
      float* own = buffer + lane * pitch;
      if (start + lane < count) {
        rows[lane] = row_of(start + lane, own);
        continue;
      }
      for (std::int64_t index = 0; index < width; ++index) own[index] = 0;
      rows[lane] = own;
    }
    transpose_rows(rows, width, depth, target + start / panel * panel * depth + start % panel, panel);
  }
}

// The task's rows of the query, scaled.
inline void pack_queries(const Attention& call, const AttentionTask& task, const AttentionScratch& scratch) {
  const auto row_of = [&](std::int64_t index, float* buffer) -> const float* {
    const AttentionRow row = task.row(call, index);
    load_row(element_address(call.query, call.dtype, row.batch, row.head, row.query), call.dtype, call.query.strides[3],
             call.width, buffer);
    for (std::int64_t element = 0; element < call.width; ++element) buffer[element] *= call.scale;
    return buffer;
  };
  pack_panels(task.count, kTileColumns, call.width, call.width, scratch.rows_buffer, scratch.width, row_of,
              scratch.query);
}

// Keys [first, first + count).
inline void pack_keys(const Attention& call, const AttentionTask& task, std::int64_t first, std::int64_t count,
                      const AttentionScratch& scratch) {
  const bool plain = is_plain(call, call.key);
  const auto row_of = [&](std::int64_t index, float* buffer) -> const float* {
    const char* source = element_address(call.key, call.dtype, task.batch, task.group, first + index);
    if (plain) return reinterpret_cast<const float*>(source);
    load_row(source, call.dtype, call.key.strides[3], call.width, buffer);
    return buffer;
  };
  pack_panels(count, kTileRows, call.width, call.width, scratch.rows_buffer, scratch.width, row_of, scratch.keys);
}

// Values [first, first + count): rows of a merged product lie so far apart that they would push each other out of the
// cache.
inline void pack_values(const Attention& call, const AttentionTask& task, std::int64_t first, std::int64_t count,
                        const AttentionScratch& scratch) {
  const bool plain = is_plain(call, call.value);
  float* buffer = scratch.rows_buffer;
  for (std::int64_t key = 0; key < count; ++key) {
    const char* source = element_address(call.value, call.dtype, task.batch, task.group, first + key);
    if (!plain) load_row(source, call.dtype, call.value.strides[3], call.width, buffer);
    const float* row = plain ? reinterpret_cast<const float*>(source) : buffer;
    float* target = scratch.values + key * kTileColumns;
    std::int64_t element = 0;
    for (; element + kTileColumns <= call.width; element += kTileColumns) {
      for (int vector = 0; vector < kTileVectors; ++vector) {
        store(target + vector * kLanes, load(row + element + vector * kLanes));
      }
      target += kKeyBlock * kTileColumns;
    }
    if (element == call.width) continue;
    for (std::int64_t column = 0; column < kTileColumns; ++column) {
      target[column] = element + column < call.width ? row[element + column] : 0;
    }
  }
}

// A row of the mask for keys [first, first + count), as what is added to scores.
inline const float* mask_row(const Attention& call, const AttentionRow& row, std::int64_t first, std::int64_t count,
                             float* buffer) {
  const std::int64_t step = call.mask.strides[3];
  const std::int64_t offset = row.batch * call.mask.strides[0] + row.head * call.mask.strides[1] +
                              row.query * call.mask.strides[2] + first * step;
  if (call.mask_kind == MaskKind::kAdded) {
    const char* source = static_cast<const char*>(call.mask.data) + offset * size_of(call.dtype);
    if (call.dtype == DType::kFloat32 && step == 1) return reinterpret_cast<const float*>(source);
    load_row(source, call.dtype, step, count, buffer);
    return buffer;
  }
  const auto* shown = static_cast<const unsigned char*>(call.mask.data) + offset;
  if (step == 1) {
    for (std::int64_t key = 0; key < count; ++key) buffer[key] = shown[key] != 0 ? 0 : kMinusInfinity;
  } else {
    for (std::int64_t key = 0; key < count; ++key) buffer[key] = shown[key * step] != 0 ? 0 : kMinusInfinity;
  }
  return buffer;
}

// The mask of one panel of rows.
inline void pack_mask(const Attention& call, const AttentionTask& task, std::int64_t panel, std::int64_t first,
                      std::int64_t count, const AttentionScratch& scratch) {
  const auto row_of = [&](std::int64_t index, float* buffer) {
    return mask_row(call, task.row(call, panel + index), first, count, buffer);
  };
  const std::int64_t rows = task.count - panel < kTileColumns ? task.count - panel : kTileColumns;
  pack_panels(rows, kTileColumns, count, count, scratch.rows_buffer,
              scratch.width > kKeyBlock ? scratch.width : kKeyBlock, row_of, scratch.mask);
}

}  // namespace kpt::kernels::KPT_SIMD
