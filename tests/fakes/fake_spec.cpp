#include "fake_spec.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace fake {
namespace {

int perform(const nlohmann::json& behaviour) {
  if (behaviour.is_number_integer()) return behaviour.get<int>();
  if (behaviour == "abort") std::abort();
  if (behaviour == "null_write") {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
  }
  while (behaviour == "hang") ::sleep(1);
  return 0;
}

int perform_for(const nlohmann::json& owner, const char* function) {
  if (!owner.contains("calls") || !owner["calls"].contains(function)) return 0;
  return perform(owner["calls"][function]);
}

}  // namespace

const nlohmann::json& Spec::json() {
  const char* path = std::getenv(variable_);
  if (path == nullptr) path = "";
  if (path_ != path) {
    path_ = path;
    std::ifstream file(path_);
    json_ = nlohmann::json::parse(file, nullptr, false);
    if (!json_.is_object()) json_ = nlohmann::json::object();
  }
  return json_;
}

const nlohmann::json& Spec::device(int index) { return json()["devices"][static_cast<std::size_t>(index)]; }

int Spec::device_count() { return json().contains("devices") ? static_cast<int>(json()["devices"].size()) : 0; }

int Spec::enter(const char* function) { return perform_for(json(), function); }

int Spec::enter(const char* function, int device_index, int no_such_device) {
  if (const int code = enter(function); code != 0) return code;
  if (device_index < 0 || device_index >= device_count()) return no_such_device;
  return perform_for(device(device_index), function);
}

void copy_text(const std::string& text, char* buffer, int length) {
  if (length <= 0) return;
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(buffer, text.data(), count);
  buffer[count] = '\0';
}

}  // namespace fake
