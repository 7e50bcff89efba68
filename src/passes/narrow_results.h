// What goes from one bfloat16 product to the next becomes bfloat16 as well: results of products, attention, gates,
// rotary positions and the views between them, wherever nobody else reads them. Half the bytes, and attention by the
// kernels for 16-bit types. What is added up over the depth of a model (residuals, norms) stays float32.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kNarrowResults;

// Views and copies: results are the elements of the first argument, in its type, and nothing is rounded.
bool only_moves_elements(std::string_view target);

}  // namespace kpt
