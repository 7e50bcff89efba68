// A private folder for what this process and a compiling child hand each other, removed with the object.
#pragma once

#include <filesystem>
#include <utility>

#include "base/scratch_folder.h"
#include "kpt/status.h"

namespace kpt::pjrt {

class ExchangeFolder {
 public:
  // Fails as ScratchFolder::make() does.
  static Result<ExchangeFolder> make() {
    KPT_ASSIGN_OR_RETURN(ScratchFolder folder, ScratchFolder::make("kpt-pjrt-"));
    return ExchangeFolder(std::move(folder));
  }
  std::filesystem::path request() const { return folder_.path() / "request"; }
  std::filesystem::path result() const { return folder_.path() / "executable"; }

 private:
  explicit ExchangeFolder(ScratchFolder folder) : folder_(std::move(folder)) {}
  ScratchFolder folder_;
};

}  // namespace kpt::pjrt
