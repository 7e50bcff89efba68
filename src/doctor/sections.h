// The sections of the report, one function each. They only look; none changes anything but the cache folder, which
// is created if it is missing and in which a file is written and removed again.
#pragma once

#include <chrono>
#include <vector>

#include "api/detection.h"
#include "device/detection_context.h"
#include "doctor/doctor.h"
#include "engines/aten/torch_report.h"

namespace kpt::doctor {

// For one question to a compiler.
inline constexpr std::chrono::milliseconds kCompilerTimeLimit{3000};

struct SectionInput {
  const Request& request;
  DetectionContext detection;

  bool may_probe(std::string_view backend) const { return kpt::may_probe(request.config, backend); }
};

using Section = std::vector<Check> (*)(const SectionInput&);

std::vector<Check> check_system(const SectionInput& input);
std::vector<Check> check_cpu(const SectionInput& input);
std::vector<Check> check_nvidia(const SectionInput& input);
std::vector<Check> check_amd(const SectionInput& input);
std::vector<Check> check_tpu_and_pjrt(const SectionInput& input);
std::vector<Check> check_libtorch(const SectionInput& input);
std::vector<Check> check_toolchains(const SectionInput& input);
std::vector<Check> check_cache(const SectionInput& input);
std::vector<Check> check_serving(const SectionInput& input);

// The lines of check_libtorch(), from what its child process told.
std::vector<Check> describe_libtorch(const TorchReport& report);

}  // namespace kpt::doctor
