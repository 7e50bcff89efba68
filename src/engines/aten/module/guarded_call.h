// Turns whatever a body throws into a CallOutcome: the one place where libtorch's exceptions end.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>

#include "engines/aten/module_abi.h"

namespace kpt::aten {

// Copies as much as fits and ends it with a zero.
template <std::size_t size>
void copy_text(std::string_view text, char (&target)[size]) noexcept {
  const std::size_t count = text.size() < size - 1 ? text.size() : size - 1;
  std::memcpy(target, text.data(), count);
  target[count] = '\0';
}

// libtorch appends notes and stack frames on further lines; the first says what happened.
inline CallOutcome make_outcome(CallCode code, std::string_view text) noexcept {
  CallOutcome outcome{code, {}};
  copy_text(text.substr(0, text.find('\n')), outcome.text);
  return outcome;
}

// The first line of what an exception says, without libtorch's stack frames.
inline std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string_view text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return std::string(text.substr(0, text.find('\n')));
}

// Whether the host's memory is what was missing. libtorch's allocator for it fails with an ordinary error: only its
// text tells.
inline bool is_host_shortage(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         first_line(error).find("can't allocate memory") != std::string::npos;
}

// For bodies: a failure that is ours, with its code.
class CallFailure : public std::exception {
 public:
  CallFailure(CallCode code, const char* text) : code_(code), text_(text) {}
  CallCode code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_; }

 private:
  CallCode code_;
  const char* text_;  // a literal
};

template <typename Body>
CallOutcome guarded_call(const Body& body) noexcept {
  try {
    body();
    return CallOutcome{CallCode::kOk, {}};
  } catch (const CallFailure& failure) {
    return make_outcome(failure.code(), failure.what());
  } catch (const c10::OutOfMemoryError& error) {
    return make_outcome(CallCode::kOutOfMemory, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return make_outcome(is_host_shortage(error) ? CallCode::kOutOfHostMemory : CallCode::kFailed,
                        error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return make_outcome(CallCode::kOutOfHostMemory, error.what());
  } catch (const std::exception& error) {
    return make_outcome(CallCode::kFailed, error.what());
  } catch (...) {
    return make_outcome(CallCode::kFailed, "an exception of unknown type");
  }
}

}  // namespace kpt::aten
