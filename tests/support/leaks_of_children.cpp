// Looking for leaks at the end of a process takes 3 s on aarch64, whose allocator is walked region by region, and some
// programs of tests start a hundred processes. Leaks are looked for in the programs themselves, not in what they start
// there; on x86_64, where it takes no time, in both.
#include <cstdlib>

namespace {

// The sanitizer has read its own options before this runs.
[[maybe_unused]] const int kSet = ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);

}  // namespace
