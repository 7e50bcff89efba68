// DLPack as others know it: the structures of its ABI (versions 0.8 and 1.0, the unversioned DLManagedTensor), declared
// here so that nothing needs its header, and the two ways across.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kpt/tensor.h"

extern "C" {

enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLROCM = 10,
  kDLROCMHost = 11,
};

struct DLDevice {
  std::int32_t device_type;  // a DLDeviceType, or one that is not known here
  std::int32_t device_id;
};

enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

}  // extern "C"

namespace kpt {

// What Tensor::to_dlpack() and Tensor::from_dlpack() do.
Result<DLManagedTensor*> export_dlpack(const Tensor& tensor);
Result<Tensor> import_dlpack(DLManagedTensor* managed);

}  // namespace kpt
