// Commands that load models, on .kpt files.
#include <sys/utsname.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "hardware_fixture.h"
#include "importer/model_file.h"
#include "program.h"
#include "support/tree_paths.h"
#include "tensor_files/tensor_file.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The golden model as it is, as an artifact for the CPU. Its sample is made by the program itself where it can run.
class ArtifactCommands : public ::testing::Test {
 protected:
  ArtifactCommands() {
    ImportedModel model = import_model(kGolden).value();
    made_.producer = "kpt test";
    made_.source = "linear_state.pt2";
    made_.targets.push_back({"cpu", {}, std::move(model.graph), std::move(model.weights), R"({"level":"none"})"});
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void write() const {
    const Status status = write_artifact(path("model.kpt"), made_);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static bool same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].name != b[i].name || a[i].tensor.bytes() != b[i].tensor.bytes()) return false;
      if (std::memcmp(a[i].tensor.data(), b[i].tensor.data(), a[i].tensor.bytes()) != 0) return false;
    }
    return true;
  }
  // Inputs, and the outputs of the .pt2 for them, as the artifact's sample.
  void add_sample() {
    const Tensor x = Tensor::empty(DType::kFloat32, {{3, 4}}).value();
    for (float& value : x.elements<float>()) value = std::normal_distribution<float>()(random_);
    const std::vector<NamedTensor> inputs = {{"x", x}};
    ASSERT_TRUE(write_tensors(path("in.safetensors"), inputs).ok());
    const ProgramRun run =
        run_kpt({"run", kGolden, "--inputs", path("in.safetensors"), "--outputs", path("right.safetensors")});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    right_ = read_tensors(path("right.safetensors")).value();
    ArtifactSample sample{inputs, right_, {}};
    for (NamedTensor& output : sample.outputs) output.tensor = output.tensor.contiguous_copy().value();
    made_.samples = {sample};
  }
  ProgramRun run_model(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"run",       path("model.kpt"),      "--inputs", path("in.safetensors"),
                                          "--outputs", path("out.safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_kpt(arguments);
  }

  const std::string kGolden = source_dir() + "/tests/golden/pt2/2.15.0/linear_state.pt2";
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  TemporaryFolder folder_;
  Artifact made_;
  std::vector<NamedTensor> right_;
};

TEST_F(ArtifactCommands, InspectShowsWhatTheFileHoldsUnderAnyName) {
  made_.targets[0].needs = {"some-feature"};
  write();
  std::filesystem::rename(path("model.kpt"), path("renamed.pt2"));
  const auto json = run_kpt({"inspect", path("renamed.pt2"), "--json"}).json();
  EXPECT_EQ(json.at("producer"), "kpt test");
  EXPECT_EQ(json.at("artifact").at("source"), "linear_state.pt2");
  EXPECT_EQ(json.at("artifact").at("targets")[0], "cpu");
  EXPECT_EQ(json.at("artifact").at("report").at("level"), "none");
  EXPECT_EQ(json.at("inputs")[0].at("name"), "x");
  EXPECT_THAT(run_kpt({"inspect", path("renamed.pt2")}).out, HasSubstr("linear_state.pt2"));
  EXPECT_EQ(run_kpt({"inspect", path("renamed.pt2"), "--graph"}).out, run_kpt({"inspect", kGolden, "--graph"}).out);
}

TEST_F(ArtifactCommands, ADeviceTheFileIsNotForIsNamedWithThoseItIsFor) {
  made_.targets[0].name = "nvidia:sm_90";
  made_.targets.push_back(made_.targets[0]);
  made_.targets[1].name = "tpu:v5e";
  write();
  for (const char* command : {"inspect", "run"}) {
    const ProgramRun run = run_kpt({command, path("model.kpt")});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("model.kpt holds nothing for cpu, only for nvidia:sm_90 and tpu:v5e"));
  }
  EXPECT_EQ(run_kpt({"run", path("model.kpt"), "--json"}).json().at("error").at("code"), "model_preparation");
}

TEST_F(ArtifactCommands, InstructionsThatThisMachineLacksAreNamed) {
  made_.targets[0].needs = {"telepathy", "x-rays"};
  write();
  const ProgramRun run = run_kpt({"run", path("model.kpt")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("was made for a CPU with telepathy and x-rays, which this one lacks"));
  EXPECT_THAT(run.err, HasSubstr("kpt optimize"));
}

TEST_F(ArtifactCommands, WeightsOfAnArtifactCannotBeReplaced) {
  write();
  for (const char* flag : {"--weights", "--model"}) {
    EXPECT_EQ(run_kpt({"run", path("model.kpt"), flag, "x"}).exit_code, 1);
    EXPECT_EQ(run_kpt({"inspect", path("model.kpt"), flag, "x"}).exit_code, 1);
  }
}

#if defined(KPT_HAS_TORCH)
TEST_F(ArtifactCommands, GivesTheAnswersOfTheModelItHolds) {
  add_sample();
  utsname machine{};
  ASSERT_EQ(::uname(&machine), 0);
  made_.targets[0].needs = {machine.machine};  // "aarch64", "x86_64": what this device certainly has
  write();
  const ProgramRun run = run_model();
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(same(read_tensors(path("out.safetensors")).value(), right_));
}

TEST_F(ArtifactCommands, ProductsThatAreSlowHereAreAWarning) {
  add_sample();
  made_.targets[0].needs = {"fast-float8_e4m3fn", "fast-nothing"};  // which no CPU has
  write();
  const ProgramRun run = run_model();
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("model.kpt was made for a CPU with fast products in float8_e4m3fn and nothing"));
  EXPECT_TRUE(same(read_tensors(path("out.safetensors")).value(), right_));
}

TEST_F(ArtifactCommands, SamplesThatDoNotComeOutRefuseTheFileUnlessToldNotToLook) {
  add_sample();
  for (NamedTensor& output : made_.samples[0].outputs) {
    if (output.tensor.dtype() == DType::kFloat32) output.tensor.elements<float>()[1] += 1;
  }
  write();
  const ProgramRun refused = run_model();
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("does not give its stored answers here (sample 0: output '"));
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
  EXPECT_EQ(run_model({"--no-self-check"}).exit_code, 0);
}

TEST_F(ArtifactCommands, AChangedWeightWithItsChecksumMadeRightIsFoundByTheSamples) {
  add_sample();
  Tensor weight = made_.targets[0].weights.at("linear.weight").contiguous_copy().value();
  weight.elements<float>()[3] += 0.5F;
  made_.targets[0].weights["linear.weight"] = weight;
  write();
  EXPECT_THAT(run_model().err, HasSubstr("does not give its stored answers here"));
}

TEST_F(ArtifactCommands, AFlippedBitGivesAnErrorOrTheSameAnswers) {
  add_sample();
  write();
  const auto size = std::filesystem::file_size(path("model.kpt"));
  for (int round = 0; round < 25; ++round) {
    const auto at = static_cast<std::streamoff>(random_() % size);
    const auto bit = static_cast<char>(1 << (random_() % 8));
    const auto flip = [&] {
      std::fstream file(path("model.kpt"), std::ios::in | std::ios::out | std::ios::binary);
      const auto before = static_cast<char>(file.seekg(at).get());
      file.seekp(at).put(static_cast<char>(before ^ bit));
    };
    flip();
    std::filesystem::remove(path("out.safetensors"));
    const ProgramRun run = run_model({"--no-self-check"});
    if (run.exit_code == 0) {
      EXPECT_TRUE(same(read_tensors(path("out.safetensors")).value(), right_)) << "byte " << at;
    } else {
      EXPECT_EQ(run.exit_code, 1);
      EXPECT_THAT(run.err, HasSubstr("model.kpt"));
      EXPECT_THAT(run.err, Not(HasSubstr("unexpected failure")));
    }
    flip();
  }
  EXPECT_EQ(run_model().exit_code, 0);
}
#endif

}  // namespace
}  // namespace kpt::testing
