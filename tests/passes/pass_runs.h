// Running graphs on the CPU backend for tests of passes: an evaluator of constants, and a graph before and after.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/backend_list.h"
#include "device/execution.h"
#include "importer/model_file.h"
#include "kpt/model.h"
#include "passes/pass.h"
#include "passes/runner.h"

namespace kpt::pass_runs {

// The CPU of this process's configuration, or another device of it; ask available() before the rest.
class Cpu {
 public:
  explicit Cpu(const std::string& device = "cpu");
  const Status& available() const { return available_; }
  Backend& backend() { return *placed_.backend; }
  Device& device() { return *placed_.device; }
  const Capabilities& capabilities() { return placed_.device->target().capabilities(); }

  Evaluator evaluator();
  Result<Session> start(ImportedModel model);

 private:
  Status available_;
  PlacedDevice placed_;
};

// Passes with an evaluator. On failure an empty list and a failed expectation.
std::vector<PassRecord> optimize(Cpu& cpu, std::span<const Pass* const> passes, ImportedModel& model,
                                 const Capabilities& capabilities, const std::vector<std::string>& kept_precise = {});

// Runs both models on the same inputs, `runs` times in one session each, and holds every output of `after` against the
// fp64 run of `before`, with the plain run as baseline. `tolerance` is that of the type the model computes in. A cosine
// of `least_cosine` (below 1) or an error of `most_error` is enough too: what products of fewer bits may cost is the
// gate's to judge, not that of these tests.
// `oracle` is the CPU, where the fp64 run takes place.
void expect_same_answers(Cpu& cpu, Cpu& oracle, const ImportedModel& before, const ImportedModel& after,
                         const std::vector<std::vector<NamedTensor>>& inputs, DType tolerance, double least_cosine = 1,
                         double most_error = 0);
void expect_same_answers(Cpu& cpu, const ImportedModel& before, const ImportedModel& after,
                         const std::vector<std::vector<NamedTensor>>& inputs, DType tolerance, double least_cosine = 1,
                         double most_error = 0);

}  // namespace kpt::pass_runs
