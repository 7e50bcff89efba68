// A model and inputs for it, for commands that look at how it runs: .pt2 files as they are, artifacts as they were
// optimized.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/backend_list.h"
#include "importer/model_file.h"
#include "ir/symbolic.h"
#include "optimize/optimize.h"
#include "validation/model_run.h"

namespace kpt::cli {

struct OpenedModel {
  ImportedModel model;
  std::vector<NamedTensor> inputs;       // the artifact's sample, else drawn
  std::optional<OptimizeReport> report;  // of an artifact
};

// `sizes`: "s0=4", for inputs that are drawn. Fails with kUnsupported when an artifact holds nothing for the device.
Result<OpenedModel> open_model(const std::string& file, const std::vector<std::string>& sizes,
                               const PlacedDevice& device);

// What the extents of the inputs say about the symbols.
ir::Bindings bind_sizes(const ir::Graph& graph, const std::vector<NamedTensor>& inputs);

// One run on copies of the inputs, with a state of its own where the model writes buffers.
Status run_once(ModelRun& run, const std::vector<Tensor>& inputs, NodeObserver* observer, std::vector<Tensor>& outputs);

}  // namespace kpt::cli
