// The memory that the container leaves to this process.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files.h"

namespace kpt {

// The tightest limit between this process's control group and the root (cgroup v2 memory.max, v1
// memory.limit_in_bytes); nothing when there is none.
std::optional<std::uint64_t> find_memory_limit(const SystemFiles& files);

// What this process could still get: what the kernel calls available, or less where a control group has less left
// (its limit, less what it holds that is no cache of files). Nothing where the system does not say.
std::optional<std::uint64_t> find_memory_left(const SystemFiles& files);

}  // namespace kpt
