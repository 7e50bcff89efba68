// Any bytes as a graph's text: never a crash, and what is read survives writing and reading back, well formed or not.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ir/text.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = kpt::ir::read_graph(text);
  if (!graph.ok()) return 0;
  (void)kpt::ir::verify(*graph);
  const std::string written = kpt::ir::print_graph(*graph);
  const auto again = kpt::ir::read_graph(written);
  if (!again.ok() || *again != *graph || kpt::ir::print_graph(*again) != written) std::abort();
  return 0;
}
