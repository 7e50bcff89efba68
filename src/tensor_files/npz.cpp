#include "tensor_files/npz.h"

#include <deque>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "archive/zip.h"
#include "base/text.h"
#include "tensor_files/npy.h"

namespace kpt {
namespace {

constexpr std::string_view kExtension = ".npy";

Result<Tensor> read_entry(const ZipArchive& archive, const ZipEntry& entry, std::size_t& inflatable) {
  const std::string name = fmt::format("{} in {}", printable(entry.name, 200), archive.name());
  if (entry.deflated) {
    KPT_ASSIGN_OR_RETURN(const std::string content, archive.read(entry, inflatable));
    inflatable -= content.size();
    return parse_npy(std::as_bytes(std::span(content)), name);
  }
  KPT_RETURN_IF_ERROR(archive.check(entry));
  KPT_ASSIGN_OR_RETURN(const std::span<const std::byte> content, archive.view(entry));
  return parse_npy(content, name, archive.file());
}

}  // namespace

Result<std::vector<NamedTensor>> read_npz(const std::shared_ptr<const MappedFile>& file,
                                          std::size_t max_inflated_bytes) {
  KPT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::open(file));
  std::vector<NamedTensor> tensors;
  tensors.reserve(archive.entries().size());
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kExtension)) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("{} in {} is not a .npy file", printable(entry.name, 200), archive.name()));
    }
    KPT_ASSIGN_OR_RETURN(Tensor tensor, read_entry(archive, entry, max_inflated_bytes));
    tensors.push_back({entry.name.substr(0, entry.name.size() - kExtension.size()), std::move(tensor)});
  }
  return tensors;
}

Status write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  std::deque<NpyContent> contents;  // the builder refers to them
  ZipBuilder builder;
  for (const NamedTensor& named : tensors) {
    KPT_ASSIGN_OR_RETURN(NpyContent made, make_npy(named.tensor, named.name));
    const NpyContent& content = contents.emplace_back(std::move(made));
    builder.add_pieces(named.name + std::string(kExtension),
                       {std::as_bytes(std::span(content.header)), content.elements()});
  }
  return builder.write_file(path);
}

}  // namespace kpt
