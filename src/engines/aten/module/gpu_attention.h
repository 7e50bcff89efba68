// What nodes of kpt.attention on GPUs have in common, whichever kernel attends.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "engines/aten/module/own_nodes.h"

namespace kpt::aten {

// What the file says of a node.
struct AttentionForm {
  enum Position : std::size_t { kQuery, kKey, kValue, kMask, kScale, kCausal };  // of its arguments

  DType dtype = DType::kFloat32;  // of query, key, value, result, and of a mask that is added
  bool masked = false;
  bool causal = false;
  double scale = 1;
};
// Fails as OwnBinding does.
Result<AttentionForm> read_attention_form(const OwnBinding& binding);

// Throws TypedFailure of kAttention unless the three fit together; without queries or keys, any number of heads does.
void check_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);
// Likewise unless `mask` can be broadcast to `scores` = [batch, heads, queries, keys].
void check_mask(const at::Tensor& mask, at::IntArrayRef scores);

// To be added, and to be broadcast to `scores`; a causal node's triangle becomes part of it, since no kernel of
// libtorch's takes both. Truth values become zeros and minus infinities here: with them some kernels of libtorch's give
// rows that may look nowhere a value, which must be zero. `options`: of the result. Throws as check_mask().
at::Tensor mask_to_add(const at::Tensor& mask, bool causal, const at::TensorOptions& options, at::IntArrayRef scores);

// [batch, groups, keys, width] as [batch, groups · times, keys, width], each head `times` times in a row.
at::Tensor repeat_heads(const at::Tensor& tensor, std::int64_t times);

}  // namespace kpt::aten
