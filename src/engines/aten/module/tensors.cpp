#include "engines/aten/module/tensors.h"

#include <array>
#include <string>

#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "engines/aten/module/guarded_call.h"
#include "kpt/torch.h"

namespace kpt::aten {

at::ScalarType to_scalar_type(DType dtype) {
  for (const kpt::detail::TypePair& pair : kpt::detail::kTorchTypes) {
    if (pair.ours == dtype) return pair.theirs;
  }
  throw CallFailure(CallCode::kInvalidArgument, "an element type that libtorch lacks");
}

std::optional<DType> find_dtype(at::ScalarType type) {
  for (const kpt::detail::TypePair& pair : kpt::detail::kTorchTypes) {
    if (pair.theirs == type) return pair.ours;
  }
  return std::nullopt;
}

const void* buffer_maker() noexcept {
  static constexpr char kTag = 0;
  return &kTag;
}

std::string_view device_name(at::Device device) {
  if (device.is_cpu()) return "cpu";
  if (!device.is_cuda()) throw CallFailure(CallCode::kFailed, "a tensor lies on a device that is neither CPU nor GPU");
  static const auto* const kNames = [] {
    auto* names = new std::array<std::string, 64>();
    for (std::size_t index = 0; index < names->size(); ++index)
      (*names)[index] = kGpuKind.prefix + std::to_string(index);
    return names;
  }();
  const auto index = static_cast<std::size_t>(device.has_index() ? device.index() : 0);
  if (index >= kNames->size()) throw CallFailure(CallCode::kFailed, "a GPU has an index beyond all bounds");
  return (*kNames)[index];
}

void require_address(const Tensor& tensor) {
  if (tensor.data() == nullptr && tensor.element_count() > 0) {
    throw CallFailure(CallCode::kInvalidArgument, "a tensor has no address that libtorch could use");
  }
}

at::Tensor to_aten(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.buffer()->maker() == buffer_maker()) {
    const at::Tensor& own = static_cast<const AtenBuffer&>(*tensor.buffer()).tensor();
    if (!own.is_cpu()) {
      return at::empty({0}, own.options().dtype(to_scalar_type(tensor.dtype())))
          .set_(own.storage(), tensor.offset(), {tensor.dims().data(), tensor.dims().size()},
                {tensor.strides().data(), tensor.strides().size()});
    }
  } else if (tensor.device() != "cpu") {
    throw CallFailure(CallCode::kInvalidArgument, "a tensor lies in a device's memory that another engine made");
  }
  require_address(tensor);
  const auto options = at::TensorOptions().dtype(to_scalar_type(tensor.dtype()));
  return at::from_blob(
      tensor.data(), {tensor.dims().data(), tensor.dims().size()}, {tensor.strides().data(), tensor.strides().size()},
      [owner = tensor.buffer()](void*) {}, options);
}

at::Tensor DeviceCopies::view(const Tensor& host) {
  require_address(host);
  at::Tensor& bytes = copies_[host.buffer().get()];
  if (!bytes.defined()) {
    const Buffer& buffer = *host.buffer();
    bytes = at::from_blob(buffer.data(), {static_cast<std::int64_t>(buffer.bytes())}, at::kByte)
                .to(device_, /*non_blocking=*/false, /*copy=*/true);
  }
  at::Tensor typed = at::empty({0}, bytes.options().dtype(to_scalar_type(host.dtype())));
  typed.set_(bytes.storage(), host.offset(), {host.dims().data(), host.dims().size()},
             {host.strides().data(), host.strides().size()});
  return typed;
}

void wait_for_queue(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

void replace_tensor(at::Tensor tensor, Tensor& target) {
  const std::optional<DType> dtype = find_dtype(tensor.scalar_type());
  if (!dtype) throw CallFailure(CallCode::kFailed, "the result has an element type that only libtorch knows");
  if (tensor.layout() != at::kStrided) throw CallFailure(CallCode::kFailed, "the result is not a strided tensor");
  if (tensor.is_neg() || tensor.is_conj()) tensor = tensor.clone();  // lazy marks are libtorch's alone
  const Dims dims({tensor.sizes().data(), tensor.sizes().size()});
  const Dims strides({tensor.strides().data(), tensor.strides().size()});
  const std::int64_t offset = tensor.storage_offset();
  std::shared_ptr<Buffer> buffer = target.buffer();
  target = Tensor();
  if (buffer != nullptr && buffer.use_count() == 1 && buffer->maker() == buffer_maker()) {
    static_cast<AtenBuffer&>(*buffer).replace(std::move(tensor));
  } else {
    buffer = std::make_shared<AtenBuffer>(std::move(tensor));
  }
  target = Tensor::unchecked(std::move(buffer), *dtype, dims, strides, offset);
}

}  // namespace kpt::aten
