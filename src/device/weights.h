// A model's weights by name: parameters, buffers and constants. Entries may share memory (tied weights, views of one
// storage), and that memory is usually the mapped file: read only.
#pragma once

#include <map>
#include <string>

#include "kpt/tensor.h"

namespace kpt {

using Weights = std::map<std::string, Tensor, std::less<>>;

}  // namespace kpt
