// Opens libtorch, lets it compute, and says how it went. Meant for a child process (`kpt-probe torch`): libtorch and
// the CUDA libraries are loaded into whoever calls it.
#pragma once

#include <cstdint>

#include "engines/aten/torch_installation.h"
#include "engines/aten/torch_report.h"
#include "kpt/status.h"

namespace kpt {

struct TorchProbe {
  TorchReport report;
  Status status;  // of opening the CPU module and of its self check, typed; the report's finding tells the same
};

// `seed` makes the matrices of the self check; take a fresh one each time. The CUDA part never turns a working CPU part
// into a failure: what is wrong there stands in report.cuda.
TorchProbe probe_torch(const TorchSearch& search, std::uint64_t seed);

}  // namespace kpt
