// Faults as a careless author makes them, in passes that edit our own operators and run in the pipeline beside the real
// ones; and a CPU with one kernel that computes something else.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/backend_list.h"
#include "importer/model_file.h"
#include "passes/pipeline.h"

namespace kpt::validation_test {

struct PassFault {
  Pass pass;  // its details name the nodes that it spoiled
  ImportedModel (*make)(std::uint64_t seed);
  std::string behind;  // the pass of the pipeline that it follows
  Level level = Level::kConservative;
  std::vector<std::string> disabled = {};
};

// The passes live as long as the process.
const std::vector<PassFault>& list_pass_faults();

// One layer of a decoder: rotary positions, grouped queries, a causal mask, a gate, norms by root mean square.
ImportedModel make_decoder(std::uint64_t seed);
// A convolution with batch norm, a mean and scores.
ImportedModel make_classifier(std::uint64_t seed);
// A convolution with batch norm, as PyTorch exported it.
ImportedModel make_conv_norm(std::uint64_t seed);

// quantize_int8 obeyed, with the scale of the node 'add_4' of the small BERT inverted as long as it is quantized.
extern const Pass kInvertOneScale;

// Adds to the classifier's 'scores' while they are aten's product, and does nothing to one of ours. Either counts as a
// change.
extern const Pass kShiftUnfused;

// The same without counting what it leaves alone.
extern const Pass kShiftUnfusedOnly;

// Right and slow: the first output changes its sign two thousand times.
extern const Pass kWasteTime;

// Graphs reach its kernels changed by `spoil`, which nobody else sees: the device of a kernel that has a wrong
// constant. With a name ("other:0") it is that device, of the target "other".
PlacedDevice make_wrong_device(const PlacedDevice& right, std::function<void(ir::Node&)> spoil,
                               const std::string& name = {});

}  // namespace kpt::validation_test
