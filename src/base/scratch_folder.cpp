#include "base/scratch_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/files.h"
#include "base/temporary_names.h"

namespace kpt {

Result<ScratchFolder> ScratchFolder::make(std::string_view prefix) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string pattern = (error ? std::filesystem::path("/tmp") : parent) / (std::string(prefix) + "XXXXXX");
  if (::mkdtemp(pattern.data()) == nullptr) return file_failure("make the folder", pattern, errno);
  return ScratchFolder(std::move(pattern), -1);
}

Result<ScratchFolder> ScratchFolder::make_beside(const std::filesystem::path& path) {
  constexpr int kMaxTries = 1000;
  std::error_code error;
  std::filesystem::create_directories(folder_of(path), error);
  if (error) return file_failure("create folder", folder_of(path), error.value());
  remove_stale(folder_of(path));
  std::filesystem::path folder;
  for (int i = 0; i < kMaxTries; ++i) {
    folder = draw_temporary_name(path);
    if (::mkdir(folder.c_str(), 0700) != 0) {
      if (errno == EEXIST) continue;
      return file_failure("make the folder", folder, errno);
    }
    const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock >= 0 && lock_temporary(lock)) return ScratchFolder(std::move(folder), lock);
    if (lock >= 0) ::close(lock);  // another writer swept it before it was locked
  }
  return file_failure("make the folder", folder, EEXIST);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace kpt
