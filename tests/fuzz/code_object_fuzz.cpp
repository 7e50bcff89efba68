// Any bytes as a code object, and as the metadata of a sound one: never a crash, and every kernel has a name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "backends/amd/code_object.h"
#include "backends/amd/code_object_forge.h"

namespace {

void touch(const std::string& bytes) {
  const auto object = kpt::read_code_object(std::as_bytes(std::span(bytes)));
  if (!object.ok()) return;
  for (const kpt::KernelResources& kernel : object->kernels) {
    if (kernel.name.empty()) std::abort();
    for (const kpt::AmdArchitecture& architecture : kpt::amd_architectures()) {
      const int waves = kpt::waves_per_simd(architecture, kernel, 256);
      if (waves < 0 || waves > architecture.registers.max_waves) std::abort();
      (void)kpt::check_resources(architecture, kernel).ok();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  touch(bytes);
  touch(kpt::testing::make_code_object(bytes));
  return 0;
}
