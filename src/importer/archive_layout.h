// What is where in a PT2 archive: its root folder, its generation, its models.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip.h"
#include "kpt/status.h"

namespace kpt::pt2 {

class ArchiveLayout {
 public:
  // Takes the root folder from the entries (the exporter names it after the file as it was called then) and refuses
  // what is not an archive of this generation: kVersionMismatch for pickled weights (PyTorch 2.8 and older),
  // kUnsupported for big-endian data and packages of compiled code (AOTInductor) only, kCorruptData for the rest.
  // Picks the model `name`; when empty, the only one. kNotFound lists those there are.
  static Result<ArchiveLayout> open(const ZipArchive* archive, const std::string& model_name);

  const std::string& model() const { return model_; }
  const ZipArchive& archive() const { return *archive_; }

  // An entry below the root: "models/model.json". Null when it is not there.
  const ZipEntry* find(std::string_view path) const;
  // "model.pt2: models/model.json", for messages.
  std::string place(std::string_view path) const;

  // The content of a text entry: a view of the mapped file, or of `storage` when it had to be inflated. The CRC is
  // checked. kUnsupported when longer than `max_bytes`, kCorruptData when it is not there.
  Result<std::string_view> text(std::string_view path, std::size_t max_bytes, std::string* storage) const;

 private:
  Status find_root();
  Status check_generation() const;
  Status pick_model(const std::string& name);
  Status fail(StatusCode code, const std::string& what) const;

  const ZipArchive* archive_ = nullptr;
  std::string root_;  // with its slash
  std::string model_;
};

}  // namespace kpt::pt2
