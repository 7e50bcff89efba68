// A machine with four v5e chips, written down: everything that detection looks at except libtpu. What stands in its
// place is the test's choice: the fake plugin, or XLA's CPU plugin. No TPU is anywhere near.
#pragma once

#include <map>
#include <string>

#include "base/build_info.h"
#include "support/hardware_fixture.h"

namespace kpt::testing {

inline HardwareFixture make_tpu_machine(int chips = 4) {
  // The same processor as this one, so that its libraries can be opened.
  const bool x86 = build_info().architecture == "x86_64";
  nlohmann::ordered_json json;
  json["description"] = "TPU chips with open nodes";
  json["files"]["/proc/cpuinfo"] = x86 ? "processor\t: 0\nflags\t\t: fpu lm sse4_2 avx2\n"
                                       : "processor\t: 0\nFeatures\t: fp asimd\nCPU architecture: 8\n";
  for (int i = 0; i < chips; ++i) json["files"]["/dev/accel" + std::to_string(i)] = "";
  json["expect"] = nlohmann::ordered_json::object();
  return HardwareFixture::parse(json.dump(), "tpu machine");
}

// Variables of that machine beside its files, with this library as libtpu.
inline std::map<std::string, std::string, std::less<>> tpu_machine_variables(const std::string& library) {
  return {{"TPU_ACCELERATOR_TYPE", "v5litepod-4"}, {"TPU_TOPOLOGY", "2x2"}, {"TPU_LIBRARY_PATH", library}};
}

}  // namespace kpt::testing
