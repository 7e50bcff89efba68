// Flags that name a model and its inputs, shared by the commands that take one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "kpt/model.h"
#include "kpt/status.h"
#include "kpt/tensor.h"
#include "validation/draws.h"

namespace kpt::cli {

// A model, how it is loaded, and what it is run on.
struct RunArguments {
  std::string model;
  LoadOptions load;
  std::string weights;  // becomes load.weights
  std::vector<std::string> inputs;
  std::vector<std::string> sizes;
  std::uint64_t seed = 0;
};
void add_run_arguments(CLI::App& command, RunArguments& arguments);

// What a model is judged on.
struct DrawArguments {
  std::vector<std::string> inputs;
  std::vector<std::string> sizes;
  std::optional<std::size_t> draws;
  std::uint64_t seed = 0;
};
void add_draw_arguments(CLI::App& command, DrawArguments& arguments);
// Every file is a set of inputs of its own, NAME=FILE.npy entries together are one. Without `draws`, three sets,
// generated ones behind the files as far as they can be made, or as many as there are files. Fails as parse_sizes() and
// read_input_files() do.
Result<DrawOptions> make_draw_options(const DrawArguments& arguments);

// "s0=4" → {"s0", 4}. Fails with kInvalidArgument, naming the text.
Result<std::map<std::string, std::int64_t, std::less<>>> parse_sizes(const std::vector<std::string>& texts);

// Tensors of files such as "in.npz" or "name=x.npy", in the order given; a later file may not repeat a name. Fails as
// read_tensors() does, and with kInvalidArgument when "name=" stands before a file with several tensors.
Result<std::vector<NamedTensor>> read_input_files(const std::vector<std::string>& texts);

// For CLI::Option::check(): a finite number from 0 on. CLI11's own bounds let "nan" pass, which is neither below nor
// above anything. Gives the sentence that refuses it, or nothing.
std::string check_amount(const std::string& text);

// The same of a whole number; CLI11 takes "-1" for the greatest number that there is.
std::string check_count(const std::string& text);
// From 1 on.
std::string check_positive(const std::string& text);

// The paths of such texts.
std::vector<std::string> input_paths(const std::vector<std::string>& texts);

// "name=path" → both parts; "path" → an empty name. A path that contains '=' needs a name before it.
std::pair<std::string, std::string> split_assignment(const std::string& text);

}  // namespace kpt::cli
