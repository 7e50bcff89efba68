// A `.kpt` file as something that a device can load.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "device/execution.h"
#include "importer/model_file.h"
#include "kpt/model.h"
#include "kpt/status.h"
#include "runtime/loaded_model.h"

namespace kpt {

// The part of an artifact for a target: its own, or else one that was compiled ahead of time for another target of the
// same kind ("amd:gfx942" for "amd:gfx90a"; PJRT plugins are no kind), whose graph is the model's own, or for another
// slice of the same TPU generation; its program is of no use then. Null when there is none.
ArtifactTarget* find_part(Artifact& artifact, std::string_view target);

// The part of an artifact that was made for a target, and its samples.
struct OpenedArtifact {
  ImportedModel model;  // graph and weights; `producer` is the artifact's
  std::string source;   // name of the model file it was made from
  std::vector<std::string> targets;
  std::vector<std::string> needs;
  std::string report;   // JSON
  std::string program;  // compiled ahead of time for just this target; empty: compiled where it is loaded
  std::vector<ArtifactSample> samples;
};

// Fails as read_artifact() does, and with kModelPreparation when find_part() has nothing for `target`, naming what
// there is.
Result<OpenedArtifact> open_artifact(const std::filesystem::path& path, std::string_view target);

// Whether the device has what the artifact needs; kUnsupported in one sentence when it cannot run without. What it is
// only slower without (kFastPrefix) is a warning in the log.
Status check_needs(const std::filesystem::path& path, const std::vector<std::string>& needs, const Target& target);

// Runs every sample from a fresh state and compares with its stored outputs by the accuracy rule. kValidation names the
// sample, the output and the errors.
Status check_samples(const std::filesystem::path& path, const OpenedArtifact& artifact,
                     const std::shared_ptr<const detail::LoadedModel>& loaded);

}  // namespace kpt
