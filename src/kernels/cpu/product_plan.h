// How one product is cut into tasks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kpt::kernels {

// Counts are in panels: rows of A by the tile's height, columns of the result by its width.
struct ProductShape {
  std::int64_t row_panels = 0;
  std::int64_t column_panels = 0;
  std::size_t stretch_bytes = 0;  // of one packed panel of A, as many elements of K as are taken at once
  int threads = 1;
  bool packs_late = false;  // every task packs its own rows, however many blocks of columns there are
};

// A grid of tasks, row_blocks × column_blocks. With one column block a task packs its own rows; with several, all rows
// are packed first and shared, but where every task packs late.
struct ProductPlan {
  std::int64_t row_block = 0;  // panels
  std::int64_t row_blocks = 0;
  std::int64_t column_block = 0;
  std::int64_t column_blocks = 0;

  std::int64_t tasks() const { return row_blocks * column_blocks; }
  bool shares_input() const { return column_blocks > 1; }
};

// The grid with the least estimated time of the slowest thread. A stretch of a block of rows stays in L2.
ProductPlan plan_product(const ProductShape& shape);

}  // namespace kpt::kernels
