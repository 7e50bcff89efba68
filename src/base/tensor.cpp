#include "kpt/tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/dlpack.h"
#include "base/strided_copy.h"

namespace kpt {
namespace {

constexpr std::size_t kAlignmentBytes = 64;
// More than any user address space has; such a request is refused without asking the allocator.
constexpr std::size_t kMaxBytes = std::size_t{1} << 47U;

std::string format_list(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

Status refuse_tensor(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;
  ~CpuBuffer() override { ::operator delete(data_, std::align_val_t{kAlignmentBytes}); }

  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  std::string_view device() const override { return "cpu"; }

 private:
  void* data_;
  std::size_t bytes_;
};

class BorrowedBuffer final : public Buffer {
 public:
  BorrowedBuffer(void* data, std::size_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  BorrowedBuffer(const BorrowedBuffer&) = delete;
  BorrowedBuffer& operator=(const BorrowedBuffer&) = delete;
  ~BorrowedBuffer() override {
    if (release_) release_();
  }

  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  std::string_view device() const override { return "cpu"; }
  bool owns_memory() const override { return release_ != nullptr; }

 private:
  void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
};

struct Extent {
  std::int64_t elements = 0;
  std::size_t bytes = 0;  // when contiguous
};

// Checks rank and product.
Result<Extent> measure(DType dtype, std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return refuse_tensor("a tensor of rank " + std::to_string(dims.size()) + " is not possible; the limit is " +
                         std::to_string(kMaxRank));
  }
  const auto count = count_elements(dims);
  std::int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<std::int64_t>(element_bytes(dtype)), &bytes)) {
    return refuse_tensor("the extents " + format_list(dims) + " are negative or too large");
  }
  return Extent{*count, static_cast<std::size_t>(bytes)};
}

// Whether every element lies inside `bytes`. An empty tensor has none, wherever it starts.
Status check_inside(std::size_t bytes, DType dtype, std::span<const std::int64_t> dims,
                    std::span<const std::int64_t> strides, std::int64_t offset) {
  if (offset < 0) return refuse_tensor("the offset " + std::to_string(offset) + " of a tensor is negative");
  bool empty = false;
  bool overflow = false;
  std::int64_t end = offset;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (strides[i] < 0)
      return refuse_tensor("the strides " + format_list(strides) + " are negative, which is not possible");
    if (dims[i] == 0) {
      empty = true;
      continue;
    }
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(dims[i] - 1, strides[i], &reach);
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  if (empty) return {};
  overflow |= __builtin_add_overflow(end, 1, &end);
  std::int64_t needed = 0;
  overflow |= __builtin_mul_overflow(end, static_cast<std::int64_t>(element_bytes(dtype)), &needed);
  if (overflow || static_cast<std::uint64_t>(needed) > bytes) {
    return refuse_tensor("a " + std::string(to_string(dtype)) + " tensor of extents " + format_list(dims) +
                         ", strides " + format_list(strides) + " and offset " + std::to_string(offset) +
                         " does not fit into " + std::to_string(bytes) + " bytes");
  }
  return {};
}

}  // namespace

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > kMaxRank) throw std::length_error("more than 16 extents");
  std::copy(values.begin(), values.end(), values_.begin());
  size_ = static_cast<std::uint8_t>(values.size());
}

Dims::Dims(std::initializer_list<std::int64_t> values)
    : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}

void Dims::push_back(std::int64_t value) {
  if (size_ == kMaxRank) throw std::length_error("more than 16 extents");
  values_[size_++] = value;
}

bool Dims::operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string Dims::to_string() const { return format_list(*this); }

std::optional<std::int64_t> count_elements(std::span<const std::int64_t> dims) {
  // An extent of zero makes the product zero, however large the others are.
  bool empty = false;
  bool overflow = false;
  std::int64_t product = 1;
  for (const std::int64_t extent : dims) {
    if (extent < 0) return std::nullopt;
    empty |= extent == 0;
    if (extent > 0) overflow |= __builtin_mul_overflow(product, extent, &product);
  }
  if (empty) return 0;
  if (overflow) return std::nullopt;
  return product;
}

Dims contiguous_strides(std::span<const std::int64_t> dims) {
  Dims strides(dims);
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    // Beside an extent of zero the others need not have a product. Such strides are never used to reach an element.
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(dims[i], 1), &stride)) stride = 1;
  }
  return strides;
}

Buffer::~Buffer() = default;

Result<Tensor> Tensor::empty(DType dtype, std::span<const std::int64_t> dims) {
  KPT_ASSIGN_OR_RETURN(const Extent extent, measure(dtype, dims));
  // At least one line, so that an empty tensor has an address too.
  const std::size_t wanted = std::max(extent.bytes, kAlignmentBytes);
  void* data = wanted > kMaxBytes ? nullptr : ::operator new(wanted, std::align_val_t{kAlignmentBytes}, std::nothrow);
  if (data == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  "no memory for a " + std::string(kpt::to_string(dtype)) + " tensor of extents " + format_list(dims))
        .with("requested_bytes", std::to_string(extent.bytes));
  }
  return unchecked(std::make_shared<CpuBuffer>(data, extent.bytes), dtype, dims, contiguous_strides(dims), 0);
}

Result<Tensor> Tensor::from_bytes(DType dtype, std::span<const std::int64_t> dims, std::span<const std::byte> bytes) {
  KPT_ASSIGN_OR_RETURN(const Extent extent, measure(dtype, dims));
  if (extent.bytes != bytes.size()) {
    return refuse_tensor("a " + std::string(kpt::to_string(dtype)) + " tensor of extents " + format_list(dims) +
                         " has " + std::to_string(extent.bytes) + " bytes, not " + std::to_string(bytes.size()));
  }
  KPT_ASSIGN_OR_RETURN(Tensor tensor, empty(dtype, dims));
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

Result<Tensor> Tensor::from_memory(DType dtype, std::span<const std::int64_t> dims, void* data, std::size_t bytes,
                                   std::function<void()> release, std::span<const std::int64_t> strides) {
  KPT_ASSIGN_OR_RETURN(const Extent extent, measure(dtype, dims));
  if (data == nullptr && extent.elements > 0) return refuse_tensor("a tensor with elements needs an address");
  // Without strides the tensor is contiguous; a rank-0 tensor has none either way.
  const bool contiguous = strides.empty();
  if (!contiguous && strides.size() != dims.size()) {
    return refuse_tensor("a tensor of rank " + std::to_string(dims.size()) + " needs as many strides, not " +
                         std::to_string(strides.size()));
  }
  const Dims used = contiguous ? contiguous_strides(dims) : Dims(strides);
  // Checked before the buffer exists: on failure the memory stays the caller's and `release` does not run.
  KPT_RETURN_IF_ERROR(check_inside(bytes, dtype, dims, used, 0));
  return unchecked(std::make_shared<BorrowedBuffer>(data, bytes, std::move(release)), dtype, dims, used, 0);
}

Result<Tensor> Tensor::from_buffer(std::shared_ptr<Buffer> buffer, DType dtype, std::span<const std::int64_t> dims,
                                   std::span<const std::int64_t> strides, std::int64_t offset) {
  if (buffer == nullptr) return refuse_tensor("a tensor needs a buffer");
  KPT_RETURN_IF_ERROR(measure(dtype, dims).status());
  if (strides.size() != dims.size()) {
    return refuse_tensor("a tensor of rank " + std::to_string(dims.size()) + " needs as many strides, not " +
                         std::to_string(strides.size()));
  }
  KPT_RETURN_IF_ERROR(check_inside(buffer->bytes(), dtype, dims, strides, offset));
  // PyTorch writes empty slices that start behind their storage; no address is computed from that.
  if (count_elements(dims) == 0) offset = 0;
  return unchecked(std::move(buffer), dtype, dims, strides, offset);
}

Tensor Tensor::unchecked(std::shared_ptr<Buffer> buffer, DType dtype, const Dims& dims, const Dims& strides,
                         std::int64_t offset) {
  Tensor tensor;
  tensor.buffer_ = std::move(buffer);
  tensor.dtype_ = dtype;
  tensor.dims_ = dims;
  tensor.strides_ = strides;
  tensor.offset_ = offset;
  return tensor;
}

std::string_view Tensor::device() const { return buffer_ == nullptr ? std::string_view{} : buffer_->device(); }

std::int64_t Tensor::element_count() const {
  if (buffer_ == nullptr) return 0;
  return count_elements(dims_).value_or(0);
}

bool Tensor::is_contiguous() const {
  std::int64_t expected = 1;
  bool dense = true;
  for (std::size_t i = dims_.size(); i-- > 0;) {
    if (dims_[i] == 0) return true;
    if (dims_[i] == 1) continue;
    dense &= strides_[i] == expected;
    if (__builtin_mul_overflow(expected, dims_[i], &expected)) expected = 0;
  }
  return dense;
}

void* Tensor::data() const {
  if (buffer_ == nullptr || buffer_->data() == nullptr) return nullptr;
  return static_cast<std::byte*>(buffer_->data()) + offset_ * static_cast<std::int64_t>(element_bytes(dtype_));
}

Result<Tensor> Tensor::contiguous_copy() const {
  if (!defined()) return refuse_tensor("an undefined tensor cannot be copied");
  const std::int64_t count = element_count();
  if (device() != "cpu" || (count > 0 && data() == nullptr)) {
    return refuse_tensor("a tensor on " + std::string(device()) + " has no address that the CPU could copy from");
  }
  KPT_ASSIGN_OR_RETURN(Tensor copy, empty(dtype_, dims_));
  if (count > 0) {
    copy_strided(static_cast<std::byte*>(copy.data()), static_cast<const std::byte*>(data()), dims_, strides_,
                 element_bytes(dtype_));
  }
  return copy;
}

Result<DLManagedTensor*> Tensor::to_dlpack() const { return export_dlpack(*this); }

Result<Tensor> Tensor::from_dlpack(DLManagedTensor* managed) { return import_dlpack(managed); }

std::string Tensor::to_string() const {
  if (!defined()) return "undefined";
  return std::string(kpt::to_string(dtype_)) + dims_.to_string() + " on " + std::string(device());
}

}  // namespace kpt
