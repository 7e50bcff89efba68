// Which sizes a model is measured at: batches and other symbols of a dynamic model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

using Sizes = std::map<std::string, std::int64_t, std::less<>>;

// One symbol and its values, in the order given.
struct SweepAxis {
  std::string symbol;
  std::vector<std::int64_t> values;
};

inline constexpr std::size_t kMaxSweepPoints = 256;

// "1,2,4" → numbers of at least 1, each once. Fails with kInvalidArgument, naming the text.
Result<std::vector<std::int64_t>> parse_values(std::string_view text);
// "s1=32,64,128".
Result<SweepAxis> parse_sweep(std::string_view text);

// The symbol that is the first extent of the model's inputs. Fails with kInvalidArgument when no input has a first
// extent that varies, or when several symbols stand there.
Result<std::string> find_batch_symbol(const ir::Graph& graph);

// All combinations of the axes' values on top of `fixed`; one point without axes. The last axis varies fastest. Fails
// with kInvalidArgument for an unknown symbol, a value outside its range, a symbol given twice, too many points.
Result<std::vector<Sizes>> plan_sweep(const ir::Graph& graph, const Sizes& fixed, std::span<const SweepAxis> axes);

// How many items one run works on: the first extent of the first input that has one; 1 without any. Throughput is
// counted in these.
std::int64_t count_items(std::span<const NamedTensor> inputs);

// "batch 4, s1 128": `batch_symbol` is shown as "batch" when it is not empty. Empty for no sizes.
std::string describe_sizes(const Sizes& sizes, std::string_view batch_symbol);

}  // namespace kpt
