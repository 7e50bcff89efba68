// import_model() from its first open archive on; apart from it so that tests and fuzzers can give bytes.
#pragma once

#include <string_view>

#include "archive/zip.h"
#include "importer/model_file.h"

namespace kpt {

// Weights are views of the archive's file; of an archive made from bytes they are copies.
Result<ImportedModel> import_archive(const ZipArchive& archive, const ImportOptions& options);

class ModelText {
 public:
  // `text` lies in the mapped file, which is kept, or in `storage`, which is taken.
  ModelText(std::shared_ptr<const MappedFile> file, std::string_view text) : file_(std::move(file)), text_(text) {}
  explicit ModelText(std::string storage) : storage_(std::move(storage)), text_(storage_) {}
  ModelText(const ModelText&) = delete;
  ModelText& operator=(const ModelText&) = delete;
  ~ModelText() = default;

  std::string_view text() const { return text_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::string storage_;
  std::string_view text_;
};

// The frame to show of a Python stack trace as the exporter stores it: the last one outside PyTorch itself, or the
// last.
std::string describe_stack_trace(std::string_view trace);

}  // namespace kpt
