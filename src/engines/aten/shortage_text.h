// What libtorch's failures say of memory that ran out: only their text tells. Pure functions; the modules compile their
// own copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kpt::aten {

// The bytes of the request that failed, as far as the text tells them: "Tried to allocate 2.00 GiB" is exact to half a
// hundredth of its unit. Nothing where it names none or one beyond 64 bits.
std::optional<std::uint64_t> find_requested_bytes(std::string_view text);

enum class ShortageSign : std::uint8_t { kNone, kPossible, kCertain };

// What the vendors' libraries fail with when their own allocations do. Possible: codes that have other reasons too.
ShortageSign find_shortage(std::string_view text);

}  // namespace kpt::aten
