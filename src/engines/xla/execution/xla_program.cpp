#include "engines/xla/execution/xla_program.h"

#include <fmt/format.h>

#include "device/unsupported_nodes.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt {
namespace {

constexpr std::string_view kHeader = "kpt-xla-program 1 ";

}  // namespace

Result<std::unique_ptr<Program>> XlaProgram::make(std::string target, ir::Graph graph) {
  std::unique_ptr<XlaProgram> program(new XlaProgram(std::move(target), std::move(graph)));
  if (program->graph_.symbols.empty()) {
    KPT_ASSIGN_OR_RETURN(program->module_, xla::lower(program->graph_, {}));
    return std::unique_ptr<Program>(std::move(program));
  }
  KPT_ASSIGN_OR_RETURN(const std::vector<Support> answers, xla::check_lowering(program->graph_));
  KPT_RETURN_IF_ERROR(list_unsupported(program->graph_, answers, "cannot run through XLA"));
  return std::unique_ptr<Program>(std::move(program));
}

Result<std::string> XlaProgram::serialize() const {
  return fmt::format("{}{}\n{}", kHeader, target_, ir::print_graph(graph_));
}

Result<std::unique_ptr<Program>> XlaProgram::deserialize(std::string_view target, std::string_view bytes) {
  const auto end = bytes.find('\n');
  if (!bytes.starts_with("kpt-xla-program ") || end == std::string_view::npos) {
    return Status(StatusCode::kCorruptData, "the stored program is no program for XLA");
  }
  if (bytes.substr(0, end) != fmt::format("{}{}", kHeader, target)) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("the stored program is of another version or for another target than {}", target));
  }
  KPT_ASSIGN_OR_RETURN(ir::Graph graph, ir::read_graph(bytes.substr(end + 1)));
  KPT_RETURN_IF_ERROR(ir::verify(graph));
  return make(std::string(target), std::move(graph));
}

}  // namespace kpt
