// Inputs for a model from its signature, a name and a seed: the same on every machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

struct GenerateOptions {
  std::uint64_t seed = 0;
  // By symbol; others get the least size from 2 on that they may have.
  std::map<std::string, std::int64_t, std::less<>> sizes = {};
  std::vector<std::string> given = {};  // inputs that are there already: none is made
};

// Floats are normal with deviation 1. What an input is for decides the rest (input_roles.h): indices are below the rows
// of their table, positions count up, masks have ones first in every row and hide nothing in the first row; other
// integers are 0 or 1. Each input depends on the seed and its own name only. Fails with kInvalidArgument for an unknown
// symbol or a size outside its range.
Result<std::vector<NamedTensor>> generate_inputs(const ir::Graph& graph, const GenerateOptions& options);

}  // namespace kpt
