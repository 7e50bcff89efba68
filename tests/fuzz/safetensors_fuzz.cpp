// Any bytes as a safetensors file: never a crash, and every byte of every tensor can be read.
#include <cstddef>
#include <cstdint>

#include "fuzz/memory_file.h"
#include "tensor_files/safetensors.h"

namespace {

// Touches every byte, so that a tensor outside its memory shows under AddressSanitizer.
volatile std::uint8_t sink;

void touch(const kpt::Tensor& tensor) {
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.data());
  std::uint8_t sum = 0;
  for (std::size_t i = 0; i < tensor.bytes(); ++i) sum = static_cast<std::uint8_t>(sum + bytes[i]);
  sink = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kpt::testing::MemoryFile file;
  kpt::SafetensorsMetadata metadata;
  const auto tensors = kpt::read_safetensors(file.map(data, size), &metadata);
  if (!tensors.ok()) return 0;
  std::size_t total = 0;
  for (const kpt::NamedTensor& named : *tensors) {
    touch(named.tensor);
    total += named.tensor.bytes();
  }
  if (total > size) std::abort();  // tensors may not overlap
  return 0;
}
