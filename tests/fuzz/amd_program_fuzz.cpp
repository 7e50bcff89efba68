// Any bytes as a stored AMD program, and any text as the graph of a sound one: never a crash, and what is read is
// written as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backends/amd/amd_program.h"

namespace {

void touch(const kpt::AmdArchitecture& architecture, std::string_view bytes) {
  const auto program = kpt::AmdProgram::deserialize(architecture, bytes);
  if (!program.ok()) return;
  if ((*program)->plan().size() != (*program)->graph().nodes.size()) std::abort();
  const auto again = (*program)->serialize();
  if (!again.ok() || !kpt::AmdProgram::deserialize(architecture, *again).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // With matrix cores of either kind, and without.
  for (const char* target : {"gfx942", "gfx1100", "gfx1030"}) {
    const kpt::AmdArchitecture& architecture = *kpt::find_amd_architecture(target);
    touch(architecture, bytes);
    touch(architecture, std::string("kpt-amd-program 1\namd:") + target + "\nclang\n" + std::to_string(size) + "\n0\n" +
                            std::string(bytes));
  }
  return 0;
}
