#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/zip.h"
#include "archive/zip_forge.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using testing::as_bytes;
using testing::crc_of;
using testing::ForgedEntry;
using testing::ForgedZip;
using ::testing::HasSubstr;

std::string entry_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ForgedEntry entry(std::string name, std::string content) {
  ForgedEntry made;
  made.name = std::move(name);
  made.content = std::move(content);
  return made;
}

Status open_status(const std::string& text) { return ZipArchive::from_bytes(as_bytes(text), "test.zip").status(); }

// The archive opens and every entry gives its content by every way there is.
void expect_sound(const ForgedZip& zip) {
  const std::string text = zip.build();
  const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
  ASSERT_TRUE(archive.ok()) << archive.status().to_string();
  ASSERT_EQ(archive->entries().size(), zip.entries.size());
  for (std::size_t i = 0; i < zip.entries.size(); ++i) {
    const ForgedEntry& made = zip.entries[i];
    const ZipEntry* found = archive->find(made.name);
    ASSERT_NE(found, nullptr) << made.name;
    EXPECT_EQ(found, &archive->entries()[i]);
    EXPECT_EQ(found->size, made.content.size());
    EXPECT_EQ(found->deflated, made.deflate);
    const auto content = archive->read(*found, made.content.size());
    ASSERT_TRUE(content.ok()) << content.status().to_string();
    EXPECT_EQ(*content, made.content);
    EXPECT_TRUE(archive->check(*found).ok());
    const auto view = archive->view(*found);
    if (made.deflate) {
      EXPECT_EQ(view.status().code(), StatusCode::kUnsupported);
    } else {
      ASSERT_TRUE(view.ok());
      EXPECT_EQ(entry_text(*view), made.content);
      EXPECT_GE(reinterpret_cast<const char*>(view->data()), text.data());
    }
  }
}

TEST(ZipReader, EmptyArchiveHasNoEntries) {
  expect_sound(ForgedZip());
  const std::string text = ForgedZip{}.build();
  EXPECT_EQ(text.size(), 22U);
  EXPECT_EQ(ZipArchive::from_bytes(as_bytes(text), "x")->find("a"), nullptr);
}

TEST(ZipReader, EveryCombinationOfFeaturesIsRead) {
  for (int bits = 0; bits < 64; ++bits) {
    SCOPED_TRACE(bits);
    ForgedZip zip;
    for (const char* name : {"folder/", "folder/first", "second.json"}) {
      ForgedEntry made = entry(name, std::string(name).ends_with('/') ? "" : std::string(name) + " content");
      made.deflate = (bits & 1) != 0;
      made.data_descriptor = (bits & 2) != 0;
      made.zip64 = (bits & 4) != 0;
      if ((bits & 8) != 0) {
        made.comment = "an entry's comment";
        made.local_extra = std::string("FB\5\0pad..", 9);
        made.directory_extra = std::string("xx\2\0ab\0\0\0", 9);  // ends in padding too short for a field
      }
      zip.entries.push_back(std::move(made));
    }
    zip.zip64 = (bits & 16) != 0;
    if ((bits & 32) != 0) {
      zip.comment = "a comment with PK\x05\x06 in it";
      zip.after_entries = "bytes of a deleted entry";
    }
    expect_sound(zip);
  }
}

TEST(ZipReader, Zip64RecordMayRepeatWhatTheOldOneSays) {
  ForgedZip zip({entry("a", "1")});
  zip.zip64 = true;
  zip.narrow_fields_saturated = false;
  expect_sound(zip);
}

TEST(ZipReader, BytesBeforeTheArchiveAreFineOnlyWhenOffsetsCountThem) {
  ForgedZip zip({entry("a", "1")});
  const std::string plain = zip.build();
  zip.prefix = "#!/bin/sh\n";
  expect_sound(zip);
  EXPECT_EQ(open_status("#!/bin/sh\n" + plain).code(), StatusCode::kCorruptData);
}

TEST(ZipReader, LongestCommentIsSkipped) {
  ForgedZip zip({entry("a", "1")});
  zip.comment = std::string(65535, 'c');
  expect_sound(zip);
}

struct BadZip {
  const char* what;
  std::function<void(ForgedZip&)> break_it;
  const char* message;
  StatusCode code = StatusCode::kCorruptData;
};

// Each breaks an archive of three entries "a", "b", "c", mostly the middle one.
std::vector<BadZip> bad_names_and_methods() {
  return {
      {"name empty", [](ForgedZip& z) { z.entries[1].name = ""; }, "is empty"},
      {"name absolute", [](ForgedZip& z) { z.entries[1].name = "/etc/passwd"; }, "is absolute"},
      {"name only slash", [](ForgedZip& z) { z.entries[1].name = "/"; }, "is absolute"},
      {"name leaves", [](ForgedZip& z) { z.entries[1].name = "x/../../y"; }, "\"..\""},
      {"name is dots", [](ForgedZip& z) { z.entries[1].name = ".."; }, "\"..\""},
      {"name begins with dots", [](ForgedZip& z) { z.entries[1].name = "../x"; }, "\"..\""},
      {"name ends with dots", [](ForgedZip& z) { z.entries[1].name = "x/.."; }, "\"..\""},
      {"name with backslash", [](ForgedZip& z) { z.entries[1].name = "x\\y"; }, "backslash"},
      {"name with zero", [](ForgedZip& z) { z.entries[1].name = std::string("x\0y", 3); }, "zero byte"},
      {"name twice", [](ForgedZip& z) { z.entries[1].name = "a"; }, "two entries named a"},
      {"folder with content", [](ForgedZip& z) { z.entries[1].name = "f/"; }, "folder with content"},
      {"encrypted", [](ForgedZip& z) { z.entries[1].flags = 1; }, "encrypted", StatusCode::kUnsupported},
      {"patched", [](ForgedZip& z) { z.entries[1].flags = 1 << 5; }, "patched", StatusCode::kUnsupported},
      {"strongly encrypted", [](ForgedZip& z) { z.entries[1].flags = 1 << 6; }, "b", StatusCode::kUnsupported},
      {"masked", [](ForgedZip& z) { z.entries[1].flags = 1 << 13; }, "b", StatusCode::kUnsupported},
      {"bzip2", [](ForgedZip& z) { z.entries[1].method = 12; }, "method 12", StatusCode::kUnsupported},
      {"zstd", [](ForgedZip& z) { z.entries[1].method = 93; }, "method 93", StatusCode::kUnsupported},
      {"other disk", [](ForgedZip& z) { z.entries[1].disk = 1; }, "several disks"},
  };
}

std::vector<BadZip> bad_places_and_headers() {
  return {
      {"sizes differ", [](ForgedZip& z) { z.entries[1].size = 4; }, "two sizes are 4 and 5"},
      {"size beyond end", [](ForgedZip& z) { z.entries[1].size = z.entries[1].compressed_size = 100000; },
       "beyond the end"},
      {"size over directory", [](ForgedZip& z) { z.entries[2].size = z.entries[2].compressed_size = 50; }, "overlaps"},
      {"size over next", [](ForgedZip& z) { z.entries[1].size = z.entries[1].compressed_size = 8; }, "overlaps"},
      {"size wraps around",
       [](ForgedZip& z) {
         z.entries[1].zip64 = true;
         z.entries[1].size = z.entries[1].compressed_size = ~0ULL - 10;
       },
       "beyond the end"},
      {"offset beyond end", [](ForgedZip& z) { z.entries[1].local_header = 1U << 30U; }, "no local header"},
      {"offset wraps around",
       [](ForgedZip& z) {
         z.entries[1].zip64 = true;
         z.entries[1].local_header = ~0ULL - 5;
       },
       "no local header"},
      {"offset off by one", [](ForgedZip& z) { z.entries[1].local_header = 1; }, "no local header"},
      {"offset of another entry", [](ForgedZip& z) { z.entries[1].local_header = 0; }, "another name"},
      {"no local part", [](ForgedZip& z) { z.entries[1].no_local_part = true; }, "another name"},
      {"local name differs", [](ForgedZip& z) { z.entries[1].local_name = "x"; }, "another name"},
      {"local name longer", [](ForgedZip& z) { z.entries[1].local_name = "bb"; }, "another name"},
      {"local method differs", [](ForgedZip& z) { z.entries[1].local_method = 8; }, "another method"},
      {"local encryption", [](ForgedZip& z) { z.entries[1].local_flags = 1; }, "encryption"},
      {"local CRC differs", [](ForgedZip& z) { z.entries[1].local_crc32 = 1; }, "another CRC"},
      {"local size differs", [](ForgedZip& z) { z.entries[1].local_size = 1; }, "other sizes"},
      {"local extra beyond end", [](ForgedZip& z) { z.entries[2].local_extra_bytes = 60000; }, "cut short"},
      {"local extra over content", [](ForgedZip& z) { z.entries[1].local_extra_bytes = 30; }, "overlaps"},
      {"extra beyond directory", [](ForgedZip& z) { z.entries[2].directory_extra_bytes = 600; }, "cut short"},
      {"extra over next entry", [](ForgedZip& z) { z.entries[1].directory_extra_bytes = 5; }, ""},
      {"extra field too long", [](ForgedZip& z) { z.entries[1].directory_extra = std::string("xx\x09\0a", 5); },
       "extra field of b is cut short"},
      {"ZIP64 field too short",
       [](ForgedZip& z) {
         z.entries[1].size = z.entries[1].compressed_size = 0xffffffff;
         z.entries[1].directory_extra = std::string("\1\0\4\0abcd", 8);
       },
       "ZIP64 field of b is cut short"},
      {"ZIP64 field missing", [](ForgedZip& z) { z.entries[1].size = z.entries[1].compressed_size = 0xffffffff; },
       "beyond the end"},
  };
}

std::vector<BadZip> bad_end_records() {
  return {
      {"count too small", [](ForgedZip& z) { z.count = 2; }, "foreign bytes"},
      {"count too large", [](ForgedZip& z) { z.count = 4; }, "claims 4 entries"},
      {"count large, bytes there",
       [](ForgedZip& z) {
         z.count = 4;
         z.after_directory = std::string(46, 'x');
       },
       "no directory entry at"},
      {"bytes after the directory", [](ForgedZip& z) { z.after_directory = "junk"; }, "foreign bytes"},
      {"counts of disks differ", [](ForgedZip& z) { z.count_on_disk = 2; }, "several disks"},
      {"on disk 3", [](ForgedZip& z) { z.disk = 3; }, "several disks"},
      {"directory too long", [](ForgedZip& z) { z.directory_size = 4000; }, "does not end where"},
      {"directory too short", [](ForgedZip& z) { z.directory_size = 46; }, "does not end where"},
      {"directory elsewhere", [](ForgedZip& z) { z.directory_offset = 3; }, "does not end where"},
      {"directory beyond end", [](ForgedZip& z) { z.directory_offset = 0xfffffff0; }, "does not end where"},
      {"junk before the end record", [](ForgedZip& z) { z.before_end_record = "junk"; }, "does not end where"},
      {"comment shorter than claimed", [](ForgedZip& z) { z.comment_bytes = 5; }, "no end record"},
      {"comment longer than claimed",
       [](ForgedZip& z) {
         z.comment = "long";
         z.comment_bytes = 3;
       },
       "no end record"},
  };
}

std::vector<BadZip> bad_zip64_end_records() {
  return {
      {"ZIP64 offset wrong", [](ForgedZip& z) { z.zip64_offset = 4; }, "no ZIP64 end record"},
      {"ZIP64 offset huge", [](ForgedZip& z) { z.zip64_offset = ~0ULL; }, "no ZIP64 end record"},
      {"ZIP64 length wrong", [](ForgedZip& z) { z.zip64_record_bytes = 45; }, "wrong length"},
      {"ZIP64 length huge", [](ForgedZip& z) { z.zip64_record_bytes = ~0ULL; }, "wrong length"},
      {"ZIP64 on disk 1", [](ForgedZip& z) { z.zip64_disk = 1; }, "several disks"},
      {"ZIP64 of 2 disks", [](ForgedZip& z) { z.zip64_disks = 2; }, "several disks"},
      {"ZIP64 counts differ", [](ForgedZip& z) { z.count_on_disk = 7; }, "several disks"},
      {"ZIP64 count huge", [](ForgedZip& z) { z.count = 1ULL << 60U; }, "claims 1152921504606846976 entries"},
      {"ZIP64 directory wraps", [](ForgedZip& z) { z.directory_offset = ~0ULL - 3; }, "does not end where"},
      {"ZIP64 size wraps", [](ForgedZip& z) { z.directory_size = ~0ULL; }, "does not end where"},
      {"ZIP64 locator apart", [](ForgedZip& z) { z.before_end_record = "junk"; }, "does not end where"},
  };
}

void expect_refused(const std::vector<BadZip>& cases, bool zip64) {
  for (const BadZip& bad : cases) {
    SCOPED_TRACE(bad.what);
    ForgedZip zip({entry("a", "first"), entry("b", "other"), entry("c", "third")});
    zip.zip64 = zip64;
    bad.break_it(zip);
    const Status status = open_status(zip.build());
    EXPECT_EQ(status.code(), bad.code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(bad.message));
    EXPECT_THAT(status.message(), HasSubstr("test.zip"));
  }
}

TEST(ZipReader, EveryFaultIsRefusedByName) {
  expect_refused(bad_names_and_methods(), false);
  expect_refused(bad_places_and_headers(), false);
  expect_refused(bad_end_records(), false);
  expect_refused(bad_zip64_end_records(), true);
}

TEST(ZipReader, OldAndNewEndRecordMustAgree) {
  ForgedZip zip({entry("a", "1")});
  zip.zip64 = true;
  zip.narrow_fields_saturated = false;
  std::string text = zip.build();
  text[text.size() - 12] = 3;  // the number of entries in the old record, on this disk and in all
  text[text.size() - 14] = 3;
  EXPECT_THAT(open_status(text).message(), HasSubstr("disagree"));
}

TEST(ZipReader, EveryTruncationIsRefused) {
  ForgedZip zip({entry("a", "first"), entry("b", "")});
  zip.comment = "end";
  zip.zip64 = true;
  const std::string text = zip.build();
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(open_status(text.substr(0, size)).code(), StatusCode::kCorruptData) << size;
  }
}

TEST(ZipReader, EveryChangedByteIsAnErrorOrReadsSafely) {
  ForgedZip zip({entry("a", "first"), entry("b", std::string(300, 'x'))});
  zip.entries[1].deflate = true;
  const std::string sound = zip.build();
  for (std::size_t at = 0; at < sound.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string text = sound;
      text[at] = static_cast<char>(text[at] ^ change);
      const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
      if (!archive.ok()) continue;
      for (const ZipEntry& found : archive->entries()) {
        const auto content = archive->read(found, 1U << 20U);
        if (content.ok()) {
          EXPECT_EQ(*content, found.deflated ? std::string(300, 'x') : "first") << at;
        }
      }
    }
  }
}

TEST(ZipReader, DamagedContentIsFoundByItsCrc) {
  ForgedZip zip({entry("a", "first"), entry("b", "inflated")});
  zip.entries[0].crc32 = 7;
  zip.entries[1].crc32 = 8;
  zip.entries[1].deflate = true;
  const std::string text = zip.build();
  const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
  ASSERT_TRUE(archive.ok()) << archive.status().to_string();
  EXPECT_TRUE(archive->view(archive->entries()[0]).ok()) << "a view does not read";
  for (const ZipEntry& damaged : archive->entries()) {
    EXPECT_EQ(archive->check(damaged).code(), StatusCode::kCorruptData);
    EXPECT_THAT(archive->read(damaged, 100).status().message(), HasSubstr("its CRC is"));
  }
}

TEST(ZipReader, ReadingIsBoundedByTheCaller) {
  ForgedZip zip({entry("a", "12345"), entry("b", "12345")});
  zip.entries[1].deflate = true;
  const std::string text = zip.build();
  const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
  for (const ZipEntry& found : archive->entries()) {
    EXPECT_TRUE(archive->read(found, 5).ok());
    EXPECT_EQ(archive->read(found, 4).status().code(), StatusCode::kUnsupported);
  }
}

TEST(ZipReader, InflatingToAnotherSizeIsRefused) {
  const std::string content(200000, 'z');
  for (const std::uint64_t claimed : {0ULL, 1ULL, 199999ULL, 200001ULL, 0xfffffff0ULL}) {
    SCOPED_TRACE(claimed);
    ForgedZip zip({entry("a", content)});
    zip.entries[0].deflate = true;
    zip.entries[0].size = claimed;
    const std::string text = zip.build();
    const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
    ASSERT_TRUE(archive.ok());
    EXPECT_EQ(archive->read(archive->entries()[0], ~0ULL).status().code(), StatusCode::kCorruptData);
    EXPECT_EQ(archive->check(archive->entries()[0]).code(), StatusCode::kCorruptData);
  }
}

TEST(ZipReader, DamagedDeflateStreamIsRefused) {
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t seed = random();
  SCOPED_TRACE(seed);
  random.seed(seed);
  std::string content(5000, '\0');
  for (char& letter : content) letter = static_cast<char>('a' + random() % 7);
  const std::string stream = testing::deflate_raw(content);
  std::vector<std::string> bad{"", "\xff\xff\xff", stream.substr(0, stream.size() / 2), stream + "x"};
  for (const std::string& broken : bad) {
    ForgedZip zip({entry("a", broken)});
    zip.entries[0].method = 8;
    zip.entries[0].crc32 = crc_of(content);
    zip.entries[0].size = content.size();
    const std::string text = zip.build();
    const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
    ASSERT_TRUE(archive.ok()) << archive.status().to_string();
    EXPECT_EQ(archive->read(archive->entries()[0], 1U << 20U).status().code(), StatusCode::kCorruptData);
  }
}

TEST(ZipReader, LongNamesInMessagesAreCut) {
  ForgedZip zip({entry(std::string(60000, 'n') + "\\", "1")});
  EXPECT_LT(open_status(zip.build()).message().size(), 500U);
}

TEST(ZipReader, ArchiveOfPyTorchIsRead) {
  const auto file = MappedFile::open(source_dir() + "/src/archive/test_data/linear.pt2");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto archive = ZipArchive::open(*file);
  ASSERT_TRUE(archive.ok()) << archive.status().to_string();
  EXPECT_EQ(archive->file(), *file);
  const ZipEntry* format = archive->find("linear/archive_format");
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(archive->read(*format, 100).value(), "pt2");
  ASSERT_NE(archive->find("linear/models/model.json"), nullptr);
  for (const ZipEntry& found : archive->entries()) {
    const auto view = archive->view(found);
    ASSERT_TRUE(view.ok()) << view.status().to_string();
    EXPECT_EQ((view->data() - (*file)->bytes().data()) % 64, 0) << found.name;
    EXPECT_TRUE(archive->check(found).ok()) << found.name;
  }
}

}  // namespace
}  // namespace kpt
