// Attention on values.
#pragma once

#include <optional>

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

struct Attention {
  Value query;                // [B, H, S, D]
  Value key;                  // [B, G, T, D], H a multiple of G
  Value value;                // [B, G, T, E]
  std::optional<Value> mask;  // bool (true: look there) or added; broadcastable to [B, H, S, T]
  double scale = 1;
  bool causal = false;  // element (s, t) counts when t <= s
};

// [B, H, S, E] in math_dtype() of the query. A row that may look nowhere is zero.
Value attend(Builder& builder, const Attention& attention);

}  // namespace kpt::xla
