#include "api/artifact_loading.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "artifact/sample_end.h"
#include "base/log.h"
#include "base/text.h"
#include "numerics/accuracy.h"
#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

// "a", "a and b", "a, b and c".
std::string list_words(std::vector<std::string> words) {
  if (words.size() < 2) return join(words, "");
  const std::string last = words.back();
  words.pop_back();
  return join(words, ", ") + " and " + last;
}

// What fp64 gives for an output; without a stored one, the stored output itself is taken as right.
Result<Tensor> find_reference(const ArtifactSample& sample, std::size_t output) {
  if (!sample.reference.empty()) return sample.reference[output].tensor;
  return promote_to_fp64(sample.outputs[output].tensor);
}

// By the narrowest type that the model computes in: that one decides how far two runs may be apart.
Tolerance find_tolerance(const ir::Graph& graph, DType output) {
  Tolerance tolerance = default_tolerance(output);
  if (!is_floating(output)) return tolerance;
  for (const ir::Value& value : graph.values) {
    const DType dtype = value.kind == ir::ValueKind::kTensor ? value.tensor.dtype : output;
    // Products of int8 weights round as coarsely as bfloat16 does.
    const Tolerance other = default_tolerance(dtype == DType::kInt8 ? DType::kBFloat16 : dtype);
    if (other.relative > tolerance.relative) tolerance = other;
  }
  return tolerance;
}

Status check_sample(const ArtifactSample& sample, const ir::Graph& graph, Session& session) {
  std::vector<NamedTensor> inputs = sample.inputs;
  for (NamedTensor& input : inputs) {  // a model may write its inputs, and the file is not to be written
    KPT_ASSIGN_OR_RETURN(input.tensor, input.tensor.contiguous_copy());
  }
  KPT_RETURN_IF_ERROR(session.reset());
  KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs, session.run(inputs));
  if (outputs.size() != sample.outputs.size()) {
    return {StatusCode::kValidation, fmt::format("{} outputs instead of {}", outputs.size(), sample.outputs.size())};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NamedTensor& stored = sample.outputs[i];
    if (outputs[i].name != stored.name) {
      return {StatusCode::kValidation, fmt::format("the output '{}' instead of '{}'", outputs[i].name, stored.name)};
    }
    KPT_ASSIGN_OR_RETURN(const Tensor reference, find_reference(sample, i));
    // A stored fp64 answer measures the difference by itself; without one the type has to say what is near.
    KPT_ASSIGN_OR_RETURN(const Tensor complete, complete_reference(reference, stored.tensor));
    const bool alone = sample.reference.empty() || complete.buffer() != reference.buffer();
    const Tolerance tolerance =
        alone ? find_tolerance(graph, stored.tensor.dtype()) : default_tolerance(stored.tensor.dtype());
    KPT_ASSIGN_OR_RETURN(const Tensor given, take_end(outputs[i].tensor, stored.tensor.dims()));
    const Result<Comparison> compared = compare(given, stored.tensor, reference, tolerance);
    if (!compared.ok()) {
      return {StatusCode::kValidation, fmt::format("output '{}': {}", stored.name, compared.status().message())};
    }
    if (!compared->passed) {
      return {StatusCode::kValidation, fmt::format("output '{}': {}", stored.name, compared->reason)};
    }
  }
  return {};
}

// Whether compiling changed nothing in the graph: what a level did, and its verdict, hold for its own target alone.
bool is_as_exported(const ArtifactTarget& part) {
  const auto report = nlohmann::json::parse(part.report, nullptr, false);
  return report.is_object() && !report.contains("optimized") && !report.contains("not_judged");
}

// "tpu:v5e:2x2" → "tpu:v5e". What a level makes of a model is the same for all slices of a generation.
std::string_view generation_of(std::string_view target) {
  const auto first = target.find(':');
  return first == std::string_view::npos ? std::string_view() : target.substr(0, target.find(':', first + 1));
}

}  // namespace

ArtifactTarget* find_part(Artifact& artifact, std::string_view target) {
  const auto exact = std::ranges::find(artifact.targets, target, &ArtifactTarget::name);
  if (exact != artifact.targets.end()) return &*exact;
  const std::string_view kind = target.substr(0, target.find(':'));
  if (kind == "xla") return nullptr;  // plugins of different hardware
  ArtifactTarget* as_exported = nullptr;
  for (ArtifactTarget& part : artifact.targets) {
    const std::string_view name = part.name;
    if (part.program.empty() || name.substr(0, name.find(':')) != kind) continue;
    const std::string_view generation = generation_of(name);
    // What was made for the same chip goes before what serves them all, wherever it stands.
    if (kind == "tpu" && !generation.empty() && generation == generation_of(target)) return &part;
    if (as_exported == nullptr && is_as_exported(part)) as_exported = &part;
  }
  return as_exported;
}

Result<OpenedArtifact> open_artifact(const std::filesystem::path& path, std::string_view target) {
  KPT_ASSIGN_OR_RETURN(Artifact artifact, read_artifact(path));
  OpenedArtifact opened;
  for (const ArtifactTarget& each : artifact.targets) opened.targets.push_back(each.name);
  ArtifactTarget* const found = find_part(artifact, target);
  if (found == nullptr) {
    return Status(StatusCode::kModelPreparation,
                  fmt::format("{} holds nothing for {}, only for {}; run `kpt optimize` for that device",
                              path.filename().string(), target, printable(list_words(opened.targets), 500)));
  }
  opened.model.file = path.string();
  opened.model.graph = std::move(found->graph);
  opened.model.weights = std::move(found->weights);
  opened.model.producer = std::move(artifact.producer);
  opened.source = std::move(artifact.source);
  opened.needs = std::move(found->needs);
  opened.report = std::move(found->report);
  if (found->name == target) opened.program = std::move(found->program);
  for (ArtifactSample& sample : artifact.samples) {
    if (sample.target.empty() || sample.target == found->name) opened.samples.push_back(std::move(sample));
  }
  return opened;
}

Status check_needs(const std::filesystem::path& path, const std::vector<std::string>& needs, const Target& target) {
  const Capabilities& capabilities = target.capabilities();
  std::vector<std::string> lacking;
  std::vector<std::string> slow;
  for (const std::string& need : needs) {
    if (need.starts_with(kFastPrefix)) {
      const auto dtype = find_dtype(std::string_view(need).substr(kFastPrefix.size()));
      const bool fast =
          dtype && std::ranges::find(capabilities.matrix_dtypes, *dtype) != capabilities.matrix_dtypes.end();
      if (!fast) slow.push_back(need.substr(kFastPrefix.size()));
    } else if (std::ranges::find(capabilities.features, need) == capabilities.features.end()) {
      lacking.push_back(need);
    }
  }
  std::string kind(target.name().substr(0, target.name().find(':')));  // "cpu" → "CPU"
  std::ranges::transform(kind, kind.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const std::string name = path.filename().string();
  if (!lacking.empty()) {
    return {StatusCode::kUnsupported,
            fmt::format("{} was made for a {} with {}, which this one lacks; run `kpt optimize` here again", name, kind,
                        printable(list_words(lacking), 200))};
  }
  if (!slow.empty()) {
    log::warn(
        fmt::format("{} was made for a {} with fast products in {}, which this one has not: the answers are as "
                    "right and come later; `kpt optimize` here may give a faster one",
                    name, kind, printable(list_words(slow), 200)));
  }
  return {};
}

Status check_samples(const std::filesystem::path& path, const OpenedArtifact& artifact,
                     const std::shared_ptr<const detail::LoadedModel>& loaded) {
  if (artifact.samples.empty()) return {};
  KPT_ASSIGN_OR_RETURN(Session session, detail::start_session(loaded));
  for (std::size_t i = 0; i < artifact.samples.size(); ++i) {
    const Status status = check_sample(artifact.samples[i], loaded->graph(), session);
    if (status.ok()) continue;
    return {StatusCode::kValidation,
            fmt::format("{} does not give its stored answers here (sample {}: {}); run `kpt optimize` here again",
                        path.filename().string(), i, status.message())};
  }
  return {};
}

}  // namespace kpt
