// Any text as the manifest of an otherwise good .kpt file: never a crash; what is read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <unistd.h>

#include "archive/zip.h"
#include "artifact/artifact.h"
#include "artifact/artifact_sampling.h"
#include "artifact/manifest.h"
#include "fuzz/memory_file.h"

namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The entries of a good file but for its manifest.
std::map<std::string, std::string> good_entries() {
  std::mt19937 random(1);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("manifest_fuzz_" + std::to_string(::getpid()) + ".kpt");
  if (!kpt::write_artifact(path, kpt::testing::small_artifact(random)).ok()) std::abort();
  const auto archive = kpt::ZipArchive::open(kpt::MappedFile::open(path).value()).value();
  std::map<std::string, std::string> entries;
  for (const kpt::ZipEntry& entry : archive.entries()) {
    if (entry.name != kpt::artifact::kManifestEntry) entries[entry.name] = archive.read(entry, 1 << 20).value();
  }
  std::filesystem::remove(path);
  return entries;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::map<std::string, std::string> kEntries = good_entries();
  static const kpt::testing::MemoryFile file;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = kpt::artifact::read_manifest(text, "fuzz");
  if (manifest.ok()) {
    const auto printed = kpt::artifact::print_manifest(*manifest);
    if (!printed.ok() || !kpt::artifact::read_manifest(*printed, "again").ok()) std::abort();
  }
  kpt::ZipBuilder zip(kpt::artifact::kAlignment);
  zip.add(std::string(kpt::artifact::kManifestEntry), as_bytes(text));
  for (const auto& [name, content] : kEntries) zip.add(name, as_bytes(content));
  const std::string bytes = zip.serialize().value();
  file.map(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  (void)kpt::read_artifact(file.path());
  return 0;
}
