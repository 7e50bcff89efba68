// Attention becomes kpt.attention, whether the graph has aten.scaled_dot_product_attention or the products, scale, mask
// and softmax written out, in the forms of Hugging Face's models and of run_decompositions(). Heads of keys and values
// that were repeated for groups of queries are taken as they were; a mask that is true everywhere, or a constant
// triangle, is none.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFuseAttention;

}  // namespace kpt
