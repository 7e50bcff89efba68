// A lock between processes: a file that exists while somebody holds it or waits for it.
#pragma once

#include <chrono>
#include <filesystem>

#include "kpt/status.h"

namespace kpt::pjrt {

// Held by one compile at a time; a process that dies gives it back. The file is removed when the lock is given back;
// only a process that was killed leaves it behind, for the next one to take over.
class CompileLock {
 public:
  // Waits until the deadline; fails with kCompilationTimeout after it.
  static Result<CompileLock> take(const std::filesystem::path& path, std::chrono::steady_clock::time_point deadline);
  CompileLock(CompileLock&& other) noexcept;
  CompileLock& operator=(CompileLock&&) = delete;
  CompileLock(const CompileLock&) = delete;
  CompileLock& operator=(const CompileLock&) = delete;
  ~CompileLock();

 private:
  CompileLock(std::filesystem::path path, int fd);

  std::filesystem::path path_;
  int fd_;
};

}  // namespace kpt::pjrt
