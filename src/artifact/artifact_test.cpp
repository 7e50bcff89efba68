#include "artifact/artifact.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/zip.h"
#include "artifact/artifact_sampling.h"
#include "base/files.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using testing::random_tensor;
using testing::same_artifact;
using testing::small_artifact;
using testing::TemporaryFolder;

std::string read_bytes(const std::filesystem::path& path) { return read_text_file(path, 1 << 28).value(); }

class ArtifactTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "model.kpt"; }
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  TemporaryFolder folder_;
};

TEST_F(ArtifactTest, WhatIsWrittenIsReadBack) {
  const Artifact written = small_artifact(random_);
  ASSERT_TRUE(write_artifact(path(), written).ok());
  const auto read = read_artifact(path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(same_artifact(written, *read));
  EXPECT_TRUE(is_artifact(path()));
}

TEST_F(ArtifactTest, ACompiledProgramIsReadBackAndGuardedByItsChecksum) {
  Artifact written = small_artifact(random_);
  std::string program(10000, '\0');
  for (char& byte : program) byte = static_cast<char>(random_());
  program += "the end of it";
  written.targets[1].program = program;
  ASSERT_TRUE(write_artifact(path(), written).ok());
  const auto read = read_artifact(path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(same_artifact(written, *read));
  EXPECT_EQ(read->targets[0].program, "");
  EXPECT_EQ(read->targets[1].program, program);
  std::string bytes = read_bytes(path());
  const auto place = bytes.find("the end of it");
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 'T';
  ASSERT_TRUE(write_file_atomically(path(), bytes).ok());
  const Status status = read_artifact(path()).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruptData);
  EXPECT_THAT(status.message(), HasSubstr("targets/1/program"));
}

TEST_F(ArtifactTest, TiedWeightsAndViewsAreStoredOnceAndShareMemoryAgain) {
  const Artifact written = small_artifact(random_);
  ASSERT_TRUE(write_artifact(path(), written).ok());
  const Artifact read = read_artifact(path()).value();
  const Weights& cpu = read.targets[0].weights;
  EXPECT_EQ(cpu.at("linear.weight").data(), cpu.at("head.weight").data());
  EXPECT_EQ(cpu.at("linear.weight").buffer(), cpu.at("transposed").buffer());
  EXPECT_EQ(cpu.at("linear.weight").data(), read.targets[1].weights.at("linear.weight").data());
  EXPECT_FALSE(cpu.at("linear.weight").buffer()->writable());
  // The weight, the scale, and three tensors of the sample.
  const ZipArchive archive = ZipArchive::open(MappedFile::open(path()).value()).value();
  EXPECT_EQ(std::ranges::count_if(archive.entries(), [](const ZipEntry& e) { return e.name.starts_with("blocks/"); }),
            5);
}

TEST_F(ArtifactTest, EqualContentGivesEqualBytes) {
  const Artifact written = small_artifact(random_);
  ASSERT_TRUE(write_artifact(path(), written).ok());
  const std::string first = read_bytes(path());
  // Other memory, in another order: what the file itself holds.
  const Artifact again = read_artifact(path()).value();
  ASSERT_TRUE(write_artifact(folder_.path() / "again.kpt", again).ok());
  EXPECT_EQ(read_bytes(folder_.path() / "again.kpt"), first);
}

// Random sets of views of a few storages, over all types.
TEST_F(ArtifactTest, AnyWeightsComeBackWithTheirSharing) {
  for (int round = 0; round < 60; ++round) {
    Artifact written;
    written.targets.resize(1 + random_() % 2);
    std::vector<Tensor> storages;
    for (int i = 0; i < 3; ++i) {
      storages.push_back(random_tensor(random_, DType::kUInt8, {static_cast<std::int64_t>(256 + random_() % 4000)}));
    }
    for (ArtifactTarget& target : written.targets) {
      target.name = "target " + std::to_string(&target - written.targets.data());
      target.report = "{}";
      for (std::size_t count = random_() % 8; count > 0; --count) {
        const auto dtype = static_cast<DType>(random_() % 21);
        const Tensor& storage = storages[random_() % storages.size()];
        const Dims dims = {static_cast<std::int64_t>(random_() % 4), static_cast<std::int64_t>(random_() % 4)};
        const Dims strides = {static_cast<std::int64_t>(random_() % 3), static_cast<std::int64_t>(random_() % 2)};
        const auto offset = static_cast<std::int64_t>(random_() % 8);
        target.weights[std::string(1 + random_() % 3, 'w') + std::to_string(count)] =
            Tensor::from_buffer(storage.buffer(), dtype, dims, strides, offset).value();
      }
    }
    ASSERT_TRUE(write_artifact(path(), written).ok());
    const auto read = read_artifact(path());
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_TRUE(same_artifact(written, *read));
    for (std::size_t i = 0; i < written.targets.size(); ++i) {
      for (const auto& [name, tensor] : written.targets[i].weights) {
        const Tensor& now = read->targets[i].weights.at(name);
        if (tensor.element_count() == 0) continue;
        const auto place = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data()); };
        EXPECT_EQ(place(tensor) % 64, place(now) % 64) << "alignment of " << name;
        for (const auto& [other_name, other] : written.targets[i].weights) {
          if (other.element_count() == 0 || tensor.data() != other.data()) continue;
          EXPECT_EQ(now.data(), read->targets[i].weights.at(other_name).data());
        }
      }
    }
  }
}

TEST_F(ArtifactTest, WhatCannotBeAnArtifactIsRefusedBeforeAFileAppears) {
  const Artifact good = small_artifact(random_);
  const auto refused = [&](const std::string& part, const auto& change) {
    Artifact bad = good;
    change(bad);
    const Status status = write_artifact(path(), bad);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << part;
    EXPECT_THAT(status.message(), HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(path()));
  };
  refused("1 to 64 targets", [](Artifact& bad) { bad.targets.clear(); });
  refused("there twice", [](Artifact& bad) { bad.targets[1].name = bad.targets[0].name; });
  refused("empty", [](Artifact& bad) { bad.targets[0].name = ""; });
  refused("without a name", [](Artifact& bad) { bad.targets[0].needs.push_back(""); });
  refused("'linear.weight' that is not there", [](Artifact& bad) { bad.targets[0].weights.erase("linear.weight"); });
  refused("not what the graph takes", [&](Artifact& bad) {
    bad.targets[0].weights["linear.weight"] = random_tensor(random_, DType::kFloat32, {4, 5});
  });
  refused("not what the graph takes", [&](Artifact& bad) {
    bad.targets[0].weights["linear.weight"] = random_tensor(random_, DType::kInt32, {4, 4});
  });
  refused("'more' cannot be written", [](Artifact& bad) { bad.targets[0].weights["more"] = Tensor(); });
  refused("UTF-8", [&](Artifact& bad) { bad.targets[0].weights["\xff"] = random_tensor(random_, DType::kInt8, {1}); });
  refused("report", [](Artifact& bad) { bad.targets[0].report = "[]"; });
  refused("report", [](Artifact& bad) { bad.targets[0].report = "{} {}"; });
  refused("twice", [](Artifact& bad) { bad.samples[0].inputs.push_back(bad.samples[0].inputs[0]); });
  refused("of the target 'tpu:v5e', which is not there", [](Artifact& bad) { bad.samples[0].target = "tpu:v5e"; });
  refused("other outputs", [](Artifact& bad) { bad.samples[0].reference[0].name = "z"; });
}

TEST_F(ArtifactTest, DamageOfAWeightIsSeenUnlessChecksAreOff) {
  Artifact written = small_artifact(random_);
  ASSERT_TRUE(write_artifact(path(), written).ok());
  const std::string whole = read_bytes(path());
  std::string bytes = whole;
  const Tensor weight = written.targets[0].weights.at("linear.weight");
  const std::size_t at = bytes.find(std::string(static_cast<const char*>(weight.data()), weight.bytes()));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] ^= 4;
  std::ofstream(path(), std::ios::binary) << bytes;
  const auto checked = read_artifact(path());
  EXPECT_EQ(checked.status().code(), StatusCode::kCorruptData);
  EXPECT_THAT(checked.status().message(), HasSubstr("blocks/"));
  EXPECT_TRUE(read_artifact(path(), {.check_weights = false}).ok());
}

TEST_F(ArtifactTest, OtherFilesAreNoArtifacts) {
  EXPECT_FALSE(is_artifact(folder_.path() / "missing"));
  EXPECT_FALSE(is_artifact(folder_.path()));
  std::ofstream(folder_.path() / "empty").flush();
  EXPECT_FALSE(is_artifact(folder_.path() / "empty"));
  EXPECT_FALSE(is_artifact(std::filesystem::path(source_dir()) / "tests/golden/pt2/2.15.0/linear_state.pt2"));
  EXPECT_EQ(read_artifact(folder_.path() / "missing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(
      read_artifact(std::filesystem::path(source_dir()) / "tests/golden/pt2/2.15.0/linear_state.pt2").status().code(),
      StatusCode::kCorruptData);
}

// A limit on file sizes ends writing in the middle, as a full disk does.
TEST_F(ArtifactTest, AWriteThatFailsLeavesTheOldFileAndNothingElse) {
  const Artifact old = small_artifact(random_);
  ASSERT_TRUE(write_artifact(path(), old).ok());
  Artifact large = small_artifact(random_);
  large.targets[0].weights["large"] = random_tensor(random_, DType::kUInt8, {1 << 20});
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {rlim_t{1}, rlim_t{100}, rlim_t{5000}, rlim_t{1 << 19}}) {
    const rlimit small{limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = write_artifact(path(), large);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(status.code(), StatusCode::kIo);
    EXPECT_TRUE(same_artifact(old, read_artifact(path()).value()));
    const auto files = std::filesystem::directory_iterator(folder_.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  }
  EXPECT_TRUE(write_artifact(path(), large).ok());
}

}  // namespace
}  // namespace kpt
