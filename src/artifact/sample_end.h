// Samples keep the end of an output whose whole would make the file too large: of a language model the logits of the
// last positions, which all others lead to.
#pragma once

#include <cstddef>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// Extents of at most `most_bytes`, elements having `element_bytes`: those of `dims`, the longest of all axes but the
// last shortened first, none below 1.
Dims shorten(const Dims& dims, std::size_t element_bytes, std::size_t most_bytes);

// The last `dims[i]` places along every axis i. The tensor itself where it has these extents, another rank, or fewer
// places along an axis.
Result<Tensor> take_end(const Tensor& tensor, const Dims& dims);

}  // namespace kpt
