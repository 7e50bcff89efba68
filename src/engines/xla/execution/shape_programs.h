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

// Thread safe. Two threads that need the same sizes at once compile once; other sizes do not wait for them.
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
  std::size_t count() const;

 private:
  struct Entry {
    std::shared_future<Result<Program>> program;
    std::uint64_t last_used = 0;
  };
  std::vector<Entry> take_oldest(const Key& except);

  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::uint64_t uses_ = 0;
  std::size_t most_;
  Dispose dispose_;
};

}  // namespace kpt
