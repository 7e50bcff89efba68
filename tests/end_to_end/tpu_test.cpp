// Models on tpu:N as a user types it: a machine with chips that is written down, and the fake plugin in libtpu's place,
// whose programs give their arguments back.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "ir/text.h"
#include "program.h"
#include "support/hardware_fixture.h"
#include "support/tpu_machine.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TpuCommands : public ::testing::Test {
 protected:
  TpuCommands() {
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path("libtpu.so"));
    Artifact rows;
    rows.producer = "kpt test";
    rows.source = "rows.pt2";
    rows.targets.push_back({"tpu:v5e:2x2",
                            {},
                            ir::read_graph("kpt_graph 1\ninput x: float32[4, 3]\n"
                                           "result: float32[4, 3] = aten.relu.default(self=%x)\noutput %result "
                                           "\"result\"\n")
                                .value(),
                            {},
                            R"({"compiled":{}})"});
    EXPECT_TRUE(write_artifact(path("rows.kpt"), rows).ok());
  }
  ProgramRun kpt(std::vector<std::string> arguments, const std::string& orders = "temporaries 1000",
                 std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.end(), {"--set", "cache.dir=" + path("cache")});
    for (const auto& [name, value] : tpu_machine_variables(path("libtpu.so")))
      environment.push_back(name + "=" + value);
    environment.push_back("KPT_SYSTEM_ROOT=" + machine_.root().string());
    environment.push_back("FAKE_PJRT=" + orders);
    environment.emplace_back("KPT_TPU_COMPILE_MEMORY_BYTES=0");  // a sanitizer takes more than any limit
    return run_kpt(arguments, environment);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  HardwareFixture machine_ = make_tpu_machine();
  TemporaryFolder folder_;
};

TEST_F(TpuCommands, AModelRunsAndTheProfileShowsLibtpusMemory) {
  const ProgramRun run = kpt({"run", path("rows.kpt"), "--device", "tpu:2", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(run.json().at("device"), "tpu:2");
  const ProgramRun profile = kpt({"profile", path("rows.kpt"), "--device", "tpu:0", "--runs", "2", "--json"});
  ASSERT_EQ(profile.exit_code, 0) << profile.out << profile.err;
  EXPECT_EQ(profile.json().at("memory").at("allocated_bytes"), 1234);
  EXPECT_EQ(profile.json().at("memory").at("limit_bytes"), 5678);
}

TEST_F(TpuCommands, OptionsOfTheBackendHaveTheirEffect) {
  const std::vector<std::string> run = {"run", path("rows.kpt"), "--device", "tpu:0"};
  const auto with = [&](const std::string& setting, const std::string& orders) {
    std::vector<std::string> arguments = run;
    arguments.insert(arguments.end(), {"--set", setting});
    return kpt(arguments, orders);
  };
  const ProgramRun slow = with("pjrt.compile_timeout_ms=500", "temporaries 1000;hang PJRT_Compile");
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_THAT(slow.err, HasSubstr("pjrt.compile_timeout_ms"));
  EXPECT_THAT(with("tpu.memory_percent=40", "temporaries 1000").err, HasSubstr("by tpu.memory_percent"));
  const ProgramRun other = with("tpu.topology=v5e:4x4", "temporaries 1000");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("the TPUs of this machine are v5e:2x2, and tpu.topology is v5e:4x4"));
  // The user's own mistake is no reason to run elsewhere.
  const ProgramRun best = kpt({"run", path("rows.kpt"), "--device", "auto", "--set", "tpu.topology=v5e:4x4"}, "");
  EXPECT_EQ(best.exit_code, 1);
  EXPECT_THAT(best.err, HasSubstr("tpu.topology is v5e:4x4"));
  EXPECT_EQ(with("tpu.topology=v5e:2x2", "temporaries 1000").exit_code, 0);
  EXPECT_THAT(with("pjrt.devices=5", "temporaries 1000").err, HasSubstr("asks for 5 devices, and tpu:0 has 4"));
}

TEST_F(TpuCommands, WhatWasCompiledAheadIsRunWithoutCompiling) {
  const std::string file = path("ahead.kpt");
  const ProgramRun compiled = kpt({"compile", golden("conv_norm"), "--target", "tpu:v5e:2x2", "-o", file});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.out << compiled.err;
  const std::string nobody = "temporaries 1000;fail PJRT_Client_Compile 13 nobody compiles here";
  // The fake's answer has not the shape of the model's, so that only loading is looked at.
  const ProgramRun loaded = kpt({"run", file, "--device", "tpu:0", "--set", "log.level=info"}, nobody);
  EXPECT_THAT(loaded.err, AllOf(HasSubstr("device=tpu:0"), HasSubstr("stored=true"), Not(HasSubstr("nobody"))));
  const ProgramRun other = kpt({"run", file, "--device", "tpu:0", "--set", "tpu.precision=bfloat16"}, nobody);
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.out + other.err, HasSubstr("nobody compiles here"));
}

TEST_F(TpuCommands, EveryStartAsksLibtpuInAChildProcess) {
  const std::vector<std::string> run = {"run", path("rows.kpt"), "--device", "tpu:0"};
  const std::string sound = "temporaries 1000";
  const ProgramRun first = kpt(run, sound);
  EXPECT_EQ(first.exit_code, 0) << first.out << first.err;
  const ProgramRun crashed = kpt(run, "abort");  // it answered a moment ago
  EXPECT_EQ(crashed.exit_code, 1);
  EXPECT_THAT(crashed.err, AllOf(HasSubstr("no TPU can be used: "), HasSubstr("signal 6")));
  EXPECT_EQ(kpt(run, sound).exit_code, 0);
}

TEST_F(TpuCommands, WithoutLibtpuThereIsOneSentence) {
  std::filesystem::remove(path("libtpu.so"));
  const ProgramRun run = kpt({"run", path("rows.kpt"), "--device", "tpu:0"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("no TPU can be used: "), HasSubstr("libtpu")));
}

}  // namespace
}  // namespace kpt::testing
