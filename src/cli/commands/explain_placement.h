// Where the parts of a split model run, as `kpt explain` shows it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "device/execution.h"
#include "kpt/tensor.h"

namespace kpt::cli {

struct PlacementRow {
  std::string device;
  std::size_t nodes = 0;
  std::string first;                            // name of its first node
  std::size_t received = 0;                     // tensors of other parts
  std::optional<std::uint64_t> received_bytes;  // at the sizes of the inputs
};

struct PlacementTable {
  std::vector<PlacementRow> parts;               // in the order they run
  std::size_t size_nodes = 0;                    // that no device runs
  std::map<std::string, std::string> device_of;  // by name of a node
};

// Nothing for a program that runs on one device. `inputs` say what the sizes are.
std::optional<PlacementTable> make_placement_table(const Program& program, std::span<const NamedTensor> inputs);

nlohmann::ordered_json to_json(const PlacementTable& table);
std::string render(const PlacementTable& table);

}  // namespace kpt::cli
