// One operation on each element of tensors with any strides, on a GPU: what a caller fills in. elementwise_kernels.h
// has the kernels and the list of operations.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

enum class ElementOp : std::int32_t;  // elementwise_kernels.h

// A tensor, or a number for all elements.
struct ElementInput {
  const void* data = nullptr;  // null: the number
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> strides;  // one for each of the call's dims, in elements; 0 where it is broadcast
  double number = 0;
  std::int64_t integer = 0;  // the same for calls that compute in integers
};

// output = op(a, b, c). Types: bool, uint8, int8, int16, int32, int64, float32, float16, bfloat16. Computed in float32
// when `in_integers` is false and in int64 otherwise; then no input is floating. Axes that lie behind one another in
// all tensors are joined; after that there may be six.
struct ElementwiseCall {
  ElementOp op{};
  bool in_integers = false;
  Activation activation{};  // of kActivate
  std::vector<std::int64_t> dims;
  ElementInput a, b, c;
  double factor = 1;  // of kAdd, kSubtract and kRange
  std::int64_t factor_integer = 1;
  void* output = nullptr;  // no element may lie on another one's place
  DType output_dtype = DType::kFloat32;
  std::vector<std::int64_t> output_strides;
};

// Whether the kernels can read and write the type.
bool is_element_type(DType dtype);
Result<Plan> plan_elementwise(const ElementwiseCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
