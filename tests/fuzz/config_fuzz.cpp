// Any bytes as a configuration file: never a crash, and what is accepted survives writing and reading back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/config.h"
#include "config/config_file.h"
#include "config/config_text.h"

namespace {

// False when the file has problems.
bool read_into(kpt::Config& config, std::string_view text) {
  const kpt::ConfigFile file = kpt::parse_config_text(text, "fuzz.yaml");
  for (const kpt::FileSetting& setting : file.settings) {
    config.assign(setting.option, setting.value, {kpt::Origin::Kind::kFile, "fuzz.yaml", setting.line});
  }
  return file.problems.empty();
}

void require_round_trip(const kpt::Config& config, const std::string& written) {
  kpt::Config again;
  if (!read_into(again, written) || !again.same_values(config)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kpt::Config config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Valid settings of a file with problems elsewhere are values too, so the round trip must hold for them as well.
  (void)read_into(config, text);
  require_round_trip(config, kpt::to_yaml(config));
  require_round_trip(config, kpt::to_json(config));
  return 0;
}
