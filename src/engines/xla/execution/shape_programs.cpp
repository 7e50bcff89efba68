#include "engines/xla/execution/shape_programs.h"

#include <chrono>
#include <exception>
#include <new>

namespace kpt {

ShapePrograms::Claim ShapePrograms::claim(const Key& key) {
  Claim claim;
  std::vector<Entry> going;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      found->second.last_used = ++uses_;
      claim.program = found->second.program;
      return claim;
    }
    claim.promise = std::make_shared<std::promise<Result<Program>>>();
    claim.program = claim.promise->get_future().share();
    entries_.emplace(key, Entry{claim.program, ++uses_});
    going = take_oldest(key);
  }
  if (dispose_ && !going.empty()) {
    try {
      dispose_(std::make_shared<std::vector<Entry>>(std::move(going)));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then they go with this call
    }
  }
  return claim;
}

void ShapePrograms::forget(const Key& key) {
  const std::lock_guard lock(mutex_);
  entries_.erase(key);
}

// Whoever waits hears of every failure.
void ShapePrograms::fulfil(const Key& key, const Make& make, std::promise<Result<Program>>& promise) {
  Result<Program> made = Status(StatusCode::kInternal, "no program was made");
  try {
    made = make();
  } catch (const std::bad_alloc&) {
    made = Status(StatusCode::kOutOfMemory, "there is no memory left to compile a program");
  } catch (...) {
    forget(key);
    promise.set_exception(std::current_exception());
    return;
  }
  if (!made.ok()) forget(key);
  promise.set_value(std::move(made));
}

Result<ShapePrograms::Program> ShapePrograms::get(const Key& key, const Make& make) {
  const Claim claimed = claim(key);
  if (claimed.promise != nullptr) fulfil(key, make, *claimed.promise);
  return claimed.program.get();
}

Result<ShapePrograms::Program> ShapePrograms::get_within(const std::shared_ptr<ShapePrograms>& self, const Key& key,
                                                         const Make& make, CallThreads& threads, const CallLimit& limit,
                                                         const std::function<Status(CallEnd end)>& left) {
  const Claim claimed = self->claim(key);
  if (claimed.promise != nullptr) {
    const auto work = [self, key, make, promise = claimed.promise] { self->fulfil(key, make, *promise); };
    CallEnd end = CallEnd::kDone;
    try {
      end = threads.run(work, limit);
    } catch (...) {  // it was not even begun
      self->forget(key);
      claimed.promise->set_exception(std::current_exception());
    }
    return end == CallEnd::kDone ? claimed.program.get() : left(end);
  }
  constexpr std::chrono::seconds kNow{0};
  while (claimed.program.wait_for(kNow) != std::future_status::ready) {
    if (const auto end = limit.find_end()) return left(*end);
    if (const auto next = limit.next_look()) {
      claimed.program.wait_until(*next);
    } else {
      claimed.program.wait();
    }
  }
  return claimed.program.get();
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
