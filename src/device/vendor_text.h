// Text that comes from a vendor's library or from sysfs.
#pragma once

#include <span>
#include <string>

namespace kpt {

// The text up to the first NUL or the end of the buffer, without surrounding white space. Bytes outside printable ASCII
// become '?', so that the result can go into JSON and onto a terminal. At most 256 characters.
std::string printable_text(std::span<const char> buffer);

}  // namespace kpt
