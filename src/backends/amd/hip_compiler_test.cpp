#include "backends/amd/hip_compiler.h"

#include <unistd.h>

#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/code_object.h"
#include "backends/amd/code_object_forge.h"
#include "base/files.h"
#include "kpt/errors.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLimit{120000};

class HipCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("kpt_hip_test_" + std::to_string(::getpid()) + "_" + std::to_string(std::random_device{}()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A compiler that is a script; $out is the file it should write.
  HipCompiler script(const std::string& text) {
    const fs::path path = folder_ / "clang++-22";
    const std::string head = "#!/bin/sh\nout=\nfor a; do [ \"$last\" = -o ] && out=$a; last=$a; done\n";
    EXPECT_TRUE(write_file_atomically(path, head + text).ok());
    fs::permissions(path, fs::perms::owner_all);
    return {path.string(), "script 1"};
  }
  CompileCache cache() { return std::move(CompileCache::open(folder_ / "cache", 1U << 30U)).value(); }

  fs::path folder_;
  HipSource source_{"kernel.hip", "text", {{"a/b.h", "header"}}};
};

TEST_F(HipCompilerTest, ErrorsCarryFileLineAndText) {
  const HipCompiler compiler = script("echo \"$last:12:5: error: use of 'undeclared'\" >&2; exit 1");
  const auto object = compile_hip(compiler, source_, "gfx942", kLimit);
  EXPECT_EQ(object.status().code(), StatusCode::kKernelCompilation);
  EXPECT_EQ(object.status().vendor(), Vendor::kAmd);
  EXPECT_EQ(object.status().message(), "kernel.hip line 12 does not compile for gfx942: use of 'undeclared'");
  EXPECT_THAT(object.status().details(), ::testing::Contains(StatusDetail{"line", "12"}));
  EXPECT_THROW(throw_status(object.status()), HipCompilationError);
}

TEST_F(HipCompilerTest, ErrorsWithoutAPlaceAndSilentFailuresAreTold) {
  const auto driver = compile_hip(script("echo \"clang: error: unsupported HIP gpu architecture\" >&2; exit 1"),
                                  source_, "gfx942", kLimit);
  EXPECT_EQ(driver.status().message(), "kernel.hip does not compile for gfx942: unsupported HIP gpu architecture");
  const auto silent = compile_hip(script("exit 3"), source_, "gfx942", kLimit);
  EXPECT_THAT(silent.status().message(), HasSubstr("exit code 3"));
  const auto garbage = compile_hip(script("echo garbage >\"$out\""), source_, "gfx942", kLimit);
  EXPECT_THAT(garbage.status().message(), HasSubstr("what cannot be used"));
  EXPECT_EQ(compile_hip({"/no/such/clang", "1"}, source_, "gfx942", kLimit).status().code(), StatusCode::kNotFound);
}

TEST_F(HipCompilerTest, ACompilerThatHangsIsKilled) {
  const auto object = compile_hip(script("sleep 100"), source_, "gfx942", std::chrono::milliseconds(300));
  EXPECT_EQ(object.status().code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(object.status().message(), HasSubstr("no answer within 0.3 s"));
}

TEST_F(HipCompilerTest, BadTargetsAndPathsAreRefused) {
  const HipCompiler compiler = script("exit 0");
  EXPECT_EQ(compile_hip(compiler, source_, "gfx943", kLimit).status().code(), StatusCode::kInvalidArchitecture);
  for (const char* path : {"../b.h", "/etc/b.h", "a//b.h", ""}) {
    HipSource bad = source_;
    bad.headers[0].path = path;
    EXPECT_EQ(compile_hip(compiler, bad, "gfx942", kLimit).status().code(), StatusCode::kInvalidArgument) << path;
  }
  HipSource bad = source_;
  bad.name = "a/b.hip";
  EXPECT_EQ(compile_hip(compiler, bad, "gfx942", kLimit).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(own_kernels("nothing").status().code(), StatusCode::kNotFound);
}

TEST_F(HipCompilerTest, TheFirstCompilerThatKnowsTheTargetIsTaken) {
  const HipCompiler compiler = script(
      "case \"$*\" in *--version*) echo 'Some clang version 22.1.8 (of a distribution)'; echo more;; "
      "*print-prog-name=lld*) echo /bin/sh;; *gfx950*) exit 1;; esac");
  const Environment environment =
      Environment::from_map({{"PATH", "relative:" + folder_.string()}, {"ROCM_PATH", "/no/such"}});
  const auto found = find_hip_compiler(environment, "gfx942");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->path, compiler.path);
  EXPECT_EQ(found->version, "Some clang version 22.1.8 (of a distribution)");
  const auto missing = find_hip_compiler(environment, "gfx950");
  EXPECT_EQ(missing.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(missing.status().message(), HasSubstr("does not know it; install clang-22 and lld-22"));
  EXPECT_EQ(find_hip_compiler(environment, "gfx1").status().code(), StatusCode::kInvalidArchitecture);
}

TEST_F(HipCompilerTest, ACompilerWithoutALinkerOrAnAnswerIsPassedOver) {
  const Environment environment =
      Environment::from_map({{"PATH", folder_.string()}, {"ROCM_PATH", (folder_ / "rocm").string()}});
  const std::vector<std::string> targets = {"gfx942", "gfx950"};
  // What clang prints for a program that it does not find is the bare name.
  const HipCompiler without =
      script("case \"$*\" in *--version*) echo 'clang 22';; *print-prog-name=lld*) echo lld;; esac");
  for (const HipCompilerChoice& choice : find_hip_compilers(environment, targets, kLimit)) {
    EXPECT_FALSE(choice.compiler.has_value());
    EXPECT_EQ(choice.reason, without.path + " finds no lld");
  }
  EXPECT_THAT(find_hip_compiler(environment, "gfx942").status().message(),
              HasSubstr("finds no lld; install clang-22 and lld-22"));
  script("exit 1");
  EXPECT_EQ(find_hip_compilers(environment, targets, kLimit).front().reason,
            without.path + " does not answer to --version");
  fs::create_directories(folder_ / "rocm/llvm/bin");
  fs::rename(script("case \"$*\" in *--version*) echo 'AMD clang';; *print-prog-name=lld*) echo /bin/sh;; esac").path,
             folder_ / "rocm/llvm/bin/clang++");
  const auto choices = find_hip_compilers(environment, targets, kLimit);
  ASSERT_TRUE(choices[0].compiler && choices[1].compiler) << choices[0].reason;
  EXPECT_EQ(choices[1].compiler->version, "AMD clang");
  EXPECT_TRUE(choices[1].reason.empty());
}

TEST_F(HipCompilerTest, APlainNameMustSayThatItIsNewEnough) {
  const Environment environment = Environment::from_map({{"PATH", folder_.string()}, {"ROCM_PATH", "/no/such"}});
  const std::string path = (folder_ / "clang++").string();
  const auto find = [&](const std::string& version) {
    fs::rename(
        script("case \"$*\" in *--version*) echo '" + version + "';; *print-prog-name=lld*) echo /bin/sh;; esac").path,
        path);
    return find_hip_compiler(environment, "gfx90a");
  };
  EXPECT_EQ(find("Debian clang version 14.0.6").status().message(),
            "no compiler for gfx90a: " + path +
                " is clang 14, and our kernels need 19; install clang-22 and lld-22, or ROCm");
  EXPECT_THAT(find("Ubuntu clang version 18.1.3 (1ubuntu1)").status().message(), HasSubstr("is clang 18, and"));
  for (const char* version : {"clang 22", "clang version ", "clang version x19.1"}) {
    EXPECT_THAT(find(version).status().message(), HasSubstr(path + " does not say which clang it is;")) << version;
  }
  for (const char* version : {"clang version 19.1.7 (https://github.com/llvm/llvm-project)", "clang version 23",
                              "AMD clang version 17.0.0 (https://github.com/RadeonOpenCompute/llvm-project)"}) {
    const auto found = find(version);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(found->version, version);
  }
}

TEST_F(HipCompilerTest, ResultsAreKeptAndDamagedOnesAreMadeAnew) {
  const std::string good = testing::make_code_object(testing::make_metadata({{"kernel", {}}}));
  ASSERT_TRUE(write_file_atomically(folder_ / "good", good).ok());
  const HipCompiler compiler =
      script("echo x >>" + (folder_ / "calls").string() + "; cp " + (folder_ / "good").string() + " \"$out\"");
  CompileCache kept = cache();
  HipCompileCache first(compiler, &kept, kLimit);
  ASSERT_EQ(first.compile(source_, "gfx942").value_or(""), good);
  EXPECT_EQ(first.statistics().compilations, 1U);
  EXPECT_EQ(first.statistics().misses, 1U);

  CompileCache again = cache();  // as another process would open it
  HipCompileCache second(compiler, &again, kLimit);
  ASSERT_EQ(second.compile(source_, "gfx942").value_or(""), good);
  EXPECT_EQ(second.statistics().compilations, 0U);
  EXPECT_EQ(second.statistics().hits, 1U);
  EXPECT_EQ(second.statistics().hit_rate(), 1.0);

  HipSource other = source_;
  other.headers[0].text += " ";
  ASSERT_TRUE(second.compile(other, "gfx942").ok());
  EXPECT_EQ(second.statistics().misses, 1U);

  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    if (entry.path().extension() == ".entry") fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  }
  CompileCache damaged = cache();
  HipCompileCache third(compiler, &damaged, kLimit);
  ASSERT_EQ(third.compile(source_, "gfx942").value_or(""), good);
  EXPECT_EQ(third.statistics().compilations, 1U);
  EXPECT_EQ(std::move(read_text_file(folder_ / "calls", 100)).value(), "x\nx\nx\n");
}

TEST_F(HipCompilerTest, FurtherOptionsFollowItsOwnAndArePartOfTheKey) {
  const std::string good = testing::make_code_object(testing::make_metadata({{"kernel", {}}}));
  ASSERT_TRUE(write_file_atomically(folder_ / "good", good).ok());
  const HipCompiler compiler =
      script("echo \"$*\" >>" + (folder_ / "calls").string() + "; cp " + (folder_ / "good").string() + " \"$out\"");
  CompileCache kept = cache();
  const std::vector<std::vector<std::string>> settings = {
      {}, {"-O1"}, {"-O2"}, {"-O2", "-ffp-contract=off"}, {"-ffp-contract=off", "-O2"}, {"-O1"}, {}};
  std::vector<std::uint64_t> compilations;
  for (const auto& options : settings) {
    HipCompileCache compile(compiler, &kept, kLimit, options);
    ASSERT_EQ(compile.compile(source_, "gfx942").value_or(""), good);
    compilations.push_back(compile.statistics().compilations);
  }
  EXPECT_THAT(compilations, ::testing::ElementsAre(1U, 1U, 1U, 1U, 1U, 0U, 0U)) << "each set of options once";
  const std::string calls = std::move(read_text_file(folder_ / "calls", 100000)).value();
  EXPECT_THAT(calls, ::testing::ContainsRegex("-O3 .*kernel.hip\n"));
  EXPECT_THAT(calls, ::testing::ContainsRegex("-O3 .*kernel.hip -O2 -ffp-contract=off\n")) << "the last one counts";
}

TEST_F(HipCompilerTest, WhatItsOwnOptionsWereIsPartOfTheKey) {
  const fs::path calls = folder_ / "calls";
  const HipCompiler compiler = script("echo \"$*\" >" + calls.string());
  CompileCache kept = cache();
  for (const std::string target : {"gfx942", "gfx1100"}) {
    const std::string good =
        testing::make_code_object(testing::make_metadata({{"kernel", {}}}, "amdgcn-amd-amdhsa--" + target));
    const std::vector<std::string> options = hip_options(*find_amd_architecture(target));
    for (std::size_t index = 0; index < options.size(); ++index) {
      std::vector<std::string> others = options;  // those of another release of ours
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(index));
      ASSERT_TRUE(kept.put(hip_cache_key(compiler, source_, others), good).ok());
    }
    HipCompileCache compile(compiler, &kept, kLimit);
    EXPECT_FALSE(compile.compile(source_, target).ok()) << "the script writes nothing, and nothing else may be taken";
    EXPECT_EQ(compile.statistics().misses, 1U);
    const std::string told = std::move(read_text_file(calls, 100000)).value();
    for (const std::string& option : options) EXPECT_THAT(told, HasSubstr(option + " "));
    EXPECT_EQ(told.find("-mcumode") != std::string::npos, target == "gfx1100");
  }
}

TEST_F(HipCompilerTest, TheSourceIsToldTheWaveAndTheRegistersOfItsTarget) {
  const fs::path calls = folder_ / "calls";
  const HipCompiler compiler = script("echo \"$*\" >" + calls.string());
  const auto told = [&](std::string_view target) {
    (void)compile_hip(compiler, source_, target, kLimit);  // nothing is written
    return std::move(read_text_file(calls, 100000)).value();
  };
  EXPECT_THAT(told("gfx942"), HasSubstr(" -DKPT_WAVE=64 -DKPT_SIMD_REGISTERS=512 "));
  EXPECT_THAT(told("gfx1100"), HasSubstr(" -DKPT_WAVE=32 -DKPT_SIMD_REGISTERS=1536 "));
  EXPECT_THAT(told("gfx1102"), HasSubstr(" -DKPT_WAVE=32 -DKPT_SIMD_REGISTERS=1024 "));
}

TEST_F(HipCompilerTest, ErrorsAreCountedAndNotKept) {
  CompileCache kept = cache();
  HipCompileCache compiler(script("exit 1"), &kept, kLimit);
  EXPECT_FALSE(compiler.compile(source_, "gfx942").ok());
  EXPECT_FALSE(compiler.compile(source_, "gfx942").ok());
  EXPECT_EQ(compiler.statistics().errors, 2U);
  EXPECT_EQ(compiler.statistics().compilations, 2U);
  EXPECT_EQ(compiler.statistics().hits, 0U);
}

TEST_F(HipCompilerTest, ARealCompilerNamesTheLine) {
  const auto compiler = find_hip_compiler(Environment::from_process(), "gfx942");
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  HipSource source{"broken.hip", "#include \"a/b.h\"\nint x = nothing;\n", {{"a/b.h", "\n"}}};
  const auto object = compile_hip(*compiler, source, "gfx942", kLimit);
  EXPECT_THAT(object.status().message(), HasSubstr("broken.hip line 2 does not compile for gfx942"));
  EXPECT_THAT(object.status().message(), HasSubstr("nothing"));
  source.text = "#include \"a/b.h\"\n";
  source.headers[0].text = "\n\nint y = missing;\n";
  const auto header = compile_hip(*compiler, source, "gfx942", kLimit);
  EXPECT_THAT(header.status().message(), HasSubstr("a/b.h line 3"));
}

}  // namespace
}  // namespace kpt
