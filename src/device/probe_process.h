// Asks vendor libraries in a child process.
//
// A vendor's runtime may hang, crash or abort while it only counts its devices, so it is loaded in `kpt-probe`, never
// here. The child prints one JSON document; a crash or silence becomes a Status that says so.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/environment.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

struct ProbeOptions {
  Environment environment;
  std::chrono::milliseconds time_limit{10000};
};

// Runs `kpt-probe <arguments…>` and returns what it printed. Fails with kNotFound (no helper), kDeadlineExceeded
// (killed at the limit) or kVendorLibrary (crash, abort, or a non-zero exit with the child's last line on standard
// error).
Result<std::string> run_probe(const ProbeOptions& options, const std::vector<std::string>& arguments);

// What a failure of run_probe() means for a user. `crash_remedy` mends a library that crashed or gave no sense.
Finding explain_probe_failure(const Status& failure, const std::string& crash_remedy);

}  // namespace kpt
