// Any bytes as the JSON of an exported program: never a crash; what is accepted and well formed stays so when
// normalised.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "importer/normalize.h"
#include "importer/program.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  kpt::Result<kpt::pt2::Program> program = kpt::pt2::read_program(text, "fuzz.json");
  if (!program.ok() || !kpt::ir::verify(program->graph).ok()) return 0;
  if (kpt::normalize(&program->graph).ok() && !kpt::ir::verify(program->graph).ok()) std::abort();
  return 0;
}
