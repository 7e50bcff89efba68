// How often tests with random inputs repeat themselves.
#pragma once

#include "base/sanitizers.h"

namespace kpt::testing {

#if defined(KPT_ADDRESS_SANITIZER) || defined(KPT_THREAD_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// A sanitizer makes a round ten times as long and looks for what fewer show too; seeds are fresh in every run.
constexpr int rounds(int plainly) { return kSanitized ? (plainly + 4) / 5 : plainly; }

}  // namespace kpt::testing
