// The inputs that a model is judged on: what its file carries, what the user gives, and what can be made from its
// signature.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "importer/model_file.h"
#include "ir/symbolic.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// One set of inputs, all of them by name.
struct Draw {
  std::vector<NamedTensor> inputs;
  std::string origin;      // "sample of the file", "in.npz", "seed 7, s0=2, s1=16"
  bool generated = false;  // all of it
};

struct GivenInputs {
  std::vector<NamedTensor> tensors;
  std::string origin;  // the name of the file
};

struct DrawOptions {
  std::size_t count = 3;
  std::uint64_t seed = 0;
  std::map<std::string, std::int64_t, std::less<>> sizes = {};  // of symbols, for generated inputs
  std::vector<GivenInputs> given = {};  // of the user; inputs that one lacks are made from the seed
  bool fill_up = false;                 // `count` is our wish, not the user's word: fewer do where no more can be made
};

// First what the user gives, else the file's own sample; then generated ones until there are `count`. Sizes that may
// vary differ from draw to draw: small batches, short and longer sequences. Fails as generate_inputs() does, but with
// `fill_up` only where there would be no draw at all.
Result<std::vector<Draw>> make_draws(const ImportedModel& model, const DrawOptions& options);

// What the sizes of these inputs say about the graph's symbols; inputs of other names or ranks say nothing.
ir::Bindings bind_sizes(const ir::Graph& graph, std::span<const NamedTensor> inputs);

}  // namespace kpt
