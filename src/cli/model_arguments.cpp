#include "cli/model_arguments.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "tensor_files/tensor_file.h"

namespace kpt::cli {
namespace {
constexpr std::size_t kUsualDraws = 3;
}

std::pair<std::string, std::string> split_assignment(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string check_amount(const std::string& text) {
  const auto amount = parse_double(text);
  return amount && *amount >= 0 ? "" : fmt::format("'{}' is no number from 0 on", text);
}

std::string check_count(const std::string& text) {
  return parse_uint(text) ? "" : fmt::format("'{}' is no whole number from 0 on", text);
}

std::string check_positive(const std::string& text) {
  return parse_uint(text).value_or(0) > 0 ? "" : fmt::format("'{}' is no whole number from 1 on", text);
}

std::vector<std::string> input_paths(const std::vector<std::string>& texts) {
  std::vector<std::string> paths;
  for (const std::string& text : texts) paths.push_back(split_assignment(text).second);
  return paths;
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

void add_run_arguments(CLI::App& command, RunArguments& arguments) {
  command.add_option("MODEL", arguments.model, "a .pt2 or .kpt file")->required();
  command.add_option("--inputs", arguments.inputs, "tensors by input name: .npz, .safetensors, or NAME=FILE.npy")
      ->type_name("FILE");
  command.add_option("--seed", arguments.seed, "for inputs that no file gives")
      ->check(check_count)
      ->capture_default_str();
  command.add_option("--size", arguments.sizes, "sizes of generated inputs: symbol=number")->type_name("S=N");
  command
      .add_option("--device", arguments.load.device, "where to run; auto: the first accelerator that is here, else cpu")
      ->capture_default_str();
  command.add_option("--model", arguments.load.model_name, "which model of a file that holds several");
  command.add_option("--weights", arguments.weights, "a safetensors file that replaces weights by name");
  command.add_flag("--no-self-check{false}", arguments.load.self_check,
                   "load a .kpt without running its stored samples first");
}

void add_draw_arguments(CLI::App& command, DrawArguments& arguments) {
  command
      .add_option("--draws", arguments.draws, "sets of inputs to judge on (default 3, more if more files are given)")
      ->check(check_positive);
  command.add_option("--seed", arguments.seed, "for inputs that no file gives")
      ->check(check_count)
      ->capture_default_str();
  command
      .add_option("--inputs", arguments.inputs, "inputs to judge on: .npz or .safetensors, each a set; NAME=FILE.npy")
      ->type_name("FILE");
  command.add_option("--size", arguments.sizes, "sizes of generated inputs: symbol=number")->type_name("S=N");
}

Result<DrawOptions> make_draw_options(const DrawArguments& arguments) {
  DrawOptions options;
  options.seed = arguments.seed;
  KPT_ASSIGN_OR_RETURN(options.sizes, parse_sizes(arguments.sizes));
  std::vector<std::string> named;
  for (const std::string& text : arguments.inputs) {
    if (!split_assignment(text).first.empty()) {
      named.push_back(text);
      continue;
    }
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors, read_input_files({text}));
    options.given.push_back({std::move(tensors), text});
  }
  if (!named.empty()) {
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors, read_input_files(named));
    options.given.push_back({std::move(tensors), join(named, " ")});
  }
  options.count = arguments.draws.value_or(std::max(kUsualDraws, options.given.size()));
  // Sizes are a word about generated inputs: then they are meant.
  options.fill_up = !arguments.draws && !options.given.empty() && options.sizes.empty();
  return options;
}

}  // namespace kpt::cli
