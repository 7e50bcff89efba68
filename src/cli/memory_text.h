// A device's memory for people and for --json.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "device/memory_statistics.h"

namespace kpt::cli {

// All figures, null where the device does not tell one.
nlohmann::ordered_json to_json(const MemoryStatistics& memory);

// "in use 1.2 GiB, peak 1.5 GiB, taken 2.0 GiB, free 60.0 GiB of 80.0 GiB": what is known of it.
std::string describe_memory(const MemoryStatistics& memory);

}  // namespace kpt::cli
