// A convolution by tiles of 2 x 2 results (winograd.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/product_plan.h"

namespace kpt::kernels {

// One for each run. `product` has the transformed filters: [out_channels][place][channel].
class WinogradRun {
 public:
  WinogradRun(const PackedLinear& product, const ConvWeights& shape, const ConvCall& call, int threads);

  // The filters, as [out_channels][16][in_channels].
  static void transform_filters(const ConvWeights& weights, float* transformed);

  std::size_t workspace_bytes(int threads) const;
  void run(void* workspace, const Parallel& parallel);

 private:
  struct Block {
    std::int64_t first = 0;  // in panels of tiles
    std::int64_t count = 0;
    std::byte* memory = nullptr;  // of the worker
  };

  struct Place {
    std::int64_t image = 0;
    std::int64_t line = 0;  // of tiles
    std::int64_t across = 0;
  };

  Place place_of(std::int64_t tile) const;
  void advance(Place& at) const;
  void run_task(std::int64_t index, int worker) const;
  void transform_inputs(const Block& block) const;
  void multiply(const Block& block, std::int64_t column) const;
  void transform_outputs(const Block& block, std::int64_t column) const;
  int count_of(std::int64_t panel) const;
  float* input_of(const Block& block, std::int64_t panel) const;
  float* sums_of(const Block& block, std::int64_t panel) const;

  const PackedLinear& product_;
  const MatrixKernel& kernel_;
  const ConvWeights& shape_;
  const ConvCall& call_;
  std::int64_t height_ = 0;  // of the result
  std::int64_t width_ = 0;
  std::int64_t lines_ = 0;  // of tiles in one image
  std::int64_t tiles_across_ = 0;
  std::int64_t tiles_ = 0;
  std::int64_t panels_ = 0;
  ProductPlan plan_;
  std::int64_t block_ = 1;           // panels whose inputs are transformed at a time
  std::int64_t input_elements_ = 0;  // of one panel for one place
  std::size_t sums_offset_ = 0;      // in a worker's memory
  std::size_t zeros_offset_ = 0;
  std::size_t worker_bytes_ = 0;
  std::byte* workspace_ = nullptr;
};

}  // namespace kpt::kernels
