#include "base/log.h"

#include <atomic>
#include <chrono>
#include <mutex>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace kpt::log {
namespace {

std::atomic<Format> g_format{Format::kText};

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

// Held behind a function so that there is no static initialiser; replaced only by tests.
std::shared_ptr<spdlog::logger>& logger_slot() {
  static std::shared_ptr<spdlog::logger> slot =
      make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), spdlog::level::warn);
  return slot;
}

std::mutex& logger_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::shared_ptr<spdlog::logger> logger() {
  const std::lock_guard lock(logger_mutex());
  return logger_slot();
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

// Appends lines to a string until it is detached. A thread that is about to log may hold the logger a moment longer
// than the capture lives, so the sink outlives the string.
class StringSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StringSink(std::string* target) : target_(target) {}
  void detach() {
    const std::lock_guard lock(mutex_);
    target_ = nullptr;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (target_ == nullptr) return;
    target_->append(message.payload.data(), message.payload.size());
    target_->push_back('\n');
  }
  void flush_() override {}

 private:
  std::string* target_;
};

class Capture {
 public:
  explicit Capture(std::string* target) : sink_(std::make_shared<StringSink>(target)), format_(g_format.load()) {
    const std::lock_guard lock(logger_mutex());
    previous_ = logger_slot();
    logger_slot() = make_logger(sink_, previous_->level());
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    {
      const std::lock_guard lock(logger_mutex());
      logger_slot() = previous_;
      g_format.store(format_);
    }
    sink_->detach();
  }

 private:
  std::shared_ptr<StringSink> sink_;
  Format format_;
  std::shared_ptr<spdlog::logger> previous_;
};

}  // namespace

void configure(Level level, Format format) {
  g_format.store(format);
  logger()->set_level(to_spdlog(level));
}

std::shared_ptr<void> capture(LineSink* sink) { return std::make_shared<Capture>(sink); }

void write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  const std::shared_ptr<spdlog::logger> target = logger();
  const spdlog::level::level_enum wanted = to_spdlog(level);
  if (level == Level::kOff || !target->should_log(wanted)) return;
  const std::string line =
      g_format.load() == Format::kJson ? json_line(level, message, fields) : text_line(level, message, fields);
  target->log(wanted, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace kpt::log
