#include "cli/model_arguments.h"

#include <charconv>

#include <fmt/format.h>

#include "tensor_files/tensor_file.h"

namespace kpt::cli {

std::pair<std::string, std::string> split_assignment(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Result<std::map<std::string, std::int64_t, std::less<>>> parse_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t, std::less<>> sizes;
  for (const std::string& text : texts) {
    const auto [name, number] = split_assignment(text);
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (name.empty() || error != std::errc() || end != number.data() + number.size() || size < 0) {
      return Status(StatusCode::kInvalidArgument, fmt::format("'{}' is no size; write it as symbol=number", text));
    }
    sizes[name] = size;
  }
  return sizes;
}

Result<std::vector<NamedTensor>> read_input_files(const std::vector<std::string>& texts) {
  std::vector<NamedTensor> inputs;
  for (const std::string& text : texts) {
    const auto [name, path] = split_assignment(text);
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors, read_tensors(path));
    if (!name.empty()) {
      if (tensors.size() != 1) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("{} holds {} tensors; '{}=' needs a file with one", path, tensors.size(), name));
      }
      tensors[0].name = name;
    }
    for (NamedTensor& tensor : tensors) inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace kpt::cli
