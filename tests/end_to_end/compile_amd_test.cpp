// kpt compile for AMD GPUs that are not here, with a real compiler, and its artifacts on the test libamdhip64.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "backends/amd/hip_compiler.h"
#include "base/files.h"
#include "hardware_fixture.h"
#include "importer/model_forge.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CompileForAmd : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto compiler = find_hip_compiler(Environment::from_process(), "gfx942");
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    compiler_ = compiler->path;
  }
  ProgramRun run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) const {
    arguments.push_back("--set");
    arguments.push_back("cache.dir=" + path("cache"));
    return run_kpt(arguments, environment);
  }
  // A machine with one GPU and, with an empty `search`, without a compiler.
  std::vector<std::string> machine_with(const std::string& gfx_target, const std::string& search,
                                        std::size_t memory = 67108864, const std::string& fake = "amd") const {
    const std::string spec = path(gfx_target + ".json");
    std::ofstream(spec) << fmt::format(
        R"({{"version": 60443482, "real_time": true, "devices": [{{"name": "test", "gfx": "{}", "compute_units": 4, "memory_total": {}}}]}})",
        gfx_target, memory);
    return {"LD_LIBRARY_PATH=" + build_dir() + "/fakes/" + fake, "KPT_FAKE_HIP=" + spec, "PATH=" + search,
            "ROCM_PATH="};
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
  std::string compiler_;
};

TEST_F(CompileForAmd, SeveralTargetsInOneFileAndTheSecondProcessTakesAllFromTheCache) {
  const std::vector<std::string> arguments = {"compile", golden("tied"), "--target", "amd:gfx942,gfx1100",
                                              "-o",      path("m.kpt"),  "--json"};
  const auto first = run(arguments).json();
  ASSERT_EQ(first.at("targets").size(), 2U);
  EXPECT_EQ(first.at("targets").at(0).at("target"), "amd:gfx942");
  EXPECT_EQ(first.at("targets").at(1).at("target"), "amd:gfx1100");
  for (const auto& target : first.at("targets")) {
    EXPECT_GT(target.at("statistics").at("compilations").get<int>(), 0);
    EXPECT_EQ(target.at("statistics").at("hits"), 0);
    const double seconds = target.at("estimates").at("published_rates_seconds").get<double>();
    EXPECT_GT(seconds, 1e-12);
    EXPECT_LT(seconds, 1e-3) << "a small model";
    ASSERT_FALSE(target.at("figures").at("kernels").empty());
    for (const auto& kernel : target.at("figures").at("kernels")) {
      EXPECT_GT(kernel.at("vector_registers").get<int>(), 0) << kernel;
      EXPECT_EQ(kernel.at("vector_spills"), 0) << kernel;
      EXPECT_GT(kernel.at("waves").get<int>(), 0) << kernel;
    }
  }
  const auto seconds_of = [&](std::size_t target) {
    return first.at("targets").at(target).at("estimates").at("published_rates_seconds").get<double>();
  };
  EXPECT_NEAR(seconds_of(1) / seconds_of(0), 6.0 / 0.96, 1e-6) << "memory bounds it, of an MI325X and an RX 7900 XTX";
  const Artifact artifact = read_artifact(path("m.kpt")).value();
  ASSERT_EQ(artifact.targets.size(), 2U);
  EXPECT_THAT(artifact.targets[0].program, AllOf(HasSubstr("kpt-amd-program 1\namd:gfx942\n"), HasSubstr("\x7f"
                                                                                                         "ELF")));
  EXPECT_THAT(artifact.targets[1].program, HasSubstr("amd:gfx1100"));

  const auto second = run(arguments).json();
  for (const auto& target : second.at("targets")) {
    EXPECT_EQ(target.at("statistics").at("compilations"), 0);
    EXPECT_GT(target.at("statistics").at("hits").get<int>(), 0);
    EXPECT_EQ(target.at("statistics").at("hit_rate"), 1.0);
  }

  // A damaged entry is made anew, and only that one.
  for (const auto& entry : std::filesystem::directory_iterator(path("cache") + "/compile")) {
    if (entry.path().extension() != ".entry") continue;
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
    break;
  }
  int compilations = 0;
  const auto third = run(arguments).json();
  for (const auto& target : third.at("targets")) {
    compilations += target.at("statistics").at("compilations").get<int>();
  }
  EXPECT_EQ(compilations, 1);
}

TEST_F(CompileForAmd, TheFileRunsWithoutACompilerOnItsTargetAndWithOneOnOthers) {
  const std::string file = path("m.kpt");
  const ProgramRun compiled = run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", file});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_THAT(compiled.out, AllOf(HasSubstr("gfx942 CDNA3"), HasSubstr("VGPRs"), HasSubstr("waves per SIMD"),
                                  HasSubstr("0 errors, hit rate 0.0 %"), HasSubstr("wrote " + file)));
  std::filesystem::remove_all(path("cache"));
  const ProgramRun own = run({"run", file, "--device", "amd:0"}, machine_with("gfx942", "/nowhere"));
  EXPECT_EQ(own.exit_code, 0) << own.err;
  const ProgramRun lacking = run({"run", file, "--device", "amd:0"}, machine_with("gfx90a", "/nowhere"));
  EXPECT_EQ(lacking.exit_code, 1);
  EXPECT_THAT(lacking.err, AllOf(HasSubstr("no compiler for gfx90a"), HasSubstr("install clang-22 and lld-22"),
                                 HasSubstr("libtorch's ROCm build (not taken: "), HasSubstr("as device xla:rocm")));
  const std::string search = std::filesystem::path(compiler_).parent_path().string();
  const ProgramRun other = run({"run", file, "--device", "amd:0"}, machine_with("gfx90a", search));
  EXPECT_EQ(other.exit_code, 0) << other.err;
}

TEST_F(CompileForAmd, TheFileRunsOnTheRuntimesOfRocm5AndRocm7) {
  const std::string file = path("m.kpt");
  ASSERT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", file}).exit_code, 0);
  for (const char* fake : {"amd_rocm5", "amd_rocm7"}) {
    const ProgramRun own = run({"run", file, "--device", "amd:0"}, machine_with("gfx942", "/nowhere", 67108864, fake));
    EXPECT_EQ(own.exit_code, 0) << own.err;
  }
  // The newest is taken: one of ROCm 6 that cannot be loaded stands beside it.
  std::filesystem::create_directory(path("broken"));
  std::ofstream(path("broken/libamdhip64.so.6")) << "no library";
  for (const bool newest : {true, false}) {
    std::vector<std::string> machine = machine_with("gfx942", "/nowhere", 67108864, newest ? "amd_rocm7" : "amd_rocm5");
    machine[0] += ":" + path("broken");
    const ProgramRun both = run({"run", file, "--device", "amd:0"}, machine);
    EXPECT_EQ(both.exit_code, newest ? 0 : 1) << both.err;
  }
}

// A hundredth of so small a GPU is less than any weight takes, and a margin as large as it leaves nothing.
TEST_F(CompileForAmd, OptionsBoundTheMemoryOfARun) {
  const std::string file = path("m.kpt");
  ASSERT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", file}).exit_code, 0);
  const auto start = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"run", file, "--device", "amd:0"};
    for (const std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back(setting);
    }
    return run(arguments, machine_with("gfx942", "/nowhere", 49152));
  };
  const ProgramRun plain = start({"amd.memory_margin_bytes=0"});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  const ProgramRun part = start({"amd.memory_margin_bytes=0", "amd.memory_percent=1"});
  EXPECT_EQ(part.exit_code, 1);
  EXPECT_THAT(part.err, HasSubstr("this process may take"));
  const ProgramRun margin = start({"amd.memory_margin_bytes=49152"});
  EXPECT_EQ(margin.exit_code, 1);
  EXPECT_THAT(margin.err, HasSubstr("would leave less than"));
}

TEST_F(CompileForAmd, ExplainShowsWhatTheKernelsTake) {
  const std::string file = path("m.kpt");
  ASSERT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", file}).exit_code, 0);
  const std::vector<std::string> without_compiler = {"PATH=/nowhere", "ROCM_PATH="};
  const auto json = run({"explain", file, "--target", "amd:gfx942", "--json"}, without_compiler).json();
  EXPECT_EQ(json.at("stored"), true);
  EXPECT_THAT(json.at("figures").at("compiler").get<std::string>(), HasSubstr("clang"));
  ASSERT_FALSE(json.at("figures").at("kernels").empty());
  EXPECT_GT(json.at("figures").at("kernels").at(0).at("scalar_registers").get<int>(), 0);
  EXPECT_TRUE(std::ranges::any_of(json.at("nodes"), [](const auto& node) {
    return node.at("how").template get<std::string>().starts_with("own kernels: ");
  }));
  const ProgramRun shown = run({"explain", golden("tied"), "--target", "amd:gfx942"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("compiled here"), HasSubstr("VGPRs"), HasSubstr("waves per SIMD")));
  EXPECT_THAT(run({"explain", file, "--target", "amd:gfx90a"}).err, HasSubstr("holds nothing for amd:gfx90a"));
  for (const char* flag : {"--runs=3", "--size=s0=2", "--times"}) {
    EXPECT_EQ(run({"explain", file, "--target", "amd:gfx942", flag}).exit_code, 2) << flag << " says nothing there";
  }
  const auto on_device =
      run({"explain", file, "--device", "amd:0", "--json"}, machine_with("gfx942", "/nowhere")).json();
  EXPECT_EQ(on_device.at("kernels"), json.at("figures").at("kernels"));
}

// Times are those of the host, which executes the kernels there.
TEST_F(CompileForAmd, ProfileTellsWhatEachKernelTook) {
  const std::string file = path("m.kpt");
  const std::string trace = path("trace.json");
  ASSERT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", file}).exit_code, 0);
  const std::vector<std::string> arguments = {"profile", file, "--device", "amd:0", "--runs", "4", "--warmup", "1"};
  const ProgramRun shown = run(arguments, machine_with("gfx942", "/nowhere"));
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("on amd:0: "), HasSubstr("on the device"), HasSubstr("a call"),
                               HasSubstr("least"), HasSubstr("greatest"), HasSubstr("product_")));
  std::vector<std::string> for_programs = arguments;
  for_programs.insert(for_programs.end(), {"--json", "--trace", trace});
  const auto json = run(for_programs, machine_with("gfx942", "/nowhere")).json();
  EXPECT_EQ(json.at("device"), "amd:0");
  EXPECT_GT(json.at("device_busy_microseconds").get<double>(), 0);
  const auto& kernels = json.at("kernels");
  EXPECT_TRUE(std::ranges::any_of(kernels, [](const auto& row) { return row.at("kind") == "kernel"; }));
  EXPECT_TRUE(std::ranges::any_of(kernels, [](const auto& row) { return row.at("kind") == "copy"; }));
  for (const auto& row : kernels) {
    const double mean = row.at("mean_microseconds");
    EXPECT_GT(row.at("calls").get<double>(), 0) << row;
    EXPECT_NEAR(mean * row.at("calls").get<double>(), row.at("microseconds").get<double>(), 1e-6) << row;
    EXPECT_GE(row.at("least_microseconds").get<double>(), 0) << row;
    EXPECT_LE(row.at("least_microseconds").get<double>(), mean * (1 + 1e-9)) << row;
    EXPECT_GE(row.at("greatest_microseconds").get<double>(), mean * (1 - 1e-9)) << row;
  }
  // The trace holds each call of the runs as always, from which the same figures follow.
  std::ifstream stream(trace);
  const auto timeline = nlohmann::json::parse(stream);
  ASSERT_EQ(timeline.at("otherData").at("kernels").size(), kernels.size());
  const std::string name = kernels.at(0).at("name");
  EXPECT_EQ(timeline.at("otherData").at("kernels").at(0).at("name"), name);
  double greatest = 0;
  for (const auto& event : timeline.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("name") == name) greatest = std::max(greatest, event.at("dur").get<double>());
  }
  EXPECT_GE(greatest, kernels.at(0).at("greatest_microseconds").get<double>()) << "with the runs node by node";
}

// A layer in bfloat16: the kernel that explain names, and what is compiled for it and runs.
TEST_F(CompileForAmd, MatrixCoresAreAnOption) {
  const auto how = [&](const std::string& setting) {
    const auto json = run({"explain", golden("bf16"), "--target", "amd:gfx942", "--json", "--set", setting}).json();
    for (const auto& node : json.at("nodes")) {
      if (node.at("operator") == "aten.linear.default") return node.at("how").get<std::string>();
    }
    return std::string("no such node");
  };
  EXPECT_THAT(how("amd.matrix_cores=true"), HasSubstr("matrix_cdna3_bf16"));
  EXPECT_THAT(how("amd.matrix_cores=false"), HasSubstr("product_"));
  const std::string file = path("m.kpt");
  const auto setting = {"--set", "amd.matrix_cores=false"};
  std::vector<std::string> compile = {"compile", golden("bf16"), "--target", "amd:gfx942", "-o", file};
  compile.insert(compile.end(), setting.begin(), setting.end());
  ASSERT_EQ(run(compile).exit_code, 0);
  std::filesystem::remove_all(path("cache"));
  std::vector<std::string> start = {"run", file, "--device", "amd:0"};
  const ProgramRun lacking = run(start, machine_with("gfx942", "/nowhere"));
  EXPECT_EQ(lacking.exit_code, 1) << "the file has no kernels for matrix cores";
  EXPECT_THAT(lacking.err, HasSubstr("no compiler for gfx942"));
  start.insert(start.end(), setting.begin(), setting.end());
  const ProgramRun own = run(start, machine_with("gfx942", "/nowhere"));
  EXPECT_EQ(own.exit_code, 0) << own.err;
}

// The target of `--target amd` and of the GPU that models run on.
TEST_F(CompileForAmd, TheArchitectureIsAnOption) {
  const auto target_of = [&](const std::string& setting, const std::vector<std::string>& machine) {
    const ProgramRun compiled =
        run({"explain", golden("tied"), "--target", "amd", "--json", "--set", setting}, machine);
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err << compiled.out;
    return compiled.json().value("target", "none");
  };
  const std::string search = std::filesystem::path(compiler_).parent_path().string();
  EXPECT_EQ(target_of("amd.architecture=gfx1100", {}), "amd:gfx1100");
  EXPECT_EQ(target_of("amd.architecture=gfx942", machine_with("gfx1100", search)), "amd:gfx942")
      << "what is detected does not change what the user chose";
  EXPECT_EQ(target_of("amd.architecture=auto", machine_with("gfx1100", search)), "amd:gfx1100");
  EXPECT_THAT(run({"compile", golden("tied"), "--target", "amd"}).err, HasSubstr("no AMD GPU here to take the target"));
  EXPECT_THAT(run({"compile", golden("tied"), "--target", "amd", "--set", "amd.architecture=gfx943"}).err,
              HasSubstr("amd.architecture is 'gfx943'; valid are auto, "));

  const std::vector<std::string> start = {"run", golden("tied"), "--device", "amd:0", "--json", "--set"};
  const auto with = [&](const char* setting) {
    std::vector<std::string> arguments = start;
    arguments.emplace_back(setting);
    return run(arguments, machine_with("gfx1100", search));
  };
  EXPECT_EQ(with("amd.architecture=gfx1100").exit_code, 0);
  const ProgramRun other = with("amd.architecture=gfx942");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(other.json().at("error").at("code"), "invalid_architecture");
  EXPECT_EQ(other.json().at("error").at("vendor"), "amd");
  EXPECT_THAT(other.json().at("error").at("message").get<std::string>(),
              HasSubstr("amd:0 is gfx1100, and amd.architecture is gfx942"));
}

TEST_F(CompileForAmd, CompileOptionsReachTheCompilerAndTheCache) {
  const auto compile = [&](const std::string& options) {
    return run({"compile", golden("tied"), "--target", "amd:gfx942", "--json", "-o", path("m.kpt"), "--set",
                "amd.compile_options=" + options});
  };
  const auto compilations = [&](const std::string& options) {
    return compile(options).json().at("targets").at(0).at("statistics").at("compilations").get<int>();
  };
  EXPECT_GT(compilations(""), 0);
  EXPECT_EQ(compilations(""), 0);
  EXPECT_GT(compilations("-O1"), 0);
  EXPECT_EQ(compilations("-O1"), 0);
  EXPECT_EQ(compilations(""), 0);
  const auto target = compile("-O1").json().at("targets").at(0);
  EXPECT_THAT(target.at("figures").at("compiler").get<std::string>(), HasSubstr(" -O1"));
  EXPECT_NE(target.at("figures").at("kernels"), compile("").json().at("targets").at(0).at("figures").at("kernels"))
      << "registers are those of other code";
  ASSERT_EQ(compile("-O1").exit_code, 0);
  // The file's code serves who asks for nothing else; otherwise a compiler is needed.
  std::filesystem::remove_all(path("cache"));
  const std::vector<std::string> start = {"run", path("m.kpt"), "--device", "amd:0"};
  const ProgramRun plain = run(start, machine_with("gfx942", "/nowhere"));
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  std::vector<std::string> other = start;
  other.insert(other.end(), {"--set", "amd.compile_options=-O2"});
  const ProgramRun lacking = run(other, machine_with("gfx942", "/nowhere"));
  EXPECT_EQ(lacking.exit_code, 1);
  EXPECT_THAT(lacking.err, HasSubstr("no compiler for gfx942"));
  EXPECT_THAT(compile("-ffast-math").json().at("error").at("message").get<std::string>(),
              HasSubstr("amd.compile_options is \"-ffast-math\", expected a list of -O1"));
}

TEST_F(CompileForAmd, NodesWithoutAKernelAreListed) {
  const ProgramRun refused = run({"compile", golden("cond"), "--target", "amd:gfx942", "-o", path("m.kpt")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("nodes cannot run on amd:gfx942"), HasSubstr("no kernel of ours")));
  EXPECT_FALSE(std::filesystem::exists(path("m.kpt")));
  const ProgramRun checked = run({"compile", golden("cond"), "--target", "amd:gfx942", "--check"});
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.out, AllOf(HasSubstr("higher_order.cond"), HasSubstr("1 finding; nothing was compiled")));
  EXPECT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "--check"}).exit_code, 0);
}

// A compiler that finds a mistake of ours: the real one, with a line more in each source.
TEST_F(CompileForAmd, AMistakeInAKernelIsNamedByLineAndText) {
  const std::string script = path("clang++-22");
  std::ofstream(script)
      << "#!/bin/sh\nfor last; do :; done\ncase \"$last\" in *.hip) echo 'int broken = ;' >> \"$last\";; "
         "esac\nexec "
      << compiler_ << " \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const ProgramRun refused = run({"compile", golden("tied"), "--target", "amd:gfx942", "--json"},
                                 {"PATH=" + folder_.path().string() + ":/usr/bin:/bin", "ROCM_PATH="});
  EXPECT_EQ(refused.exit_code, 1);
  const auto error = refused.json().at("error");
  EXPECT_EQ(error.at("code"), "kernel_compilation");
  EXPECT_EQ(error.at("vendor"), "amd");
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("does not compile for gfx942: expected expression"));
  EXPECT_THAT(error.at("details").at("file").get<std::string>(), HasSubstr(".hip"));
  EXPECT_EQ(error.at("details").at("line"), "5");
  EXPECT_EQ(error.at("details").at("text"), "expected expression");
}

TEST_F(CompileForAmd, TargetsThatAreNoneAreSentences) {
  EXPECT_THAT(run({"compile", golden("tied"), "--target", "amd:gfx1"}).err,
              AllOf(HasSubstr("there is no target 'amd:gfx1'; valid are amd:"), HasSubstr("amd:gfx942")));
  EXPECT_THAT(run({"compile", golden("tied"), "--target", "amd:gfx942,gfx942"}).err, HasSubstr("named twice"));
}

TEST_F(CompileForAmd, ABenchmarkTellsTheMemoryAndTheModelOfTheGpu) {
  const std::string file = path("m.kpt");
  const std::string base = path("base.json");
  ASSERT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", file}).exit_code, 0);
  const std::vector<std::string> arguments = {"bench",     file, "--device",        "amd:0", "--duration", "0.05",
                                              "--samples", "5",  "--save-baseline", base,    "--warmup",   "0"};
  const ProgramRun shown = run(arguments, machine_with("gfx942", "/nowhere"));
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("on amd:0 (test)"), HasSubstr("device memory")));
  std::vector<std::string> for_programs = arguments;
  for_programs.emplace_back("--json");
  const auto json = run(for_programs, machine_with("gfx942", "/nowhere")).json();
  EXPECT_EQ(json.at("context").at("device_model"), "test");
  const double peak = json.at("benchmarks").at(0).at("peak_device_bytes");
  EXPECT_GT(peak, 0);
  EXPECT_LT(peak, 67108864) << "the GPU has no more";
  const auto baseline = nlohmann::json::parse(read_text_file(base, 1U << 20U).value());
  EXPECT_EQ(baseline.at("entries").at(0).at("key").at("device_model"), "test");
}

#if defined(KPT_HAS_TORCH)
// One MiB is more than the model takes of the GPU and less than the process takes of the host.
TEST_F(CompileForAmd, ProductionJudgesTheMemoryOfTheGpu) {
  const std::vector<std::string> machine =
      machine_with("gfx942", std::filesystem::path(compiler_).parent_path().string());
  const auto checks_with = [&](const char* devices, const std::string& most) {
    const ProgramRun judged = run(
        {"validate", golden("tied"), "--devices", devices, "--production", "--max-memory-mb", most, "--json"}, machine);
    std::map<std::string, nlohmann::json> checks;
    const auto report = judged.json();
    for (const auto& check : report.at("production").at("checks")) {
      checks[check.at("device").get<std::string>() + " " + check.at("name").get<std::string>()] = check;
    }
    EXPECT_EQ(judged.exit_code, report.at("production").at("passed").get<bool>() ? 0 : 1) << judged.err;
    return checks;
  };
  const auto enough = checks_with("amd:0", "1");
  EXPECT_EQ(enough.at("amd:0 memory").at("severity"), "ok") << enough.at("amd:0 memory");
  EXPECT_THAT(enough.at("amd:0 memory").at("text").get<std::string>(), HasSubstr("MiB on amd:0"));
  EXPECT_GT(enough.at("amd:0 memory").at("value").get<double>(), 0);
  EXPECT_EQ(enough.at("amd:0 host_memory").at("severity"), "info");
  EXPECT_GT(enough.at("amd:0 host_memory").at("value").get<double>(), 1);  // which would be too much
  const auto little = checks_with("amd:0", "0.000001");
  EXPECT_EQ(little.at("amd:0 memory").at("severity"), "error");
  EXPECT_THAT(little.at("amd:0 memory").at("text").get<std::string>(), HasSubstr("at most 1e-06 are required"));
  // Of several devices each is checked, the processor first: what the GPU takes of the host is not its own.
  const auto both = checks_with("amd:0,cpu", "1");
  EXPECT_EQ(both.at("amd:0 memory").at("severity"), "ok");
  EXPECT_EQ(both.at("cpu memory").at("severity"), "error");
  EXPECT_LE(both.at("cpu memory").at("value").get<double>(), both.at("amd:0 host_memory").at("value").get<double>());
}

TEST_F(CompileForAmd, ALevelThatTheGpuItselfJudgedLeavesItsAnswersForTheCheckAtLoading) {
  const std::vector<std::string> machine =
      machine_with("gfx942", std::filesystem::path(compiler_).parent_path().string());
  const std::string file = path("m.kpt");
  const std::vector<std::string> arguments = {"compile",      golden("tied"), "--target", "amd:gfx942", "--level",
                                              "conservative", "-o",           file,       "--json"};
  const ProgramRun compiled = run(arguments, machine);
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err << compiled.out;
  EXPECT_EQ(compiled.json().at("targets").at(0).at("level").at("judged_on"), "amd:0");
  Artifact artifact = read_artifact(file).value();
  ASSERT_FALSE(artifact.samples.empty());
  EXPECT_EQ(artifact.samples[0].target, "amd:gfx942");
  EXPECT_EQ(run({"run", file, "--device", "amd:0"}, machine).exit_code, 0);
  Tensor wrong = artifact.samples[0].reference[0].tensor.contiguous_copy().value();
  for (double& value : wrong.elements<double>()) value += 1;
  artifact.samples[0].reference[0].tensor = wrong;
  Tensor answer = artifact.samples[0].outputs[0].tensor.contiguous_copy().value();
  for (float& value : answer.elements<float>()) value += 1;
  artifact.samples[0].outputs[0].tensor = answer;
  ASSERT_TRUE(write_artifact(path("wrong.kpt"), artifact).ok());
  EXPECT_THAT(run({"run", path("wrong.kpt"), "--device", "amd:0"}, machine).err,
              HasSubstr("does not give its stored answers here"));
  // Without the GPU the CPU judges, whose answers are not the GPU's.
  ASSERT_EQ(run(arguments).exit_code, 0);
  EXPECT_TRUE(read_artifact(file).value().samples.empty());
}

TEST_F(CompileForAmd, AGpuThatThisReleaseDoesNotKnowLeavesTheCpuToJudge) {
  const ProgramRun compiled = run({"compile", golden("tied"), "--target", "amd:gfx942", "--level", "conservative"},
                                  machine_with("gfx9999", std::filesystem::path(compiler_).parent_path().string()));
  EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_THAT(compiled.out, AllOf(HasSubstr("on cpu: amd:gfx942 cannot be used here: "), HasSubstr("gfx9999")));
}

TEST_F(CompileForAmd, OptimizeSaysWhatItDidForTheGpuAndItsFileRunsThere) {
  const std::string search = std::filesystem::path(compiler_).parent_path().string();
  const std::string file = path("m.kpt");
  const ProgramRun optimized = run(
      {"optimize", golden("tied"), "--device", "amd:0", "--level", "balanced", "--no-measure", "-o", file, "--json"},
      machine_with("gfx942", search));
  ASSERT_EQ(optimized.exit_code, 0) << optimized.err << optimized.out;
  const auto report = optimized.json();
  EXPECT_EQ(report.at("device"), "amd:0");
  EXPECT_TRUE(report.at("passed").get<bool>());
  std::map<std::string, nlohmann::json> passes;
  for (const auto& pass : report.at("passes")) passes[pass.at("pass").get<std::string>()] = pass;
  EXPECT_EQ(passes.at("fuse_linear").at("changes"), 2);
  EXPECT_EQ(passes.at("assign_bf16").at("changes"), 2);
  EXPECT_EQ(passes.at("fuse_conv").at("skipped"), "the target does not run kpt.conv2d.default");
  EXPECT_EQ(read_artifact(file).value().targets.at(0).name, "amd:gfx942");
  const ProgramRun own = run({"run", file, "--device", "amd:0"}, machine_with("gfx942", search));
  EXPECT_EQ(own.exit_code, 0) << own.err;
  const ProgramRun plain = run({"run", file, "--device", "cpu"});
  EXPECT_EQ(plain.exit_code, 1);
  EXPECT_THAT(plain.err, HasSubstr("amd:gfx942"));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// `tied` with a vocabulary of 48 and rows of 32 numbers: FP8 is for multiples of 16.
std::string wide_model() {
  std::string weight;
  for (int index = 0; index < 48 * 32; ++index) {
    const auto bytes = std::bit_cast<std::array<char, 4>>(std::sin(static_cast<float>(index)));
    weight.append(bytes.data(), bytes.size());
  }
  ForgedZip zip = forge_model(golden("tied"));
  for (ForgedEntry& entry : zip.entries) {
    if (entry.name.find("/weights/weight_") != std::string::npos) entry.content = weight;
    if (!entry.name.ends_with(".json")) continue;
    for (const auto& [from, to] : {std::pair{7, 48}, std::pair{4, 32}, std::pair{12, 96}, std::pair{21, 144}}) {
      replace_all(entry.content, fmt::format("{{\"as_int\": {}}}", from), fmt::format("{{\"as_int\": {}}}", to));
    }
  }
  return zip.build();
}

// What a flag for the precision would say is said of passes: gfx942 multiplies FP8, int8 and bfloat16.
TEST_F(CompileForAmd, EachPassThatLowersThePrecisionCanBeDisabled) {
  ASSERT_TRUE(write_file_atomically(path("wide.pt2"), wide_model()).ok());
  const std::vector<std::string> machine =
      machine_with("gfx942", std::filesystem::path(compiler_).parent_path().string());
  const auto products_without = [&](const std::vector<std::string>& disabled) {  // by kernel
    std::vector<std::string> arguments = {"optimize",   path("wide.pt2"), "--device",    "amd:0", "--level",
                                          "aggressive", "--no-measure",   "--tolerance", "1",     "-o",
                                          path("m.kpt")};
    for (const std::string& pass : disabled) arguments.insert(arguments.end(), {"--disable-pass", pass});
    const ProgramRun optimized = run(arguments, machine);
    EXPECT_EQ(optimized.exit_code, 0) << optimized.err << optimized.out;
    const auto explained = run({"explain", path("m.kpt"), "--target", "amd:gfx942", "--json"}).json();
    std::map<std::string, int> products;
    for (const auto& node : explained.at("nodes")) {
      const std::string how = node.at("how");
      for (const char* kernel : {"matrix_cdna3_e4m3fnuz", "matrix_cdna3_i8", "matrix_cdna3_bf16", "product_f32"}) {
        if (how.find(kernel) != std::string::npos) ++products[kernel];
      }
    }
    return products;
  };
  using Products = std::map<std::string, int>;
  EXPECT_EQ(products_without({}), (Products{{"matrix_cdna3_e4m3fnuz", 2}}));
  EXPECT_EQ(products_without({"quantize_fp8"}), (Products{{"matrix_cdna3_i8", 2}})) << "int8 follows";
  EXPECT_EQ(products_without({"quantize_fp8", "quantize_int8"}), (Products{{"matrix_cdna3_bf16", 2}}));
  EXPECT_EQ(products_without({"quantize_fp8", "quantize_int8", "assign_bf16"}), (Products{{"product_f32", 2}}));
}

TEST_F(CompileForAmd, OptimizeForSeveralDevicesGivesOneFileThatRunsOnEach) {
  const std::vector<std::string> machine =
      machine_with("gfx942", std::filesystem::path(compiler_).parent_path().string());
  const std::string file = path("m.kpt");
  const auto optimize = [&](const std::string& level, const std::vector<std::string>& further) {
    std::vector<std::string> arguments = {"optimize", golden("tied"), "--device", "cpu,amd:0", "--level",
                                          level,      "--no-measure", "-o",       file};
    arguments.insert(arguments.end(), further.begin(), further.end());
    return run(arguments, machine);
  };
  const ProgramRun refused = optimize("aggressive", {"--tolerance", "0"});
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_THAT(refused.out, HasSubstr("refused on cpu: no part is written"));
  EXPECT_FALSE(std::filesystem::exists(file));

  const ProgramRun made = optimize("balanced", {"--json", "--dump-after", path("dump")});
  ASSERT_EQ(made.exit_code, 0) << made.err << made.out;
  const auto report = made.json();
  EXPECT_TRUE(report.at("passed").get<bool>());
  EXPECT_TRUE(report.at("refused_on").is_null());
  EXPECT_EQ(report.at("written"), file);
  ASSERT_EQ(report.at("devices").size(), 2U);
  EXPECT_EQ(report.at("devices").at(1).at("device"), "amd:0");
  EXPECT_TRUE(std::filesystem::is_directory(path("dump") + "/cpu"));
  EXPECT_TRUE(std::filesystem::is_directory(path("dump") + "/amd:0"));
  const Artifact artifact = read_artifact(file).value();
  ASSERT_EQ(artifact.targets.size(), 2U);
  EXPECT_EQ(artifact.targets[0].name, "cpu");
  EXPECT_EQ(artifact.targets[1].name, "amd:gfx942");
  for (const char* device : {"cpu", "amd:0"}) {  // with the self-check, each against its own answers
    const ProgramRun own = run({"run", file, "--device", device}, machine);
    EXPECT_EQ(own.exit_code, 0) << device << own.err;
  }
  const ProgramRun valid = run({"validate", golden("tied"), file, "--devices", "cpu,amd:0"}, machine);
  EXPECT_EQ(valid.exit_code, 0) << valid.err << valid.out;
  EXPECT_THAT(run({"optimize", golden("tied"), "--device", "cpu,cpu", "-o", file}, machine).err,
              HasSubstr("the device cpu is named twice"));
}

// The device is "amd:0" and the artifact's part "amd:gfx942".
TEST_F(CompileForAmd, ThePageOfABenchmarkShowsTheErrorsOfThePartForTheGpu) {
  const std::vector<std::string> machine =
      machine_with("gfx942", std::filesystem::path(compiler_).parent_path().string());
  const auto page_of = [&](const std::string& file) {
    const std::string page = path("page.html");
    std::filesystem::remove(page);
    const ProgramRun measured = run(
        {"bench", file, "--device", "amd:0", "--duration", "0.05", "--warmup", "0", "--samples", "5", "--html", page},
        machine);
    EXPECT_EQ(measured.exit_code, 0) << measured.err;
    return measured.exit_code == 0 ? read_text_file(page, 1U << 24U).value() : "";
  };
  const std::string optimized = path("optimized.kpt");
  const ProgramRun made =
      run({"optimize", golden("tied"), "--device", "amd:0", "--no-measure", "-o", optimized}, machine);
  ASSERT_EQ(made.exit_code, 0) << made.err << made.out;
  EXPECT_THAT(page_of(optimized), HasSubstr("Error and tolerance"));
  const std::string compiled = path("compiled.kpt");
  const ProgramRun ahead =
      run({"compile", golden("tied"), "--target", "amd:gfx942", "--level", "balanced", "-o", compiled}, machine);
  ASSERT_EQ(ahead.exit_code, 0) << ahead.err << ahead.out;
  EXPECT_THAT(page_of(compiled), HasSubstr("Error and tolerance"));
  const std::string as_exported = path("plain.kpt");
  ASSERT_EQ(run({"compile", golden("tied"), "--target", "amd:gfx942", "-o", as_exported}).exit_code, 0);
  EXPECT_THAT(page_of(as_exported), ::testing::Not(HasSubstr("Error and tolerance"))) << "nobody judged it";
}
#endif

// What planned launches cannot do with the whole graph is a refusal of the optimizer too.
TEST_F(CompileForAmd, AModelThatCannotRunThereCannotBeOptimized) {
  const auto refused = run({"optimize", golden("writes"), "--device", "amd:0", "-o", path("m.kpt"), "--json"},
                           machine_with("gfx942", std::filesystem::path(compiler_).parent_path().string()))
                           .json();
  EXPECT_EQ(refused.at("error").at("code"), "model_optimization") << refused.dump();
  EXPECT_THAT(refused.at("error").at("message").get<std::string>(),
              AllOf(HasSubstr("the model cannot be optimized"), HasSubstr("planned launches write buffers only")));
  EXPECT_FALSE(std::filesystem::exists(path("m.kpt")));
}

}  // namespace
}  // namespace kpt::testing
