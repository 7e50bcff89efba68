// One artifact for several devices: each is optimized for by itself, and the parts go into one file.
#pragma once

#include <filesystem>
#include <vector>

#include "optimize/cached.h"

namespace kpt {

// One device, with the options for it.
struct DeviceJob {
  PlacedDevice device;
  OptimizeOptions options;
};

struct SeveralOptimizations {
  std::vector<WrittenOptimization> parts;  // in the order of the devices, up to the first that was refused
  bool written = false;                    // false: the gate refused the last of them, and there is no file

  bool passed() const { return !parts.empty() && parts.back().report.passed(); }
};

// optimize_to_file() for each device, and one file at `path` with a part for each. Parts lie in a folder beside `path`
// until the file is whole, and each is taken from and kept in `cache` by itself. Fails with kInvalidArgument when two
// devices have the same target, as one part serves both; otherwise as optimize_to_file() does, naming the device where
// there are several.
Result<SeveralOptimizations> optimize_for_devices(const ImportedModel& model, const std::vector<DeviceJob>& jobs,
                                                  const PlacedDevice& cpu, int threads,
                                                  const std::filesystem::path& path, CompileCache* cache);

}  // namespace kpt
