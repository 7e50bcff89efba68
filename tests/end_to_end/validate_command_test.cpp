// kpt validate: several devices, requirements, wrong artifacts, as a user types them.
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "backends/amd/hip_compiler.h"
#include "hardware_fixture.h"
#include "importer/model_file.h"
#include "importer/model_forge.h"
#include "program.h"
#include "support/tree_paths.h"
#include "tensor_files/tensor_file.h"

namespace kpt::testing {
namespace {

#if defined(KPT_HAS_TORCH)
using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::ordered_json find_check(const nlohmann::ordered_json& report, const std::string& name) {
  for (const auto& check : report.at("production").at("checks")) {
    if (check.at("name") == name) return check;
  }
  ADD_FAILURE() << "no check '" << name << "': " << report.dump();
  return {{"severity", ""}, {"text", ""}};
}

TEST(ValidateCommand, LayersNameEveryNodeAndProductionMeetsRequirements) {
  const auto layers = run_kpt({"validate", golden("conv_norm"), "--layers", "--json"}).json();
  EXPECT_GT(layers.at("contenders")[0].at("layers").size(), 1U);
  EXPECT_TRUE(layers.at("contenders")[0].at("first_divergence").is_null());
  const ProgramRun fine =
      run_kpt({"validate", golden("conv_norm"), "--production", "--max-latency-ms", "100000", "--json"});
  EXPECT_EQ(fine.exit_code, 0) << fine.out;
  const ProgramRun late = run_kpt({"validate", golden("conv_norm"), "--production", "--max-latency-ms", "0.000001"});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.out, HasSubstr("is required"));
  EXPECT_EQ(run_kpt({"validate", golden("conv_norm"), "--max-latency-ms", "5"}).exit_code, 2) << "needs --production";
  EXPECT_EQ(run_kpt({"validate", golden("conv_norm"), "--devices", "nobody"}).exit_code, 1);
}

TEST(ValidateCommand, BatchesThroughputAndMemoryAreHeldAgainstWhatIsRequired) {
  const std::vector<std::string> asked = {"validate", golden("linear_state"), "--production", "--json", "--batch-sizes",
                                          "2,5",      "--max-memory-mb"};
  const auto run = [&](const std::string& memory, const std::string& throughput) {
    std::vector<std::string> command = asked;
    command.insert(command.end(), {memory, "--min-throughput", throughput});
    return run_kpt(command);
  };
  const ProgramRun fine = run("100000", "0.001");
  EXPECT_EQ(fine.exit_code, 0) << fine.out << fine.err;
  for (const char* name : {"batch_2", "batch_5", "throughput", "memory"}) {
    EXPECT_EQ(find_check(fine.json(), name).at("severity"), "ok") << name;
    EXPECT_GT(find_check(fine.json(), name).at("value").get<double>(), 0) << name;
  }
  const ProgramRun slow = run("100000", "1e15");
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_EQ(find_check(slow.json(), "throughput").at("severity"), "error");
  EXPECT_THAT(find_check(slow.json(), "throughput").at("text").get<std::string>(), HasSubstr("are required"));
  const ProgramRun large = run("1", "0.001");
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_EQ(find_check(large.json(), "memory").at("severity"), "error");
  const ProgramRun fixed = run_kpt({"validate", golden("conv_norm"), "--production", "--json", "--batch-sizes", "3"});
  EXPECT_EQ(fixed.exit_code, 1);
  EXPECT_THAT(find_check(fixed.json(), "batch_3").at("text").get<std::string>(), HasSubstr("fixed to another size"));
  const ProgramRun none = run_kpt({"validate", golden("conv_norm"), "--production", "--batch-sizes", "1,x"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("'x' is no batch size"));
}

TEST(ValidateCommand, TwoAtOnceDoNotMeetAndLeaveNothing) {
  const TemporaryFolder folder;
  const std::vector<std::string> environment = {"TMPDIR=" + folder.path().string()};
  const std::vector<std::string> command = {"validate", golden("linear_state"), "--production", "--json"};
  std::vector<std::future<ProgramRun>> runs;
  for (int job = 0; job < 2; ++job) {
    runs.push_back(std::async(std::launch::async, [&] { return run_kpt(command, environment); }));
  }
  for (auto& run : runs) {
    const ProgramRun ended = run.get();
    EXPECT_EQ(ended.exit_code, 0) << ended.err << ended.out;
    EXPECT_EQ(find_check(ended.json(), "round_trip").at("severity"), "ok");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ValidateCommand, ProductionChecksEveryDeviceNamed) {
  const std::vector<std::string> command = {"validate", golden("conv_norm"), "--devices", "cpu,cpu", "--production"};
  std::vector<std::string> for_programs = command;
  for_programs.emplace_back("--json");
  const ProgramRun run = run_kpt(for_programs);
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  std::size_t loads = 0;
  const auto report = run.json();
  for (const auto& check : report.at("production").at("checks")) {
    EXPECT_EQ(check.at("device"), "cpu");
    if (check.at("name") == "load") ++loads;
  }
  EXPECT_EQ(loads, 2U);
  EXPECT_THAT(run_kpt(command).out, ::testing::ContainsRegex("ok +cpu +round_trip"));
}

class ValidateArtifact : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramRun optimize(const std::string& model, const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {"optimize",    model,          "--level",    "conservative", "-o",
                                        path("m.kpt"), "--no-measure", "--no-cache", "--json"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command);
  }
  ProgramRun validate(const std::string& model, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> command = {"validate", model, path("m.kpt"), "--json"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_kpt(command);
  }
  // All weights of a model of the tree; those of float32 with `shift` added.
  std::string write_weights(const std::string& model, float shift) const {
    std::vector<NamedTensor> weights;
    for (const auto& [name, tensor] : import_model(golden(model)).value().weights) {
      weights.push_back({name, tensor.contiguous_copy().value()});
      if (tensor.dtype() != DType::kFloat32) continue;
      for (float& element : weights.back().tensor.elements<float>()) element += shift;
    }
    EXPECT_TRUE(write_tensors(path("w.safetensors"), weights).ok());
    return path("w.safetensors");
  }
  std::string write_model(const ForgedZip& zip) const {
    std::ofstream(path("forged.pt2"), std::ios::binary) << zip.build();
    return path("forged.pt2");
  }
  static void expect_other_model(const ProgramRun& run) {
    EXPECT_EQ(run.exit_code, 1) << run.out;
    EXPECT_EQ(run.json().at("error").at("code"), "invalid_argument");
    EXPECT_THAT(run.json().at("error").at("message").get<std::string>(),
                HasSubstr("m.kpt was made from another graph or other weights than "));
  }

  TemporaryFolder folder_;
};

TEST_F(ValidateArtifact, OfReplacedWeightsIsHeldAgainstThose) {
  const std::string weights = write_weights("conv_norm", 0.25F);
  ASSERT_EQ(optimize(golden("conv_norm"), {"--weights", weights}).exit_code, 0);
  const ProgramRun right = validate(golden("conv_norm"), {"--weights", weights, "--production"});
  EXPECT_EQ(right.exit_code, 0) << right.err << right.out;
  expect_other_model(validate(golden("conv_norm")));
  expect_other_model(validate(golden("tied")));
  // What another version wrote may be another reading of the same file, so the gate decides.
  Artifact artifact = read_artifact(path("m.kpt")).value();
  artifact.producer = "kpt 0.0.1";
  ASSERT_TRUE(write_artifact(path("other.kpt"), artifact).ok());
  std::filesystem::rename(path("other.kpt"), path("m.kpt"));
  const ProgramRun older = validate(golden("conv_norm"));
  EXPECT_EQ(older.exit_code, 3) << older.err << older.out;
  EXPECT_THAT(older.err, HasSubstr("m.kpt was written by kpt 0.0.1, and "));
  EXPECT_EQ(older.json().at("notes").size(), 1U);
}

TEST_F(ValidateArtifact, TakesTheModelUnderAnotherName) {
  ASSERT_EQ(optimize(golden("linear_state"), {}).exit_code, 0);
  std::filesystem::copy_file(golden("linear_state"), path("renamed.pt2"));
  const ProgramRun run = validate(path("renamed.pt2"));
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  EXPECT_TRUE(run.json().at("notes").empty());
  // The same weights from another file are the same model.
  EXPECT_EQ(validate(golden("linear_state"), {"--weights", write_weights("linear_state", 0)}).exit_code, 0);
}

TEST_F(ValidateArtifact, OfAStrippedArchiveNeedsItsWeights) {
  ForgedZip zip = forge_model(golden("linear_state"));
  for (ForgedEntry& entry : zip.entries) {
    if (entry.name.find("/weight_") != std::string::npos) entry.content.clear();
  }
  const std::string stripped = write_model(zip);
  const std::string weights = write_weights("linear_state", 0.25F);
  ASSERT_EQ(optimize(stripped, {"--weights", weights}).exit_code, 0);
  const ProgramRun run = validate(stripped, {"--weights", weights});
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  EXPECT_EQ(validate(stripped).exit_code, 1);
}

// Two models in one file that differ in a weight.
TEST_F(ValidateArtifact, OfAFileWithSeveralModelsIsHeldAgainstTheOneNamed) {
  ForgedZip zip = forge_model(golden("linear_state"));
  const std::vector<ForgedEntry> entries = zip.entries;
  for (ForgedEntry entry : entries) {
    const std::size_t found = entry.name.rfind("/model");
    if (entry.name.ends_with("/weight_0")) {
      entry.name.back() = '9';
      entry.content.replace(0, 4, std::string("\0\0\x80\x3f", 4));  // 1.0
    } else if (found != std::string::npos && !entry.name.ends_with("/model.pt")) {
      entry.name.replace(found, 6, "/second");
      for (std::size_t at = 0; (at = entry.content.find("\"weight_0\"", at)) != std::string::npos; ++at) {
        entry.content[at + 8] = '9';
      }
    } else {
      continue;
    }
    zip.entries.push_back(entry);
  }
  const std::string both = write_model(zip);
  ASSERT_EQ(optimize(both, {"--model", "second"}).exit_code, 0);
  const ProgramRun run = validate(both, {"--model", "second"});
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  expect_other_model(validate(both, {"--model", "model"}));
  EXPECT_THAT(validate(both).json().at("error").at("message").get<std::string>(), HasSubstr("name one"));
  // Whoever only looks at it names one too.
  for (const std::vector<std::string>& look : {std::vector<std::string>{"explain", "--runs", "1"},
                                               {"explain", "--target", "nvidia:sm_90"},
                                               {"profile", "--runs", "1"}}) {
    std::vector<std::string> command = look;
    command.insert(command.begin() + 1, both);
    EXPECT_THAT(run_kpt(command).err, HasSubstr("name one")) << look[0];
    command.insert(command.end(), {"--model", "second"});
    EXPECT_THAT(run_kpt(command).err, Not(HasSubstr("name one"))) << look[0];
    command[1] = path("m.kpt");
    EXPECT_THAT(run_kpt(command).err, HasSubstr("--model and --weights are for .pt2 files")) << look[0];
  }
}

// An artifact that nobody optimized: the model with one weight changed.
TEST(ValidateCommand, AWrongArtifactIsRefusedAndItsFirstWrongNodeNamed) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "m.kpt").string();
  ImportedModel model = import_model(golden("conv_norm")).value();
  Artifact artifact;
  artifact.producer = "kpt test";
  artifact.source = "conv_norm.pt2";
  Tensor weight = model.weights.at("conv.weight").contiguous_copy().value();
  weight.elements<float>()[3] += 0.5F;
  model.weights["conv.weight"] = weight;
  artifact.targets.push_back({"cpu", {}, model.graph, model.weights, R"({"compiled": {}})"});
  ASSERT_TRUE(write_artifact(file, artifact).ok());
  const ProgramRun run = run_kpt({"validate", golden("conv_norm"), file, "--layers", "--json"});
  EXPECT_EQ(run.exit_code, 3) << run.err << run.out;
  const auto report = run.json();
  EXPECT_FALSE(report.at("passed").get<bool>());
  ASSERT_EQ(report.at("contenders").size(), 2U);
  EXPECT_TRUE(report.at("contenders")[0].at("first_divergence").is_null());
  EXPECT_THAT(report.at("contenders")[1].at("first_divergence").get<std::string>(), HasSubstr("conv"));
  ASSERT_EQ(report.at("pair_layers").size(), 1U);
  const auto& inside = report.at("pair_layers")[0].at("layers");
  const auto wrong = std::ranges::find_if(
      inside, [](const auto& layer) { return layer.at("max_difference").template get<double>() > 1e-3; });
  ASSERT_NE(wrong, inside.end());
  EXPECT_THAT(wrong->at("node").get<std::string>(), HasSubstr("conv"));
  const ProgramRun shown = run_kpt({"validate", golden("conv_norm"), file, "--layers"});
  EXPECT_THAT(shown.out, HasSubstr("the first to diverge is '"));
  EXPECT_THAT(shown.out, HasSubstr("NOT valid"));
}

// With other boundaries all indices fall into another bucket.
TEST(ValidateCommand, IntegersThatDifferAreCounted) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "m.kpt").string();
  ImportedModel model = import_model(golden("numbers")).value();
  Tensor boundaries = model.weights.at("big").contiguous_copy().value();
  boundaries.elements<std::int64_t>()[1] = std::int64_t{1} << 41;
  model.weights["big"] = boundaries;
  Artifact artifact;
  artifact.producer = "kpt test";
  artifact.source = "numbers.pt2";
  artifact.targets.push_back({"cpu", {}, model.graph, model.weights, R"({"compiled": {}})"});
  ASSERT_TRUE(write_artifact(file, artifact).ok());
  const ProgramRun run = run_kpt({"validate", golden("numbers"), file, "--layers"});
  EXPECT_EQ(run.exit_code, 3) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("3 of 3 differ"));
  EXPECT_THAT(run.out, HasSubstr("equal"));
  EXPECT_THAT(run.out, Not(HasSubstr("inf")));
}

// The GPU is the test libamdhip64, whose kernels run on the host.
TEST(ValidateCommand, TwoDevicesAreHeldAgainstFp64AndAgainstEachOther) {
  const auto compiler = find_hip_compiler(Environment::from_process(), "gfx942");
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  const TemporaryFolder folder;
  const std::string spec = (folder.path() / "gpu.json").string();
  std::ofstream(spec) << R"({"version": 60443482, "devices": [{"name": "test", "gfx": "gfx942", "compute_units": 4,)"
                      << R"( "memory_total": 67108864}]})";
  const std::string search = std::filesystem::path(compiler->path).parent_path().string();
  const std::vector<std::string> machine = {"LD_LIBRARY_PATH=" + build_dir() + "/fakes/amd", "KPT_FAKE_HIP=" + spec,
                                            "PATH=" + search + ":/usr/bin:/bin", "ROCM_PATH="};
  const std::string cache = "cache.dir=" + (folder.path() / "cache").string();
  const ProgramRun run =
      run_kpt({"validate", golden("tied"), "--devices", "cpu,amd:0", "--layers", "--json", "--set", cache}, machine);
  ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
  const auto report = run.json();
  ASSERT_EQ(report.at("contenders").size(), 2U);
  EXPECT_EQ(report.at("contenders")[0].at("device"), "cpu");
  EXPECT_EQ(report.at("contenders")[1].at("device"), "amd:0");
  for (const auto& contender : report.at("contenders")) {
    EXPECT_TRUE(contender.at("gate").at("passed").get<bool>());
    EXPECT_TRUE(contender.at("determinism").at("repeatable").get<bool>());
  }
  ASSERT_FALSE(report.at("pairs").empty());
  for (const auto& pair : report.at("pairs")) {
    EXPECT_EQ(pair.at("first"), "cpu");
    EXPECT_EQ(pair.at("second"), "amd:0");
    EXPECT_LT(pair.at("max_difference").get<double>(), 1e-4);
    EXPECT_GT(pair.at("cosine").get<double>(), 0.999);
  }
  ASSERT_EQ(report.at("pair_layers").size(), 1U);
  EXPECT_EQ(report.at("pair_layers")[0].at("first"), "cpu");
  EXPECT_EQ(report.at("pair_layers")[0].at("second"), "amd:0");
  const auto& inside = report.at("pair_layers")[0].at("layers");
  EXPECT_GT(inside.size(), 1U);
  for (const auto& layer : inside) EXPECT_LT(layer.at("max_difference").get<double>(), 1e-4) << layer;
  // An accelerator before the processor; the processor where there is none.
  const auto find_auto = [&] {
    std::vector<std::string> here = machine;
    here.emplace_back("CUDA_VISIBLE_DEVICES=");
    const ProgramRun found =
        run_kpt({"explain", golden("tied"), "--device", "auto", "--runs", "1", "--json", "--set", cache}, here);
    EXPECT_EQ(found.exit_code, 0) << found.err;
    return found.json().at("device").get<std::string>();
  };
  EXPECT_EQ(find_auto(), "amd:0");
  std::ofstream(spec) << R"({"version": 60443482, "devices": []})";
  EXPECT_EQ(find_auto(), "cpu");
}
#endif

}  // namespace
}  // namespace kpt::testing
