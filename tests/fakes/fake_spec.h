// What a fake vendor library answers, read from the JSON file that an environment variable names:
//   {
//     "version": 13000,
//     "calls":   {"cuInit": 100, "cuDeviceGetCount": "abort" | "null_write" | "hang"},
//     "devices": [{"name": "…", …, "calls": {"cuDeviceGetName": 1}}]
//   }
// "calls" makes a function return that code, or end as named; without an entry it succeeds. The file is read again when
// the variable names another one, so that one test program can drive many machines. Not safe for several threads.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace fake {

class Spec {
 public:
  explicit Spec(const char* variable) : variable_(variable) {}

  // The code that `function` shall return before it does anything; 0 is success. May not return at all.
  int enter(const char* function);
  // The same for one device; `no_such_device` when the index is wrong.
  int enter(const char* function, int device, int no_such_device);

  // The whole file, or an empty object when the variable is unset or the file unreadable.
  const nlohmann::json& json();
  const nlohmann::json& device(int index);
  int device_count();

 private:
  const char* variable_;
  std::string path_;
  nlohmann::json json_ = nlohmann::json::object();
};

// Copies with a closing NUL, cut to `length`.
void copy_text(const std::string& text, char* buffer, int length);

}  // namespace fake

#define KPT_FAKE_EXPORT extern "C" __attribute__((visibility("default")))
