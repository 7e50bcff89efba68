// Softmax on a GPU: what a caller fills in. softmax_kernels.h has the kernels and what limits them.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// output = softmax(input · scale + mask) over the last axis of [batches, heads, queries, width]. float32, float16,
// bfloat16.
struct SoftmaxCall {
  DType dtype = DType::kFloat32;
  const void* input = nullptr;
  void* output = nullptr;  // contiguous; may be the input when that is contiguous
  std::int64_t batches = 1, heads = 1, queries = 0, width = 0;
  std::int64_t input_stride = 0;  // elements between rows
  float scale = 1;
  // kBool: where it is 0 an element takes no part. `dtype` or float32: added. Its last axis is without gaps; strides
  // are 0 where it is broadcast.
  const void* mask = nullptr;
  DType mask_dtype = DType::kBool;
  std::int64_t mask_batch_stride = 0, mask_head_stride = 0, mask_query_stride = 0;
  // A query sees keys up to its own index + causal_offset. With past keys before the queries' own: their number.
  bool causal = false;
  // A row of which nothing takes part: as aten.softmax has it. Otherwise zeros, as attention has it.
  bool empty_is_nan = false;
  std::int64_t causal_offset = 0;
};

Result<Plan> plan_softmax(const SoftmaxCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
