// Results of expensive work, kept between processes: content-addressed entries in a folder with a byte budget.
//
// Many processes may use one folder at once. An entry is written whole or not at all; one that does not fit its
// checksum is dropped and counts as a miss. The least recently used entries go first; use is the file's time of
// modification, which get() sets. Files that are not the cache's are never touched. What the system refuses in the
// folder is kCache, with its kind as `cause` (permission_denied, io, …). Thread safe.
//
//   <folder>/<64 digits>.entry   an entry (entry_format.h)
//   <folder>/lock                held shared while an entry is written, alone while some are removed
//   <folder>/statistics          the counts
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kpt/status.h"

namespace kpt {

// Builds a key from everything a result depends on. Each part is added with its name and length, so that no two
// different sets of parts give the same key.
class CacheKey {
 public:
  // "optimize", "tuning": also names the entry in `kpt cache ls`. Small letters, digits, '_', '-' and '.', at most 64.
  explicit CacheKey(std::string_view kind);
  CacheKey& add(std::string_view name, std::string_view value);
  CacheKey& add(std::string_view name, std::uint64_t value);
  std::string_view kind() const { return kind_; }
  std::string digest() const;  // 64 hexadecimal digits

 private:
  std::string kind_;
  std::string parts_;
};

struct CacheEntry {
  std::string digest;
  std::string kind;
  std::uint64_t bytes = 0;
  std::int64_t last_used = 0;  // seconds since 1970
  bool sound = true;           // of verify(): fits its checksum
};

// Over all processes since the folder was made or cleared.
struct CacheStatistics {
  std::uint64_t hits = 0, misses = 0, writes = 0, evictions = 0, corrupt = 0;
  std::uint64_t entries = 0, bytes = 0, budget_bytes = 0;
};

class CompileCache {
 public:
  // Makes the folder when it is missing; fails with kCache. A folder that cannot be written is fine for reading; put()
  // then fails with kCache and the caller goes on without.
  static Result<CompileCache> open(const std::filesystem::path& folder, std::uint64_t budget_bytes);

  // Nothing when it is not there or not sound (then it is removed, with a warning in the log). Fails with kCache and
  // kOutOfMemory.
  Result<std::optional<std::string>> get(const CacheKey& key);
  // Fails with kCache (also for a full disk), kInvalidArgument (a kind that is no word); never leaves half an entry.
  // Evicts what exceeds the budget; an entry larger than the whole budget is not kept.
  Status put(const CacheKey& key, std::string_view bytes);

  Result<std::vector<CacheEntry>> list() const;
  Result<CacheStatistics> statistics() const;
  Result<std::vector<CacheEntry>> verify();                   // reads every entry; unsound ones are dropped
  Result<std::uint64_t> collect(std::uint64_t budget_bytes);  // bytes freed; also leftovers of killed processes
  Status clear();

  const std::filesystem::path& folder() const { return folder_; }

 private:
  CompileCache(std::filesystem::path folder, std::uint64_t budget_bytes)
      : folder_(std::move(folder)), budget_bytes_(budget_bytes) {}
  std::filesystem::path entry_path(std::string_view digest) const;
  Status drop(const std::string& digest, const Status& reason);

  std::filesystem::path folder_;
  std::uint64_t budget_bytes_;
};

}  // namespace kpt
