// Logging: one line per event on standard error, as text for people or as JSON for machines.
//
//   log::info("model loaded", {{"path", path}, {"seconds", "0.31"}});
//   text:  2026-11-15 12:00:00.123 info  model loaded path=/m.pt2 seconds=0.31
//   json:  {"time":"2026-11-15T12:00:00.123Z","level":"info","message":"model loaded","path":"/m.pt2","seconds":"0.31"}
//
// Until one of the two functions below is called, warnings and errors are shown as text. Control characters and bytes
// that are not UTF-8 cannot reach the output: an event is one line whatever its message holds. Thread safe.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace kpt::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };
enum class Format { kText, kJson };

struct Field {
  std::string_view key;
  std::string value;
};

// Sets what is shown from now on, in the whole process.
void configure(Level level, Format format);
// The same for a library inside somebody's program: without effect once the program itself has called configure().
void configure_library(Level level, Format format);

// For tests: lines are appended to `sink` instead of standard error while the returned object lives; its end also takes
// back what configure() set meanwhile. Read `sink` when no other thread logs.
using LineSink = std::string;
std::shared_ptr<void> capture(LineSink* sink);

void write(Level level, std::string_view message, std::initializer_list<Field> fields = {});
inline void debug(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kDebug, message, fields);
}
inline void info(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kInfo, message, fields);
}
inline void warn(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kWarn, message, fields);
}
inline void error(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kError, message, fields);
}

}  // namespace kpt::log
