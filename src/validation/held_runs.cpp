#include "validation/held_runs.h"

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

constexpr std::size_t kFurtherDraws = 16;
constexpr std::uint64_t kSeedsApart = 1000;  // from those of the first draws

}  // namespace

Result<HeldRuns> run_plain(ModelRun& plain, std::vector<Draw> draws) {
  HeldRuns runs;
  Status last;
  for (Draw& draw : draws) {
    auto outputs = plain.run(draw.inputs);
    if (!outputs.ok()) {
      if (!draw.generated) return outputs.status();
      last = outputs.status();
      runs.notes.push_back(
          fmt::format("draw '{}' is left out, the model itself cannot run it: {}", draw.origin, last.message()));
      continue;
    }
    runs.plain.push_back(std::move(*outputs));
    runs.draws.push_back(std::move(draw));
  }
  if (!runs.draws.empty()) return runs;
  return last.ok() ? Status(StatusCode::kInvalidArgument, "the gate needs at least one draw of inputs") : last;
}

Result<ModelRun> load_fp64_form(const ImportedModel& model, const PlacedDevice& cpu) {
  ImportedModel exact = model;
  KPT_RETURN_IF_ERROR(promote_to_fp64(exact.graph));
  KPT_ASSIGN_OR_RETURN(exact.weights, promote_to_fp64(model.weights));
  return ModelRun::load(std::move(exact), cpu);
}

Result<std::vector<std::vector<NamedTensor>>> run_each(ModelRun& run, const std::vector<Draw>& draws) {
  std::vector<std::vector<NamedTensor>> results;
  for (const Draw& draw : draws) {
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> outputs, run.run(draw.inputs));
    results.push_back(std::move(outputs));
  }
  return results;
}

FurtherRuns::FurtherRuns(const ImportedModel& model, const DrawOptions& options, PlacedDevice device, PlacedDevice cpu,
                         std::optional<Bf16Way> bf16)
    : model_(model), options_(options), device_(std::move(device)), cpu_(std::move(cpu)), bf16_(bf16) {
  model_.sample_inputs.clear();
  options_.given.clear();
  options_.count = kFurtherDraws;
  options_.seed += kSeedsApart;
}

Result<const HeldRuns*> FurtherRuns::get() {
  const std::scoped_lock lock(mutex_);
  if (!runs_) runs_.emplace(make());
  if (!runs_->ok()) return runs_->status();
  return &runs_->value();
}

Result<HeldRuns> FurtherRuns::make() const {
  KPT_ASSIGN_OR_RETURN(std::vector<Draw> draws, make_draws(model_, options_));
  KPT_ASSIGN_OR_RETURN(ModelRun plain, ModelRun::load(model_, device_));
  plain.run_as_written();
  KPT_ASSIGN_OR_RETURN(HeldRuns runs, run_plain(plain, std::move(draws)));
  KPT_ASSIGN_OR_RETURN(ModelRun reference, load_fp64_form(model_, cpu_));
  KPT_ASSIGN_OR_RETURN(runs.reference, run_each(reference, runs.draws));
  if (bf16_) {
    KPT_ASSIGN_OR_RETURN(ImportedModel form, make_bf16_form(model_, *bf16_));
    KPT_ASSIGN_OR_RETURN(ModelRun bf16, ModelRun::load(std::move(form), device_));
    bf16.run_as_written();
    KPT_ASSIGN_OR_RETURN(runs.bf16, run_each(bf16, runs.draws));
  }
  return runs;
}

}  // namespace kpt
