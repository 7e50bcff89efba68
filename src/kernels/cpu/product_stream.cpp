// PackedLinear::run() for kernels with multiply_streamed: stretches of rows are packed just before they are multiplied,
// so that nothing packed leaves L2, and no thread waits for another.
//
// Few rows are packed together and meet one panel of W after the other, while the next comes from memory. Of many rows
// a panel is packed and stays in L1, and a group of panels of W that fits into L2 meets all of them.
#include <algorithm>

#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/product_plan.h"

namespace kpt::kernels {
namespace {

constexpr std::size_t kAlignment = 64;
// Packed rows of a task that still count as few.
constexpr std::int64_t kFewRowsBytes = 128 << 10;
// Of W, what many rows go through before the next stretch; of few rows, the sums that wait for it.
constexpr std::int64_t kGroupBytes = 256 << 10;
std::size_t round_up(std::size_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }

// Float results that are only clamped at the end.
bool is_plain(const LinearCall& call) {
  const bool floats = call.residual == nullptr || call.residual_type == ElementType::kFloat32;
  return is_clamp(call.activation) && floats && call.output_type == ElementType::kFloat32;
}

}  // namespace

class StreamedProduct {
 public:
  StreamedProduct(const PackedLinear& packed, std::int64_t rows, int threads, std::size_t row_scratch_bytes)
      : packed_(packed), kernel_(packed.kernel_), rows_(rows) {
    input_unit_ = std::int64_t{kernel_.depth} * kernel_.input_bytes * kernel_.rows;
    weight_unit_ = std::int64_t{kernel_.depth} * kernel_.weight_bytes * kernel_.columns;
    row_panels_ = (rows + kernel_.rows - 1) / kernel_.rows;
    // One panel of rows meets each panel of W once: nothing is gained by keeping a stretch in L1.
    const std::int64_t block = kernel_.depth_block / kernel_.depth;
    const std::int64_t stretches = row_panels_ > 1 ? std::max<std::int64_t>((packed.units_ + block - 1) / block, 1) : 1;
    stretch_ = (packed.units_ + stretches - 1) / stretches;
    const auto stretch_bytes = static_cast<std::size_t>(stretch_ * input_unit_);
    plan_ = plan_product({row_panels_, packed.panels_, stretch_bytes, threads, true});
    const std::int64_t row_block = std::max<std::int64_t>(plan_.row_block, 1);
    const std::int64_t column_block = std::max<std::int64_t>(plan_.column_block, 1);
    const std::int64_t tile_bytes = std::int64_t{4} * kernel_.rows * kernel_.columns;
    const bool is_kept = stretch_ < packed.units_;
    few_rows_ = row_block == 1 || row_block * stretch_ * input_unit_ <= kFewRowsBytes;
    if (!few_rows_) {
      group_ = kGroupBytes / std::max<std::int64_t>(stretch_ * weight_unit_, 1);
    } else {
      group_ = is_kept ? kGroupBytes / (row_block * tile_bytes) : column_block;
    }
    group_ = std::clamp<std::int64_t>(group_, 1, column_block);
    const std::int64_t kept = is_kept ? row_block * group_ : 1;
    kept_step_ = is_kept ? tile_bytes : 0;
    tiles_offset_ = round_up(stretch_bytes * static_cast<std::size_t>(few_rows_ ? row_block : 1));
    scratch_offset_ = tiles_offset_ + round_up(static_cast<std::size_t>(kept * tile_bytes));
    worker_bytes_ = scratch_offset_ + round_up(row_scratch_bytes);
  }

  std::size_t workspace_bytes(int threads) const {
    return worker_bytes_ * static_cast<std::size_t>(std::max(threads, 1));
  }

  // Neighbouring tasks have neighbouring rows: a thread that begins with a stretch of tasks meets rows that it has
  // written in the node before.
  void run(const LinearCall& call, const RowSource& source, void* workspace, const Parallel& parallel) {
    if (plan_.tasks() == 0) return;
    call_ = &call;
    source_ = &source;
    is_plain_ = is_plain(call);
    workspace_ = static_cast<std::byte*>(workspace);
    auto task = [this](std::int64_t index, int worker) { run_task(index, worker); };
    parallel.for_each(plan_.tasks(), task);
  }

 private:
  struct Part {
    std::int64_t first_row = 0;  // in panels
    std::int64_t row_count = 0;
    std::int64_t column = 0;  // the group's first panel of W
    std::int64_t end = 0;
    std::int64_t column_end = 0;  // of the task
    std::int64_t first = 0;       // of the stretch, in units
    std::int64_t units = 0;
    std::byte* memory = nullptr;  // of the worker
  };

  void run_task(std::int64_t index, int worker) const {
    Part part;
    part.memory = workspace_ + worker_bytes_ * static_cast<std::size_t>(worker);
    part.first_row = index / plan_.column_blocks * plan_.row_block;
    part.row_count = std::min(plan_.row_block, row_panels_ - part.first_row);
    part.column = index % plan_.column_blocks * plan_.column_block;
    part.column_end = std::min(part.column + plan_.column_block, packed_.panels_);
    for (; part.column < part.column_end; part.column += group_) {
      part.end = std::min(part.column + group_, part.column_end);
      part.first = 0;
      do {  // once even without any K: the results must be written
        part.units = std::min(stretch_, packed_.units_ - part.first);
        if (few_rows_) {
          run_few_rows(part);
        } else {
          run_many_rows(part);
        }
        part.first += stretch_;
      } while (part.first < packed_.units_);
    }
  }

  void run_few_rows(const Part& part) const {
    const std::int64_t panel_bytes = part.units * input_unit_;
    for (std::int64_t row = 0; row < part.row_count; ++row) pack(part, row, part.memory + row * panel_bytes);
    for (std::int64_t column = part.column; column < part.end; ++column) {
      const std::byte* next = find_next(part, column);
      for (std::int64_t row = 0; row < part.row_count; ++row) {
        multiply(part, row, column, part.memory + row * panel_bytes, next);
      }
    }
  }

  void run_many_rows(const Part& part) const {
    for (std::int64_t row = 0; row < part.row_count; ++row) {
      pack(part, row, part.memory);
      for (std::int64_t column = part.column; column < part.end; ++column) {
        multiply(part, row, column, part.memory, find_later(part, column));
      }
    }
  }

  // A stretch of a panel of rows, from the pieces that the source has.
  void pack(const Part& part, std::int64_t row, std::byte* target) const {
    const std::int64_t first_row = (part.first_row + row) * kernel_.rows;
    std::byte* scratch = part.memory + scratch_offset_;
    InputRows rows;
    rows.count = static_cast<int>(std::min<std::int64_t>(kernel_.rows, rows_ - first_row));
    rows.type = call_->input_type;
    source_->get(source_->context, first_row, scratch, &rows);
    const bool in_pieces = source_->piece_depth > 0;
    const std::int64_t piece_depth = in_pieces ? source_->piece_depth : packed_.in_features_;
    const std::int64_t end = std::min((part.first + part.units) * kernel_.depth, packed_.in_features_);
    const auto element = static_cast<std::int64_t>(element_bytes(rows.type));
    for (std::int64_t at = part.first * kernel_.depth; at < end; at += rows.depth) {
      const std::int64_t piece = in_pieces ? at / piece_depth : 0;
      const std::int64_t offset = at - piece * piece_depth;
      rows.depth = std::min(piece_depth - offset, end - at);
      if (in_pieces) source_->piece(source_->context, piece, scratch, &rows);
      for (int i = 0; offset > 0 && i < rows.count; ++i) {
        rows.rows[i] = static_cast<const std::byte*>(rows.rows[i]) + offset * element;
      }
      kernel_.pack_input(rows, target, nullptr);
      target += rows.depth / kernel_.depth * input_unit_;
    }
  }

  // One tile; after the last stretch it is finished while its sums are at hand. The first panels of rows ask for all of
  // `next`.
  void multiply(const Part& part, std::int64_t row, std::int64_t column, const std::byte* input,
                const std::byte* next) const {
    const std::byte* weights = weights_at(column, part.first);
    const std::int64_t first_row = (part.first_row + row) * kernel_.rows;
    const bool is_last = part.first + part.units >= packed_.units_;
    FinishedRows rows = packed_.finished_rows(*call_, first_row, column);
    rows.tile = part.memory + tiles_offset_ + (row * group_ + column - part.column) * kept_step_;
    rows.rows = std::min<std::int64_t>(kernel_.rows, rows_ - first_row);
    const std::int64_t asked = row * part.units * kernel_.ahead_bytes;
    const std::byte* ahead = next != nullptr && asked < part.units * weight_unit_ ? next + asked : weights;
    kernel_.multiply_streamed(part.units, input, weights, rows, ahead, part.first > 0, is_last && is_plain_);
    if (is_last && !is_plain_) kernel_.finish(rows);
  }

  const std::byte* weights_at(std::int64_t column, std::int64_t first) const {
    return packed_.weights_.get() + static_cast<std::size_t>(column) * packed_.panel_bytes_ + first * weight_unit_;
  }

  // What W has after this panel; null: nothing.
  const std::byte* find_next(const Part& part, std::int64_t column) const {
    const std::int64_t then = part.first + part.units;
    if (column + 1 < part.end) return weights_at(column + 1, part.first);
    if (then < packed_.units_) return weights_at(part.column, then);
    return column + 1 < part.column_end ? weights_at(column + 1, 0) : nullptr;
  }

  // What takes its place when all rows have met it.
  const std::byte* find_later(const Part& part, std::int64_t column) const {
    const std::int64_t then = part.first + part.units;
    if (then < packed_.units_) return weights_at(column, then);
    return column + group_ < part.column_end ? weights_at(column + group_, 0) : nullptr;
  }

  const PackedLinear& packed_;
  const MatrixKernel& kernel_;
  std::int64_t rows_;
  std::int64_t row_panels_ = 0;
  ProductPlan plan_;
  std::int64_t input_unit_ = 0;   // bytes of one unit of a panel of A
  std::int64_t weight_unit_ = 0;  // the same of W
  std::int64_t stretch_ = 0;      // units that are taken at once
  bool few_rows_ = false;
  std::int64_t group_ = 1;        // panels of W that a stretch of rows meets
  std::int64_t kept_step_ = 0;    // bytes from one tile of sums that wait for the next stretch to another; 0: none wait
  std::size_t tiles_offset_ = 0;  // in a worker's memory
  std::size_t scratch_offset_ = 0;
  std::size_t worker_bytes_ = 0;
  const LinearCall* call_ = nullptr;
  const RowSource* source_ = nullptr;
  bool is_plain_ = false;
  std::byte* workspace_ = nullptr;
};

std::size_t PackedLinear::streamed_bytes(std::int64_t rows, int threads, std::size_t row_scratch_bytes) const {
  return StreamedProduct(*this, rows, threads, row_scratch_bytes).workspace_bytes(threads);
}

void PackedLinear::run_streamed(const LinearCall& call, const RowSource& source, void* workspace,
                                const Parallel& parallel) const {
  StreamedProduct(*this, call.rows, parallel.threads, source.scratch_bytes).run(call, source, workspace, parallel);
}

}  // namespace kpt::kernels
