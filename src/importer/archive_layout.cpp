#include "importer/archive_layout.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kpt::pt2 {
namespace {

constexpr std::size_t kMarkBytes = 64;  // of archive_format and byteorder
constexpr const char* kReexport = "re-export with PyTorch 2.9 or newer";

}  // namespace

Result<ArchiveLayout> ArchiveLayout::open(const ZipArchive* archive, const std::string& model_name) {
  ArchiveLayout layout;
  layout.archive_ = archive;
  KPT_RETURN_IF_ERROR(layout.find_root());
  KPT_RETURN_IF_ERROR(layout.check_generation());
  KPT_RETURN_IF_ERROR(layout.pick_model(model_name));
  return layout;
}

Status ArchiveLayout::find_root() {
  // Files of PyTorch 2.1 to 2.7 have no folder.
  for (const char* name :
       {"serialized_exported_program.json", "serialized_state_dict.json", "serialized_state_dict.pt"}) {
    if (archive_->find(name) != nullptr) {
      return fail(StatusCode::kVersionMismatch, std::string("an archive of PyTorch 2.7 or older; ") + kReexport);
    }
  }
  constexpr std::string_view kMark = "/archive_format";
  for (const ZipEntry& entry : archive_->entries()) {
    const std::string_view name = entry.name;
    if (!name.ends_with(kMark) || name.find('/') != name.size() - kMark.size()) continue;
    if (!root_.empty()) return fail(StatusCode::kCorruptData, "two folders with an 'archive_format'");
    root_ = std::string(name.substr(0, name.size() - kMark.size() + 1));
  }
  if (root_.size() < 2) return fail(StatusCode::kCorruptData, "not a PT2 archive: it has no '<folder>/archive_format'");
  return {};
}

Status ArchiveLayout::check_generation() const {
  std::string storage;
  KPT_ASSIGN_OR_RETURN(const std::string_view format, text("archive_format", kMarkBytes, &storage));
  if (trim(format) != "pt2") {
    return fail(StatusCode::kCorruptData, "the archive format '" + printable(trim(format)) + "' is not 'pt2'");
  }
  if (find("byteorder") != nullptr) {
    KPT_ASSIGN_OR_RETURN(const std::string_view order, text("byteorder", kMarkBytes, &storage));
    if (trim(order) != "little") {
      return fail(StatusCode::kUnsupported, "the byte order '" + printable(trim(order)) + "' is not 'little'");
    }
  }
  return {};
}

Status ArchiveLayout::pick_model(const std::string& name) {
  const std::string folder = root_ + "models/";
  constexpr std::string_view kSuffix = ".json";
  std::vector<std::string> models;
  bool compiled = false;
  for (const ZipEntry& entry : archive_->entries()) {
    const std::string_view path = entry.name;
    compiled = compiled || path.starts_with(root_ + "data/aotinductor/");
    if (!path.starts_with(folder) || !path.ends_with(kSuffix) || path.size() <= folder.size() + kSuffix.size())
      continue;
    models.emplace_back(path.substr(folder.size(), path.size() - folder.size() - kSuffix.size()));
  }
  if (models.empty() && compiled) {
    return fail(StatusCode::kUnsupported, "a package of compiled code (AOTInductor) without the exported program");
  }
  if (models.empty()) return fail(StatusCode::kCorruptData, "no model below 'models/'");
  if (name.empty() && models.size() > 1) {
    return fail(StatusCode::kInvalidArgument, "it holds several models (" + join(models, ", ") + "); name one");
  }
  model_ = name.empty() ? models[0] : name;
  if (std::find(models.begin(), models.end(), model_) == models.end()) {
    return fail(StatusCode::kNotFound, "no model '" + model_ + "' in it, only " + join(models, ", "));
  }
  if (find("data/weights/" + model_ + ".pt") != nullptr || find("data/constants/" + model_ + ".pt") != nullptr) {
    return fail(StatusCode::kVersionMismatch, std::string("its weights are pickled, as PyTorch 2.8 did; ") + kReexport);
  }
  return {};
}

const ZipEntry* ArchiveLayout::find(std::string_view path) const { return archive_->find(root_ + std::string(path)); }

std::string ArchiveLayout::place(std::string_view path) const { return archive_->name() + ": " + std::string(path); }

Result<std::string_view> ArchiveLayout::text(std::string_view path, std::size_t max_bytes, std::string* storage) const {
  const ZipEntry* entry = find(path);
  if (entry == nullptr) return Status(StatusCode::kCorruptData, place(path) + ": this entry is missing");
  if (entry->deflated) {
    KPT_ASSIGN_OR_RETURN(*storage, archive_->read(*entry, max_bytes));
    return std::string_view(*storage);
  }
  KPT_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, archive_->view(*entry));
  if (bytes.size() > max_bytes) {
    return Status(StatusCode::kUnsupported, place(path) + ": longer than " + format_bytes(max_bytes));
  }
  KPT_RETURN_IF_ERROR(archive_->check(*entry));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status ArchiveLayout::fail(StatusCode code, const std::string& what) const {
  return {code, archive_->name() + ": " + what};
}

}  // namespace kpt::pt2
