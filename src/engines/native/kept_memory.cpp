#include "engines/native/kept_memory.h"

#include <mutex>
#include <utility>

#include "base/log.h"

namespace kpt::native {

void keep_forever(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* const kKept = new std::vector<std::shared_ptr<void>>;  // never destroyed
  const std::lock_guard lock(mutex);
  kKept->push_back(std::move(memory));
}

Status finish(std::unique_ptr<Stream> stream, std::chrono::milliseconds limit,
              std::vector<std::shared_ptr<void>> used) {
  Status status = stream->synchronize(limit);
  if (status.ok()) return status;
  log::warn("memory of copies that did not end is kept until the process ends", {{"reason", status.message()}});
  keep_forever(std::move(stream));
  for (std::shared_ptr<void>& memory : used) keep_forever(std::move(memory));
  return status;
}

}  // namespace kpt::native
