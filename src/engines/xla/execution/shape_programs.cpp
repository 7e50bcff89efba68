#include "engines/xla/execution/shape_programs.h"

#include <exception>
#include <new>

namespace kpt {

Result<ShapePrograms::Program> ShapePrograms::get(const Key& key, const Make& make) {
  std::promise<Result<Program>> promise;
  std::shared_future<Result<Program>> waiting;
  std::vector<Entry> going;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      found->second.last_used = ++uses_;
      waiting = found->second.program;
    } else {
      entries_.emplace(key, Entry{promise.get_future().share(), ++uses_});
      going = take_oldest(key);
    }
  }
  if (dispose_ && !going.empty()) {
    try {
      dispose_(std::make_shared<std::vector<Entry>>(std::move(going)));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then they go with this call
    }
  }
  if (waiting.valid()) return waiting.get();
  Result<Program> made = Status(StatusCode::kInternal, "no program was made");
  try {
    made = make();
  } catch (const std::bad_alloc&) {  // those who wait must hear of it
    made = Status(StatusCode::kOutOfMemory, "there is no memory left to compile a program");
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    entries_.erase(key);
    throw;
  }
  promise.set_value(made);
  if (!made.ok()) {
    const std::lock_guard lock(mutex_);
    entries_.erase(key);
  }
  return made;
}

std::vector<ShapePrograms::Entry> ShapePrograms::take_oldest(const Key& except) {
  std::vector<Entry> taken;
  while (entries_.size() > most_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first == except) continue;
      if (oldest == entries_.end() || entry->second.last_used < oldest->second.last_used) oldest = entry;
    }
    if (oldest == entries_.end()) break;
    taken.push_back(std::move(oldest->second));
    entries_.erase(oldest);
  }
  return taken;
}

std::size_t ShapePrograms::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace kpt
