// Sums and the like over axes of a tensor on a GPU: what a caller fills in. reduce_kernels.h has the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

enum class ReduceOp : std::int32_t;  // reduce_kernels.h

struct ReduceAxis {
  std::int64_t extent = 0;
  std::int64_t stride = 0;  // of the input, in elements
};

// output[kept] = op over the reduced axes. float32, float16, bfloat16; kAny and kAll also of bool, and with a bool
// output; kPlaceOfMaximum and kPlaceOfMinimum also of int64, and with an int64 output: the first place, counted over
// the reduced axes in order. Sums are in float32. NaN goes through extremes, which refuse axes without elements. Axes
// that lie behind one another are joined; after that there may be four of each kind.
struct ReduceCall {
  ReduceOp op{};
  DType dtype = DType::kFloat32;
  const void* input = nullptr;
  void* output = nullptr;                // contiguous, in the order of the kept axes
  DType output_dtype = DType::kFloat32;  // the input's or float32
  std::vector<ReduceAxis> kept, reduced;
};

Result<Plan> plan_reduce(const ReduceCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
