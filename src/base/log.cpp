#include "base/log.h"

#include <chrono>
#include <mutex>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace kpt::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarn: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::kDebug: return "debug";
    case Level::kInfo: return "info";
    case Level::kWarn: return "warn";
    case Level::kError: return "error";
    case Level::kOff: return "off";
  }
  return "off";
}

// The lines are made here, so spdlog's pattern is the bare message; it gives us levels, sinks and locking.
std::shared_ptr<spdlog::logger> make_logger(const spdlog::sink_ptr& sink, spdlog::level::level_enum level) {
  auto made = std::make_shared<spdlog::logger>("kpt", sink);
  made->set_pattern("%v");
  made->set_level(level);
  made->flush_on(spdlog::level::debug);
  return made;
}

// Everything that configure() and capture() change, behind one lock. It is held while a line is written: a capture must
// not end, and take its string away, in the middle of one.
struct State {
  std::mutex mutex;
  Format format = Format::kText;
  bool configured = false;  // by configure(), which configure_library() leaves alone
  std::shared_ptr<spdlog::logger> logger =
      make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), spdlog::level::warn);
};

// Held behind a function so that there is no static initialiser.
State& state() {
  static State made;
  return made;
}

std::string quote_if_needed(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=") == std::string::npos && printable(value) == value;
  return plain ? value : nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_line(Level level, std::string_view message, std::initializer_list<Field> fields) {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto millis = now.time_since_epoch().count() % 1000;
  std::string line =
      fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} {:<5} {}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), millis,
                  name_of(level), message);
  for (const Field& field : fields) line += fmt::format(" {}={}", field.key, quote_if_needed(field.value));
  // A line break in a message must not start what looks like another event, nor an escape sequence drive the terminal.
  return printable(line);
}

std::string json_line(Level level, std::string_view message, std::initializer_list<Field> fields) {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  nlohmann::ordered_json line;
  line["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                             now.time_since_epoch().count() % 1000);
  line["level"] = name_of(level);
  line["message"] = message;
  for (const Field& field : fields) {
    std::string key(field.key);
    while (line.contains(key)) key += '_';  // a field named "level" must not replace the level
    line[key] = field.value;
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class StringSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StringSink(std::string* target) : target_(target) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    target_->append(message.payload.data(), message.payload.size());
    target_->push_back('\n');
  }
  void flush_() override {}

 private:
  std::string* target_;
};

class Capture {
 public:
  explicit Capture(std::string* target) {
    const std::lock_guard lock(state().mutex);
    format_ = state().format;
    configured_ = state().configured;
    previous_ =
        std::exchange(state().logger, make_logger(std::make_shared<StringSink>(target), state().logger->level()));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    const std::lock_guard lock(state().mutex);
    state().logger = previous_;
    state().format = format_;
    state().configured = configured_;
  }

 private:
  Format format_;
  bool configured_;
  std::shared_ptr<spdlog::logger> previous_;
};

void set_shown(Level level, Format format) {
  state().format = format;
  state().logger->set_level(to_spdlog(level));
}

}  // namespace

void configure(Level level, Format format) {
  const std::lock_guard lock(state().mutex);
  state().configured = true;
  set_shown(level, format);
}

void configure_library(Level level, Format format) {
  const std::lock_guard lock(state().mutex);
  if (!state().configured) set_shown(level, format);
}

std::shared_ptr<void> capture(LineSink* sink) { return std::make_shared<Capture>(sink); }

void write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  const std::lock_guard lock(state().mutex);
  const spdlog::level::level_enum wanted = to_spdlog(level);
  if (level == Level::kOff || !state().logger->should_log(wanted)) return;
  const std::string line =
      state().format == Format::kJson ? json_line(level, message, fields) : text_line(level, message, fields);
  state().logger->log(wanted, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace kpt::log
