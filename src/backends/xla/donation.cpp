#include "backends/xla/donation.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace kpt {

std::string mark_donated_buffers(const ir::Graph& graph, const xla::LoweredModule& module) {
  std::string text = module.text;
  for (std::size_t result = module.output_count; result < module.results.size(); ++result) {
    const xla::ModulePlace& written = module.results[result];
    if (std::ranges::find(module.arguments, written) == module.arguments.end()) continue;
    if (graph.inputs[written.index].kind == ir::InputKind::kUser) continue;
    const std::string start = fmt::format("%arg{}: tensor<", written.index);
    const std::size_t main = text.find("@main(");
    const std::size_t place = main == std::string::npos ? main : text.find(start, main);
    const std::size_t end = place == std::string::npos ? place : text.find('>', place);
    if (end == std::string::npos || end > text.find('\n', main)) continue;
    text.insert(end + 1, fmt::format(" {{tf.aliasing_output = {} : i32}}", result));
  }
  return text;
}

}  // namespace kpt
