// A model and inputs for it, for commands that look at how it runs: .pt2 files as they are, artifacts as they were
// optimized.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "api/backend_list.h"
#include "importer/model_file.h"
#include "optimize/optimize.h"
#include "validation/model_run.h"

namespace kpt::cli {

// What to look at: flags that `explain` and `profile` share.
struct ModelSource {
  std::string file;
  std::string name;                // of several in one .pt2 file
  std::string weights;             // a safetensors file in place of those of a .pt2 file
  std::vector<std::string> sizes;  // "s0=4", for inputs that are drawn
};
void add_source_arguments(CLI::App& command, ModelSource& source);

// Fails with kInvalidArgument where name or weights are given for an artifact, which has one model and its own.
Status check_source(const ModelSource& source);

struct OpenedModel {
  ImportedModel model;
  std::vector<NamedTensor> inputs;       // the artifact's sample, else drawn
  std::optional<OptimizeReport> report;  // of an artifact that was optimized
  std::string program;                   // of an artifact that was compiled for the device's target
};

// Fails as check_source(), import_model() and read_artifact() do, with kModelPreparation when an artifact holds nothing
// for the device, and with kUnsupported when it needs what the device lacks.
Result<OpenedModel> open_model(const ModelSource& source, const PlacedDevice& device);

// The same run again and again: buffers that the model writes are reset before each, and its inputs are copied anew,
// since it may write them.
class RepeatedRun {
 public:
  // `run` must outlive the result.
  static Result<RepeatedRun> make(const ModelRun& run, std::vector<Tensor> inputs);

  Status prepare();
  // Once after each prepare().
  Status run(NodeObserver* observer);

 private:
  RepeatedRun() = default;
  Executable* executable_ = nullptr;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> copies_;
  std::vector<Tensor> outputs_;
  std::unique_ptr<State> state_;  // null for models that write no buffers
};

}  // namespace kpt::cli
