// The runs that a candidate is held against: the plain model, its fp64 form and, where the level asks for it, its bf16
// form, on the same draws of inputs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "importer/model_file.h"
#include "validation/bf16_form.h"
#include "validation/draws.h"
#include "validation/model_run.h"

namespace kpt {

struct HeldRuns {
  std::vector<Draw> draws;
  std::vector<std::vector<NamedTensor>> plain;      // by draw
  std::vector<std::vector<NamedTensor>> reference;  // by draw, fp64
  std::vector<std::vector<NamedTensor>> bf16;       // by draw; empty where there is none
  std::vector<std::string> notes;                   // draws that were left out, and why
};

// Runs `plain` on the draws. Generated ones that it cannot run are left out with a note; fails when none is left.
Result<HeldRuns> run_plain(ModelRun& plain, std::vector<Draw> draws);
// The model with every floating number in float64.
Result<ModelRun> load_fp64_form(const ImportedModel& model, const PlacedDevice& cpu);
Result<std::vector<std::vector<NamedTensor>>> run_each(ModelRun& run, const std::vector<Draw>& draws);

// Further draws of a model's inputs, made from seeds that nobody else takes, with their runs: more evidence where a few
// elements are too little. Made at the first call of get(); that may be slow.
class FurtherRuns {
 public:
  // `bf16`: how the bf16 run is made, none where there is none.
  FurtherRuns(const ImportedModel& model, const DrawOptions& options, PlacedDevice device, PlacedDevice cpu,
              std::optional<Bf16Way> bf16);

  // Fails as the runs do. Thread safe.
  Result<const HeldRuns*> get();

 private:
  Result<HeldRuns> make() const;

  ImportedModel model_;
  DrawOptions options_;
  PlacedDevice device_;
  PlacedDevice cpu_;
  std::optional<Bf16Way> bf16_;
  std::mutex mutex_;
  std::optional<Result<HeldRuns>> runs_;  // also a failure: it would not end otherwise
};

}  // namespace kpt
