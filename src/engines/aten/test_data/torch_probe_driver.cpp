// torch_probe_driver <seed> <torch dir>…: probes each folder in turn ("" searches as usual) in this one process, and
// prints the last outcome.
// torch_probe_driver late-cuda: opens the CUDA module after the first use of libtorch, and prints what it then says.
// Tests run it as a child: what it opens stays out of the test program.
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/text.h"
#include "engines/aten/loader.h"
#include "engines/aten/torch_probe.h"

namespace {

kpt::TorchSearch search_in(const char* torch_dir) {
  return {.environment = kpt::Environment::from_process(), .torch_dir = torch_dir, .site_packages = {}};
}

kpt::Status open_cuda_late() {
  const kpt::TorchSearch search = search_in("");
  KPT_ASSIGN_OR_RETURN(const kpt::AtenModule aten, kpt::load_aten(search));
  const auto facts = std::make_unique<kpt::aten::BuildFacts>();
  KPT_RETURN_IF_ERROR(kpt::to_status(aten.table->build_facts(facts.get()), "reading the settings"));
  KPT_ASSIGN_OR_RETURN(const kpt::AtenCudaModule cuda, kpt::load_aten_cuda(aten, search));
  std::int32_t count = 0;
  return kpt::to_status(cuda.table->device_count(&count), "counting devices");
}

}  // namespace

int main(int argument_count, char** arguments) {
  kpt::TorchProbe probe;
  if (argument_count == 2 && std::string_view(arguments[1]) == "late-cuda") {
    probe.status = open_cuda_late();
  } else {
    const auto seed = argument_count > 2 ? kpt::parse_uint(arguments[1]) : std::nullopt;
    if (!seed) return 2;
    for (int i = 2; i < argument_count; ++i) probe = kpt::probe_torch(search_in(arguments[i]), *seed);
  }
  nlohmann::ordered_json json = {{"code", kpt::to_string(probe.status.code())}, {"message", probe.status.message()}};
  json["report"] = probe.report;
  std::fputs(json.dump().c_str(), stdout);
  return 0;
}
