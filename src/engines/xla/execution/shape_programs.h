// One compiled program per set of sizes, made when first needed, a bounded number kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/call_threads.h"
#include "engines/xla/execution/sharding.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/stablehlo/lower.h"
#include "kpt/status.h"

namespace kpt {

struct ShapeProgram {
  xla::LoweredModule module;
  ModuleCuts cuts;
  std::shared_ptr<const pjrt::LoadedExecutable> executable;
};

// Thread safe, and in a shared_ptr. Two threads that need the same sizes at once compile once; other sizes do not wait
// for them.
class ShapePrograms {
 public:
  using Key = std::vector<std::int64_t>;  // values of the graph's symbols, in order
  using Program = std::shared_ptr<const ShapeProgram>;
  using Make = std::function<Result<Program>()>;
  using Dispose = std::function<void(std::shared_ptr<const void> things)>;

  // `dispose` destroys what goes beyond the bound; empty: that is done in place.
  explicit ShapePrograms(std::size_t most, Dispose dispose = {}) : most_(most), dispose_(std::move(dispose)) {}

  // A failure is given to all who wait for it and then forgotten. Beyond the bound the least recently used one goes;
  // who still runs it keeps it until done.
  Result<Program> get(const Key& key, const Make& make);
  // The same for a caller that waits only so long, and is then told what `left` says: `make`, which owns what it uses,
  // runs on one of `threads` and goes on there for whoever asks next.
  static Result<Program> get_within(const std::shared_ptr<ShapePrograms>& self, const Key& key, const Make& make,
                                    CallThreads& threads, const CallLimit& limit,
                                    const std::function<Status(CallEnd end)>& left);
  std::size_t count() const;

 private:
  using Answer = std::shared_future<Result<Program>>;
  struct Entry {
    Answer program;
    std::uint64_t last_used = 0;
  };
  // The program, and the promise to make it for who asks for it first.
  struct Claim {
    Answer program;
    std::shared_ptr<std::promise<Result<Program>>> promise;
  };
  Claim claim(const Key& key);
  void fulfil(const Key& key, const Make& make, std::promise<Result<Program>>& promise);
  void forget(const Key& key);
  std::vector<Entry> take_oldest(const Key& except);

  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::uint64_t uses_ = 0;
  std::size_t most_;
  Dispose dispose_;
};

}  // namespace kpt
