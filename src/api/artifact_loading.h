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

// The part of an artifact that was made for a target, and the samples.
struct OpenedArtifact {
  ImportedModel model;  // graph and weights; `producer` is the artifact's
  std::string source;   // name of the model file it was made from
  std::vector<std::string> targets;
  std::vector<std::string> needs;
  std::string report;  // JSON
  std::vector<ArtifactSample> samples;
};

// Fails as read_artifact() does, and with kUnsupported when nothing in the file is for `target`, naming what is.
Result<OpenedArtifact> open_artifact(const std::filesystem::path& path, std::string_view target);

// Whether the device has what the artifact needs; kUnsupported in one sentence when not.
Status check_needs(const std::filesystem::path& path, const OpenedArtifact& artifact, const Target& target);

// Runs every sample from a fresh state and compares with its stored outputs by the accuracy rule. kValidation names the
// sample, the output and the errors.
Status check_samples(const std::filesystem::path& path, const OpenedArtifact& artifact,
                     const std::shared_ptr<const detail::LoadedModel>& loaded);

}  // namespace kpt
