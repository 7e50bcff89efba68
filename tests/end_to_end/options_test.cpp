// Every option must have an effect that a user can see. Those of NVIDIA GPUs need one and are tested beside what they
// bound (tests/execution); cache.budget_bytes is in cache_test.cpp, amd.architecture, amd.compile_options,
// amd.matrix_cores, amd.memory_percent and amd.memory_margin_bytes in compile_amd_test.cpp (amd.memory_kept_bytes
// beside the backend), the rest of tpu.* in compile_command_test.cpp.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "hardware_fixture.h"
#include "ir/text.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> doctor(const std::string& category, const std::string& setting) {
  return {"doctor", "--json", "--category", category, "--set", setting};
}

TEST(OptionEffect, LogLevelDecidesWhatIsLogged) {
  EXPECT_THAT(run_kpt(doctor("system", "log.level=info")).err, HasSubstr("doctor ran"));
  EXPECT_THAT(run_kpt(doctor("system", "log.level=warn")).err, IsEmpty());
  EXPECT_THAT(run_kpt({"doctor", "--category", "system"}, {"KPT_LOG=info"}).err, HasSubstr("doctor ran"));
}

TEST(OptionEffect, LogFormatJsonGivesOneObjectALine) {
  const ProgramRun run =
      run_kpt({"doctor", "--category", "system", "--set", "log.level=info", "--set", "log.format=json"});
  const auto line = ordered_json::parse(run.err.substr(0, run.err.find('\n')), nullptr, false);
  ASSERT_FALSE(line.is_discarded()) << run.err;
  EXPECT_EQ(line.at("level"), "info");
}

TEST(OptionEffect, CacheDirIsWhereTheDoctorWrites) {
  const TemporaryFolder folder;
  const std::string place = (folder.path() / "deep" / "cache").string();
  const ProgramRun run = run_kpt(doctor("cache", "cache.dir=" + place));
  EXPECT_THAT(find_line(run.json(), "cache", "folder").at("message"), HasSubstr(place));
  EXPECT_TRUE(std::filesystem::is_directory(place));
}

TEST(OptionEffect, CliColorForcesOrForbidsColour) {
  const auto colour_in = [](const std::string& value, const std::vector<std::string>& environment = {}) {
    return run_kpt({"doctor", "--category", "system", "--set", "cli.color=" + value}, environment).out.find("\x1b[") !=
           std::string::npos;
  };
  EXPECT_TRUE(colour_in("always"));
  EXPECT_TRUE(colour_in("always", {"NO_COLOR=1"}));
  EXPECT_FALSE(colour_in("never"));
  EXPECT_FALSE(colour_in("auto"));  // not a terminal
}

// A recorded processor, the same on every machine.
TEST(OptionEffect, CpuIsaHidesInstructionSets) {
  const HardwareFixture machine = HardwareFixture::load(source_dir() + "/tests/data/hardware/cpu/neoverse_v1.json");
  const auto processor = [&](const std::string& hidden) {
    return find_line(run_kpt(doctor("cpu", "cpu.isa=" + hidden), {"KPT_SYSTEM_ROOT=" + machine.root().string()}).json(),
                     "cpu", "processor");
  };
  EXPECT_THAT(processor("").at("message"), HasSubstr("DOTPROD SVE BF16 I8MM"));
  const ordered_json limited = processor("no-bf16,no-i8mm");
  EXPECT_THAT(limited.at("message"), HasSubstr("DOTPROD SVE; hidden by cpu.isa: BF16 I8MM"));
  EXPECT_EQ(limited.at("details").at("matrix_precisions"), ordered_json({"int8"}));
  const ProgramRun wrong = run_kpt(doctor("cpu", "cpu.isa=bf16"));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.out, HasSubstr("cpu.isa"));
}

TEST(OptionEffect, ProbeTimeoutLimitsAHangingLibrary) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "cuda.json") << R"({"version": 13000, "calls": {"cuInit": "hang"}})";
  const ProgramRun run = run_kpt(
      doctor("nvidia", "probe.timeout_ms=200"),
      {"LD_LIBRARY_PATH=" + build_dir() + "/fakes/nvidia", "KPT_FAKE_CUDA=" + (folder.path() / "cuda.json").string()});
  EXPECT_THAT(run.out, HasSubstr("0.2 s"));
}

TEST(OptionEffect, ProbeBackendsLeavesStacksAlone) {
  const ordered_json report = run_kpt(doctor("nvidia,amd,tpu,libtorch", "probe.backends=amd")).json();
  EXPECT_THAT(find_line(report, "nvidia", "driver").at("message"), HasSubstr("probe.backends"));
  EXPECT_THAT(find_line(report, "tpu", "chips").at("message"), HasSubstr("probe.backends"));
  EXPECT_THAT(find_line(report, "tpu", "pjrt plugins").at("message"), HasSubstr("probe.backends"));
  EXPECT_THAT(find_line(report, "libtorch", "library").at("message"), HasSubstr("probe.backends"));
  EXPECT_THAT(find_line(report, "amd", "runtime").at("message").get<std::string>(), Not(HasSubstr("probe.backends")));
}

TEST(OptionEffect, PjrtPluginsAreLookedAtAndAMissingOneFails) {
  const ProgramRun run = run_kpt(doctor("tpu", "pjrt.plugins=mine=/no/such/plugin.so"));
  EXPECT_EQ(run.exit_code, 1);
  const ordered_json line = find_line(run.json(), "tpu", "pjrt mine");
  EXPECT_EQ(line.at("status"), "fail");
  EXPECT_THAT(line.at("message"), HasSubstr("/no/such/plugin.so"));
}

TEST(OptionEffect, PjrtCompileTimeoutStopsACompilerThatHangs) {
  const ProgramRun run = run_kpt(
      {"run", source_dir() + "/tests/golden/pt2/2.15.0/kwargs.pt2", "--device", "xla:fake", "--set",
       "pjrt.plugins=fake=" + build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", "--set", "pjrt.compile_timeout_ms=300"},
      {"FAKE_PJRT=hang PJRT_Client_Compile"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("was stopped after 0.3 s"));
}

// The fake plugin has four devices.
TEST(OptionEffect, PjrtDevicesAndShardingDecideWhatIsSharedOut) {
  const auto run = [](const std::string& devices, const std::string& sharding) {
    return run_kpt({"run", source_dir() + "/tests/golden/pt2/2.15.0/tied.pt2", "--device", "xla:fake", "--set",
                    "pjrt.plugins=fake=" + build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", "--set",
                    "pjrt.devices=" + devices, "--set", "pjrt.sharding=" + sharding})
        .err;
  };
  EXPECT_THAT(run("5", "batch"), HasSubstr("the option pjrt.devices asks for 5 devices, and xla:fake has 4"));
  EXPECT_THAT(run("4", "weights"), HasSubstr("no weight of the model can be shared out over 4 devices"));
  EXPECT_THAT(run("4", "batch"), HasSubstr("4 devices cannot share a batch of"));
  EXPECT_THAT(run("1", "weights"), Not(HasSubstr("shared out")));
}

// A model for the fake plugin, whose programs give their inputs back.
void write_rows(const std::string& file) {
  Artifact rows;
  rows.producer = "kpt test";
  rows.source = "rows.pt2";
  rows.targets.push_back(
      {"xla:fake",
       {},
       ir::read_graph("kpt_graph 1\nsymbol s0 in 1..64\nsymbol s1 in 1..64\ninput x: float32[s0, s1]\n"
                      "result: float32[s0, s1] = aten.relu.default(self=%x)\noutput %result "
                      "\"result\"\n")
           .value(),
       {},
       R"({"compiled":{}})"});
  ASSERT_TRUE(write_artifact(file, rows).ok());
}

// With the fake plugin, whose sizes cost a compile each; its programs give their inputs back.
TEST(OptionEffect, MemoryOptionsDecideHowBatchesRun) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "rows.kpt").string();
  write_rows(file);
  const auto explained = [&file](const std::vector<std::string>& settings, const char* key) {
    std::vector<std::string> arguments = {"explain",
                                          file,
                                          "--json",
                                          "--device",
                                          "xla:fake",
                                          "--set",
                                          "pjrt.plugins=fake=" + build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so"};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    const ProgramRun run = run_kpt(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    return run.json().value(key, std::string());
  };
  const auto batches = [&](const std::vector<std::string>& settings) { return explained(settings, "batches"); };
  EXPECT_EQ(batches({}),
            "padded to a few sizes; could be split along s0 when memory runs out: set memory.split_batches");
  EXPECT_EQ(batches({"memory.split_batches=true"}), "padded to a few sizes; split along s0 when memory runs out");
  EXPECT_THAT(batches({"memory.batch_buckets=false"}), StartsWith("could be split along s0"));
  EXPECT_EQ(explained({}, "sequences"), "padded along s1 to a few lengths: no position looks at later ones");
  EXPECT_THAT(explained({"memory.sequence_buckets=false"}, "sequences"), StartsWith("could be padded along s1"));
}

#if defined(KPT_HAS_TORCH)
// The fake plugin's target has no lowering for erfinv; the CPU has a kernel.
TEST(OptionEffect, PlacementSplitGivesNodesToTheCpu) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "mixed.kpt").string();
  Artifact mixed;
  mixed.producer = "kpt test";
  mixed.source = "mixed.pt2";
  mixed.targets.push_back({"xla:fake",
                           {},
                           ir::read_graph("kpt_graph 1\ninput x: float32[4, 3]\n"
                                          "a: float32[4, 3] = aten.relu.default(self=%x)\n"
                                          "b: float32[4, 3] = aten.erfinv.default(self=%a)\noutput %b \"b\"\n")
                               .value(),
                           {},
                           R"({"compiled":{}})"});
  ASSERT_TRUE(write_artifact(file, mixed).ok());
  const auto kpt = [&file](const std::string& command, const std::string& allowed) {
    return run_kpt({command, file, "--json", "--device", "xla:fake", "--set",
                    "pjrt.plugins=fake=" + build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", "--set",
                    "placement.split=" + allowed});
  };
  const ProgramRun refused = kpt("inspect", "false");
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_EQ(refused.json().at("advice"), "allow placement.split to run them on the CPU");
  EXPECT_THAT(kpt("run", "false").out, HasSubstr("; allow placement.split to run them on the CPU"));
  const ProgramRun split = kpt("inspect", "true");
  EXPECT_EQ(split.exit_code, 0) << split.err;
  EXPECT_EQ(split.json().at("placement"), "2 parts: 1 node on xla:fake, 1 on cpu");
  const ProgramRun run = kpt("run", "true");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json().at("device"), "xla:fake+cpu");
  const ProgramRun explained = kpt("explain", "true");
  ASSERT_EQ(explained.exit_code, 0) << explained.err;
  const ordered_json parts = explained.json().at("placement").at("parts");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].at("device"), "cpu");
  EXPECT_EQ(parts[1].at("received_bytes"), 48);
  EXPECT_EQ(explained.json().at("nodes")[1].at("device"), "cpu");
}
#endif

// libtpu is the fake plugin; a program takes what it is told to.
TEST(OptionEffect, TpuOptionsBoundMemoryOfTheProgramAndOfItsCompiler) {
  const TemporaryFolder folder;
  const std::string library = (folder.path() / "libtpu.so").string();
  std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", library);
  const auto compile = [&](const std::string& setting, const std::string& orders) {
    std::vector<std::string> arguments = {"compile", golden("conv_norm"), "--target", "tpu:v5e", "--no-cache", "--set",
                                          setting};
#if defined(KPT_NO_MEMORY_LIMIT)
    if (!setting.starts_with("tpu.compile_memory_bytes")) {
      arguments.insert(arguments.end(), {"--set", "tpu.compile_memory_bytes=0"});
    }
#endif
    return run_kpt(arguments, {"TPU_LIBRARY_PATH=" + library, "FAKE_PJRT=" + orders});
  };
  EXPECT_EQ(compile("tpu.memory_percent=20", "temporaries 2000000000").exit_code, 0);
  const ProgramRun large = compile("tpu.memory_percent=10", "temporaries 2000000000");
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("1.6 GiB by tpu.memory_percent"));
#if !defined(KPT_NO_MEMORY_LIMIT)
  EXPECT_EQ(compile("tpu.compile_memory_bytes=2147483648", "allocate 600000000").exit_code, 0);
  const ProgramRun greedy = compile("tpu.compile_memory_bytes=268435456", "allocate 600000000");
  EXPECT_EQ(greedy.exit_code, 1);
  EXPECT_THAT(greedy.err, AllOf(HasSubstr("256.0 MiB"), HasSubstr("tpu.compile_memory_bytes")));
#endif
}

TEST(OptionEffect, StrictTurnsWarningsIntoFailure) {
  // More threads than cores is a warning on any machine.
  const std::vector<std::string> crowded = {"doctor", "--json", "--category", "cpu", "--set", "threads.count=4096"};
  EXPECT_EQ(run_kpt(crowded).exit_code, 0);
  EXPECT_EQ(run_kpt(crowded, {"KPT_STRICT=true"}).exit_code, 1);
  std::vector<std::string> development = crowded;
  development.insert(development.end(), {"--preset", "development"});
  EXPECT_EQ(run_kpt(development).exit_code, 1);
}

TEST(OptionEffect, PresetTrainingLogsWhatIsLoadedCompiledAndCached) {
  const TemporaryFolder folder;
  const auto kpt = [&](std::vector<std::string> command, const std::string& preset) {
    command.insert(command.end(), {"--set", "cache.dir=" + (folder.path() / "cache").string()});
    if (!preset.empty()) command.insert(command.end(), {"--preset", preset});
    const ProgramRun run = run_kpt(command);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.err;
  };
  const std::string model = (folder.path() / "rows.kpt").string();
  write_rows(model);
  const std::vector<std::string> on_xla = {
      "run",      model,   "--device",
      "xla:fake", "--set", "pjrt.plugins=fake=" + build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so"};
  const std::string loaded = "model loaded path=" + model + " device=xla:fake";
  EXPECT_THAT(kpt(on_xla, "training"), AllOf(HasSubstr("XLA program compiled"),
                                             HasSubstr("kept in the compile cache kind=xla"), HasSubstr(loaded)));
  EXPECT_THAT(kpt(on_xla, "training"), AllOf(HasSubstr("taken from the compile cache kind=xla"), HasSubstr(loaded),
                                             Not(HasSubstr("XLA program compiled")), Not(HasSubstr("kept in"))));
  EXPECT_THAT(kpt(on_xla, ""), AllOf(Not(HasSubstr("model loaded")), Not(HasSubstr("the compile cache"))));
#if defined(KPT_HAS_TORCH)
  const std::string other = golden("linear_state");
  const std::string artifact = (folder.path() / "m.kpt").string();
  const std::vector<std::string> optimize = {"optimize", other, "--no-measure", "-o", artifact};
  EXPECT_THAT(kpt(optimize, "training"),
              AllOf(HasSubstr("model optimized model=linear_state.pt2 device=cpu level=balanced gate=passed"),
                    HasSubstr("kept in the compile cache kind=optimize")));
  EXPECT_THAT(kpt(optimize, "training"),
              AllOf(HasSubstr("taken from the compile cache kind=optimize"), Not(HasSubstr("model optimized"))));
  EXPECT_THAT(kpt({"run", artifact}, "training"), HasSubstr("model loaded path=" + artifact + " device=cpu"));
  const std::vector<std::string> bench = {"bench", other, "--samples", "1", "--warmup", "0", "--duration", "0"};
  EXPECT_THAT(kpt(bench, "training"), HasSubstr("model loaded path=" + other + " device=cpu"));
#endif
}

TEST(OptionEffect, ThreadsCountIsUsedAndItsOriginShown) {
  const ordered_json set = find_line(run_kpt(doctor("cpu", "threads.count=1")).json(), "cpu", "cores");
  EXPECT_EQ(set.at("details").at("threads"), 1);
  EXPECT_THAT(set.at("message"), HasSubstr("--set"));
  const ordered_json automatic =
      find_line(run_kpt({"doctor", "--json", "--category", "cpu"}, {"OMP_NUM_THREADS=1"}).json(), "cpu", "cores");
  EXPECT_EQ(automatic.at("details").at("threads"), 1);
  EXPECT_THAT(automatic.at("message"), HasSubstr("automatic"));
}

TEST(OptionEffect, TorchDirDecidesWhichLibtorchIsLookedAt) {
  const ProgramRun run = run_kpt(doctor("libtorch", "torch.dir=/no/such/torch"));
  EXPECT_THAT(find_line(run.json(), "libtorch", "library").at("message"), HasSubstr("/no/such/torch"));
}

}  // namespace
}  // namespace kpt::testing
