// softmax(query · keyᵀ · scale + mask) · value, block by block: the scores of a whole row are never in memory at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kpt/dtype.h"

namespace kpt::kernels {

// A tensor of rank 4, in any layout; axes: batch, head, position, element (of masks: the key's position).
struct AttentionOperand {
  const void* data = nullptr;
  std::int64_t strides[4] = {};  // in elements; 0 where it is broadcast
};

enum class MaskKind : std::uint8_t {
  kNone,
  kBool,   // one byte each; zero hides
  kAdded,  // of the operands' type, added to the scaled scores
};

struct Attention {
  DType dtype = DType::kFloat32;  // of all operands and the result: float32, bfloat16, float16. All sums are float32
  std::int64_t batch = 0;
  std::int64_t heads = 0;   // of the query
  std::int64_t groups = 0;  // heads of key and value; divides `heads`
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;  // of a head
  AttentionOperand query;
  AttentionOperand key;
  AttentionOperand value;
  AttentionOperand mask;
  MaskKind mask_kind = MaskKind::kNone;
  float scale = 1;
  bool causal = false;     // key t counts for query s when t <= s
  void* result = nullptr;  // [batch, queries, heads, width], contiguous. Rows that may look nowhere are zero
};

// How the work is cut; a row's result does not depend on it.
struct AttentionPlan {
  std::int64_t head_share = 1;  // heads in one task: those of a group together when there are few queries
  std::int64_t rows = 0;        // rows (pairs of head and query) of one task
  std::int64_t blocks = 0;      // tasks for one share of heads
  std::int64_t tasks = 0;
  std::size_t scratch_floats = 0;  // of one worker
};

AttentionPlan plan_attention(const Attention& call, int threads);
// Bytes, aligned to 64.
std::size_t attention_workspace(const AttentionPlan& plan, int threads);
void run_attention(const Attention& call, const AttentionPlan& plan, const Parallel& parallel, void* workspace);

}  // namespace kpt::kernels
