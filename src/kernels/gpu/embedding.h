// Gathering rows of a table on a GPU: what a caller fills in. embedding_kernels.h has the kernels.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// output[i] = table[ids[i]]. Rows are copied as bytes, of any type of 1, 2, 4, … bytes.
struct EmbeddingCall {
  DType dtype = DType::kFloat32;
  DType id_dtype = DType::kInt64;  // or int32
  const void* table = nullptr;
  const void* ids = nullptr;  // contiguous
  void* output = nullptr;     // contiguous
  std::int64_t count = 0;
  std::int64_t table_rows = 0;
  std::int64_t width = 0;
  std::int64_t table_stride = 0;  // elements between rows of the table
  // On the device, set to 0 by the caller. An id outside the table sets it to 1 and gives a row of zeros. Null: ids
  // were checked before.
  std::int32_t* out_of_range = nullptr;
};

Result<Plan> plan_embedding(const EmbeddingCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
