// Any bytes as a .kpt file: never a crash, and every byte of every tensor can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "artifact/artifact.h"
#include "fuzz/memory_file.h"

namespace {

volatile std::uint8_t sink;

// Touches every element, so that a tensor outside its memory shows under AddressSanitizer.
void touch(const kpt::Tensor& tensor) {
  const auto copy = tensor.contiguous_copy();
  if (!copy.ok()) return;  // more elements than memory: a stride of 0 repeats one
  const auto* bytes = static_cast<const std::uint8_t*>(copy->data());
  std::uint8_t sum = 0;
  for (std::size_t i = 0; i < copy->bytes(); ++i) sum = static_cast<std::uint8_t>(sum + bytes[i]);
  sink = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kpt::testing::MemoryFile file;
  file.map(data, size);
  (void)kpt::is_artifact(file.path());
  const auto artifact = kpt::read_artifact(file.path());
  if (!artifact.ok()) return 0;
  constexpr std::size_t kTouched = 1 << 24;
  for (const kpt::ArtifactTarget& target : artifact->targets) {
    for (const auto& [name, tensor] : target.weights) {
      if (tensor.bytes() < kTouched) touch(tensor);
    }
  }
  return 0;
}
