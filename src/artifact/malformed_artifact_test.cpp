// Hundreds of broken artifacts made from a good one: each must give a typed error that names the file, within bounds,
// and no damage may go unseen that changes what the file says.
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "archive/zip.h"
#include "archive/zip_forge.h"
#include "artifact/artifact.h"
#include "artifact/artifact_sampling.h"
#include "base/crc32c.h"
#include "base/files.h"
#include "support/hardware_fixture.h"
#include "support/rounds.h"

namespace kpt {
namespace {

using nlohmann::json;
using testing::ForgedEntry;
using testing::ForgedZip;
using ::testing::HasSubstr;
using testing::same_artifact;
using testing::small_artifact;
using testing::TemporaryFolder;

constexpr const char* kManifest = "manifest.json";
constexpr std::size_t kAlignment = 64;

struct BadFile {
  std::string what;
  std::string bytes;
  StatusCode code = StatusCode::kCorruptData;
  std::string place;  // a part of the message
};

class Forge {
 public:
  explicit Forge(const std::filesystem::path& path) {
    const ZipArchive archive = ZipArchive::open(MappedFile::open(path).value()).value();
    for (const ZipEntry& entry : archive.entries()) {
      ForgedEntry forged;
      forged.name = entry.name;
      forged.content = archive.read(entry, 1 << 24).value();
      entries_.push_back(std::move(forged));
    }
  }

  std::vector<ForgedEntry> entries() const { return entries_; }
  static ForgedEntry& find(std::vector<ForgedEntry>& entries, const std::string& name) {
    for (ForgedEntry& entry : entries) {
      if (entry.name == name) return entry;
    }
    throw std::runtime_error("no entry " + name);
  }

  // Contents at multiples of 64, as the writer puts them.
  static std::string build(std::vector<ForgedEntry> entries) {
    std::size_t at = 0;
    for (ForgedEntry& entry : entries) {
      const std::size_t name_bytes = entry.local_name.value_or(entry.name).size();
      const std::size_t content_at = at + 30 + name_bytes + 4;
      const std::size_t padding = (kAlignment - content_at % kAlignment) % kAlignment;
      entry.local_extra = std::string("FB") + static_cast<char>(padding) + '\0' + std::string(padding, '\0');
      at = content_at + padding + (entry.deflate ? testing::deflate_raw(entry.content) : entry.content).size();
    }
    return ForgedZip(std::move(entries)).build();
  }

  static json manifest(std::vector<ForgedEntry>& entries) { return json::parse(find(entries, kManifest).content); }

  // Writes checksum and size of the changed text entries into the manifest, so that what they say is looked at.
  static void seal(std::vector<ForgedEntry>& entries) {
    json tree = manifest(entries);
    for (std::size_t i = 0; i < tree["targets"].size(); ++i) {
      for (const auto& [key, file] : {std::pair("graph", "graph.txt"), std::pair("report", "report.json")}) {
        const std::string& text = find(entries, "targets/" + std::to_string(i) + "/" + file).content;
        tree["targets"][i][key] = {{"bytes", text.size()}, {"crc32c", crc32c(text)}};
      }
    }
    find(entries, kManifest).content = tree.dump();
  }

 private:
  std::vector<ForgedEntry> entries_;
};

bool is_text_member(const std::string& key) { return key.starts_with("producer") || key.starts_with("source"); }

class BadFiles {
 public:
  explicit BadFiles(const Forge& forge) : forge_(forge) {
    add_lying_entries();
    add_missing_entries();
    add_bad_texts();
    add_bad_manifests();
    add_bad_tensors();
    add_bad_parts();
  }
  const std::vector<BadFile>& all() const { return files_; }

 private:
  using Entries = std::vector<ForgedEntry>;
  void add(const std::string& what, const std::function<void(Entries&)>& change, const std::string& place = "",
           StatusCode code = StatusCode::kCorruptData) {
    Entries entries = forge_.entries();
    change(entries);
    files_.push_back({what, Forge::build(std::move(entries)), code, place});
  }
  void add_json(const std::string& what, const std::function<void(json&)>& change, const std::string& place = kManifest,
                StatusCode code = StatusCode::kCorruptData) {
    add(
        what,
        [&](Entries& entries) {
          json tree = Forge::manifest(entries);
          change(tree);
          Forge::find(entries, kManifest).content = tree.dump();
        },
        place, code);
  }
  void add_text(const std::string& what, const std::string& entry, const std::string& content,
                const std::string& place) {
    add(
        what,
        [&](Entries& entries) {
          Forge::find(entries, entry).content = content;
          Forge::seal(entries);
        },
        place);
  }

  void add_lying_entries();
  void add_missing_entries();
  void add_bad_texts();
  void add_bad_manifests();
  void add_bad_tensors();
  void add_bad_parts();

  const Forge& forge_;
  std::vector<BadFile> files_;
};

void BadFiles::add_lying_entries() {
  const std::size_t count = forge_.entries().size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = forge_.entries()[i].name;
    const std::uint64_t size = forge_.entries()[i].content.size();
    const auto lie = [&](const std::string& what, const std::function<void(ForgedEntry&)>& change) {
      add(name + ": " + what, [&](Entries& entries) { change(entries[i]); });
    };
    lie("one byte more", [](ForgedEntry& entry) { entry.content += 'x'; });
    lie("one byte less", [](ForgedEntry& entry) { entry.content.pop_back(); });
    lie("another first byte", [](ForgedEntry& entry) { entry.content.front() ^= 1; });
    lie("another last byte", [](ForgedEntry& entry) { entry.content.back() ^= 1; });
    lie("nothing in it", [](ForgedEntry& entry) { entry.content.clear(); });
    lie("sizes of one more", [&](ForgedEntry& entry) { entry.size = entry.compressed_size = size + 1; });
    lie("sizes beyond the file", [](ForgedEntry& entry) { entry.size = entry.compressed_size = 0x7fffffff; });
    lie("header on another entry", [&](ForgedEntry& entry) { entry.local_header = i == 0 ? 200 : 0; });
    if (name != kManifest) lie("compressed", [](ForgedEntry& entry) { entry.deflate = true; });
  }
}

void BadFiles::add_missing_entries() {
  const std::size_t count = forge_.entries().size();
  for (std::size_t i = 0; i < count; ++i) {
    add("without " + forge_.entries()[i].name,
        [&](Entries& entries) { entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i)); });
    add("renamed " + forge_.entries()[i].name, [&](Entries& entries) { entries[i].name += "x"; });
    add("twice " + forge_.entries()[i].name, [&](Entries& entries) { entries.push_back(entries[i]); });
  }
  add(
      "one more",
      [](Entries& entries) {
        entries.push_back(entries.back());
        entries.back().name = "extra";
      },
      "entries");
  add("blocks exchanged", [](Entries& entries) {
    std::swap(Forge::find(entries, "blocks/0").content, Forge::find(entries, "blocks/1").content);
  });
  add("graphs exchanged", [](Entries& entries) {
    std::swap(Forge::find(entries, "targets/0/graph.txt").content, Forge::find(entries, "targets/1/graph.txt").content);
  });
  // Not aligned: one byte of padding too much before the first block.
  Entries entries = forge_.entries();
  files_.push_back({"unaligned", ForgedZip(std::move(entries)).build(), StatusCode::kCorruptData, "multiple of 64"});
}

void BadFiles::add_bad_texts() {
  const std::string graph = "targets/0/graph.txt";
  Entries entries = forge_.entries();
  const std::string text = Forge::find(entries, graph).content;
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  add_text("no graph", graph, "hello", graph);
  add_text("graph of version 9", graph, replaced("kpt_graph 1", "kpt_graph 9"), graph);
  add_text("graph cut", graph, text.substr(0, text.size() / 2), "");
  add_text("a value before its definition", graph, replaced("input=%x", "input=%linear"), "target 'cpu'");
  add_text("a weight that is not there", graph, replaced("\"linear.weight\"", "\"other.weight\""), "other.weight");
  add_text("a weight of another type", graph, replaced("w: float32[4, 4]", "w: float16[4, 4]"), "linear.weight");
  add_text("a weight of another rank", graph, replaced("w: float32[4, 4]", "w: float32[4]"), "linear.weight");
  add_text("a weight of another size", graph, replaced("w: float32[4, 4]", "w: float32[4, 5]"), "linear.weight");
  add_text("a weight of symbolic size", graph, replaced("w: float32[4, 4]", "w: float32[4, s0]"), "linear.weight");
  for (const char* report : {"", "[]", "1", "{", "{}}", "{\"a\":}", "\"text\""}) {
    add_text("report " + std::string(report), "targets/0/report.json", report, "target 'cpu'");
  }
}

void BadFiles::add_bad_manifests() {
  const auto whole = [this](const std::string& what, const std::string& text) {
    add(what, [&](Entries& entries) { Forge::find(entries, kManifest).content = text; }, kManifest);
  };
  Entries entries = forge_.entries();
  const std::string text = Forge::find(entries, kManifest).content;
  for (std::size_t i = 1; i < 12; ++i) whole("manifest cut", text.substr(0, text.size() * i / 12));
  whole("no JSON", "hello");
  whole("more behind it", text + "{}");
  whole("a list", "[]");
  whole("very deep", "{\"format\":" + std::string(100000, '[') + "}");
  whole("a member twice", "{\"format\":\"kpt\"," + text.substr(1));
  add_json("another version", [](json& tree) { tree["version"] = 2; }, "version 2", StatusCode::kVersionMismatch);
  add_json("version 0", [](json& tree) { tree["version"] = 0; }, "version 0", StatusCode::kVersionMismatch);
  add_json("no version", [](json& tree) { tree.erase("version"); }, kManifest, StatusCode::kVersionMismatch);
  add_json(
      "a later version with other members", [](json& tree) { tree = {{"format", "kpt"}, {"version", 7}}; }, "version 7",
      StatusCode::kVersionMismatch);
  add_json("another format", [](json& tree) { tree["format"] = "zip"; });
  for (const char* key : {"producer", "source", "source_sha256", "blocks", "targets", "samples"}) {
    add_json(std::string("without ") + key, [&](json& tree) { tree.erase(key); });
    for (const json& value : {json(nullptr), json(1), json("text"), json::array({1}), json::object()}) {
      if (value.is_string() && is_text_member(key)) continue;
      add_json(std::string("other kind of ") + key, [&](json& tree) { tree[key] = value; }, "");
    }
  }
  add_json("unknown member", [](json& tree) { tree["more"] = 1; });
  add_json("no target", [](json& tree) { tree["targets"] = json::array(); });
  add_json("too many targets", [](json& tree) {
    for (int i = 0; i < 64; ++i) {
      json target = tree["targets"][0];
      target["name"] = std::to_string(i);
      tree["targets"].push_back(target);
    }
  });
}

void BadFiles::add_bad_tensors() {
  const auto weight = [this](const std::string& what, const std::function<void(json&)>& change,
                             const std::string& place = "") {
    add_json(what, [&](json& tree) { change(tree["targets"][0]["weights"]["linear.weight"]); }, place);
  };
  for (const std::int64_t offset : {std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 62}) {
    weight("offset", [&](json& tensor) { tensor["offset"] = offset; }, "linear.weight");
  }
  for (const json& dims : {json{8, 8}, json{4}, json{4, 4, 4}, json{std::int64_t{1} << 62, 4},
                           json{std::int64_t{1} << 40, std::int64_t{1} << 40}, json{4, -4}, json{4.5, 4},
                           json(std::vector<int>(17, 1)), json{"4", 4}}) {
    weight("dims " + dims.dump(), [&](json& tensor) { tensor["dims"] = dims; });
    weight("strides " + dims.dump(), [&](json& tensor) { tensor["strides"] = dims; });
  }
  for (const json& block : {json(99), json(-1), json("0"), json(nullptr), json(std::int64_t{1} << 62)}) {
    weight("block " + block.dump(), [&](json& tensor) { tensor["block"] = block; });
  }
  weight("elements without a block", [](json& tensor) { tensor.erase("block"); }, "no block");
  for (const json& dtype : {json("float64"), json("float31"), json(1), json("int32")}) {
    weight("dtype " + dtype.dump(), [&](json& tensor) { tensor["dtype"] = dtype; });
  }
  for (const char* key : {"dtype", "dims", "strides", "offset"}) {
    weight(std::string("without ") + key, [&](json& tensor) { tensor.erase(key); });
  }
  weight("unknown member", [](json& tensor) { tensor["more"] = 1; });
  add_json(
      "an empty tensor with elements", [](json& tree) { tree["targets"][0]["weights"]["empty"]["dims"] = {1, 3}; },
      "no block");
  add_json("a weight gone", [](json& tree) { tree["targets"][0]["weights"].erase("linear.weight"); }, "linear.weight");
}

void BadFiles::add_bad_parts() {
  add_json("a target's name twice", [](json& tree) { tree["targets"][1]["name"] = "cpu"; });
  add_json("a target without name", [](json& tree) { tree["targets"][1]["name"] = ""; });
  add_json("empty need", [](json& tree) { tree["targets"][0]["needs"] = {""}; });
  add_json("needs a number", [](json& tree) { tree["targets"][0]["needs"] = {1}; });
  for (const char* key : {"name", "needs", "graph", "report", "weights"}) {
    add_json(std::string("target without ") + key, [&](json& tree) { tree["targets"][0].erase(key); });
    add_json(std::string("target with null for ") + key, [&](json& tree) { tree["targets"][0][key] = nullptr; });
  }
  for (const char* key : {"bytes", "crc32c"}) {
    for (const json& value : {json(0), json(-1), json(std::int64_t{1} << 40), json("1"), json(1.5), json(1e300)}) {
      add_json(std::string("block ") + key, [&](json& tree) { tree["blocks"][0][key] = value; }, "");
      add_json(std::string("graph ") + key, [&](json& tree) { tree["targets"][0]["graph"][key] = value; }, "");
    }
    add_json(std::string("block without ") + key, [&](json& tree) { tree["blocks"][0].erase(key); });
  }
  add_json("one block fewer", [](json& tree) { tree["blocks"].erase(0); });
  add_json("one block more", [](json& tree) { tree["blocks"].push_back(tree["blocks"][0]); }, "entries");
  add_json("a block of nobody", [](json& tree) { tree["samples"] = json::array(); }, "belongs to no tensor");
  for (const char* key : {"inputs", "outputs", "reference"}) {
    add_json(std::string("sample without ") + key, [&](json& tree) { tree["samples"][0].erase(key); });
    add_json(std::string("twice in ") + key,
             [&](json& tree) { tree["samples"][0][key].push_back(tree["samples"][0][key][0]); });
    add_json(
        std::string("beyond the block in ") + key,
        [&](json& tree) { tree["samples"][0][key][0]["tensor"]["offset"] = 1; }, "sample 0");
  }
  add_json(
      "a sample of a target that is not there", [](json& tree) { tree["samples"][0]["target"] = "amd:gfx942"; },
      "a sample of the target 'amd:gfx942', which is not there");
  add_json("a sample of a target without a name", [](json& tree) { tree["samples"][0]["target"] = ""; });
  add_json("a sample whose target is a number", [](json& tree) { tree["samples"][0]["target"] = 0; });
  add_json(
      "reference of another name", [](json& tree) { tree["samples"][0]["reference"][0]["name"] = "z"; }, "sample 0");
  add_json(
      "reference of other extents", [](json& tree) { tree["samples"][0]["reference"][0]["tensor"]["dims"] = {1, 4}; },
      "sample 0");
}

class MalformedArtifacts : public ::testing::Test {
 protected:
  MalformedArtifacts() : artifact_(small_artifact(random_)) {
    EXPECT_TRUE(write_artifact(path(), artifact_).ok());
    bytes_ = read_text_file(path(), 1 << 24).value();
  }
  std::filesystem::path path() const { return folder_.path() / "bad.kpt"; }
  Result<Artifact> read(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return read_artifact(path());
  }
  void write_byte(std::size_t at, char value) const {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at)).put(value);
  }
  void expect_typed(const Status& status) const {
    static const std::set<StatusCode> kTyped = {StatusCode::kCorruptData, StatusCode::kUnsupported,
                                                StatusCode::kVersionMismatch};
    EXPECT_TRUE(kTyped.contains(status.code())) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("bad.kpt"));
    EXPECT_LT(status.message().size(), 1000U);
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  TemporaryFolder folder_;
  Artifact artifact_;
  std::string bytes_;
};

TEST_F(MalformedArtifacts, TheForgedOriginalIsFine) {
  auto entries = Forge(path()).entries();
  Forge::seal(entries);
  const auto read_back = read(Forge::build(std::move(entries)));
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_TRUE(same_artifact(artifact_, *read_back));
}

TEST_F(MalformedArtifacts, EachGivesATypedErrorThatNamesTheFile) {
  const Forge forge(path());
  const BadFiles files(forge);
  EXPECT_GE(files.all().size(), 250U);
  for (const BadFile& file : files.all()) {
    SCOPED_TRACE(file.what);
    const Result<Artifact> artifact = read(file.bytes);
    EXPECT_FALSE(artifact.ok());
    if (artifact.ok()) continue;
    expect_typed(artifact.status());
    EXPECT_EQ(artifact.status().code(), file.code) << artifact.status().message();
    EXPECT_THAT(artifact.status().message(), HasSubstr(file.place));
  }
  RecordProperty("files", static_cast<int>(files.all().size()));
}

TEST_F(MalformedArtifacts, CutAnywhereItIsRefused) {
  for (std::size_t length = bytes_.size(); length-- > 0;) {
    std::filesystem::resize_file(path(), length);
    const Result<Artifact> artifact = read_artifact(path());
    ASSERT_FALSE(artifact.ok()) << length;
    expect_typed(artifact.status());
  }
  // Every border between entries.
  for (std::size_t at = bytes_.find("PK"); at != std::string::npos; at = bytes_.find("PK", at + 1)) {
    EXPECT_FALSE(read(bytes_.substr(0, at)).ok());
    EXPECT_FALSE(read(bytes_.substr(at)).ok() && at != 0);
  }
}

// Every bit of the file once, but for a random share of the bits inside the contents, which one checksum guards.
TEST_F(MalformedArtifacts, AFlippedBitIsSeenOrChangesNothing) {
  const ZipArchive archive = ZipArchive::open(MappedFile::open(path()).value()).value();
  std::vector<bool> content(bytes_.size(), false);
  for (const ZipEntry& entry : archive.entries()) {
    const auto view = archive.view(entry).value();
    const auto begin = static_cast<std::size_t>(view.data() - archive.file()->bytes().data());
    std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(begin), view.size(), true);
  }
  std::size_t seen = 0;
  std::size_t harmless = 0;
  for (std::size_t bit = 0; bit < bytes_.size() * 8; ++bit) {
    if (content[bit / 8] && random_() % 8 != 0) continue;
    if (testing::kSanitized && random_() % 4 != 0) continue;
    write_byte(bit / 8, static_cast<char>(bytes_[bit / 8] ^ (1 << (bit % 8))));
    const Result<Artifact> artifact = read_artifact(path());
    if (artifact.ok()) {
      ASSERT_FALSE(content[bit / 8]) << "bit " << bit << " of a content is not seen";
      ASSERT_TRUE(same_artifact(artifact_, *artifact)) << "bit " << bit << " changes the artifact";
      ++harmless;
    } else {
      expect_typed(artifact.status());
      ++seen;
    }
    write_byte(bit / 8, bytes_[bit / 8]);
  }
  EXPECT_GT(seen, 1000U);
  EXPECT_GT(harmless, 0U);  // padding, times, versions of the zip format
}

TEST_F(MalformedArtifacts, RandomChangesNeverGiveAnUntypedFailure) {
  const Forge forge(path());
  for (int round = 0; round < testing::rounds(1500); ++round) {
    auto entries = forge.entries();
    ForgedEntry& entry = entries[random_() % (round % 2 == 0 ? 1 : 3)];
    for (std::size_t i = 1 + random_() % 3; i > 0; --i) {
      const std::size_t at = random_() % entry.content.size();
      switch (random_() % 4) {
        case 0: entry.content[at] = static_cast<char>(random_()); break;
        case 1: entry.content.erase(at, 1 + random_() % 8); break;
        case 2:
          entry.content.insert(at, entry.content.substr(random_() % entry.content.size(), 1 + random_() % 20));
          break;
        default: entry.content.insert(at, std::to_string(random_())); break;
      }
      if (entry.content.empty()) entry.content = "x";
    }
    // The texts' new checksums, so that the readers behind them are reached.
    if (entry.name != kManifest) Forge::seal(entries);
    const Result<Artifact> artifact = read(Forge::build(std::move(entries)));
    if (!artifact.ok()) expect_typed(artifact.status());
  }
}

}  // namespace
}  // namespace kpt
