// Finding attention in a graph.
#pragma once

#include <optional>

#include "passes/graph_edit.h"

namespace kpt {

struct AttentionCall {
  ir::ValueId query = ir::kNoValue;  // [B, H, S, D]
  ir::ValueId key = ir::kNoValue;    // [B, G, T, D], or [B, G, D, T] when `key_transposed`
  ir::ValueId value = ir::kNoValue;  // [B, G, T, D]
  ir::ValueId mask = ir::kNoValue;
  ir::ValueId second_mask = ir::kNoValue;  // added too: a model may have positions and padding apart
  double scale = 1;
  bool causal = false;
  bool key_transposed = false;
};

// aten.scaled_dot_product_attention without dropout.
std::optional<AttentionCall> match_fused_attention(const GraphEdit& edit, const ir::Node& node);

// softmax(query · keyᵀ · scale + mask) · value ending in this product (matmul, or bmm with the view behind it): the
// node whose result is [B, H, S, D] comes back in `end`. Nothing when a piece of it is used elsewhere.
std::optional<AttentionCall> match_written_attention(const GraphEdit& edit, NodeIndex index, NodeIndex& end);

// Before heads were repeated: k [B, G, T, D] of unsqueeze → expand → reshape to [B, H, T, D], or of
// repeat_interleave; the value itself when they were not.
ir::ValueId without_repeated_heads(const GraphEdit& edit, ir::ValueId id);

enum class MaskKind { kAny, kNone, kCausal };
// What a mask of constants amounts to for queries × keys: true (or 0) everywhere is kNone, true exactly where key <=
// query is kCausal. kAny for all others.
MaskKind classify_mask(const GraphEdit& edit, ir::ValueId mask);

}  // namespace kpt
