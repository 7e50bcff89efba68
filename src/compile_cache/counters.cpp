#include "compile_cache/counters.h"

#include <unistd.h>

#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "base/files.h"
#include "base/little_endian.h"
#include "compile_cache/file_lock.h"

namespace kpt::compile_cache {
namespace {

constexpr std::string_view kMagic = "kptstat1";
constexpr std::size_t kCounts = 5;
constexpr std::size_t kBytes = 8 + kCounts * 8 + 4;

std::array<std::uint64_t*, kCounts> fields(Counters& counters) {
  return {&counters.hits, &counters.misses, &counters.writes, &counters.evictions, &counters.corrupt};
}

std::string print(Counters counters) {
  std::string text(kMagic);
  for (const std::uint64_t* field : fields(counters)) append_little_endian(text, *field);
  append_little_endian(text, crc32c(text));
  return text;
}

Counters parse(std::string_view text) {
  Counters counters;
  if (text.size() != kBytes || !text.starts_with(kMagic)) return counters;
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  if (load_little_endian<std::uint32_t>(bytes + kBytes - 4) != crc32c(text.substr(0, kBytes - 4))) return counters;
  std::size_t at = kMagic.size();
  for (std::uint64_t* field : fields(counters)) {
    *field = load_little_endian<std::uint64_t>(bytes + at);
    at += 8;
  }
  return counters;
}

Counters read_locked(const FileLock& lock) {
  std::array<char, kBytes + 1> block;
  const ssize_t count = ::pread(lock.descriptor(), block.data(), block.size(), 0);
  return parse({block.data(), count < 0 ? 0 : static_cast<std::size_t>(count)});
}

// One small write in place: a process that is killed has done it or not. A disk without room for it counts no more.
void write_locked(const FileLock& lock, const Counters& counters) {
  const std::string text = print(counters);
  if (::pwrite(lock.descriptor(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return;
  // A longer file is not ours; cut, it is sound from now on.
  if (::ftruncate(lock.descriptor(), kBytes) != 0) return;
}

}  // namespace

void add_counts(const std::filesystem::path& file, const Counters& more) {
  const Result<FileLock> lock = FileLock::acquire(file, FileLock::Kind::kExclusive);
  if (!lock.ok()) return;
  Counters counters = read_locked(*lock);
  Counters added = more;
  const auto from = fields(added);
  const auto to = fields(counters);
  for (std::size_t i = 0; i < kCounts; ++i) {
    if (__builtin_add_overflow(*to[i], *from[i], to[i])) *to[i] = std::numeric_limits<std::uint64_t>::max();
  }
  write_locked(*lock, counters);
}

void reset_counts(const std::filesystem::path& file) {
  const Result<FileLock> lock = FileLock::acquire(file, FileLock::Kind::kExclusive);
  if (lock.ok()) write_locked(*lock, {});
}

Counters read_counts(const std::filesystem::path& file) {
  if (const auto lock = FileLock::acquire(file, FileLock::Kind::kShared); lock.ok()) return read_locked(*lock);
  return parse(read_text_file(file, kBytes).value_or(""));  // a folder for reading only
}

}  // namespace kpt::compile_cache
