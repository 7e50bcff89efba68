// Positions that are added to sequences never reach their own.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kpt {

// A test for each model (name and path) whose sequences may be longer (runtime/sequence_rows.h), and one that most of
// those with sequences are among them. `device` is the CPU or one that captures runs; it must be here.
void register_sequence_tests(const std::vector<std::pair<std::string, std::string>>& models, std::uint64_t seed,
                             const std::string& device);

}  // namespace kpt
