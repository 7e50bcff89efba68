// An optimization that was made before is not made again: the whole artifact, and which passes lost, are kept in the
// compile cache.
#pragma once

#include <filesystem>
#include <string>

#include "compile_cache/compile_cache.h"
#include "optimize/optimize.h"

namespace kpt {

struct WrittenOptimization {
  OptimizeReport report;
  bool written = false;     // false: the gate refused
  bool from_cache = false;  // the artifact was copied, nothing was run
  std::string cache_note;   // why the result could not be kept; empty otherwise
};

// Optimizes and writes the artifact to `path`. A result for the same model, options, inputs, device, threads and
// version of this program is taken from `cache` (null: no cache). Runs that are to show something on the way
// (check_each, dump_after), have passes of the caller's or are for hardware that is not here are always made. A refusal
// is not kept. Which passes lost on this machine is kept beside, for other seeds and tolerances with inputs of the same
// sizes.
Result<WrittenOptimization> optimize_to_file(const ImportedModel& model, OptimizeOptions options,
                                             const PlacedDevice& device, const PlacedDevice& cpu, int threads,
                                             const std::filesystem::path& path, CompileCache* cache);

}  // namespace kpt
