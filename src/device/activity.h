// What a device and its libraries did while some work ran: the rows of a profile.
#pragma once

#include <cstdint>
#include <string>

namespace kpt {

struct Activity {
  enum class Kind : std::uint8_t {
    kOperator,  // of a library, on the host; holds others
    kCall,      // into a device's runtime, on the host
    kKernel,    // on the device
    kCopy,      // by the device: also filling memory
  };
  Kind kind = Kind::kOperator;
  std::string name;
  std::int64_t begin_ns = 0;  // of the system clock
  std::int64_t duration_ns = 0;
  std::int64_t lane = 0;          // the thread or the stream
  std::uint64_t correlation = 0;  // of a call and what it started; 0 for none
};

}  // namespace kpt
