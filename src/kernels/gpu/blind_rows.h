// Rows of attention that may look nowhere: what a caller fills in. blind_rows_kernels.h has the kernel.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// result[batch, head, query, :] = 0 where the mask, which is added to the scores, is -infinity for every key. Other
// rows are not touched. float16, bfloat16.
struct BlindRowsCall {
  DType dtype = DType::kBFloat16;  // of both
  const void* mask = nullptr;
  void* result = nullptr;  // the elements of a row are without gaps; rows share nothing
  std::int64_t batches = 1, heads = 1, queries = 0, keys = 0, width = 0;
  // Elements; 0 where the mask is broadcast. One key stands for all of them with `keys` = 1.
  std::int64_t mask_batch_stride = 0, mask_head_stride = 0, mask_query_stride = 0, mask_key_stride = 1;
  std::int64_t result_batch_stride = 0, result_head_stride = 0, result_query_stride = 0;
};

Result<Plan> plan_blind_rows(const BlindRowsCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
