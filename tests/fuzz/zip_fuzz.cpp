// Any bytes as a zip archive: never a crash, every view lies inside the bytes, and what is read can be written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "archive/zip.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void require_round_trip(const kpt::ZipArchive& archive, const std::vector<std::string>& contents) {
  kpt::ZipBuilder builder;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    builder.add(archive.entries()[i].name, std::as_bytes(std::span(contents[i])));
  }
  const auto written = builder.serialize();
  require(written.ok());
  const auto again = kpt::ZipArchive::from_bytes(std::as_bytes(std::span(*written)), "again.zip");
  require(again.ok() && again->entries().size() == contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    require(again->entries()[i].name == archive.entries()[i].name);
    require(again->read(again->entries()[i], contents[i].size()).value() == contents[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto archive = kpt::ZipArchive::from_bytes(bytes, "fuzz.zip");
  if (!archive.ok()) return 0;
  std::vector<std::string> contents;
  for (const kpt::ZipEntry& entry : archive->entries()) {
    require(archive->find(entry.name) == &entry);
    if (const auto view = archive->view(entry); view.ok() && !view->empty()) {
      require(view->data() >= bytes.data() && view->data() + view->size() <= bytes.data() + bytes.size());
    }
    auto content = archive->read(entry, std::size_t{1} << 24U);
    require(content.ok() == (archive->check(entry).ok() && entry.size <= std::size_t{1} << 24U));
    if (content.ok()) contents.push_back(std::move(content).value());
  }
  if (contents.size() == archive->entries().size()) require_round_trip(*archive, contents);
  return 0;
}
