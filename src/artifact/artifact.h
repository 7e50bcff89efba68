// The `.kpt` file: an optimized model with the proof that it may be used, in one file.
//
// A zip archive of stored entries, mapped and used in place like a `.pt2`: manifest.json (format version, producer,
// targets, checksums), per target its graph in text form and its report, weights once however many targets use them,
// and samples with the outputs they must give. docs/file_formats.md describes every entry. Files are untrusted:
// everything is checked before it is believed, and nothing in them is executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

inline constexpr int kArtifactVersion = 1;

// Before the name of a type in ArtifactTarget::needs: products of matrices in it are to be fast ("fast-int8"). Where
// they are not, the target still runs and gives the same answers.
inline constexpr std::string_view kFastPrefix = "fast-";

struct ArtifactTarget {
  std::string name;                // Target::name(): "cpu"
  std::vector<std::string> needs;  // of Capabilities::features, what it cannot run without; or with kFastPrefix
  ir::Graph graph;
  Weights weights;
  std::string report;  // JSON object: level, passes with what they did, verdict, tolerance, speed
  // What Target::deserialize() takes; empty: compiled from the graph where it is loaded.
  std::string program = {};
};

// Inputs with the outputs that the written model gave for them, and what fp64 gives; of a large output both may be the
// end alone (sample_end.h).
struct ArtifactSample {
  std::vector<NamedTensor> inputs;
  std::vector<NamedTensor> outputs;
  std::vector<NamedTensor> reference;
  std::string target = {};  // whose part gave the outputs; empty: every part
};

struct Artifact {
  std::string producer;       // "kpt 0.5.0"
  std::string source;         // name of the model file it was made from, without folders
  std::string source_sha256;  // of that file's graph and weights
  std::vector<ArtifactTarget> targets;
  std::vector<ArtifactSample> samples;
};

// Atomic: the file is whole or not there. Entries of weights that share memory are written once.
Status write_artifact(const std::filesystem::path& path, const Artifact& artifact);

// Maps the file; weights stay in it. Checks every checksum, those of the weights too (`check_weights` false leaves them
// unread). Fails with kNotFound, kPermissionDenied, kIo, kCorruptData (naming the entry), kVersionMismatch.
struct ReadArtifactOptions {
  bool check_weights = true;
};
Result<Artifact> read_artifact(const std::filesystem::path& path, const ReadArtifactOptions& options = {});

// Whether a file is a `.kpt`, by its content. False for anything that cannot be read.
bool is_artifact(const std::filesystem::path& path);

}  // namespace kpt
