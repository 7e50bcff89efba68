// torch_probe_driver <seed> <torch dir>…: probes each folder in turn ("" searches as usual) in this one process, and
// prints the last outcome. Tests run it as a child: what it opens stays out of the test program.
#include <cstdio>
#include <string>

#include "base/text.h"
#include "engines/aten/torch_probe.h"

int main(int argument_count, char** arguments) {
  const auto seed = argument_count > 2 ? kpt::parse_uint(arguments[1]) : std::nullopt;
  if (!seed) return 2;
  kpt::TorchProbe probe;
  for (int i = 2; i < argument_count; ++i) {
    probe = kpt::probe_torch(
        {.environment = kpt::Environment::from_process(), .torch_dir = arguments[i], .site_packages = {}}, *seed);
  }
  nlohmann::ordered_json json = {{"code", kpt::to_string(probe.status.code())}, {"message", probe.status.message()}};
  json["report"] = probe.report;
  std::fputs(json.dump().c_str(), stdout);
  return 0;
}
