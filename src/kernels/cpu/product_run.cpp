// PackedLinear::run(): the tasks of one product.
#include <algorithm>

#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/product_plan.h"

namespace kpt::kernels {
namespace {

constexpr std::size_t kAlignment = 64;
// Packing less than this is not worth waking threads for.
constexpr std::int64_t kSerialPacking = 16384;
constexpr std::size_t kWholeRowsBytes = 512 << 10;
constexpr std::int64_t kColumnGroup = 8;
// With fewer panels of rows the processor's own prefetching sees W as one stream and does better.
constexpr std::int64_t kPanelsToPrefetch = 4;

std::size_t round_up(std::size_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

// Where everything lies in the workspace: what all tasks share, then one part per worker.
class ProductRun {
 public:
  ProductRun(const PackedLinear& packed, std::int64_t rows, int threads, std::size_t row_scratch_bytes)
      : packed_(packed), kernel_(packed.kernel_), rows_(rows) {
    input_unit_ = std::int64_t{kernel_.depth} * kernel_.input_bytes * kernel_.rows;
    const std::int64_t depth = packed.units_ * kernel_.depth;
    // One panel of rows uses each panel of W once: nothing is gained by keeping it in L1.
    const bool is_used_again = rows > kernel_.rows || kernel_.expand != nullptr;
    const std::int64_t stretches =
        is_used_again ? std::max<std::int64_t>((depth + kernel_.depth_block - 1) / kernel_.depth_block, 1) : 1;
    // Even, because two elements of int4 share a byte.
    stretch_ = ((packed.units_ + stretches - 1) / stretches + 1) / 2 * 2;
    row_panels_ = (rows + kernel_.rows - 1) / kernel_.rows;
    plan_ = plan_product({row_panels_, packed.panels_, static_cast<std::size_t>(stretch_ * input_unit_), threads});
    packed_panels_ = plan_.shares_input() ? row_panels_ : plan_.row_block;
    const auto panels = static_cast<std::size_t>(packed_panels_);
    scales_offset_ = round_up(panels * static_cast<std::size_t>(packed.units_ * input_unit_));
    const std::size_t input_bytes =
        scales_offset_ + round_up(panels * static_cast<std::size_t>(kernel_.rows) * sizeof(float));
    shared_bytes_ = plan_.shares_input() ? input_bytes : 0;
    // Rows that do not fit into L2 as a whole are gone through once for several panels of W.
    const bool fits = static_cast<std::size_t>(plan_.row_block * packed.units_ * input_unit_) <= kWholeRowsBytes;
    group_ = fits ? 1 : std::min(kColumnGroup, std::max<std::int64_t>(plan_.column_block, 1));
    // Sums of one stretch are finished at once; only those of several are kept until the last.
    kept_panels_ = stretch_ >= packed.units_ ? 1 : std::max<std::int64_t>(plan_.row_block, 1);
    tile_bytes_ = round_up(static_cast<std::size_t>(kept_panels_ * kernel_.rows * kernel_.columns) * 4);
    tile_offset_ = plan_.shares_input() ? 0 : input_bytes;
    expanded_offset_ = tile_offset_ + tile_bytes_ * static_cast<std::size_t>(group_);
    const std::size_t expanded_bytes =
        kernel_.expand == nullptr ? 0 : static_cast<std::size_t>(stretch_ * kernel_.columns) * 4 + kReadAhead;
    scratch_offset_ = expanded_offset_ + round_up(expanded_bytes);
    worker_bytes_ = scratch_offset_ + round_up(row_scratch_bytes);
  }

  std::size_t workspace_bytes(int threads) const {
    return shared_bytes_ + worker_bytes_ * static_cast<std::size_t>(std::max(threads, 1));
  }

  void run(const LinearCall& call, const RowSource& source, void* workspace, const Parallel& parallel) {
    if (plan_.tasks() == 0) return;
    call_ = &call;
    source_ = &source;
    shared_ = static_cast<std::byte*>(workspace);
    if (plan_.shares_input()) {
      auto pack = [this](std::int64_t panel, int worker) { pack_panel(panel, shared_, panel, worker); };
      const Parallel serial;
      const bool small = rows_ * packed_.in_features_ <= kSerialPacking || row_panels_ == 1;
      (small ? serial : parallel).for_each(row_panels_, pack);
    }
    auto task = [this](std::int64_t index, int worker) { run_task(index, worker); };
    parallel.for_each(plan_.tasks(), task);
  }

 private:
  std::byte* worker_memory(int worker) const {
    return shared_ + shared_bytes_ + worker_bytes_ * static_cast<std::size_t>(worker);
  }

  // [stretch of K][panel][unit]: the panels that a stretch of W is multiplied with follow one another, so that the
  // processor's prefetching runs on from one to the next.
  std::int64_t stretch_offset(std::int64_t first, std::int64_t place) const {
    const std::int64_t units = std::min(stretch_, packed_.units_ - first);
    return (first * packed_panels_ + place * units) * input_unit_;
  }

  void pack_panel(std::int64_t panel, std::byte* target, std::int64_t place, int worker) const {
    InputRows rows;
    rows.count = static_cast<int>(std::min<std::int64_t>(kernel_.rows, rows_ - panel * kernel_.rows));
    rows.depth = packed_.in_features_;
    rows.type = call_->input_type;
    source_->get(source_->context, panel * kernel_.rows, worker_memory(worker) + scratch_offset_, &rows);
    float* scales = reinterpret_cast<float*>(target + scales_offset_) + place * kernel_.rows;
    if (kernel_.scale_rows != nullptr) kernel_.scale_rows(rows, scales);
    const auto element = static_cast<std::int64_t>(element_bytes(rows.type));
    for (std::int64_t first = 0; first < packed_.units_; first += stretch_) {
      rows.depth = std::min(stretch_ * kernel_.depth, packed_.in_features_ - first * kernel_.depth);
      kernel_.pack_input(rows, target + stretch_offset(first, place), scales);
      for (int row = 0; row < rows.count; ++row) {
        rows.rows[row] = static_cast<const std::byte*>(rows.rows[row]) + rows.depth * element;
      }
    }
  }

  void run_task(std::int64_t index, int worker) const {
    const std::int64_t first_row = index % plan_.row_blocks * plan_.row_block;
    const std::int64_t row_count = std::min(plan_.row_block, row_panels_ - first_row);
    const std::int64_t first_column = index / plan_.row_blocks * plan_.column_block;
    const std::int64_t column_end = std::min(first_column + plan_.column_block, packed_.panels_);
    std::byte* memory = worker_memory(worker);
    Block block = {first_row, row_count, first_row, shared_, memory};
    if (!plan_.shares_input()) {
      for (std::int64_t i = 0; i < row_count; ++i) pack_panel(first_row + i, memory, i, worker);
      block.place = 0;
      block.input = memory;
    }
    if (kernel_.enter != nullptr) kernel_.enter(rows_);
    for (std::int64_t column = first_column; column < column_end; column += group_) {
      const std::int64_t end = std::min(column + group_, column_end);
      std::int64_t first = 0;
      do {  // once even without any K: the tiles must become zero
        for (std::int64_t one = column; one < end; ++one) {
          multiply_stretch(block, one, one - column, first, find_next(column, one, end, column_end, first));
        }
        first += stretch_;
      } while (first < packed_.units_);
    }
    if (kernel_.leave != nullptr) kernel_.leave();
  }

  struct Block {
    std::int64_t first_row = 0;  // in panels
    std::int64_t row_count = 0;
    std::int64_t place = 0;  // of the first panel among the packed ones
    const std::byte* input = nullptr;
    std::byte* memory = nullptr;  // of the worker
  };

  std::byte* tile_of(const Block& block, std::int64_t place) const {
    return block.memory + tile_offset_ + tile_bytes_ * static_cast<std::size_t>(place);
  }

  const std::byte* weights_at(std::int64_t column, std::int64_t first) const {
    const std::byte* panel = packed_.weights_.get() + static_cast<std::size_t>(column) * packed_.panel_bytes_;
    return panel + first * kernel_.depth * kernel_.weight_bytes * kernel_.columns;
  }

  // The stretch of W that comes after this one; null at the end, and for forms that are expanded first.
  const std::byte* find_next(std::int64_t column, std::int64_t one, std::int64_t end, std::int64_t column_end,
                             std::int64_t first) const {
    if (kernel_.expand != nullptr) return nullptr;
    if (one + 1 < end) return weights_at(one + 1, first);
    if (first + stretch_ < packed_.units_) return weights_at(column, first + stretch_);
    return end < column_end ? weights_at(end, 0) : nullptr;
  }

  // Asks for part `index` of `count` of the next stretch, so that it is here when its turn comes.
  void prefetch_part(const std::byte* next, std::int64_t index, std::int64_t count) const {
    const std::int64_t bytes = stretch_ * kernel_.depth * kernel_.weight_bytes * kernel_.columns;
    const std::int64_t part = (bytes / count + 63) / 64 * 64;
    const std::int64_t end = std::min((index + 1) * part, bytes);
    for (std::int64_t at = index * part; at < end; at += 64) __builtin_prefetch(next + at, 0, 3);
  }

  // What multiply_ahead() of panel `index` asks for; null where there is nothing more. The first panels of a block get
  // all of the next stretch.
  const std::byte* find_ahead(const std::byte* next, std::int64_t units, std::int64_t index, int rows) const {
    const std::int64_t at = index * units * kernel_.ahead_bytes;
    const std::int64_t end = units * kernel_.depth * kernel_.weight_bytes * kernel_.columns;
    return next != nullptr && rows == kernel_.rows && at < end ? next + at : nullptr;
  }

  // The rows of a block times one stretch of one panel of W, which stays in L1 for all rows; after the last stretch
  // each panel of rows is finished while its sums are at hand.
  void multiply_stretch(const Block& block, std::int64_t column, std::int64_t place, std::int64_t first,
                        const std::byte* next) const {
    const std::int64_t units = std::max<std::int64_t>(std::min(stretch_, packed_.units_ - first), 0);
    std::byte* tile = tile_of(block, place);
    const std::byte* weights = weights_at(column, first);
    const std::byte* input = block.input + stretch_offset(first, block.place);
    const bool is_last = first + stretch_ >= packed_.units_;
    FinishedRows finished = finished_rows(block, column);
    finished.tile = tile;
    if (kernel_.expand != nullptr) {
      const StoredPanel stored = stored_panel(column, first, units);
      if (rows_ <= kernel_.stored_rows) {
        kernel_.multiply_stored(stored, input, tile, static_cast<int>(rows_), first > 0);
        if (is_last) finish(finished, rows_);
        return;
      }
      weights = block.memory + expanded_offset_;
      kernel_.expand(stored, reinterpret_cast<float*>(block.memory + expanded_offset_));
    }
    const std::int64_t tile_panel = kept_panels_ == 1 ? 0 : std::int64_t{kernel_.rows} * kernel_.columns * 4;
    for (std::int64_t i = 0; i < block.row_count; ++i, input += units * input_unit_, tile += tile_panel) {
      const std::int64_t row = (block.first_row + i) * kernel_.rows;
      const auto rows = static_cast<int>(std::min<std::int64_t>(kernel_.rows, rows_ - row));
      const std::byte* ahead = nullptr;
      if (kernel_.multiply_ahead != nullptr) {
        ahead = find_ahead(next, units, i, rows);
      } else if (next != nullptr && block.row_count >= kPanelsToPrefetch) {
        prefetch_part(next, i, block.row_count);
      }
      if (ahead != nullptr && finished.columns > kernel_.narrow_columns) {
        kernel_.multiply_ahead(units, input, weights, tile, ahead, first > 0);
      } else if (finished.columns <= kernel_.narrow_columns) {
        kernel_.multiply_narrow(units, input, weights, tile, rows, finished.columns, first > 0);
      } else {
        kernel_.multiply(units, input, weights, tile, rows, first > 0);
      }
      if (!is_last) continue;
      finished.tile = tile;
      finish(finished, rows);
    }
  }

  StoredPanel stored_panel(std::int64_t column, std::int64_t first, std::int64_t depth) const {
    StoredPanel stored;
    stored.weights = packed_.weights_.get() + static_cast<std::size_t>(column) * packed_.panel_bytes_;
    stored.first = first;
    stored.depth = depth;
    if (has_scaled_codes(packed_.form_)) {
      stored.group = packed_.group_;
      stored.scales = packed_.scale_ + column * (packed_.in_features_ / packed_.group_) * kernel_.columns;
    }
    return stored;
  }

  // What belongs to the first rows of a block and one panel of W; finish() goes on from there.
  FinishedRows finished_rows(const Block& block, std::int64_t column) const {
    FinishedRows rows = packed_.finished_rows(*call_, block.first_row * kernel_.rows, column);
    if (packed_.form_ == LinearForm::kInt8) {
      rows.row_scale = reinterpret_cast<const float*>(block.input + scales_offset_) + block.place * kernel_.rows;
    }
    return rows;
  }

  // Finishes so many rows and moves on behind them.
  void finish(FinishedRows& rows, std::int64_t count) const {
    rows.rows = count;
    kernel_.finish(rows);
    if (rows.row_scale != nullptr) rows.row_scale += count;
    if (rows.residual != nullptr) {
      const auto bytes = static_cast<std::int64_t>(element_bytes(rows.residual_type));
      rows.residual = static_cast<const std::byte*>(rows.residual) + count * rows.residual_stride * bytes;
    }
    const auto bytes = static_cast<std::int64_t>(element_bytes(rows.out_type));
    rows.out = static_cast<std::byte*>(rows.out) + count * rows.out_stride * bytes;
  }

  const PackedLinear& packed_;
  const MatrixKernel& kernel_;
  std::int64_t rows_;
  std::int64_t row_panels_ = 0;
  ProductPlan plan_;
  std::int64_t input_unit_ = 0;  // bytes of one unit of a panel of A
  std::int64_t stretch_ = 0;     // units that are taken at once
  std::int64_t packed_panels_ = 0;
  std::int64_t group_ = 1;        // panels of W
  std::int64_t kept_panels_ = 1;  // of rows, whose sums are in memory at a time
  std::size_t tile_bytes_ = 0;
  std::size_t scales_offset_ = 0;  // from the start of packed rows, shared or of a worker
  std::size_t shared_bytes_ = 0;
  std::size_t worker_bytes_ = 0;
  std::size_t tile_offset_ = 0;
  std::size_t expanded_offset_ = 0;
  std::size_t scratch_offset_ = 0;
  const LinearCall* call_ = nullptr;
  const RowSource* source_ = nullptr;
  std::byte* shared_ = nullptr;
};

FinishedRows PackedLinear::finished_rows(const LinearCall& call, std::int64_t row, std::int64_t panel) const {
  const std::int64_t n = panel * kernel_.columns;
  FinishedRows rows;
  rows.columns = static_cast<int>(std::min<std::int64_t>(kernel_.columns, out_features_ - n));
  rows.bias = bias_ == nullptr ? nullptr : bias_ + n;
  if (form_ == LinearForm::kInt8) {
    rows.column_scale = scale_ + n;
    rows.column_offset = offset_ == nullptr ? nullptr : offset_ + n;
  }
  rows.activation = call.activation;
  rows.residual_type = call.residual_type;
  rows.residual_stride = call.residual_stride;
  if (call.residual != nullptr) {
    const auto bytes = static_cast<std::int64_t>(element_bytes(call.residual_type));
    rows.residual = static_cast<const std::byte*>(call.residual) + (row * call.residual_stride + n) * bytes;
  }
  rows.out_type = call.output_type;
  rows.out_stride = call.output_stride;
  const auto bytes = static_cast<std::int64_t>(element_bytes(call.output_type));
  rows.out = static_cast<std::byte*>(call.output) + (row * call.output_stride + n) * bytes;
  return rows;
}

std::size_t PackedLinear::workspace_bytes(std::int64_t rows, int threads, std::size_t row_scratch_bytes,
                                          bool in_pieces) const {
  if (is_streamed(row_scratch_bytes, in_pieces)) return streamed_bytes(rows, threads, row_scratch_bytes);
  return ProductRun(*this, rows, threads, row_scratch_bytes).workspace_bytes(threads);
}

void PackedLinear::get_rows(const void* context, std::int64_t first, void* /*scratch*/, InputRows* rows) {
  const auto& of = *static_cast<const LinearCall*>(context);
  const auto bytes = static_cast<std::int64_t>(element_bytes(of.input_type));
  for (int row = 0; row < rows->count; ++row) {
    rows->rows[row] = static_cast<const std::byte*>(of.input) + (first + row) * of.input_stride * bytes;
  }
}

void PackedLinear::run(const LinearCall& call, void* workspace, const Parallel& parallel) const {
  RowSource source;
  source.context = &call;
  source.get = &PackedLinear::get_rows;
  run(call, source, workspace, parallel);
}

void PackedLinear::run(const LinearCall& call, const RowSource& source, void* workspace,
                       const Parallel& parallel) const {
  if (is_streamed(source.scratch_bytes, source.piece_depth > 0)) return run_streamed(call, source, workspace, parallel);
  ProductRun(*this, call.rows, parallel.threads, source.scratch_bytes).run(call, source, workspace, parallel);
}

}  // namespace kpt::kernels
