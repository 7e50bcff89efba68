#include "backends/tpu/topology.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

constexpr std::string_view kPrefix = "tpu:";

Status invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message), Vendor::kTpu}; }

std::string list_generations() {
  std::string list;
  for (const TpuGeneration& row : tpu_generations()) {
    if (!row.topologies.empty()) list += fmt::format("{}tpu:{}", list.empty() ? "" : ", ", row.name);
  }
  return list;
}

// The rows of the table are well formed, so a number that is none cannot come.
TpuTopology make(const TpuGeneration& generation, std::string_view shape) {
  TpuTopology topology{&generation, std::string(shape), 1, fmt::format("{}:{}", generation.compiler_name, shape), {}};
  for (const std::string_view part : split(shape, 'x')) topology.chips *= parse_int(part).value_or(1);
  // libtpu assumes hosts of four chips or more.
  if (topology.chips == 1) topology.chips_per_host = {1, 1, 1};
  return topology;
}

}  // namespace

std::string TpuTopology::target_name() const { return fmt::format("tpu:{}:{}", generation->name, shape); }

Result<TpuTopology> parse_tpu_target(std::string_view name) {
  const std::string wanted = to_lower(trim(name));
  if (!wanted.starts_with(kPrefix)) {
    return invalid(fmt::format("'{}' is no TPU target; valid are {}, each also with a shape as in tpu:v5e:2x2",
                               printable(name, 64), list_generations()));
  }
  const std::vector<std::string_view> parts = split(std::string_view(wanted).substr(kPrefix.size()), ':');
  const TpuGeneration* generation = parts.empty() ? nullptr : find_tpu_generation(parts[0]);
  // "v5litepod-8" names a slice by its number of chips, which is no shape.
  const bool named =
      generation != nullptr && std::ranges::find(generation->spellings, parts[0]) != generation->spellings.end();
  if (!named || parts.size() > 2) {
    return invalid(fmt::format("'{}' names no TPU generation; valid are {}, each also with a shape as in tpu:v5e:2x2",
                               printable(name, 64), list_generations()));
  }
  if (generation->topologies.empty()) {
    return invalid(
        fmt::format("programs are not compiled for TPU {}; valid are {}", generation->name, list_generations()));
  }
  if (parts.size() == 1) return make(*generation, generation->topologies.front());
  const auto shape = std::ranges::find(generation->topologies, parts[1]);
  if (shape == generation->topologies.end()) {
    std::vector<std::string> shapes(generation->topologies.begin(), generation->topologies.end());
    return invalid(fmt::format("'{}' is no shape of TPU {}; valid are {}", printable(parts[1], 64), generation->name,
                               join(shapes, ", ")));
  }
  return make(*generation, *shape);
}

std::vector<TpuTopology> tpu_topologies() {
  std::vector<TpuTopology> all;
  for (const TpuGeneration& generation : tpu_generations()) {
    for (const std::string_view shape : generation.topologies) all.push_back(make(generation, shape));
  }
  return all;
}

HardwareRates rates_of(const TpuGeneration& generation) {
  const auto devices = static_cast<double>(generation.devices_per_chip);
  HardwareRates rates;
  rates.memory_bytes = generation.hbm_bytes_per_chip / static_cast<std::uint64_t>(generation.devices_per_chip);
  rates.bytes_per_second = generation.hbm_bytes_per_second / devices;
  rates.matrix_flops_per_second = generation.bf16_flops_per_second / devices;
  rates.narrow_flops_per_second = generation.narrow_flops_per_second / devices;
  rates.devices_per_chip = generation.devices_per_chip;
  return rates;
}

}  // namespace kpt
