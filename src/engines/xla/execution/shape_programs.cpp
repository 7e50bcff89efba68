#include "engines/xla/execution/shape_programs.h"

#include <new>

namespace kpt {

Result<ShapePrograms::Program> ShapePrograms::get(const Key& key, const Make& make) {
  std::promise<Result<Program>> promise;
  std::shared_future<Result<Program>> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      found->second.last_used = ++uses_;
      waiting = found->second.program;
    } else {
      entries_.emplace(key, Entry{promise.get_future().share(), ++uses_});
      drop_oldest(key);
    }
  }
  if (waiting.valid()) return waiting.get();
  Result<Program> made = Status(StatusCode::kInternal, "no program was made");
  try {
    made = make();
  } catch (const std::bad_alloc&) {  // those who wait must hear of it
    made = Status(StatusCode::kOutOfMemory, "there is no memory left to compile a program");
  }
  promise.set_value(made);
  if (!made.ok()) {
    const std::lock_guard lock(mutex_);
    entries_.erase(key);
  }
  return made;
}

void ShapePrograms::drop_oldest(const Key& except) {
  while (entries_.size() > most_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first == except) continue;
      if (oldest == entries_.end() || entry->second.last_used < oldest->second.last_used) oldest = entry;
    }
    if (oldest == entries_.end()) return;
    entries_.erase(oldest);
  }
}

std::size_t ShapePrograms::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace kpt
