// Elements chosen by tensors of indices on a GPU: what a caller fills in. gather_kernels.h has the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// An axis of the source that is walked by an int64 tensor. Strides are by axis of the output, 0 where the tensor does
// not vary.
struct GatherAxis {
  const void* indices = nullptr;
  std::vector<std::int64_t> strides;
  std::int64_t extent = 0;         // of the source's axis
  std::int64_t source_stride = 0;  // of that axis, in elements
};

// output[o] = source[Σ o · source_strides + Σ indices(o) · source_stride]: aten.index and aten.gather. Any type of 1,
// 2, 4 or 8 bytes; at most five axes and three tensors of indices.
struct GatherCall {
  DType dtype = DType::kFloat32;
  const void* source = nullptr;
  void* output = nullptr;                    // contiguous
  std::vector<std::int64_t> dims;            // of the output
  std::vector<std::int64_t> source_strides;  // by axis of the output; 0 on those that come from indices
  std::vector<GatherAxis> axes;
  bool wrap = false;  // a negative index counts from the end
  // On the device, set to 0 by the caller. An index outside its axis sets it to 1 and gives zero.
  std::int32_t* out_of_range = nullptr;
};

Result<Plan> plan_gather(const GatherCall& call, const DeviceShape& device);

// The other way: output[Σ o · source_strides + Σ indices(o) · source_stride] = source[o], for a contiguous source.
// Elements that no index names stay. What two items write at one place is the one or the other.
Result<Plan> plan_scatter(const GatherCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
