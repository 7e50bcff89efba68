// Between kpt::Tensor and at::Tensor: the same memory, described twice.
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "kpt/tensor.h"

namespace kpt::aten {

at::ScalarType to_scalar_type(DType dtype);
// Nothing for types that only libtorch has (quantized ones).
std::optional<DType> find_dtype(at::ScalarType type);

// The address of a static of this module: marks buffers that hold an at::Tensor.
const void* buffer_maker() noexcept;

// Memory that libtorch allocated on the CPU.
class AtenBuffer final : public Buffer {
 public:
  explicit AtenBuffer(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  void* data() const override { return tensor_.storage().mutable_data(); }
  std::size_t bytes() const override { return tensor_.storage().nbytes(); }
  std::string_view device() const override { return "cpu"; }
  const void* maker() const override { return buffer_maker(); }

  const at::Tensor& tensor() const { return tensor_; }
  void replace(at::Tensor tensor) { tensor_ = std::move(tensor); }

 private:
  at::Tensor tensor_;
};

// Throws CallFailure for memory without an address.
void require_address(const Tensor& tensor);

// Shares the memory of `tensor`, whose buffer lives as long as the result. An undefined tensor stays undefined. Throws
// CallFailure for memory without an address.
at::Tensor to_aten(const Tensor& tensor);

// Puts `tensor` behind `target`, using the buffer object that is there when nobody else shares it.
void replace_tensor(at::Tensor tensor, Tensor& target);

}  // namespace kpt::aten
