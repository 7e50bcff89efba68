// Any bytes as an .npy and as an .npz file: never a crash, and what is read survives writing and reading back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "fuzz/memory_file.h"
#include "tensor_files/npy.h"
#include "tensor_files/npz.h"

namespace {

void require_round_trip(const kpt::Tensor& tensor) {
  const auto content = kpt::make_npy(tensor, "fuzz");
  if (!content.ok()) std::abort();
  const auto elements = content->elements();
  const std::string text =
      content->header + std::string(reinterpret_cast<const char*>(elements.data()), elements.size());
  const auto again = kpt::parse_npy(std::as_bytes(std::span(text)), "again.npy");
  if (!again.ok() || again->dtype() != tensor.dtype() || !(again->dims() == tensor.dims())) std::abort();
  if (tensor.bytes() > 0 && std::memcmp(again->data(), tensor.data(), tensor.bytes()) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kpt::testing::MemoryFile file;
  if (const auto tensor = kpt::parse_npy(std::as_bytes(std::span(data, size)), "fuzz.npy"); tensor.ok()) {
    require_round_trip(*tensor);
  }
  constexpr std::size_t kMaxInflatedBytes = std::size_t{1} << 24U;
  if (const auto tensors = kpt::read_npz(file.map(data, size), kMaxInflatedBytes); tensors.ok()) {
    for (const kpt::NamedTensor& named : *tensors) require_round_trip(named.tensor);
  }
  return 0;
}
