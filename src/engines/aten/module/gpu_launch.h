// How nodes on GPUs start our own kernels, and how they see tensors as kernels take them. Nodes know no vendor: each
// module for GPUs has device_shape() and launch() of its own (cuda/cuda_launch.cpp, rocm/rocm_launch.cpp).
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/gpu/launch.h"
#include "kpt/status.h"

namespace kpt::aten {

// Of the current device.
gpu::DeviceShape device_shape();

// Queues all launches of `plan` on the current stream; graphs may be capturing it. Throws OwnNodeFailure.
void launch(const Result<gpu::Plan>& plan);

// A tensor as rows of dense elements at one distance.
struct DenseRows {
  at::Tensor owner;  // the tensor, or a contiguous copy of one that has no such rows
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;  // elements between rows

  const void* data() const { return owner.const_data_ptr(); }
};

// The last axis is the row; a tensor of rank 0 is refused by OwnNodeFailure.
DenseRows dense_rows(const at::Tensor& tensor);

}  // namespace kpt::aten
