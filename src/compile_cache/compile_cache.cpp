#include "compile_cache/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/little_endian.h"
#include "base/log.h"
#include "base/reword.h"
#include "base/sha256.h"
#include "compile_cache/counters.h"
#include "compile_cache/entry_format.h"
#include "compile_cache/file_lock.h"

namespace kpt {
namespace {

using compile_cache::add_counts;
using compile_cache::EntryHeader;
using compile_cache::FileLock;

constexpr std::string_view kSuffix = ".entry";
constexpr std::string_view kLockFile = "lock";
constexpr std::string_view kStatisticsFile = "statistics";

// The cache's own files fail as kCache, with the system's reason as cause; other failures stay as they are.
Status cache_failure(const Status& status) {
  const StatusCode code = status.code();
  const bool of_files = code == StatusCode::kNotFound || code == StatusCode::kPermissionDenied ||
                        code == StatusCode::kAlreadyExists || code == StatusCode::kIo;
  if (!of_files) return status;
  return reword(status, StatusCode::kCache, status.message()).with("cause", std::string(to_string(code)));
}

Result<FileLock> lock_folder(const std::filesystem::path& folder, FileLock::Kind kind) {
  auto lock = FileLock::acquire(folder / kLockFile, kind);
  if (!lock.ok()) return cache_failure(lock.status());
  return lock;
}

// The digest of an entry's file name; empty for other files.
std::string_view digest_of(std::string_view name) {
  if (!name.ends_with(kSuffix)) return {};
  name.remove_suffix(kSuffix.size());
  return compile_cache::is_digest(name) ? name : std::string_view();
}

// What AtomicFile leaves of an entry when its process is killed: ".<digest>.entry.<process>.<random>.kpt.tmp".
bool is_leftover(std::string_view name) {
  constexpr std::size_t kEntryBytes = compile_cache::kDigestDigits + kSuffix.size();
  return name.size() > 1 + kEntryBytes && name.front() == '.' && name.ends_with(".tmp") &&
         !digest_of(name.substr(1, kEntryBytes)).empty() && name[1 + kEntryBytes] == '.';
}

struct FoundFile {
  std::string name;
  std::uint64_t bytes = 0;
  timespec used{};
};

struct Folder {
  std::vector<FoundFile> entries;
  std::vector<FoundFile> leftovers;
};

// Files may vanish while they are listed: another process evicts.
Result<Folder> scan(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error) return cache_failure(file_failure("list", folder, error.value()));
  Folder found;
  while (files != std::filesystem::directory_iterator()) {
    FoundFile file{files->path().filename().string(), 0, {}};
    const bool entry = !digest_of(file.name).empty();
    struct stat info{};
    if ((entry || is_leftover(file.name)) && ::lstat(files->path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      file.bytes = static_cast<std::uint64_t>(info.st_size);
      file.used = info.st_mtim;
      (entry ? found.entries : found.leftovers).push_back(std::move(file));
    }
    files.increment(error);
    if (error) return file_failure("list", folder, error.value());
  }
  // Oldest use first.
  std::ranges::sort(found.entries, [](const FoundFile& a, const FoundFile& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  return found;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The time of use. Not UTIME_NOW, which moves in steps of milliseconds. Where it cannot be set, the order of eviction
// is that of writing.
void mark_used(int fd) {
  timespec now{};
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return;
  const timespec times[2] = {now, now};
  if (::futimens(fd, times) != 0) return;
}

Result<std::string> read_exactly(int fd, std::size_t bytes, const std::filesystem::path& path) {
  std::string text;
  try {
    text.resize(bytes);
  } catch (const std::exception&) {
    return Status(StatusCode::kOutOfMemory, fmt::format("no memory for the {} bytes of {}", bytes, path.string()));
  }
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = ::pread(fd, text.data() + done, bytes - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_failure("read", path, errno);
    if (count == 0) return Status(StatusCode::kCorruptData, "it is cut short");
    done += static_cast<std::size_t>(count);
  }
  return text;
}

struct OpenEntry {
  std::string payload;
  EntryHeader header;
};

// kCorruptData in one clause when the file is not the sound entry of `digest`; kNotFound, kPermissionDenied, kIo of the
// file itself. With `use`, marks it as used.
Result<OpenEntry> read_entry(const std::filesystem::path& path, std::string_view digest, bool use) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (file.get() < 0) return file_failure("open", path, errno);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return file_failure("inspect", path, errno);
  if (!S_ISREG(info.st_mode)) return Status(StatusCode::kCorruptData, "it is no regular file");
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  const std::size_t start_bytes = std::min<std::size_t>(file_bytes, compile_cache::kMaxHeaderBytes);
  KPT_ASSIGN_OR_RETURN(const std::string start, read_exactly(file.get(), start_bytes, path));
  OpenEntry entry;
  KPT_ASSIGN_OR_RETURN(entry.header, compile_cache::read_header(start, file_bytes));
  if (entry.header.digest != digest) return Status(StatusCode::kCorruptData, "it belongs to another key");
  KPT_ASSIGN_OR_RETURN(entry.payload, read_exactly(file.get(), file_bytes, path));
  entry.payload.erase(0, entry.header.header_bytes);
  KPT_RETURN_IF_ERROR(compile_cache::check_payload(entry.header, entry.payload));
  if (use) mark_used(file.get());
  return entry;
}

Status write_entry(const std::filesystem::path& path, std::string_view header, std::string_view bytes) {
  KPT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  KPT_RETURN_IF_ERROR(file.write(header));
  KPT_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

// The header alone; an entry that is not sound has no kind.
std::string read_kind(const std::filesystem::path& path, std::uint64_t file_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (file.get() < 0) return {};
  const std::size_t start_bytes = std::min<std::size_t>(file_bytes, compile_cache::kMaxHeaderBytes);
  const Result<std::string> start = read_exactly(file.get(), start_bytes, path);
  if (!start.ok()) return {};
  const Result<EntryHeader> header = compile_cache::read_header(*start, file_bytes);
  return header.ok() ? header->kind : std::string();
}

// Removes leftovers, and the least recently used entries until the rest fits. The caller holds the lock alone, so no
// writer is at work and every temporary file is a leftover.
Result<std::uint64_t> evict(const std::filesystem::path& folder, std::uint64_t budget_bytes) {
  KPT_ASSIGN_OR_RETURN(const Folder found, scan(folder));
  std::uint64_t freed = 0;
  std::uint64_t evicted = 0;
  const auto remove = [&](const FoundFile& file) -> Status {
    const std::filesystem::path path = folder / file.name;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return cache_failure(file_failure("remove", path, errno));
    freed += file.bytes;
    return {};
  };
  for (const FoundFile& file : found.leftovers) KPT_RETURN_IF_ERROR(remove(file));
  std::uint64_t total = 0;
  for (const FoundFile& file : found.entries) total += file.bytes;
  for (const FoundFile& file : found.entries) {
    if (total <= budget_bytes && budget_bytes > 0) break;  // 0: also files that were cut to nothing
    KPT_RETURN_IF_ERROR(remove(file));
    total -= file.bytes;
    ++evicted;
  }
  if (evicted > 0) add_counts(folder / kStatisticsFile, {.evictions = evicted});
  return freed;
}

void append_part(std::string& parts, char type, std::string_view name, std::string_view value) {
  parts += type;
  append_little_endian(parts, std::uint64_t{name.size()});
  parts += name;
  append_little_endian(parts, std::uint64_t{value.size()});
  parts += value;
}

}  // namespace

CacheKey::CacheKey(std::string_view kind) : kind_(kind) {
  append_part(parts_, 'k', fmt::format("kpt cache {}", compile_cache::kEntryVersion), kind);
}

CacheKey& CacheKey::add(std::string_view name, std::string_view value) {
  append_part(parts_, 't', name, value);
  return *this;
}

CacheKey& CacheKey::add(std::string_view name, std::uint64_t value) {
  std::string bytes;
  append_little_endian(bytes, value);
  append_part(parts_, 'n', name, bytes);
  return *this;
}

std::string CacheKey::digest() const { return sha256_hex(parts_); }

Result<CompileCache> CompileCache::open(const std::filesystem::path& folder, std::uint64_t budget_bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error && !std::filesystem::is_directory(folder)) {
    return cache_failure(file_failure("create folder", folder, error.value()));
  }
  return CompileCache(folder, budget_bytes);
}

std::filesystem::path CompileCache::entry_path(std::string_view digest) const {
  return folder_ / (std::string(digest) + std::string(kSuffix));
}

Result<std::optional<std::string>> CompileCache::get(const CacheKey& key) {
  const std::string digest = key.digest();
  Result<OpenEntry> entry = read_entry(entry_path(digest), digest, true);
  if (entry.ok()) {
    add_counts(folder_ / kStatisticsFile, {.hits = 1});
    log::info("taken from the compile cache",
              {{"kind", std::string(key.kind())}, {"bytes", std::to_string(entry->payload.size())}});
    return std::optional(std::move(entry->payload));
  }
  const StatusCode code = entry.status().code();
  if (code != StatusCode::kNotFound && code != StatusCode::kCorruptData) return cache_failure(entry.status());
  add_counts(folder_ / kStatisticsFile, {.misses = 1});
  if (code == StatusCode::kCorruptData) KPT_RETURN_IF_ERROR(drop(digest, entry.status()));
  return std::optional<std::string>();
}

// Looks again under the lock: another process may have written a sound entry meanwhile. In a folder that cannot be
// written the entry stays where it is, and stays a miss.
Status CompileCache::drop(const std::string& digest, const Status& reason) {
  const std::filesystem::path path = entry_path(digest);
  const Result<FileLock> lock = lock_folder(folder_, FileLock::Kind::kExclusive);
  if (lock.ok() && read_entry(path, digest, false).ok()) return {};
  log::warn("a damaged cache entry is dropped", {{"file", path.string()}, {"reason", reason.message()}});
  if (!lock.ok()) return {};
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    log::warn("a damaged cache entry cannot be removed",
              {{"file", path.string()}, {"reason", std::generic_category().message(errno)}});
    return {};
  }
  add_counts(folder_ / kStatisticsFile, {.corrupt = 1});
  return {};
}

Status CompileCache::put(const CacheKey& key, std::string_view bytes) {
  if (!compile_cache::is_kind(key.kind())) {
    return {StatusCode::kInvalidArgument, fmt::format("'{}' is no word for a kind of cache entry", key.kind())};
  }
  const std::string digest = key.digest();
  const std::string header = compile_cache::print_header(digest, key.kind(), bytes);
  if (bytes.size() > budget_bytes_ || header.size() > budget_bytes_ - bytes.size()) {
    log::debug("a result is larger than the whole cache and not kept",
               {{"kind", std::string(key.kind())}, {"bytes", std::to_string(bytes.size())}});
    return {};
  }
  const std::filesystem::path path = entry_path(digest);
  {
    KPT_ASSIGN_OR_RETURN(const FileLock writing, lock_folder(folder_, FileLock::Kind::kShared));
    KPT_RETURN_IF_ERROR(cache_failure(write_entry(path, header, bytes)));
  }
  if (const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); file.get() >= 0) mark_used(file.get());
  add_counts(folder_ / kStatisticsFile, {.writes = 1});
  log::info("kept in the compile cache", {{"kind", std::string(key.kind())}, {"bytes", std::to_string(bytes.size())}});
  KPT_ASSIGN_OR_RETURN(const FileLock removing, lock_folder(folder_, FileLock::Kind::kExclusive));
  return evict(folder_, budget_bytes_).status();
}

Result<std::vector<CacheEntry>> CompileCache::list() const {
  KPT_ASSIGN_OR_RETURN(const Folder found, scan(folder_));
  std::vector<CacheEntry> entries;
  entries.reserve(found.entries.size());
  for (const FoundFile& file : found.entries) {
    CacheEntry entry;
    entry.digest = digest_of(file.name);
    entry.bytes = file.bytes;
    entry.last_used = file.used.tv_sec;
    entry.kind = read_kind(folder_ / file.name, file.bytes);
    entry.sound = !entry.kind.empty();
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<CacheStatistics> CompileCache::statistics() const {
  KPT_ASSIGN_OR_RETURN(const Folder found, scan(folder_));
  const compile_cache::Counters counts = compile_cache::read_counts(folder_ / kStatisticsFile);
  CacheStatistics statistics{
      counts.hits, counts.misses, counts.writes, counts.evictions, counts.corrupt, found.entries.size(),
      0,           budget_bytes_};
  for (const FoundFile& file : found.entries) statistics.bytes += file.bytes;
  return statistics;
}

Result<std::vector<CacheEntry>> CompileCache::verify() {
  KPT_ASSIGN_OR_RETURN(std::vector<CacheEntry> entries, list());
  for (CacheEntry& entry : entries) {
    const Result<OpenEntry> read = read_entry(entry_path(entry.digest), entry.digest, false);
    entry.sound = read.ok();
    if (read.ok()) continue;
    // One that is gone was evicted by somebody else; nobody will read it.
    if (read.status().code() == StatusCode::kNotFound) entry.sound = true;
    if (read.status().code() == StatusCode::kCorruptData) KPT_RETURN_IF_ERROR(drop(entry.digest, read.status()));
    if (!entry.sound && read.status().code() != StatusCode::kCorruptData) return cache_failure(read.status());
  }
  return entries;
}

Result<std::uint64_t> CompileCache::collect(std::uint64_t budget_bytes) {
  KPT_ASSIGN_OR_RETURN(const FileLock lock, lock_folder(folder_, FileLock::Kind::kExclusive));
  return evict(folder_, budget_bytes);
}

Status CompileCache::clear() {
  KPT_ASSIGN_OR_RETURN(const FileLock lock, lock_folder(folder_, FileLock::Kind::kExclusive));
  KPT_RETURN_IF_ERROR(evict(folder_, 0).status());
  compile_cache::reset_counts(folder_ / kStatisticsFile);
  return {};
}

}  // namespace kpt
