// kpt compile for TPUs that are not here; libtpu is the fake plugin.
#include <algorithm>
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

class CompileCommand : public ::testing::Test {
 protected:
  // A copy for each test: compiles with the same library wait for each other.
  CompileCommand() { std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path("libtpu.so")); }
  ProgramRun compile(std::vector<std::string> arguments, const std::string& orders = "",
                     std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), "compile");
    arguments.push_back("--set");
    arguments.push_back("cache.dir=" + folder_.path().string());
    environment.push_back("TPU_LIBRARY_PATH=" + path("libtpu.so"));
    environment.push_back("FAKE_PJRT=" + orders);
#if defined(KPT_NO_MEMORY_LIMIT)
    environment.push_back("KPT_TPU_COMPILE_MEMORY_BYTES=0");
#endif
    return run_kpt(arguments, environment);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(CompileCommand, ShowsWhatTheCompilerSays) {
  const ProgramRun run = compile({golden("conv_norm"), "--target", "tpu:v5e:2x2", "--price", "1.20"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("tpu:v5e:2x2"), HasSubstr("fake device"), HasSubstr("512 B"),
                             HasSubstr("1000 B"), HasSubstr("4.0 KiB"), HasSubstr("16.0 GiB"), HasSubstr("FLOP"),
                             HasSubstr("250 ms"), HasSubstr("1.20 $ per chip and hour")));
  EXPECT_THAT(run.out, AllOf(HasSubstr("time, estimate of the compiler"),
                             HasSubstr("time, estimate from published rates"), HasSubstr("nothing was run")));
}

TEST_F(CompileCommand, JsonHoldsTheSame) {
  const auto outcome = compile({golden("conv_norm"), "--target", "tpu:v6e", "--json"}).json();
  EXPECT_EQ(outcome.at("written"), nullptr);
  ASSERT_EQ(outcome.at("targets").size(), 1U);
  const auto& json = outcome.at("targets").at(0);
  EXPECT_EQ(json.at("target"), "tpu:v6e:2x2");
  EXPECT_EQ(json.at("figures").at("argument_bytes"), 1000);
  EXPECT_EQ(json.at("figures").at("transcendentals"), nullptr);
  EXPECT_EQ(json.at("total_bytes"), 1000 + 200 - 8 + 4096 + 512);
  EXPECT_EQ(json.at("estimates").at("compiler_seconds"), 0.25);
  EXPECT_GT(json.at("estimates").at("published_rates_seconds").get<double>(), 0);
  EXPECT_EQ(json.at("estimates").at("dollars_per_hour"), nullptr);
  EXPECT_GT(json.at("graph_flops").get<double>(), 0);
  EXPECT_EQ(json.at("statistics").at("compilations"), 1);
  EXPECT_EQ(json.at("statistics").at("misses"), 1);
  EXPECT_EQ(json.at("statistics").at("errors"), 0);
  const auto again = compile({golden("conv_norm"), "--target", "tpu:v6e", "--json"}).json();
  const auto& second = again.at("targets").at(0).at("statistics");
  EXPECT_EQ(second.at("hits"), 1);
  EXPECT_EQ(second.at("compilations"), 0);
}

TEST_F(CompileCommand, RepeatedCompilationsLeaveTheCacheOut) {
  const std::vector<std::string> once = {golden("conv_norm"), "--target", "tpu:v5e", "--json"};
  ASSERT_EQ(compile(once).exit_code, 0);  // now there is an entry
  std::vector<std::string> thrice = once;
  thrice.insert(thrice.end(), {"--repeat", "3"});
  const ProgramRun run = compile(thrice);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto outcome = run.json();
  const auto& json = outcome.at("targets").at(0);
  EXPECT_EQ(json.at("statistics").at("compilations"), 3);
  EXPECT_EQ(json.at("statistics").at("hits"), 0);
  const auto& times = json.at("benchmark");
  const auto seconds = [&times](const char* name) { return times.at(name).get<double>(); };
  EXPECT_EQ(times.at("runs"), 3);
  EXPECT_GT(seconds("min_time"), 0);
  EXPECT_LE(seconds("min_time"), seconds("avg_time"));
  EXPECT_LE(seconds("avg_time"), seconds("max_time"));
  EXPECT_NEAR(seconds("total_time"), 3 * seconds("avg_time"), 1e-6);
  EXPECT_LE(seconds("total_time"), outcome.at("seconds").get<double>());
  EXPECT_EQ(compile(thrice, "crash").exit_code, 1) << "the compiler is asked";
  const ProgramRun table = compile({golden("conv_norm"), "--target", "tpu:v5e", "--repeat", "2"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("2 compilations, without the cache"), HasSubstr("min_time"),
                               HasSubstr("max_time"), HasSubstr("avg_time"), HasSubstr("total_time")));
  for (const char* number : {"0", "-1", "many"}) {
    EXPECT_EQ(compile({golden("conv_norm"), "--target", "tpu:v5e", "--repeat", number}).exit_code, 2) << number;
  }
}

TEST_F(CompileCommand, TheArtifactHoldsTheProgramAndIsInspected) {
  const std::string file = path("model.kpt");
  const ProgramRun compiled = compile({golden("conv_norm"), "--target", "tpu:v5e", "-o", file});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_THAT(compiled.out, HasSubstr("wrote " + file));
  const Artifact artifact = read_artifact(file).value();
  ASSERT_EQ(artifact.targets.size(), 1U);
  EXPECT_EQ(artifact.targets[0].name, "tpu:v5e:2x2");
  EXPECT_THAT(artifact.targets[0].program, AllOf(HasSubstr("kpt-tpu-program 3"), HasSubstr("fake_executable")));
  EXPECT_THAT(artifact.targets[0].report, HasSubstr("\"code_bytes\":512"));
  EXPECT_FALSE(artifact.targets[0].weights.empty());
  const ProgramRun inspected = run_kpt({"inspect", file, "--device", "tpu:v5e:2x2"});
  EXPECT_THAT(inspected.out, AllOf(HasSubstr("made from"), HasSubstr("conv_norm.pt2"), HasSubstr("tpu:v5e:2x2")));
  const ProgramRun run = run_kpt({"run", file});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("tpu:v5e:2x2"));
}

TEST_F(CompileCommand, FreeSizesAreAskedFor) {
  const ProgramRun open = compile({golden("sizes"), "--target", "tpu:v5e"});
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.err, HasSubstr("fixed sizes"));
  EXPECT_THAT(compile({golden("sizes"), "--target", "tpu:v5e", "--size", "nobody=3"}).err,
              HasSubstr("no symbol 'nobody'"));
}

TEST_F(CompileCommand, PricesComeFromTheTableUnlessOneIsGiven) {
  const auto price = [&](const char* target, std::vector<std::string> flags) {
    std::vector<std::string> arguments = {golden("conv_norm"),           "--target", target, "--json", "--set",
                                          "tpu.prices=v5e=1.25,v6e=2.75"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return compile(arguments).json().at("targets")[0].at("estimates").at("dollars_per_hour");
  };
  EXPECT_EQ(price("tpu:v5e", {}), 1.25);
  EXPECT_EQ(price("tpu:v5e", {"--price", "3"}), 3);
  EXPECT_TRUE(price("tpu:v5p", {}).is_null());
}

// The compiler says 250 ms. A chip of v7 is two devices, and the program is for one.
TEST_F(CompileCommand, APriceIsThatOfTheDevicesShareOfItsChip) {
  const std::vector<std::string> v7 = {golden("conv_norm"), "--target", "tpu:v7", "--price", "14.40"};
  const auto dollars = [&](std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    return compile(arguments).json().at("targets")[0].at("estimates").at("dollars_per_million_runs");
  };
  EXPECT_NEAR(dollars(v7).get<double>(), 500, 1e-6);
  EXPECT_NEAR(dollars({golden("conv_norm"), "--target", "tpu:v5e", "--price", "14.40"}).get<double>(), 1000, 1e-6);
  EXPECT_TRUE(dollars({golden("conv_norm"), "--target", "tpu:v5e"}).is_null());
  EXPECT_THAT(compile(v7).out, AllOf(HasSubstr("14.40 $ per chip and hour, as given; a chip is 2 devices"),
                                     HasSubstr("500 $ by the compiler's time")));
}

// What is detected does not change what the user chose.
TEST_F(CompileCommand, TheSliceIsAnOption) {
  const auto check = [&](const std::string& setting, const std::vector<std::string>& machine) {
    return compile({golden("conv_norm"), "--target", "tpu", "--check", "--json", "--set", setting}, "", machine);
  };
  const auto target_of = [&](const std::string& setting, const std::vector<std::string>& machine) {
    const ProgramRun run = check(setting, machine);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.json().at("targets").at(0).value("target", "none");
  };
  const std::vector<std::string> v6e = {"TPU_ACCELERATOR_TYPE=v6e-16", "TPU_TOPOLOGY=4x4"};
  const std::vector<std::string> nothing = {"TPU_ACCELERATOR_TYPE=", "TPU_TOPOLOGY=", "TPU_CHIPS_PER_HOST_BOUNDS="};
  EXPECT_EQ(target_of("tpu.topology=auto", v6e), "tpu:v6e:4x4");
  EXPECT_EQ(target_of("tpu.topology=v5p:2x2x2", v6e), "tpu:v5p:2x2x2");
  EXPECT_EQ(target_of("tpu.topology=v5litepod:1x1", nothing), "tpu:v5e:1x1");
  EXPECT_THAT(check("tpu.topology=auto", nothing).json().at("error").at("message").get<std::string>(),
              HasSubstr("no TPU here to take the slice from"));
  EXPECT_THAT(check("tpu.topology=v5e:3x3", nothing).json().at("error").at("message").get<std::string>(),
              HasSubstr("tpu.topology is 'v5e:3x3'; valid are auto, "));
}

TEST_F(CompileCommand, ATargetThatIsNoneIsASentence) {
  for (const char* target : {"tpu:v9", "nvidia:0", "tpu:v5e:3x3", ""}) {
    const ProgramRun run = compile({golden("conv_norm"), "--target", target});
    EXPECT_EQ(run.exit_code, 1) << target;
    EXPECT_THAT(run.err, HasSubstr("valid are")) << target;
  }
  EXPECT_EQ(compile({golden("conv_norm")}).exit_code, 2);
}

TEST_F(CompileCommand, AdviceForAnNvidiaArchitectureNeedsNoGpu) {
  const ProgramRun hopper = compile({golden("linear_state"), "--target", "nvidia:sm_90", "--check", "--json"});
  ASSERT_EQ(hopper.exit_code, 0) << hopper.err;
  const auto target = hopper.json().at("targets")[0];
  EXPECT_EQ(target.at("target"), "nvidia:sm_90");
  const auto& findings = target.at("findings");
  const auto type = std::ranges::find_if(findings, [](const auto& one) { return one.at("kind") == "element_type"; });
  ASSERT_NE(type, findings.end());
  EXPECT_THAT(type->at("text").template get<std::string>(), HasSubstr("--level balanced"));
  const auto turing = compile({golden("linear_state"), "--target", "nvidia:sm_75", "--check", "--json"}).json();
  for (const auto& finding : turing.at("targets")[0].at("findings")) EXPECT_NE(finding.at("kind"), "element_type");
}

#if defined(KPT_HAS_TORCH)
TEST_F(CompileCommand, AFileForAnNvidiaArchitectureHoldsNodesThatAreAllThere) {
  const std::string file = path("m.kpt");
  const ProgramRun run = compile({golden("linear_state"), "--target", "nvidia:sm_90", "-o", file, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.json().at("targets")[0].at("figures").is_null());
  const auto artifact = read_artifact(file);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ(artifact->targets.at(0).name, "nvidia:sm_90");
  EXPECT_FALSE(artifact->targets.at(0).program.empty());
  EXPECT_THAT(compile({golden("linear_state"), "--target", "nvidia:sm_90"}).out, HasSubstr("all are there"));
  const ProgramRun checked = compile({golden("numbers"), "--target", "nvidia:sm_90", "--check", "--json"});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  const auto told = checked.json();
  for (const auto& finding : told.at("targets")[0].at("findings")) EXPECT_NE(finding.at("kind"), "operator");
  const ProgramRun sized = compile({golden("sizes"), "--target", "nvidia:sm_90", "--size", "s0=3"});
  EXPECT_EQ(sized.exit_code, 1);
}
#endif

TEST_F(CompileCommand, TheCompilersRefusalAndTheCacheAreSeen) {
  const std::vector<std::string> arguments = {golden("conv_norm"), "--target", "tpu:v5e"};
  const ProgramRun refused = compile(arguments, "fail PJRT_Compile 3 no such operation");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("no such operation"));
  ASSERT_EQ(compile(arguments).exit_code, 0);
  EXPECT_EQ(compile(arguments, "crash").exit_code, 0);  // from the cache
  std::vector<std::string> without = arguments;
  without.emplace_back("--no-cache");
  EXPECT_EQ(compile(without, "crash").exit_code, 1);
}

TEST_F(CompileCommand, AModelThatDoesNotFitIsRefusedWithFigures) {
  const ProgramRun run = compile({golden("conv_norm"), "--target", "tpu:v5e"}, "temporaries 20000000000");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("does not fit"), HasSubstr("18.6 GiB"), HasSubstr("16.0 GiB")));
}

TEST_F(CompileCommand, TheTimeLimitIsAnOption) {
  const ProgramRun run =
      compile({golden("conv_norm"), "--target", "tpu:v5e", "--set", "tpu.compile_timeout_ms=700"}, "hang PJRT_Compile");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("stopped after 0.7 s"));
}

TEST_F(CompileCommand, TheMemoryLimitIsAnOption) {
#if defined(KPT_NO_MEMORY_LIMIT)
  GTEST_SKIP() << "a sanitizer reserves terabytes for itself";
#else
  const std::vector<std::string> arguments = {golden("conv_norm"), "--target", "tpu:v5e", "--no-cache"};
  EXPECT_EQ(compile(arguments, "allocate 600000000").exit_code, 0);
  const ProgramRun run = compile(arguments, "allocate 600000000", {"KPT_TPU_COMPILE_MEMORY_BYTES=268435456"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("256.0 MiB"), HasSubstr("tpu.compile_memory_bytes")));
#endif
}

TEST_F(CompileCommand, FindingsComeBeforeTheCompilerIsAsked) {
  const ProgramRun check = compile({golden("conv_norm"), "--target", "tpu:v5e", "--check"}, "crash");
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("costs time: "), HasSubstr("of the 128 x 128 matrix unit"),
                               HasSubstr("nothing was compiled")));
  const auto all = compile({golden("conv_norm"), "--target", "tpu:v6e", "--check", "--json"}, "crash").json();
  const auto& json = all.at("targets")[0];
  EXPECT_EQ(json.at("target"), "tpu:v6e:2x2");
  EXPECT_EQ(json.at("must_be_mended"), nullptr);
  ASSERT_FALSE(json.at("findings").empty());
  EXPECT_EQ(json.at("findings")[0].at("kind"), "matrix_unit");
  EXPECT_EQ(json.at("findings")[0].at("refuses"), false);
  EXPECT_THAT(json.at("findings")[0].at("text"), HasSubstr("256 x 256"));
  // Beside the figures, too.
  const ProgramRun run = compile({golden("conv_norm"), "--target", "tpu:v5e"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("memory: arguments"), HasSubstr("128 x 128 matrix unit")));
  EXPECT_FALSE(
      compile({golden("conv_norm"), "--target", "tpu:v5e", "--json"}).json().at("targets")[0].at("findings").empty());
}

TEST_F(CompileCommand, WhatMustBeMendedFailsTheCheck) {
  const ProgramRun open = compile({golden("sizes"), "--target", "tpu:v5e", "--check"});
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.out, HasSubstr("refused: s"));
  EXPECT_THAT(open.err, HasSubstr("must be mended"));
  const ProgramRun json = compile({golden("sizes"), "--target", "tpu:v5e", "--check", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.json().at("targets")[0].at("must_be_mended"), HasSubstr("must be mended"));
  const ProgramRun strict = compile({golden("conv_norm"), "--target", "tpu:v5e", "--set", "strict=true"}, "crash");
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, AllOf(HasSubstr("must be mended"), HasSubstr("matrix unit")));
}

TEST_F(CompileCommand, PrecisionMemoryAndCacheAreOptions) {
  const std::vector<std::string> arguments = {golden("conv_norm"), "--target", "tpu:v5e"};
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--set", setting});
    return all;
  };
  ASSERT_EQ(compile(arguments).exit_code, 0);
  EXPECT_EQ(compile(with("tpu.precision=float32"), "crash").exit_code, 0);  // from the cache
  EXPECT_EQ(compile(with("tpu.precision=bfloat16"), "crash").exit_code, 1) << "another program";
  const ProgramRun little = compile(with("tpu.memory_percent=10"), "temporaries 2000000000");
  EXPECT_EQ(little.exit_code, 0) << "the first program still fits: " << little.err;
  std::vector<std::string> fresh = with("tpu.memory_percent=10");
  fresh.emplace_back("--no-cache");
  const ProgramRun refused = compile(fresh, "temporaries 2000000000");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("16.0 GiB (1.6 GiB by tpu.memory_percent)"));
  fresh[fresh.size() - 2] = "tpu.memory_percent=20";
  EXPECT_EQ(compile(fresh, "temporaries 2000000000").exit_code, 0);
  ASSERT_EQ(compile(with("cache.budget_bytes=0")).exit_code, 0);
  EXPECT_EQ(compile(with("cache.budget_bytes=0"), "crash").exit_code, 1) << "nothing is kept";
}

TEST_F(CompileCommand, WithoutLibtpuTheSentenceSaysHowToGetIt) {
  const ProgramRun run =
      run_kpt({"compile", golden("conv_norm"), "--target", "tpu:v5e", "--no-cache"},
              {"TPU_LIBRARY_PATH=", "VIRTUAL_ENV=/no/such", "CONDA_PREFIX=", "PJRT_NAMES_AND_LIBRARY_PATHS="});
  // A developer's Python environment may hold libtpu, and then this compiles or says what else is missing.
  if (run.exit_code == 0) GTEST_SKIP() << "this machine has libtpu";
  EXPECT_THAT(run.err, HasSubstr("libtpu"));
  EXPECT_THAT(run.err, Not(HasSubstr("internal")));
}

}  // namespace
}  // namespace kpt::testing
