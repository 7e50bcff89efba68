// Between kpt::Tensor and at::Tensor: the same memory, described twice.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::aten {

at::ScalarType to_scalar_type(DType dtype);
// Nothing for types that only libtorch has (quantized ones).
std::optional<DType> find_dtype(at::ScalarType type);
// Of a tensor that has none of those.
inline DType dtype_of(const at::Tensor& tensor) { return find_dtype(tensor.scalar_type()).value(); }

// The address of a static of this module: marks buffers that hold an at::Tensor.
const void* buffer_maker() noexcept;

// Whose GPUs libtorch's CUDA devices are in this module. Each module defines it once.
struct GpuKind {
  const char* prefix;  // of device names: "nvidia:"
  Vendor vendor;
  const char* blas;      // the library of its products, as plans name it
  bool widens_products;  // libtorch writes products of bfloat16 numbers as float32 there, without rounding
  bool (*multiplies_fp8)(c10::DeviceIndex device);  // libtorch has FP8 products for it; null: for none
};
extern const GpuKind kGpuKind;

// "cpu", "nvidia:0": as the tree names a device of libtorch's. Throws CallFailure for kinds that the tree has not.
std::string_view device_name(at::Device device);

// Memory that libtorch allocated.
class AtenBuffer final : public Buffer {
 public:
  explicit AtenBuffer(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  void* data() const override { return tensor_.storage().mutable_data(); }
  std::size_t bytes() const override { return tensor_.storage().nbytes(); }
  std::string_view device() const override { return device_name(tensor_.device()); }
  const void* maker() const override { return buffer_maker(); }

  const at::Tensor& tensor() const { return tensor_; }
  void replace(at::Tensor tensor) { tensor_ = std::move(tensor); }

 private:
  at::Tensor tensor_;
};

// Throws CallFailure for memory without an address.
void require_address(const Tensor& tensor);

// Shares the memory of `tensor`, whose buffer lives as long as the result: memory of the host, or of any device when
// this module made the buffer. An undefined tensor stays undefined. Throws CallFailure for memory without an address
// and for a device's memory that others made.
at::Tensor to_aten(const Tensor& tensor);

// Copies of host memory on a device: one per buffer, so that tensors that share memory share it there too.
class DeviceCopies {
 public:
  explicit DeviceCopies(at::Device device) : device_(device) {}
  // Throws what libtorch throws when memory runs out.
  at::Tensor view(const Tensor& host);

 private:
  at::Device device_;
  std::map<const Buffer*, at::Tensor> copies_;  // as bytes
};

// Waits for what this thread has queued on a device outside a run: runs use streams of their own. Nothing on the CPU.
void wait_for_queue(at::Device device);

// Puts `tensor` behind `target`, using the buffer object that is there when nobody else shares it.
void replace_tensor(at::Tensor tensor, Tensor& target);

}  // namespace kpt::aten
