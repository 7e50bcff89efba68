#include "engines/aten/loader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/module_abi.h"
#include "engines/aten/probe_child.h"

namespace kpt {
namespace {

using aten_test::FakeTorch;
using aten_test::probe;
using aten_test::ProbeAnswer;
using aten_test::TemporaryFolder;
using aten_test::version_py;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A folder of modules that holds one fake under the name that the loader looks for.
class ModuleFolder : public TemporaryFolder {
 public:
  explicit ModuleFolder(const std::string& fake, const std::string& file = "kpt_aten_2_15.so") {
    copy_fake(fake, file);
  }
};

ProbeAnswer probe_one(const TemporaryFolder& torch, const TemporaryFolder& modules) {
  return probe({torch.path().string()}, modules.path());
}

TEST(AtenLoader, OpensModuleOnLibraryOfTheSameMinor) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0+cu132"));
  const ModuleFolder modules("fake_module_healthy");
  const ProbeAnswer answer = probe_one(torch, modules);
  EXPECT_EQ(answer.code, "ok") << answer.message;
  EXPECT_EQ(answer.report.finding.presence, Presence::kPresent);
  EXPECT_EQ(answer.report.library_version, "2.15.0");
  EXPECT_EQ(answer.report.flavour, "13.2");
  EXPECT_EQ(answer.report.module_path, (modules.path() / "kpt_aten_2_15.so").string());
  EXPECT_EQ(answer.report.checks.size(), 4u);
  ASSERT_EQ(answer.report.notes.size(), 1u);
  EXPECT_EQ(answer.report.notes[0], "reading libtorch's settings failed: the fake module has no facts");
  EXPECT_EQ(answer.report.cuda.presence, Presence::kAbsent);
  EXPECT_THAT(answer.report.cuda.reason, HasSubstr("built without CUDA"));
}

TEST(AtenLoader, RefusesOldVersionWithoutOpeningTheLibrary) {
  const FakeTorch torch("", version_py("2.9.0"));
  torch.write("lib/libtorch_cpu.so", "opening this would fail otherwise");
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, AllOf(HasSubstr("libtorch 2.9.0 at " + torch.path().string()), HasSubstr("2.11 to 2.15"),
                                    HasSubstr("set KPT_TORCH_DIR to a libtorch 2.15")));
  EXPECT_EQ(answer.report.finding.presence, Presence::kBroken);
  EXPECT_EQ(answer.report.finding.remedy, "set KPT_TORCH_DIR to a libtorch 2.15");
}

TEST(AtenLoader, RefusesNewerVersion) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.16.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr("2.16.0"));
}

TEST(AtenLoader, BelievesTheLibraryMoreThanItsFiles) {
  const FakeTorch torch("fake_libtorch_2_9", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr("libtorch 2.9.0 at"));
}

TEST(AtenLoader, AsksTheLibraryWhenItsFilesAreGarbage) {
  const FakeTorch torch("fake_libtorch_2_15", std::string("\0\xff garbage __version__ = \n", 27));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "ok") << answer.message;
  EXPECT_EQ(answer.report.library_version, "2.15.0");
  EXPECT_EQ(answer.report.flavour, "");
}

TEST(AtenLoader, FallsBackToFilesWhenTheLibraryIsSilent) {
  const FakeTorch torch("fake_libtorch_silent", version_py("2.15.1"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "ok") << answer.message;
  EXPECT_EQ(answer.report.library_version, "2.15.1");
}

TEST(AtenLoader, LibraryOfUnknownVersionIsRefused) {
  const FakeTorch torch("fake_libtorch_silent", "garbage");
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr("does not tell its version"));
}

TEST(AtenLoader, OtherMinorNamesBothVersionsAndBothRemedies) {
  const FakeTorch torch("fake_libtorch_2_11", version_py("2.11.0+cu130"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_EQ(
      answer.message,
      "libtorch 2.11.0 is at " + torch.path().string() +
          ", but this build was made for 2.15; build for it with `KPT_TORCH_VERSION=2.11.0 make quickstart` or set "
          "KPT_TORCH_DIR to a libtorch 2.15");
  EXPECT_EQ(answer.report.library_version, "2.11.0");
}

TEST(AtenLoader, BuildWithoutModulesSaysHowToMakeOne) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, TemporaryFolder());
  EXPECT_EQ(answer.code, "not_found");
  EXPECT_THAT(answer.message,
              AllOf(HasSubstr("no ATen engine module"), HasSubstr("`KPT_TORCH_VERSION=2.15.0 make quickstart`")));
}

TEST(AtenFiles, WhatIsMissingIsToldWithoutOpeningAnything) {
  const FakeTorch torch("", version_py("2.15.0+cu132"));
  torch.write("lib/libtorch_cpu.so", "opening this would fail");
  const TemporaryFolder modules;
  const TorchSearch search{
      Environment::from_map({{"KPT_MODULE_DIR", modules.path().string()}}), torch.path().string(), {}};
  Finding finding;
  EXPECT_EQ(check_aten_files(search, AtenPart::kCpu, &finding).code(), StatusCode::kNotFound);
  EXPECT_THAT(finding.reason, HasSubstr("no ATen engine module"));
  modules.write("kpt_aten_2_15.so", "");
  EXPECT_TRUE(check_aten_files(search, AtenPart::kCpu, &finding).ok()) << finding.reason;
  EXPECT_EQ(finding.presence, Presence::kPresent);
  EXPECT_EQ(check_aten_files(search, AtenPart::kCuda, &finding).code(), StatusCode::kUnsupported);
  EXPECT_THAT(finding.reason, HasSubstr("built without CUDA"));
  torch.write("lib/libtorch_cuda.so", "");
  EXPECT_EQ(check_aten_files(search, AtenPart::kCuda, &finding).code(), StatusCode::kNotFound);
  EXPECT_THAT(finding.reason, HasSubstr("no CUDA engine module"));
  EXPECT_EQ(finding.remedy, "make install PRESET=cuda-release");
  EXPECT_EQ(finding.presence, Presence::kAbsent);
  modules.write("kpt_aten_cuda_2_15.so", "");
  EXPECT_TRUE(check_aten_files(search, AtenPart::kCuda, &finding).ok()) << finding.reason;
  EXPECT_EQ(check_aten_files(search, AtenPart::kRocm, &finding).code(), StatusCode::kUnsupported);
  EXPECT_THAT(finding.reason, HasSubstr("built without ROCm"));
  torch.write("lib/libtorch_hip.so", "");
  EXPECT_EQ(check_aten_files(search, AtenPart::kRocm, &finding).code(), StatusCode::kNotFound);
  EXPECT_THAT(finding.reason, HasSubstr("no ROCm engine module"));
  modules.write("kpt_aten_rocm_2_15.so", "");
  EXPECT_TRUE(check_aten_files(search, AtenPart::kRocm, &finding).ok()) << finding.reason;
  const TorchSearch nowhere{Environment::from_map({}), "/no/such/torch", {}};
  EXPECT_EQ(check_aten_files(nowhere, AtenPart::kCpu, &finding).code(), StatusCode::kNotFound);
  EXPECT_THAT(finding.remedy, HasSubstr("KPT_TORCH_DIR"));
}

TEST(AtenLoader, FolderWithoutLibtorchIsNotFound) {
  const TemporaryFolder empty;
  const ProbeAnswer answer = probe_one(empty, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "not_found");
  EXPECT_THAT(answer.message, AllOf(HasSubstr(empty.path().string()), HasSubstr("KPT_TORCH_DIR")));
  EXPECT_EQ(answer.report.finding.presence, Presence::kBroken);
}

TEST(AtenLoader, LibraryCutShortIsASentenceAndNotASignal) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const std::filesystem::path library = torch.path() / "lib/libtorch_cpu.so";
  const ModuleFolder modules("fake_module_healthy");
  for (const std::uintmax_t size : {std::filesystem::file_size(library) / 4, std::uintmax_t{100}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(library, size);
    const ProbeAnswer answer = probe_one(torch, modules);
    EXPECT_EQ(answer.code, "vendor_library") << size;
    EXPECT_THAT(answer.message,
                AllOf(HasSubstr(library.string()),
                      HasSubstr("put torch==2.15.0 into " + torch.path().string() + " again, or set KPT_TORCH_DIR")));
  }
}

TEST(AtenLoader, MissingSisterLibraryIsNamed) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  std::filesystem::remove(torch.path() / "lib/libc10.so");
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_healthy"));
  EXPECT_EQ(answer.code, "not_found");
  EXPECT_THAT(answer.message, HasSubstr("libc10.so"));
}

TEST(AtenLoader, ModuleWithOtherInterfaceIsRefused) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_other_abi"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr(fmt::format("has interface 77, this program needs {}", aten::kModuleAbi)));
}

TEST(AtenLoader, ModuleOfAnotherBuildIsRefused) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_other_build"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr("comes from another build than this program"));
}

TEST(AtenLoader, ModuleUnderAWrongNameIsRefused) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_for_2_11"));
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr("was made for libtorch 2.11.0, but 2.15.0 is at"));
}

TEST(AtenLoader, ModuleWithUndefinedSymbolIsOneSentence) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_undefined_symbol"));
  EXPECT_EQ(answer.code, "vendor_library");
  EXPECT_THAT(answer.message, AllOf(HasSubstr("does not fit libtorch 2.15.0"),
                                    HasSubstr("kpt_symbol_that_no_library_has"), HasSubstr("make quickstart`")));
}

TEST(AtenLoader, LibraryThatIsNoModuleIsRefused) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_libtorch_silent"));
  EXPECT_EQ(answer.code, "vendor_library");
  EXPECT_THAT(answer.message, HasSubstr("is not an engine module"));
}

TEST(AtenLoader, SecondLibtorchInOneProcessIsRefused) {
  const FakeTorch first("fake_libtorch_2_15", version_py("2.15.0"));
  const FakeTorch second("fake_libtorch_2_15", version_py("2.15.0"));
  const ModuleFolder modules("fake_module_healthy");
  const ProbeAnswer answer = probe({first.path().string(), second.path().string()}, modules.path());
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, HasSubstr("set KPT_TORCH_DIR to " + first.path().string()));
  EXPECT_EQ(probe({first.path().string(), first.path().string()}, modules.path()).code, "ok");
}

TEST(AtenProbe, WrongProductBreaksTheFindingThoughEverythingOpened) {
  const FakeTorch torch("fake_libtorch_2_15", version_py("2.15.0"));
  const ProbeAnswer answer = probe_one(torch, ModuleFolder("fake_module_wrong_product"));
  EXPECT_EQ(answer.code, "validation");
  EXPECT_THAT(answer.message, AllOf(HasSubstr("float32 on cpu"), HasSubstr("not a number"), HasSubstr("seed 1")));
  EXPECT_EQ(answer.report.finding.presence, Presence::kBroken);
  EXPECT_THAT(answer.report.finding.remedy, HasSubstr("another release of torch"));
  ASSERT_EQ(answer.report.checks.size(), 4u);
  EXPECT_FALSE(answer.report.checks[0].passed);
  EXPECT_FALSE(answer.report.checks[0].relative_error.has_value());
}

TEST(AtenCalls, OutcomesBecomeTypedStatuses) {
  const auto code_of = [](aten::CallCode code) {
    return to_status(aten::CallOutcome{code, "first line\nsecond"}, "the call", Vendor::kNvidia).code();
  };
  EXPECT_EQ(code_of(aten::CallCode::kOk), StatusCode::kOk);
  EXPECT_EQ(code_of(aten::CallCode::kOutOfMemory), StatusCode::kOutOfMemory);
  const Status host =
      to_status(aten::CallOutcome{aten::CallCode::kOutOfHostMemory, "std::bad_alloc"}, "the call", Vendor::kNvidia);
  EXPECT_EQ(host.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(host.vendor(), Vendor::kNone) << "it is not the GPU's memory";
  EXPECT_EQ(host.message(), "the call failed: the host's memory ran out: std::bad_alloc");
  EXPECT_EQ(code_of(aten::CallCode::kNoDevice), StatusCode::kDeviceNotAvailable);
  EXPECT_EQ(code_of(aten::CallCode::kInvalidArgument), StatusCode::kInvalidArgument);
  const Status failed = to_status(aten::CallOutcome{aten::CallCode::kFailed, "first line\nsecond"}, "the call");
  EXPECT_EQ(failed.code(), StatusCode::kVendorLibrary);
  EXPECT_THAT(failed.message(), Not(HasSubstr("second")));
}

}  // namespace
}  // namespace kpt
