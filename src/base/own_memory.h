// Tensors for work that may still run when its caller has freed what it gave (call_threads.h).
#pragma once

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// The tensor itself, or a copy of one whose shares do not keep its memory alive. Fails with kOutOfMemory.
inline Result<Tensor> own_memory(const Tensor& tensor) {
  if (!tensor.defined() || tensor.buffer()->owns_memory()) return tensor;
  return tensor.contiguous_copy();
}

}  // namespace kpt
