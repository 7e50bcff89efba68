// manifest.json of a `.kpt`: what is in the file and where, with the checksum of every other entry.
//
// Names of entries are fixed, so that a manifest cannot point anywhere else: targets/<i>/graph.txt,
// targets/<i>/report.json, targets/<i>/program, blocks/<i>. A block is one piece of memory that tensors view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::artifact {

inline constexpr std::string_view kManifestEntry = "manifest.json";
inline constexpr std::size_t kAlignment = 64;  // of every entry in the file
inline constexpr std::size_t kMaxManifestBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxTargets = 64;
inline constexpr std::size_t kMaxSamples = 4096;

std::string graph_entry(std::size_t target);
std::string report_entry(std::size_t target);
std::string program_entry(std::size_t target);
std::string block_entry(std::size_t block);

// What an entry must be.
struct EntryCheck {
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

// A view of a block.
struct TensorRecord {
  std::optional<std::size_t> block;  // nothing for a tensor without elements
  DType dtype = DType::kFloat32;
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;  // in elements
};

struct NamedRecord {
  std::string name;
  TensorRecord tensor;
};

struct TargetRecord {
  std::string name;
  std::vector<std::string> needs;
  EntryCheck graph;
  EntryCheck report;
  std::optional<EntryCheck> program;  // of a target with a compiled program
  std::map<std::string, TensorRecord> weights;
};

struct SampleRecord {
  std::vector<NamedRecord> inputs;
  std::vector<NamedRecord> outputs;
  std::vector<NamedRecord> reference;
  std::string target = {};
};

struct Manifest {
  std::string producer;
  std::string source;
  std::string source_sha256;
  std::vector<TargetRecord> targets;
  std::vector<SampleRecord> samples;
  std::vector<EntryCheck> blocks;
};

// Fails with kInvalidArgument for names that are not UTF-8.
Result<std::string> print_manifest(const Manifest& manifest);

// `name` is for messages ("model.kpt: manifest.json"). Fails with kVersionMismatch for another format version, before
// anything else of it is believed, and with kCorruptData at the place. Checks the manifest by itself: members, types,
// ranks, numbers of blocks, names that occur twice, targets of samples; not whether tensors fit their blocks.
Result<Manifest> read_manifest(std::string_view text, const std::string& name);

}  // namespace kpt::artifact
