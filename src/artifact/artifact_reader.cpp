#include <algorithm>
#include <future>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "archive/mapped_file.h"
#include "archive/zip.h"
#include "archive/zip_format.h"
#include "artifact/artifact.h"
#include "artifact/manifest.h"
#include "artifact/target_check.h"
#include "base/crc32c.h"
#include "base/environment.h"
#include "base/files.h"
#include "base/little_endian.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "ir/text.h"

namespace kpt {
namespace {

using artifact::EntryCheck;
using artifact::Manifest;
using artifact::NamedRecord;
using artifact::TensorRecord;
using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class ArtifactReader {
 public:
  explicit ArtifactReader(ZipArchive archive) : archive_(std::move(archive)) {}

  Result<Artifact> read(const ReadArtifactOptions& options) {
    KPT_RETURN_IF_ERROR(read_manifest());
    KPT_RETURN_IF_ERROR(check_entries());
    KPT_RETURN_IF_ERROR(open_blocks());
    if (options.check_weights) KPT_RETURN_IF_ERROR(check_blocks());
    Artifact result{manifest_.producer, manifest_.source, manifest_.source_sha256, {}, {}};
    for (std::size_t i = 0; i < manifest_.targets.size(); ++i) {
      KPT_ASSIGN_OR_RETURN(ArtifactTarget target, read_target(i));
      result.targets.push_back(std::move(target));
    }
    for (std::size_t i = 0; i < manifest_.samples.size(); ++i) {
      KPT_ASSIGN_OR_RETURN(ArtifactSample sample, read_sample(i));
      result.samples.push_back(std::move(sample));
    }
    const auto unused = std::ranges::find(used_, false);
    if (unused != used_.end()) {
      return corrupt(artifact::block_entry(static_cast<std::size_t>(unused - used_.begin())), "belongs to no tensor");
    }
    return result;
  }

 private:
  Status corrupt(std::string_view where, std::string_view what) const {
    return {StatusCode::kCorruptData, fmt::format("{}: {} {}", archive_.name(), where, what)};
  }
  // A failure of a part, with the file and the place before its message.
  Status at(std::string_view where, const Status& status) const {
    return {status.code(), fmt::format("{}: {}: {}", archive_.name(), where, status.message())};
  }

  Status read_manifest() {
    const ZipEntry* entry = archive_.find(artifact::kManifestEntry);
    if (entry == nullptr) return corrupt(artifact::kManifestEntry, "is missing");
    // The zip's own checksum guards this entry; it guards all others.
    KPT_ASSIGN_OR_RETURN(const std::string text, archive_.read(*entry, artifact::kMaxManifestBytes));
    KPT_ASSIGN_OR_RETURN(
        manifest_, artifact::read_manifest(text, fmt::format("{}: {}", archive_.name(), artifact::kManifestEntry)));
    return {};
  }

  // Exactly the entries that the manifest speaks of.
  Status check_entries() const {
    std::size_t expected = 1 + 2 * manifest_.targets.size() + manifest_.blocks.size();
    for (const artifact::TargetRecord& target : manifest_.targets) expected += target.program ? 1U : 0U;
    if (archive_.entries().size() == expected) return {};  // that each is there shows when it is opened
    return {StatusCode::kCorruptData, fmt::format("{}: it has {} entries where its manifest has {}", archive_.name(),
                                                  archive_.entries().size(), expected)};
  }

  // The bytes of an entry of the right size. Whether their checksum fits is the caller's to see.
  Result<Bytes> open_entry(const std::string& name, const EntryCheck& check) const {
    const ZipEntry* entry = archive_.find(name);
    if (entry == nullptr) return corrupt(name, "is missing");
    if (entry->deflated) return corrupt(name, "is compressed, which no entry may be");
    if (entry->size != check.bytes) {
      return corrupt(name, fmt::format("has {} bytes where the manifest has {}", entry->size, check.bytes));
    }
    return archive_.view(*entry);
  }

  Result<std::string_view> read_text(const std::string& name, const EntryCheck& check) const {
    KPT_ASSIGN_OR_RETURN(const Bytes bytes, open_entry(name, check));
    if (crc32c(bytes) != check.crc32c) return corrupt(name, "does not fit its checksum: the file is damaged");
    return text_of(bytes);
  }

  Status open_blocks() {
    const std::byte* begin = archive_.file()->bytes().data();
    for (std::size_t i = 0; i < manifest_.blocks.size(); ++i) {
      const std::string name = artifact::block_entry(i);
      KPT_ASSIGN_OR_RETURN(const Bytes bytes, open_entry(name, manifest_.blocks[i]));
      if ((bytes.data() - begin) % static_cast<std::ptrdiff_t>(artifact::kAlignment) != 0) {
        return corrupt(name, fmt::format("does not start at a multiple of {} bytes", artifact::kAlignment));
      }
      contents_.push_back(bytes);
      buffers_.push_back(make_buffer(archive_.file(), bytes));
    }
    used_.resize(buffers_.size());
    return {};
  }

  Status check_block(std::size_t block) const {
    if (crc32c(contents_[block]) == manifest_.blocks[block].crc32c) return {};
    return corrupt(artifact::block_entry(block), "does not fit its checksum: the file is damaged");
  }

  // Most of the time goes into fetching pages, so several threads help even where one would be fast enough.
  Status check_blocks() const {
    constexpr std::uint64_t kWorthThreads = std::uint64_t{32} << 20;
    constexpr int kMaxThreads = 8;
    std::uint64_t total = 0;
    for (const Bytes content : contents_) total += content.size();
    std::vector<std::future<Status>> results;
    if (total >= kWorthThreads && contents_.size() > 1) {
      try {
        const int allowed = default_thread_count(SystemFiles(), Environment::from_process());
        ThreadPool pool(std::min(allowed, kMaxThreads));
        for (std::size_t i = 0; i < contents_.size(); ++i) {
          results.push_back(pool.submit([this, i] { return check_block(i); }));
        }
      } catch (const std::system_error&) {
        results.clear();  // no thread to be had: one after another
      }
    }
    if (!results.empty()) {
      for (std::future<Status>& result : results) KPT_RETURN_IF_ERROR(result.get());
      return {};
    }
    for (std::size_t i = 0; i < contents_.size(); ++i) KPT_RETURN_IF_ERROR(check_block(i));
    return {};
  }

  Result<Tensor> make_tensor(const TensorRecord& record) {
    std::shared_ptr<Buffer> buffer;
    if (record.block) {
      buffer = buffers_[*record.block];
      used_[*record.block] = true;
    } else {
      if (count_elements(record.dims) != 0) return Status(StatusCode::kCorruptData, "it has elements but no block");
      KPT_ASSIGN_OR_RETURN(const Tensor nothing, Tensor::empty(DType::kUInt8, {{0}}));
      buffer = nothing.buffer();
    }
    Result<Tensor> tensor =
        Tensor::from_buffer(std::move(buffer), record.dtype, record.dims, record.strides, record.offset);
    if (!tensor.ok()) return Status(StatusCode::kCorruptData, tensor.status().message());
    return tensor;
  }

  Result<ArtifactTarget> read_target(std::size_t index) {
    artifact::TargetRecord& record = manifest_.targets[index];
    ArtifactTarget target;
    target.name = record.name;
    target.needs = std::move(record.needs);
    const std::string graph = artifact::graph_entry(index);
    const std::string report = artifact::report_entry(index);
    KPT_ASSIGN_OR_RETURN(const std::string_view graph_text, read_text(graph, record.graph));
    KPT_ASSIGN_OR_RETURN(const std::string_view report_text, read_text(report, record.report));
    target.report = std::string(report_text);
    if (record.program) {
      KPT_ASSIGN_OR_RETURN(const std::string_view program, read_text(artifact::program_entry(index), *record.program));
      if (program.empty()) return corrupt(artifact::program_entry(index), "is empty");
      target.program = std::string(program);
    }
    Result<ir::Graph> read = ir::read_graph(graph_text);
    if (!read.ok()) return at(graph, read.status());
    target.graph = std::move(read).value();
    for (const auto& [name, tensor_record] : record.weights) {
      Result<Tensor> tensor = make_tensor(tensor_record);
      if (!tensor.ok()) return at(fmt::format("weight '{}'", printable(name, 200)), tensor.status());
      target.weights.emplace(name, std::move(tensor).value());
    }
    const Status status = artifact::check_target(target, StatusCode::kCorruptData);
    if (!status.ok()) return at(fmt::format("target '{}'", printable(target.name, 64)), status);
    return target;
  }

  Result<std::vector<NamedTensor>> make_tensors(const std::vector<NamedRecord>& records) {
    std::vector<NamedTensor> tensors;
    tensors.reserve(records.size());
    for (const NamedRecord& record : records) {
      KPT_ASSIGN_OR_RETURN(Tensor tensor, make_tensor(record.tensor));
      tensors.push_back({record.name, std::move(tensor)});
    }
    return tensors;
  }

  Result<ArtifactSample> read_sample(std::size_t index) {
    const artifact::SampleRecord& record = manifest_.samples[index];
    const std::string where = fmt::format("sample {}", index);
    ArtifactSample sample;
    sample.target = record.target;
    for (const auto& [records, tensors] :
         {std::pair(&record.inputs, &sample.inputs), std::pair(&record.outputs, &sample.outputs),
          std::pair(&record.reference, &sample.reference)}) {
      Result<std::vector<NamedTensor>> made = make_tensors(*records);
      if (!made.ok()) return at(where, made.status());
      *tensors = std::move(made).value();
    }
    const Status status = artifact::check_sample(sample, StatusCode::kCorruptData);
    if (!status.ok()) return at(where, status);
    return sample;
  }

  ZipArchive archive_;
  Manifest manifest_;
  std::vector<Bytes> contents_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<bool> used_;
};

}  // namespace

Result<Artifact> read_artifact(const std::filesystem::path& path, const ReadArtifactOptions& options) {
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  KPT_ASSIGN_OR_RETURN(ZipArchive archive, ZipArchive::open(std::move(file)));
  return ArtifactReader(std::move(archive)).read(options);
}

bool is_artifact(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) return false;
  const Bytes bytes = (*file)->bytes();
  constexpr std::size_t kNameAt = zip_format::kLocalHeaderBytes;
  if (bytes.size() < kNameAt + artifact::kManifestEntry.size()) return false;
  return load_little_endian<std::uint32_t>(bytes.data()) == zip_format::kLocalHeader &&
         load_little_endian<std::uint16_t>(bytes.data() + 26) == artifact::kManifestEntry.size() &&
         text_of(bytes.subspan(kNameAt, artifact::kManifestEntry.size())) == artifact::kManifestEntry;
}

}  // namespace kpt
