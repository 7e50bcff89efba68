#include <set>

#include <fmt/format.h>

#include "archive/zip.h"
#include "artifact/artifact.h"
#include "artifact/block_table.h"
#include "artifact/manifest.h"
#include "artifact/target_check.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "ir/text.h"

namespace kpt {
namespace {

using artifact::BlockTable;
using artifact::EntryCheck;
using artifact::Manifest;
using artifact::NamedRecord;

std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

EntryCheck check_of(const std::string& text) { return {text.size(), crc32c(text)}; }

Status check_artifact(const Artifact& content) {
  constexpr StatusCode kCode = StatusCode::kInvalidArgument;
  if (content.targets.empty() || content.targets.size() > artifact::kMaxTargets) {
    return {kCode,
            fmt::format("an artifact has 1 to {} targets, not {}", artifact::kMaxTargets, content.targets.size())};
  }
  if (content.samples.size() > artifact::kMaxSamples) {
    return {kCode, fmt::format("an artifact has at most {} samples", artifact::kMaxSamples)};
  }
  std::set<std::string_view> names;
  for (const ArtifactTarget& target : content.targets) {
    if (target.name.empty() || !names.insert(target.name).second) {
      return {kCode, fmt::format("a target's name, '{}', is empty or there twice", printable(target.name, 64))};
    }
    for (const std::string& word : target.needs) {
      if (word.empty()) return {kCode, fmt::format("the target '{}' needs something without a name", target.name)};
    }
    KPT_RETURN_IF_ERROR(artifact::check_target(target, kCode));
  }
  for (const ArtifactSample& sample : content.samples) {
    KPT_RETURN_IF_ERROR(artifact::check_sample(sample, kCode));
    if (sample.target.empty() || names.contains(sample.target)) continue;
    return {kCode, fmt::format("a sample is of the target '{}', which is not there", printable(sample.target, 64))};
  }
  return {};
}

// Adds all tensors to the table, then fills in the records in the same order.
class Layout {
 public:
  explicit Layout(const Artifact& content) : content_(content) {}

  Status gather() {
    for (const ArtifactTarget& target : content_.targets) {
      for (const auto& [name, tensor] : target.weights) KPT_RETURN_IF_ERROR(table_.add(tensor, name).status());
    }
    for (const ArtifactSample& sample : content_.samples) {
      for (const auto* list : {&sample.inputs, &sample.outputs, &sample.reference}) {
        for (const NamedTensor& named : *list) KPT_RETURN_IF_ERROR(table_.add(named.tensor, named.name).status());
      }
    }
    table_.lay_out();
    return {};
  }

  void describe(Manifest& manifest) {
    for (std::size_t i = 0; i < content_.targets.size(); ++i) {
      for (const auto& [name, tensor] : content_.targets[i].weights) {
        manifest.targets[i].weights.emplace(name, table_.record(next_++));
      }
    }
    for (const ArtifactSample& sample : content_.samples) {
      manifest.samples.push_back(
          {records(sample.inputs), records(sample.outputs), records(sample.reference), sample.target});
    }
    for (std::size_t i = 0; i < table_.block_count(); ++i) manifest.blocks.push_back(table_.check(i));
  }

  const BlockTable& table() const { return table_; }

 private:
  std::vector<NamedRecord> records(const std::vector<NamedTensor>& tensors) {
    std::vector<NamedRecord> list;
    list.reserve(tensors.size());
    for (const NamedTensor& named : tensors) list.push_back({named.name, table_.record(next_++)});
    return list;
  }

  const Artifact& content_;
  BlockTable table_;
  std::size_t next_ = 0;
};

}  // namespace

Status write_artifact(const std::filesystem::path& path, const Artifact& artifact) {
  KPT_RETURN_IF_ERROR(check_artifact(artifact));
  Layout layout(artifact);
  KPT_RETURN_IF_ERROR(layout.gather());

  Manifest manifest{artifact.producer, artifact.source, artifact.source_sha256, {}, {}, {}};
  std::vector<std::string> graphs;
  graphs.reserve(artifact.targets.size());
  for (const ArtifactTarget& target : artifact.targets) {
    graphs.push_back(ir::print_graph(target.graph));
    std::optional<EntryCheck> program;
    if (!target.program.empty()) program = check_of(target.program);
    manifest.targets.push_back(
        {target.name, target.needs, check_of(graphs.back()), check_of(target.report), program, {}});
  }
  layout.describe(manifest);
  KPT_ASSIGN_OR_RETURN(const std::string text, artifact::print_manifest(manifest));
  if (text.size() > artifact::kMaxManifestBytes) {
    return {StatusCode::kUnsupported,
            fmt::format("a manifest of {} is above the limit of {}", format_bytes(text.size()),
                        format_bytes(artifact::kMaxManifestBytes))};
  }
  ZipBuilder zip(artifact::kAlignment);
  zip.add(std::string(artifact::kManifestEntry), as_bytes(text));  // first: is_artifact() looks there
  for (std::size_t i = 0; i < artifact.targets.size(); ++i) {
    zip.add(artifact::graph_entry(i), as_bytes(graphs[i]));
    zip.add(artifact::report_entry(i), as_bytes(artifact.targets[i].report));
    if (manifest.targets[i].program) zip.add(artifact::program_entry(i), as_bytes(artifact.targets[i].program));
  }
  for (std::size_t i = 0; i < manifest.blocks.size(); ++i) {
    zip.add_pieces(artifact::block_entry(i), layout.table().pieces(i));
  }
  return zip.write_file(path);
}

}  // namespace kpt
