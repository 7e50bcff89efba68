#include "base/dlpack.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"

namespace kpt {
namespace {

struct TypeRow {
  DType dtype;
  DLDataTypeCode code;
  std::uint8_t bits;
};

// The float8 types came with later versions of the format and are left out.
constexpr std::array kTypes = {
    TypeRow{DType::kBool, kDLBool, 8},          TypeRow{DType::kUInt8, kDLUInt, 8},
    TypeRow{DType::kInt8, kDLInt, 8},           TypeRow{DType::kUInt16, kDLUInt, 16},
    TypeRow{DType::kInt16, kDLInt, 16},         TypeRow{DType::kUInt32, kDLUInt, 32},
    TypeRow{DType::kInt32, kDLInt, 32},         TypeRow{DType::kUInt64, kDLUInt, 64},
    TypeRow{DType::kInt64, kDLInt, 64},         TypeRow{DType::kFloat16, kDLFloat, 16},
    TypeRow{DType::kBFloat16, kDLBfloat, 16},   TypeRow{DType::kFloat32, kDLFloat, 32},
    TypeRow{DType::kFloat64, kDLFloat, 64},     TypeRow{DType::kComplex32, kDLComplex, 32},
    TypeRow{DType::kComplex64, kDLComplex, 64}, TypeRow{DType::kComplex128, kDLComplex, 128},
};

std::optional<DLDataType> find_type(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return DLDataType{row.code, row.bits, 1};
  }
  return std::nullopt;
}

std::optional<DType> find_type(const DLDataType& type) {
  for (const TypeRow& row : kTypes) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DLDevice> find_device_of(std::string_view name) {
  if (name == "cpu") return DLDevice{kDLCPU, 0};
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto index = parse_int(name.substr(colon + 1));
  if (!index || *index < 0 || *index > INT32_MAX) return std::nullopt;
  const auto id = static_cast<std::int32_t>(*index);
  if (name.substr(0, colon) == "nvidia") return DLDevice{kDLCUDA, id};
  if (name.substr(0, colon) == "amd") return DLDevice{kDLROCM, id};
  return std::nullopt;
}

std::optional<std::string> find_device_name(const DLDevice& device) {
  if (device.device_id < 0) return std::nullopt;
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost: return "cpu";
    case kDLCUDA: return "nvidia:" + std::to_string(device.device_id);
    case kDLROCM: return "amd:" + std::to_string(device.device_id);
    default: return std::nullopt;
  }
}

// What an exported tensor needs until the taker lets go of it.
struct Export {
  DLManagedTensor managed{};
  Tensor tensor;
  Dims dims;
  Dims strides;
};

void delete_export(DLManagedTensor* self) {
  if (self != nullptr) delete static_cast<Export*>(self->manager_ctx);
}

struct CallDeleter {
  void operator()(DLManagedTensor* managed) const {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
using ManagedPointer = std::unique_ptr<DLManagedTensor, CallDeleter>;

class DlpackBuffer final : public Buffer {
 public:
  DlpackBuffer(ManagedPointer managed, std::byte* data, std::size_t bytes, std::string device)
      : managed_(std::move(managed)), data_(data), bytes_(bytes), device_(std::move(device)) {}

  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  std::string_view device() const override { return device_; }

 private:
  ManagedPointer managed_;
  std::byte* data_;
  std::size_t bytes_;
  std::string device_;
};

Status refuse_dlpack(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

// The bytes from the first element to the end of the last; nothing on overflow or a negative stride.
std::optional<std::size_t> measure_bytes(const Dims& dims, const Dims& strides, std::size_t width) {
  std::int64_t last = 0;
  bool empty = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || strides[i] < 0) return std::nullopt;
    if (dims[i] == 0) {
      empty = true;
      continue;
    }
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(dims[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  if (empty) return 0;
  std::size_t bytes = 0;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(static_cast<std::size_t>(last), width, &bytes) ||
      bytes > PTRDIFF_MAX) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

Result<DLManagedTensor*> export_dlpack(const Tensor& tensor) {
  if (!tensor.defined()) return refuse_dlpack("an undefined tensor cannot be given to DLPack");
  const auto type = find_type(tensor.dtype());
  if (!type) {
    return Status(StatusCode::kUnsupported, "DLPack has no element type " + std::string(to_string(tensor.dtype())));
  }
  const auto device = find_device_of(tensor.device());
  if (!device) {
    return Status(StatusCode::kUnsupported, "DLPack has no device for " + std::string(tensor.device()));
  }
  if (!tensor.buffer()->writable()) {
    return Status(StatusCode::kUnsupported,
                  "DLPack cannot say that memory is read only, as this tensor's is; give it a copy");
  }
  if (tensor.element_count() > 0 && tensor.data() == nullptr) {
    return Status(StatusCode::kUnsupported,
                  "DLPack needs an address, which memory on " + std::string(tensor.device()) + " does not have");
  }
  auto made = std::make_unique<Export>();
  made->tensor = tensor;
  made->dims = tensor.dims();
  made->strides = tensor.strides();
  made->managed.dl_tensor = {
      .data = tensor.element_count() > 0 ? tensor.data() : nullptr,
      .device = *device,
      .ndim = static_cast<std::int32_t>(tensor.dims().size()),
      .dtype = *type,
      .shape = made->dims.empty() ? nullptr : &made->dims[0],
      .strides = made->strides.empty() ? nullptr : &made->strides[0],
      .byte_offset = 0,
  };
  made->managed.manager_ctx = made.get();
  made->managed.deleter = delete_export;
  return &made.release()->managed;
}

Result<Tensor> import_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) return refuse_dlpack("the DLPack tensor is null");
  ManagedPointer owned(managed);
  const DLTensor& source = managed->dl_tensor;
  if (source.ndim < 0 || source.ndim > static_cast<std::int32_t>(kMaxRank)) {
    return refuse_dlpack("the DLPack tensor has rank " + std::to_string(source.ndim) + "; at most " +
                         std::to_string(kMaxRank) + " is possible");
  }
  const auto rank = static_cast<std::size_t>(source.ndim);
  if (rank > 0 && source.shape == nullptr) return refuse_dlpack("the DLPack tensor has no shape");
  const auto dtype = find_type(source.dtype);
  if (!dtype) {
    return Status(StatusCode::kUnsupported, "the DLPack tensor has an element type that is not known here (code " +
                                                std::to_string(source.dtype.code) + ", " +
                                                std::to_string(source.dtype.bits) + " bits, " +
                                                std::to_string(source.dtype.lanes) + " lanes)");
  }
  auto device = find_device_name(source.device);
  if (!device) {
    return Status(StatusCode::kUnsupported, "the DLPack tensor is on a device that is not known here (type " +
                                                std::to_string(source.device.device_type) + ")");
  }
  const Dims dims(std::span<const std::int64_t>(source.shape, rank));
  if (!count_elements(dims)) {
    return refuse_dlpack("the DLPack tensor's extents " + dims.to_string() + " are negative or too large");
  }
  const Dims strides =
      source.strides == nullptr ? contiguous_strides(dims) : Dims(std::span<const std::int64_t>(source.strides, rank));
  const auto bytes = measure_bytes(dims, strides, element_bytes(*dtype));
  if (!bytes) return refuse_dlpack("the DLPack tensor's strides " + strides.to_string() + " are negative or too large");
  if (*bytes > 0 && source.data == nullptr) return refuse_dlpack("the DLPack tensor has elements but no address");
  if (source.byte_offset > PTRDIFF_MAX) return refuse_dlpack("the DLPack tensor's byte offset is too large");
  auto* data = static_cast<std::byte*>(source.data);
  if (data != nullptr) data += source.byte_offset;
  auto buffer = std::make_shared<DlpackBuffer>(std::move(owned), data, *bytes, *std::move(device));
  return Tensor::from_buffer(std::move(buffer), *dtype, dims, strides, 0);
}

}  // namespace kpt
