// Calls into a plugin within a time limit (base/call_threads.h): PJRT has no cancel.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "base/call_threads.h"
#include "kpt/status.h"

namespace kpt::pjrt {

// What a plugin may take to compile a program, or to load a compiled one.
inline constexpr std::chrono::milliseconds kLongestCompile{1800000};

// kDeadlineExceeded: "PJRT plugin tpu has not answered within 600.0 s when asked to …".
Status no_answer(std::string_view plugin, std::string_view asked, std::chrono::milliseconds limit, Vendor vendor);

// What `work` gives, or no_answer(). Work that was given up may still run: it must own all that it uses.
template <typename T>
Result<T> call_within(CallThreads& threads, std::chrono::milliseconds limit, std::string_view plugin,
                      std::string_view asked, Vendor vendor, std::function<Result<T>()> work) {
  return kpt::call_within<T>(threads, limit, [&] { return no_answer(plugin, asked, limit, vendor); }, std::move(work));
}

}  // namespace kpt::pjrt
