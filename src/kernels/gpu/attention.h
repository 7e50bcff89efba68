// Attention in one kernel on AMD's matrix cores: what a caller fills in. attention_forward.h has the kernel, the
// headers of the families attention_* what limits it.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// Of [batch, head, row]; elements of a row have no gaps.
using RowStrides = std::array<std::int64_t, 3>;

// output = softmax(scale · query · keyᵀ + mask) · value, float16 or bfloat16; softmax and sums in float32, its weights
// rounded to the type. A query that sees no key gives zeros.
struct AttentionCall {
  DType dtype = DType::kFloat16;
  const void* query = nullptr;  // [batches, heads, queries, width]
  const void* key = nullptr;    // [batches, groups, keys, width]; heads is a multiple of groups
  const void* value = nullptr;  // as the keys
  void* output = nullptr;       // as the queries
  RowStrides query_strides{}, key_strides{}, value_strides{}, output_strides{};
  std::int64_t batches = 1, heads = 1, groups = 1, queries = 0, keys = 0;
  std::int64_t width = 64;          // 64 or 128
  const void* mask = nullptr;       // [batches, heads, queries, keys], keys without gaps; null: none
  DType mask_dtype = DType::kBool;  // bool: true takes part; float32 or the call's type: added
  RowStrides mask_strides{};        // 0 where the mask is broadcast
  float scale = 1;
  bool causal = false;  // a query sees keys up to its own index plus causal_offset
  std::int64_t causal_offset = 0;
};

// Whether there is a kernel: the unit, the type, the width and the strides of query, key, value and output, which 8
// must divide. So must 16 their addresses; those that are null are not known yet, and are not held against it.
bool fits_attention(const AttentionCall& call, MatrixUnit unit);

// Fails with kAttention of AMD for shapes, types, strides or a mask that no kernel serves, and with kInvalidArgument
// for what is missing or cannot be counted.
Result<Plan> plan_attention(const AttentionCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
