// libtorch's warnings, handed to the tree's log.
#pragma once

#include <atomic>

#include <c10/util/Exception.h>

namespace kpt::aten {

// libtorch keeps a handler per thread: put c10::WarningUtils::WarningHandlerGuard(&WarningSink::instance()) around
// calls.
class WarningSink final : public c10::WarningHandler {
 public:
  static WarningSink& instance() {
    static WarningSink sink;
    return sink;
  }
  void set(void (*sink)(const char* text)) { sink_ = sink; }
  void process(const c10::Warning& warning) override {
    if (auto* sink = sink_.load()) sink(warning.msg().c_str());
  }

 private:
  std::atomic<void (*)(const char* text)> sink_{nullptr};
};

}  // namespace kpt::aten
