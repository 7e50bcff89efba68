// A model whose last projection runs for the last position only (pass last_token_logits) gives [B, 1, V] where the
// plain model gives [B, S, V]: what it is held against is brought into its form here.
#pragma once

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// Where `dims` has one position along one axis and `tensor` several, all other extents being equal: the tensor's last
// position along that axis. In all other cases the tensor itself. Only the first extents are compared, as many as the
// tensor has: a mask [B, S] goes with an output [B, 1, V].
Result<Tensor> take_last_like(const Tensor& tensor, const Dims& dims);

}  // namespace kpt
