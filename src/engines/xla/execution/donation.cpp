#include "engines/xla/execution/donation.h"

#include <algorithm>

#include <fmt/format.h>

namespace kpt {

void mark_donated_buffers(const ir::Graph& graph, const xla::LoweredModule& module, MainAttributes& attributes) {
  for (std::size_t result = module.output_count; result < module.results.size(); ++result) {
    const xla::ModulePlace& written = module.results[result];
    if (std::ranges::find(module.arguments, written) == module.arguments.end()) continue;
    if (graph.inputs[written.index].kind == ir::InputKind::kUser) continue;
    attributes.arguments[written.index].push_back(fmt::format("tf.aliasing_output = {} : i32", result));
  }
}

}  // namespace kpt
