#include "validation/draws.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "runtime/generate_inputs.h"

namespace kpt {
namespace {

using Sizes = std::map<std::string, std::int64_t, std::less<>>;

// Symbols that are the first extent of an input: batches.
std::set<std::string> find_batch_symbols(const ir::Graph& graph) {
  std::set<std::string> symbols;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
    const std::vector<ir::Expr>& dims = graph.at(input.value).tensor.dims;
    if (dims.size() > 1 && dims[0].is_symbol()) symbols.emplace(dims[0].name());
  }
  return symbols;
}

Sizes choose_sizes(const ir::Graph& graph, const Sizes& wanted, std::size_t round) {
  constexpr std::array<std::int64_t, 4> kBatches = {2, 1, 3, 2};
  constexpr std::array<std::int64_t, 4> kLengths = {16, 7, 33, 24};
  const std::set<std::string> batches = find_batch_symbols(graph);
  Sizes sizes = wanted;
  for (const ir::SymbolRange& range : graph.symbols) {
    if (sizes.contains(range.name)) continue;
    std::int64_t size = (batches.contains(range.name) ? kBatches : kLengths)[round % kBatches.size()];
    if (range.max) size = std::min(size, *range.max);
    if (range.min) size = std::max(size, *range.min);
    sizes.emplace(range.name, size);
  }
  return sizes;
}

std::string describe(std::uint64_t seed, const Sizes& sizes) {
  std::string text = fmt::format("seed {}", seed);
  for (const auto& [name, size] : sizes) text += fmt::format(", {}={}", name, size);
  return text;
}

Result<Draw> complete(const ImportedModel& model, std::vector<NamedTensor> inputs, std::string origin,
                      const DrawOptions& options) {
  GenerateOptions generate{options.seed, {}, {}};
  for (const NamedTensor& input : inputs) generate.given.push_back(input.name);
  generate.sizes = choose_sizes(model.graph, options.sizes, 0);
  const ir::Bindings given = bind_sizes(model.graph, inputs);
  for (const auto& [name, size] : given.entries()) {
    generate.sizes.insert_or_assign(std::string(name), size);
  }
  KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> made, generate_inputs(model.graph, generate));
  if (!made.empty()) origin += fmt::format(" (other inputs from seed {})", options.seed);
  for (NamedTensor& input : made) inputs.push_back(std::move(input));
  return Draw{std::move(inputs), std::move(origin), false};
}

}  // namespace

ir::Bindings bind_sizes(const ir::Graph& graph, std::span<const NamedTensor> inputs) {
  ir::Bindings sizes;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
    const auto given = std::ranges::find(inputs, input.name, &NamedTensor::name);
    const std::vector<ir::Expr>& dims = graph.at(input.value).tensor.dims;
    if (given == inputs.end() || given->tensor.dims().size() != dims.size()) continue;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      ir::bind_size(dims[axis], given->tensor.dims()[axis], sizes);
    }
  }
  return sizes;
}

Result<std::vector<Draw>> make_draws(const ImportedModel& model, const DrawOptions& options) {
  std::vector<Draw> draws;
  for (const GivenInputs& given : options.given) {
    KPT_ASSIGN_OR_RETURN(Draw draw, complete(model, given.tensors, given.origin, options));
    draws.push_back(std::move(draw));
  }
  if (options.given.empty() && !model.sample_inputs.empty() && options.count > 0 && options.sizes.empty()) {
    KPT_ASSIGN_OR_RETURN(Draw draw, complete(model, model.sample_inputs, "sample of the file", options));
    draws.push_back(std::move(draw));
  }
  for (std::size_t round = 0; draws.size() < options.count; ++round) {
    const std::uint64_t seed = options.seed + round;
    const Sizes sizes = choose_sizes(model.graph, options.sizes, round);
    Result<std::vector<NamedTensor>> inputs = generate_inputs(model.graph, {seed, sizes, {}});
    if (!inputs.ok() && options.fill_up && !draws.empty()) break;
    if (!inputs.ok()) return inputs.status();
    draws.push_back({std::move(*inputs), describe(seed, sizes), true});
  }
  return draws;
}

}  // namespace kpt
