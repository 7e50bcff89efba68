// XLA's compile options as the bytes that a plugin takes (a CompileOptionsProto), written by hand: a handful of fields
// of a format that only appends does not warrant protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kpt::pjrt {

struct CompileSettings {
  int replicas = 1;    // copies of the program, each with its own arguments
  int partitions = 1;  // devices that share one copy, by the module's sharding attributes
  // Device ids, one per replica and partition, replicas outermost; empty: the plugin's own assignment. Must have
  // replicas * partitions entries otherwise.
  std::vector<int> device_ids;
  bool shardy = false;  // the sharding attributes are Shardy's, not GSPMD's
  // XLA's own options by name, as XLA_FLAGS would set them; the plugin refuses one that it does not know.
  std::vector<std::pair<std::string, std::variant<std::string, bool, std::int64_t>>> flags;
};

// Never empty: a plugin takes an empty text as zero replicas and may abort.
std::string encode_compile_options(const CompileSettings& settings);

}  // namespace kpt::pjrt
