// A tensor: element type, extents, strides, and a share in the memory behind it.
//
// Copying a Tensor copies the description and shares the memory. Memory may live on a device and may have no address at
// all (Buffer::data() is null then); only what says so needs an address.
//
// Thread safety: a Tensor is a value; the memory it shares is guarded by nobody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kpt/dtype.h"
#include "kpt/export.h"
#include "kpt/status.h"

struct DLManagedTensor;  // of dlpack.h, which callers include where they need it

namespace kpt {

// Tensors of higher rank are refused where they would enter.
inline constexpr std::size_t kMaxRank = 16;

// Extents or strides, in elements: a short list that never allocates. A contiguous range, so std::span takes it as it
// is.
class Dims {
 public:
  Dims() = default;
  // At most kMaxRank entries; more is std::length_error.
  KPT_API Dims(std::span<const std::int64_t> values);        // NOLINT(google-explicit-constructor)
  KPT_API Dims(std::initializer_list<std::int64_t> values);  // NOLINT(google-explicit-constructor)

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::int64_t* data() const { return values_.data(); }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  std::int64_t operator[](std::size_t index) const { return values_[index]; }
  std::int64_t& operator[](std::size_t index) { return values_[index]; }
  KPT_API void push_back(std::int64_t value);
  KPT_API bool operator==(const Dims& other) const;
  // "[2, 128, 768]"
  KPT_API std::string to_string() const;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  std::uint8_t size_ = 0;
};

// The product of the extents; nothing when one is negative or the product overflows.
KPT_API std::optional<std::int64_t> count_elements(std::span<const std::int64_t> dims);
// Row-major strides. The extents must have a valid product.
KPT_API Dims contiguous_strides(std::span<const std::int64_t> dims);

// Memory on one device. Subclasses own it; shared_ptr<Buffer> is how it is shared.
class KPT_API Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer();

  // The address, or null where the device has none to give (PJRT).
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
  // "cpu", "nvidia:0", … as kpt::list_devices() names it.
  virtual std::string_view device() const = 0;
  // False for mapped weights: writing there is a fault.
  virtual bool writable() const { return true; }
  // Whether a share keeps the memory alive. False for memory of the caller's that has no `release`: whoever may still
  // look at it when the caller has gone on needs a copy.
  virtual bool owns_memory() const { return true; }
  // Identifies the engine that made the buffer, so that it recognises its own; null for plain memory.
  virtual const void* maker() const { return nullptr; }
};

class KPT_API Tensor {
 public:
  Tensor() = default;  // undefined: no buffer, float32, rank 0

  // Contiguous memory on the CPU, aligned to 64 bytes, not initialised. Fails with kInvalidArgument for extents that
  // are negative, too many or whose product overflows, and with kOutOfMemory.
  static Result<Tensor> empty(DType dtype, std::span<const std::int64_t> dims);
  // A copy of `bytes`, which must be exactly the contiguous tensor.
  static Result<Tensor> from_bytes(DType dtype, std::span<const std::int64_t> dims, std::span<const std::byte> bytes);
  // A view of the caller's memory, contiguous unless `strides` is given. `release` runs when the last share goes; when
  // this fails it does not run. Without it the memory must live as long as what uses the tensor: a run until it
  // returns, a model until it is gone. The memory needs no alignment; elements<T>() does.
  static Result<Tensor> from_memory(DType dtype, std::span<const std::int64_t> dims, void* data, std::size_t bytes,
                                    std::function<void()> release = {}, std::span<const std::int64_t> strides = {});
  // A view of a buffer. Fails with kInvalidArgument when an element would lie outside it or a stride is negative.
  static Result<Tensor> from_buffer(std::shared_ptr<Buffer> buffer, DType dtype, std::span<const std::int64_t> dims,
                                    std::span<const std::int64_t> strides, std::int64_t offset);
  // For engines that know it to be right already: no check.
  static Tensor unchecked(std::shared_ptr<Buffer> buffer, DType dtype, const Dims& dims, const Dims& strides,
                          std::int64_t offset);

  bool defined() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  const Dims& strides() const { return strides_; }
  std::int64_t offset() const { return offset_; }  // of the first element in the buffer, in elements
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  std::string_view device() const;

  std::int64_t element_count() const;
  std::size_t bytes() const { return static_cast<std::size_t>(element_count()) * element_bytes(dtype_); }
  bool is_contiguous() const;
  // The address of the first element; null when undefined or where the device has none.
  void* data() const;
  template <typename T>
  std::span<T> elements() const {  // the tensor must be contiguous, on the CPU, and of elements as wide as T
    return {static_cast<T*>(data()), static_cast<std::size_t>(element_count())};
  }

  // The same elements in fresh contiguous memory of the CPU. Fails with kInvalidArgument when the tensor is not on the
  // CPU or has no address.
  Result<Tensor> contiguous_copy() const;

  // DLPack: shares the memory; the taker calls the deleter. Fails with kUnsupported for types or devices it
  // lacks, and for memory that is read only, which it cannot express.
  Result<DLManagedTensor*> to_dlpack() const;
  // Takes ownership, also when it fails.
  static Result<Tensor> from_dlpack(DLManagedTensor* managed);

  // "float32[2, 128] on cpu"
  std::string to_string() const;

 private:
  std::shared_ptr<Buffer> buffer_;
  DType dtype_ = DType::kFloat32;
  Dims dims_;
  Dims strides_;
  std::int64_t offset_ = 0;
};

// A tensor with the name under which a model takes or gives it.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace kpt
