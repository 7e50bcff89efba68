#include "cli/output_file.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"

namespace kpt::cli {

Status check_output(const std::string& path, const std::vector<std::string>& read) {
  if (path.empty()) return {};
  std::error_code error;
  for (const std::string& source : read) {
    if (source.empty()) continue;
    if (!std::filesystem::exists(source, error)) return {};
    if (!std::filesystem::equivalent(path, source, error) || error) continue;  // an error: there is no file at `path`
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is read and would be overwritten; name another file for the result", path)};
  }
  return check_writable(path);
}

}  // namespace kpt::cli
