// kpt compile with a PJRT plugin that is here: the fake one, as xla:cuda.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "hardware_fixture.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CompileForXla : public ::testing::Test {
 protected:
  CompileForXla() { std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path("fake.so")); }
  ProgramRun kpt(std::vector<std::string> arguments, const std::string& orders = "",
                 const std::string& plugin = "cuda") const {
    arguments.insert(arguments.end(), {"--set", "cache.dir=" + path("cache")});
    return run_kpt(arguments, {"PJRT_NAMES_AND_LIBRARY_PATHS=" + plugin + ":" + path("fake.so"), "FAKE_PJRT=" + orders,
                               "VIRTUAL_ENV=/no/such", "CONDA_PREFIX="});
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(CompileForXla, ShowsWhatThePluginSays) {
  const std::vector<std::string> arguments = {"compile", golden("conv_norm"), "--target", "xla:cuda"};
  const ProgramRun run = kpt(arguments);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("xla:cuda (fake device)"), HasSubstr("plugin cuda; PJRT 0.81; fake 1"),
                             HasSubstr("512 B"), HasSubstr("1000 B"), HasSubstr("4.0 KiB"), HasSubstr("compiling took"),
                             HasSubstr("1 compilations"), HasSubstr("nothing was run")));
  std::vector<std::string> again = arguments;
  again.emplace_back("--json");
  const auto json = kpt(again, "fail PJRT_Client_Compile 13 nobody compiles here").json().at("targets").at(0);
  EXPECT_EQ(json.at("statistics").at("hits"), 1);
  EXPECT_EQ(json.at("figures").at("temporary_bytes"), 4096);
  EXPECT_GE(json.at("compile_seconds").get<double>(), 0);
  EXPECT_EQ(json.at("level"), nullptr);
}

TEST_F(CompileForXla, WhatWasCompiledAheadIsRunWithoutCompiling) {
  const std::string file = path("ahead.kpt");
  const ProgramRun compiled = kpt({"compile", golden("conv_norm"), "--target", "xla:cuda", "-o", file, "--no-cache"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.out << compiled.err;
  const Artifact artifact = read_artifact(file).value();
  ASSERT_EQ(artifact.targets.size(), 1U);
  EXPECT_EQ(artifact.targets[0].name, "xla:cuda");
  EXPECT_THAT(artifact.targets[0].program,
              AllOf(HasSubstr("kpt-xla-executable 2\nxla:cuda\n"), HasSubstr("\"platform_version\":\"fake 1\""),
                    HasSubstr("fake_executable")));
  EXPECT_THAT(artifact.targets[0].report, HasSubstr("plugin cuda; PJRT 0.81; fake 1"));
  // The fake's answer has not the shape of the model's, so that only loading is looked at.
  const std::vector<std::string> run = {"run", file, "--device", "xla:cuda", "--set", "log.level=info"};
  const std::string nobody = "fail PJRT_Client_Compile 13 nobody compiles here";
  EXPECT_THAT(kpt(run, nobody).err, AllOf(HasSubstr("stored=true"), Not(HasSubstr("nobody"))));
  const ProgramRun other = kpt(run, nobody + ";platform_version fake 2");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, AllOf(HasSubstr("a stored program is not used"), HasSubstr("platform version fake 1"),
                               HasSubstr("nobody compiles here")));
  const ProgramRun explained = kpt({"explain", file, "--target", "xla:cuda"});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, AllOf(HasSubstr("as the file holds it"), HasSubstr("fake device")));
}

TEST_F(CompileForXla, AnyPluginIsATargetByItsName) {
  const ProgramRun run = kpt({"compile", golden("conv_norm"), "--target", "xla:Odd_One"}, "", "Odd_One");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("xla:Odd_One (fake device)"));
  const ProgramRun unknown = kpt({"compile", golden("conv_norm"), "--target", "xla:nobody"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("there is no target 'xla:nobody'"), HasSubstr("xla:cpu, xla:cuda")));
}

TEST_F(CompileForXla, WhatCannotBeIsOneSentence) {
  const std::vector<std::string> arguments = {"compile", golden("conv_norm"), "--target", "xla:cuda", "--no-cache"};
  const ProgramRun mute = kpt(arguments, "lack PJRT_Executable_Serialize");
  EXPECT_EQ(mute.exit_code, 1);
  EXPECT_THAT(mute.err, AllOf(HasSubstr("cannot serialize it"), HasSubstr("PJRT_Executable_Serialize")));
  const ProgramRun missing = kpt({"compile", golden("conv_norm"), "--target", "xla:rocm"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("compiling for xla:rocm needs its PJRT plugin, which was not found"));
  // Of a name that no plugin of this machine has: a second one would be used.
  const ProgramRun broken = kpt({"compile", golden("conv_norm"), "--target", "xla:rocm"}, "crash", "rocm");
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr("its PJRT plugin, which cannot be used"));
  std::vector<std::string> limited = arguments;
  limited.insert(limited.end(), {"--set", "pjrt.compile_timeout_ms=700"});
  const ProgramRun slow = kpt(limited, "hang PJRT_Client_Compile");
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_THAT(slow.err, AllOf(HasSubstr("stopped after 0.7 s"), HasSubstr("pjrt.compile_timeout_ms")));
  const ProgramRun open = kpt({"compile", golden("sizes"), "--target", "xla:cuda"});
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.err, HasSubstr("a program for xla:cuda has fixed sizes"));
}

}  // namespace
}  // namespace kpt::testing
