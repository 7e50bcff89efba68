// kpt compile --level: the passes before the compiler, which is the fake plugin, and the gate on the CPU.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "hardware_fixture.h"
#include "ir/text.h"
#include "program.h"
#include "support/tpu_machine.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CompileLevel : public ::testing::Test {
 protected:
  CompileLevel() { std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path("libtpu.so")); }
  ProgramRun compile(std::vector<std::string> arguments, std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), "compile");
    arguments.insert(arguments.end(), {"--set", "cache.dir=" + path("cache")});
    environment.push_back("TPU_LIBRARY_PATH=" + path("libtpu.so"));
    environment.emplace_back("KPT_TPU_COMPILE_MEMORY_BYTES=0");  // a sanitizer takes more than any limit
    return run_kpt(arguments, environment);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(CompileLevel, ALevelIsOneOfThreeAndNotForTheCheck) {
  EXPECT_EQ(compile({golden("linear_forms"), "--target", "tpu:v5e", "--level", "wild"}).exit_code, 2);
  EXPECT_EQ(compile({golden("linear_forms"), "--target", "tpu:v5e", "--level", "balanced", "--check"}).exit_code, 2);
}

TEST_F(CompileLevel, AnOptionForOtherHardwareThanIsHereIsToldAsSuch) {
  const HardwareFixture machine = make_tpu_machine();
  std::vector<std::string> environment = {"KPT_SYSTEM_ROOT=" + machine.root().string()};
  for (const auto& [name, value] : tpu_machine_variables(path("libtpu.so"))) environment.push_back(name + "=" + value);
  const std::vector<std::string> arguments = {
      golden("linear_forms"), "--target", "tpu:v5e", "--level", "conservative", "--set", "tpu.topology=v6e:2x2"};
  const ProgramRun run = compile(arguments, environment);
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.err, HasSubstr("the TPUs of this machine are v5e:2x2, and tpu.topology is v6e:2x2"));
}

#if defined(KPT_HAS_TORCH)
TEST_F(CompileLevel, BalancedIsBfloat16OnATpuAndTheGateJudgesOnTheCpu) {
  const std::string file = path("m.kpt");
  const ProgramRun run =
      compile({golden("conv_norm"), "--target", "tpu:v5e", "--level", "balanced", "-o", file, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto level = run.json().at("targets").at(0).at("level");
  EXPECT_EQ(level.at("name"), "balanced");
  EXPECT_EQ(level.at("judged_on"), "cpu");
  EXPECT_EQ(level.at("not_judged"), "");
  EXPECT_EQ(level.at("report").at("passed"), true);
  std::size_t narrowed = 0;
  for (const auto& row : level.at("passes")) {
    if (row.at("pass") == "assign_bf16") narrowed += row.at("changes").get<std::size_t>();
  }
  EXPECT_GT(narrowed, 0U) << level.dump();
  const Artifact artifact = read_artifact(file).value();
  const ArtifactTarget& target = artifact.targets.at(0);
  EXPECT_THAT(ir::print_graph(target.graph), HasSubstr("bfloat16"));
  EXPECT_THAT(target.needs, Contains("fast-bfloat16"));
  EXPECT_THAT(target.report, AllOf(HasSubstr("\"optimized\""), HasSubstr("tpu:v5e:2x2 cannot be used here: no TPU")));
  EXPECT_THAT(target.program, HasSubstr("bfloat16"));
}

TEST_F(CompileLevel, WithoutALevelTheModelStaysAsItIs) {
  const std::string file = path("m.kpt");
  ASSERT_EQ(compile({golden("conv_norm"), "--target", "tpu:v5e", "-o", file}).exit_code, 0);
  const ArtifactTarget target = read_artifact(file).value().targets.at(0);
  EXPECT_THAT(ir::print_graph(target.graph), Not(HasSubstr("bfloat16")));
  EXPECT_TRUE(target.needs.empty());
  EXPECT_THAT(target.report, Not(HasSubstr("optimized")));
}

TEST_F(CompileLevel, OtherTargetsTakeOneToo) {
  const ProgramRun run =
      compile({golden("conv_norm"), "--target", "nvidia:sm_90,tpu:v6e", "--level", "conservative", "--json"},
              {"CUDA_VISIBLE_DEVICES=-1"});  // a GPU of that kind would judge by itself
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto report = run.json();
  for (const auto& target : report.at("targets")) {
    EXPECT_EQ(target.at("level").at("judged_on"), "cpu") << target.at("target");
  }
}

TEST_F(CompileLevel, TheTextTellsWhoJudged) {
  const ProgramRun run = compile({golden("conv_norm"), "--target", "tpu:v5e", "--level", "conservative"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("conservative on cpu"), HasSubstr("the gate passed"),
                             HasSubstr("the gate judged runs of the same graph on cpu: tpu:v5e:2x2 cannot be used"),
                             HasSubstr("the gate ran the model, and nothing was timed")));
}

TEST_F(CompileLevel, SizesThatAreGivenAreThoseOfTheGate) {
  const ProgramRun run =
      compile({golden("linear_state"), "--target", "tpu:v5e", "--level", "balanced", "--size", "s77=6", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto gate = run.json().at("targets").at(0).at("level").at("report").at("gate");
  EXPECT_THAT(gate.at("draws").dump(), HasSubstr("s77=6"));
}
#endif

TEST_F(CompileLevel, WithoutACpuEngineNobodyJudgesAndThatIsTold) {
  const ProgramRun run =
      compile({golden("conv_norm"), "--target", "tpu:v5e", "--level", "balanced"}, {"KPT_TORCH_DIR=/no/such"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("not judged: "), HasSubstr("nothing was run")));
}

}  // namespace
}  // namespace kpt::testing
