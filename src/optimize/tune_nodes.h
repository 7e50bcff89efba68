// Which kernel is best for a node, by measurement: every kind of node of ours that aten can compute too runs alone in
// both forms, alternating, on this machine, and so does every quantized product beside what it replaces. What was seen
// is kept in the compile cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile_cache/compile_cache.h"
#include "importer/model_file.h"
#include "optimize/measure.h"

namespace kpt {

enum class Taken : std::uint8_t {
  kOwn,          // our kernel, as the passes made the node
  kLibrary,      // aten's kernel
  kUnquantized,  // ours, of what a quantized product would have replaced
};

// Nodes that run alike: the same operator, constants, types and sizes.
struct KernelChoice {
  std::vector<std::string> nodes;
  std::string operator_target;  // "kpt.linear.default"
  Taken taken = Taken::kOwn;
  std::string reason;  // "1.31 times faster than aten's (0.412 ms against 0.540 ms)", or why nothing was timed
};

struct TuneOptions {
  double seconds_per_pair = 0.2;
  double seconds = 30;            // for all; kinds that are not reached stay ours and say so
  CompileCache* cache = nullptr;  // null: none
  std::string surroundings;       // what a measurement depends on beside the node: machine, threads, versions
};

// One choice per kind of node, in the order of first appearance. `inputs` give the sizes. A kind that cannot be run
// alone stays ours and says why.
std::vector<KernelChoice> tune_nodes(const ImportedModel& model, const std::vector<NamedTensor>& inputs,
                                     const PlacedDevice& device, const TuneOptions& options);

// The same for quantized products, against the node of the same name in `wider`: the model without the passes that
// quantized them. Those that are quantized there too are not asked about.
std::vector<KernelChoice> tune_quantized(const ImportedModel& model, const ImportedModel& wider,
                                         const std::vector<NamedTensor>& inputs, const PlacedDevice& device,
                                         const TuneOptions& options);

// The nodes for which this was taken.
std::vector<std::string> list_nodes(const std::vector<KernelChoice>& choices, Taken taken);
// Takes nodes out that are no longer what was measured, and choices that are left without one.
void forget_nodes(std::vector<KernelChoice>& choices, const std::vector<std::string>& names);

}  // namespace kpt
