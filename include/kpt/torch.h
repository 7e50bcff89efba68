// at::Tensor in and out, without copies. For programs that use libtorch themselves: include it there and link libtorch;
// it must be the same libtorch that this library loads.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kpt/model.h"
#include "kpt/tensor.h"

namespace kpt {

namespace detail {

struct TypePair {
  DType ours;
  at::ScalarType theirs;
};

inline constexpr TypePair kTorchTypes[] = {
    {DType::kBool, at::kBool},
    {DType::kUInt8, at::kByte},
    {DType::kInt8, at::kChar},
    {DType::kUInt16, at::kUInt16},
    {DType::kInt16, at::kShort},
    {DType::kUInt32, at::kUInt32},
    {DType::kInt32, at::kInt},
    {DType::kUInt64, at::kUInt64},
    {DType::kInt64, at::kLong},
    {DType::kFloat8E4M3FN, at::kFloat8_e4m3fn},
    {DType::kFloat8E4M3FNUZ, at::kFloat8_e4m3fnuz},
    {DType::kFloat8E5M2, at::kFloat8_e5m2},
    {DType::kFloat8E5M2FNUZ, at::kFloat8_e5m2fnuz},
    {DType::kFloat8E8M0FNU, at::kFloat8_e8m0fnu},
    {DType::kFloat16, at::kHalf},
    {DType::kBFloat16, at::kBFloat16},
    {DType::kFloat32, at::kFloat},
    {DType::kFloat64, at::kDouble},
    {DType::kComplex32, at::kComplexHalf},
    {DType::kComplex64, at::kComplexFloat},
    {DType::kComplex128, at::kComplexDouble},
};

// Keeps an at::Tensor alive as long as a kpt::Tensor looks at it.
class TorchBuffer final : public Buffer {
 public:
  explicit TorchBuffer(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  void* data() const override { return tensor_.storage().mutable_data(); }
  std::size_t bytes() const override { return tensor_.storage().nbytes(); }
  std::string_view device() const override { return "cpu"; }

 private:
  at::Tensor tensor_;
};

}  // namespace detail

// Shares the memory. Fails with kUnsupported for tensors that are not on the CPU, not strided, of a quantized type, or
// lazily negated or conjugated (call resolve_neg() and resolve_conj() first).
inline Result<Tensor> from_torch(const at::Tensor& tensor) {
  if (!tensor.defined()) return Tensor();
  if (!tensor.is_cpu() || tensor.layout() != at::kStrided || tensor.is_neg() || tensor.is_conj()) {
    return Status(StatusCode::kUnsupported, "only plain strided tensors on the CPU can be shared");
  }
  for (const detail::TypePair& pair : detail::kTorchTypes) {
    if (pair.theirs != tensor.scalar_type()) continue;
    return Tensor::from_buffer(std::make_shared<detail::TorchBuffer>(tensor), pair.ours,
                               {tensor.sizes().data(), tensor.sizes().size()},
                               {tensor.strides().data(), tensor.strides().size()}, tensor.storage_offset());
  }
  return Status(StatusCode::kUnsupported, "the tensor's element type has no counterpart");
}

// Shares the memory, which lives as long as the result. Fails with kUnsupported for memory without an address.
inline Result<at::Tensor> to_torch(const Tensor& tensor) {
  if (!tensor.defined()) return at::Tensor();
  if (tensor.data() == nullptr && tensor.element_count() > 0) {
    return Status(StatusCode::kUnsupported, "the tensor's memory has no address on the CPU");
  }
  for (const detail::TypePair& pair : detail::kTorchTypes) {
    if (pair.ours != tensor.dtype()) continue;
    return at::from_blob(
        tensor.data(), {tensor.dims().data(), tensor.dims().size()}, {tensor.strides().data(), tensor.strides().size()},
        [owner = tensor.buffer()](void*) {}, at::TensorOptions().dtype(pair.theirs));
  }
  return Status(StatusCode::kUnsupported, "the tensor's element type has no counterpart");
}

// Session::run() on tensors by position, in the order of Model::inputs(); fails as it and the two functions above do.
inline Result<std::vector<at::Tensor>> run_torch(Session& session, std::span<const at::Tensor> inputs,
                                                 const RunOptions& options = {}) {
  std::vector<Tensor> given;
  given.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    Result<Tensor> shared = from_torch(input);
    if (!shared.ok()) return shared.status();
    given.push_back(std::move(shared).value());
  }
  std::vector<Tensor> answers;
  if (Status status = session.run(given, answers, options); !status.ok()) return status;
  std::vector<at::Tensor> outputs;
  outputs.reserve(answers.size());
  for (const Tensor& answer : answers) {
    Result<at::Tensor> shared = to_torch(answer);
    if (!shared.ok()) return shared.status();
    outputs.push_back(std::move(shared).value());
  }
  return outputs;
}

}  // namespace kpt
