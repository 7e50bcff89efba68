// Any bytes as the JSON that describes weights: never a crash, and an entry always names its data plainly.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "importer/weights_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const kpt::Result<kpt::pt2::PayloadConfig> config = kpt::pt2::read_payload_config(text, "fuzz.json");
  if (!config.ok()) return 0;
  for (const auto& [name, payload] : *config) {
    if (payload.path_name.empty() || payload.path_name.find('/') != std::string::npos) std::abort();
  }
  return 0;
}
