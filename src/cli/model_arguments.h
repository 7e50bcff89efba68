// Flags that name a model and its sizes, shared by the commands that take one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::cli {

// "s0=4" → {"s0", 4}. Fails with kInvalidArgument, naming the text.
Result<std::map<std::string, std::int64_t, std::less<>>> parse_sizes(const std::vector<std::string>& texts);

// Tensors of files such as "in.npz" or "name=x.npy", in the order given; a later file may not repeat a name. Fails as
// read_tensors() does, and with kInvalidArgument when "name=" stands before a file with several tensors.
Result<std::vector<NamedTensor>> read_input_files(const std::vector<std::string>& texts);

// "name=path" → both parts; "path" → an empty name. A path that contains '=' needs a name before it.
std::pair<std::string, std::string> split_assignment(const std::string& text);

}  // namespace kpt::cli
