#include "optimize/make_samples.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "artifact/sample_end.h"
#include "validation/last_position.h"

namespace kpt {
namespace {

constexpr std::size_t kSampleBytes = std::size_t{32} << 20U;
constexpr std::size_t kMaxSamples = 2;

Status keep_ends(ArtifactSample& sample, const std::string& origin, std::vector<std::string>& notes) {
  const std::size_t share = kSampleBytes / sample.outputs.size();
  for (std::size_t index = 0; index < sample.outputs.size(); ++index) {
    auto& [name, output] = sample.outputs[index];
    Tensor& reference = sample.reference[index].tensor;
    const Dims whole = output.dims();
    const Dims end = shorten(whole, element_bytes(output.dtype()) + element_bytes(reference.dtype()), share);
    if (end == whole) continue;
    KPT_ASSIGN_OR_RETURN(output, take_end(output, end));
    KPT_ASSIGN_OR_RETURN(reference, take_end(reference, end));
    notes.push_back(fmt::format("the sample of draw '{}' keeps the end of '{}', {} of {}", origin, name,
                                end.to_string(), whole.to_string()));
  }
  return {};
}

}  // namespace

Result<std::vector<ArtifactSample>> make_samples(const ImportedModel& candidate, const Gate& gate,
                                                 const PlacedDevice& device, std::vector<std::string>& notes) {
  std::vector<ArtifactSample> samples;
  KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(candidate, device));
  const std::size_t given = run.loaded().outputs().size();
  // A model with buffers starts anew at every self-check: only its first step can be asked again.
  const std::size_t count = run.is_stateful() ? 1 : std::min(kMaxSamples, gate.draws().size());
  for (std::size_t draw = 0; draw < count; ++draw) {
    KPT_RETURN_IF_ERROR(run.reset());
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> outputs, run.run(gate.draws()[draw].inputs));
    ArtifactSample sample;
    sample.inputs = gate.draws()[draw].inputs;
    std::size_t bytes = 0;
    for (std::size_t index = 0; index < std::min(given, outputs.size()); ++index) {
      NamedTensor reference = gate.reference()[draw][index];
      // An output of the last position is checked at loading as the gate checked it.
      KPT_ASSIGN_OR_RETURN(reference.tensor, take_last_like(reference.tensor, outputs[index].tensor.dims()));
      bytes += outputs[index].tensor.bytes() + reference.tensor.bytes();
      sample.outputs.push_back(std::move(outputs[index]));
      sample.reference.push_back(std::move(reference));
    }
    if (bytes > kSampleBytes) KPT_RETURN_IF_ERROR(keep_ends(sample, gate.draws()[draw].origin, notes));
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace kpt
