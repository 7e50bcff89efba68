#include "engines/native/native_program.h"

#include <fmt/format.h>

#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt::native {
namespace {

constexpr std::string_view kHeaderStart = "kpt-native-program ";
constexpr std::string_view kHeader = "kpt-native-program 1 ";

}  // namespace

Result<std::unique_ptr<Program>> NativeProgram::make(std::string target, ir::Graph graph, const Traits& traits) {
  KPT_RETURN_IF_ERROR(check_graph(graph));
  KPT_RETURN_IF_ERROR(list_refused(graph, check_nodes(graph, traits)));
  return std::unique_ptr<Program>(new NativeProgram(std::move(target), std::move(graph)));
}

Result<std::string> NativeProgram::serialize() const {
  return fmt::format("{}{}\n{}", kHeader, target_, ir::print_graph(*graph_));
}

Result<std::unique_ptr<Program>> NativeProgram::deserialize(std::string_view target, std::string_view bytes) {
  const auto end = bytes.find('\n');
  if (!bytes.starts_with(kHeaderStart) || end == std::string_view::npos) {
    return Status(StatusCode::kCorruptData, "the stored program is no program of planned launches");
  }
  if (bytes.substr(0, end) != fmt::format("{}{}", kHeader, target)) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("the stored program is of another version or for another target than {}", target));
  }
  KPT_ASSIGN_OR_RETURN(ir::Graph graph, ir::read_graph(bytes.substr(end + 1)));
  KPT_RETURN_IF_ERROR(ir::verify(graph));
  return std::unique_ptr<Program>(new NativeProgram(std::string(target), std::move(graph)));
}

}  // namespace kpt::native
