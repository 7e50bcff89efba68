// A plugin's function table, read by name: its entries, and what its errors say.
#pragma once

#include <optional>
#include <string>

#include "engines/xla/pjrt/pjrt_types.h"

namespace kpt::pjrt {

// Null when the table is too short for the entry or has none.
void* find_entry(const ApiHead& table, Slot slot);

struct PluginError {
  std::optional<abi::ErrorCode> code;  // absent when the plugin does not tell
  std::string message;
};

// Reads and destroys an error, as far as the table has entries for it.
PluginError take_error(const ApiHead& table, abi::Error* error);

}  // namespace kpt::pjrt
