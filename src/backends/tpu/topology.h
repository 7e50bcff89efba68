// Which slice of which generation a program is compiled for: "tpu:v5e:2x2".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tpu/architecture.h"
#include "device/compile_figures.h"
#include "kpt/status.h"

namespace kpt {

struct TpuTopology {
  const TpuGeneration* generation = nullptr;
  std::string shape;  // chips in each direction: "2x2"
  std::int64_t chips = 0;
  std::string compiler_name;                 // as libtpu takes it: "v5e:2x2"
  std::vector<std::int64_t> chips_per_host;  // that libtpu must be told; empty: it knows them

  std::string target_name() const;  // "tpu:v5e:2x2"
};

// "tpu:v5e:2x2", and "tpu:v5e" for the generation's default shape; generations in any of their spellings ("tpu:tpu7x"),
// letters in any case. Fails with kInvalidArgument, naming what is valid.
Result<TpuTopology> parse_tpu_target(std::string_view name);

// All shapes of all generations that can be compiled for, oldest generation first, each generation's default first.
std::vector<TpuTopology> tpu_topologies();

// Published rates of one device as a program sees it: a chip, or a core where each is a device of its own.
HardwareRates rates_of(const TpuGeneration& generation);

}  // namespace kpt
