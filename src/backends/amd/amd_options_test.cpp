// What the options amd.architecture, amd.compile_options and amd.matrix_cores do to a backend, on the test libamdhip64.
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/amd_backend.h"
#include "backends/amd/code_object.h"
#include "backends/amd/kernel_store.h"
#include "backends/amd/test_gpu.h"
#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSoftmax = R"(kpt_graph 1
input x: float32[3, 8]
out: float32[3, 8] = aten.softmax.int(self=%x, dim=-1)
output %out "output"
)";

Device& first_device(Backend& backend) { return *backend.devices().value().front(); }

Status load(Backend& backend, std::shared_ptr<const Program> program) {
  const auto devices = backend.devices();
  KPT_RETURN_IF_ERROR(devices.status());
  return backend.load(std::move(program), {}, std::span(*devices).first(1)).status();
}

TEST(AmdOptions, AModelIsLoadedOnTheArchitectureThatTheUserChose) {
  const testing::TestGpu gpu("gfx1100");
  const ir::Graph graph = ir::read_graph(kSoftmax).value();
  for (const char* chosen : {"", "gfx1100", "gfx942", "gfx1"}) {
    BackendContext context;
    context.amd_architecture = chosen;
    const auto backend = gpu.make_backend(context);
    const Status status = load(*backend, first_device(*backend).target().compile(graph).value());
    if (std::string_view(chosen).empty() || std::string_view(chosen) == "gfx1100") {
      EXPECT_TRUE(status.ok()) << status.to_string();
      continue;
    }
    EXPECT_EQ(status.vendor(), Vendor::kAmd);
    const bool known = std::string_view(chosen) == "gfx942";
    EXPECT_EQ(status.code(), known ? StatusCode::kInvalidArchitecture : StatusCode::kConfiguration) << chosen;
    EXPECT_THAT(status.message(), HasSubstr(known ? "amd:0 is gfx1100, and amd.architecture is gfx942" : "'gfx1'"));
  }
}

TEST(AmdOptions, WithoutACompilerTheThreeWaysAreNamed) {
  const testing::TemporaryFolder folder;
  BackendContext context;
  context.detection.environment =
      Environment::from_map({{"PATH", folder.path().string()}, {"ROCM_PATH", folder.path().string()}});
  AmdBackendParts parts;
  parts.not_libtorch = "the libtorch at hand was built without ROCm";
  const auto backend = make_amd_backend(context, parts);
  const auto program = backend->targets().front()->compile(ir::read_graph(kSoftmax).value());
  EXPECT_EQ(program.status().code(), StatusCode::kUnsupported) << program.status().to_string();
  EXPECT_EQ(program.status().vendor(), Vendor::kAmd);
  EXPECT_THAT(program.status().message(),
              AllOf(HasSubstr("install clang-22 and lld-22, or ROCm"),
                    HasSubstr("libtorch's ROCm build (not taken: the libtorch at hand was built without ROCm)"),
                    HasSubstr("as device xla:rocm, a PJRT plugin")));
}

TEST(AmdOptions, RatesOfATargetFollowTheMatrixCores) {
  const testing::TestGpu gpu("gfx942");
  BackendContext context;
  const auto backend = gpu.make_backend(context);
  const HardwareRates* const with = first_device(*backend).target().rates();
  ASSERT_NE(with, nullptr);
  EXPECT_EQ(with->matrix_flops_per_second, 1307.4e12);
  EXPECT_EQ(with->narrow_flops_per_second, 2614.9e12);
  context.amd_matrix_cores = false;
  const auto plain = gpu.make_backend(context);
  const HardwareRates* const without = first_device(*plain).target().rates();
  ASSERT_NE(without, nullptr);
  EXPECT_EQ(without->matrix_flops_per_second, 0);
  EXPECT_EQ(without->narrow_flops_per_second, 0);
  EXPECT_EQ(without->float32_flops_per_second, 163.4e12);
  EXPECT_EQ(first_device(*backend).rates(), nullptr) << "this GPU is no product with rates";
  for (const Target* target : backend->targets()) {
    if (target->name() == "amd:gfx1152") {
      EXPECT_EQ(target->rates(), nullptr);
    }
    if (target->name() == "amd:gfx908") {
      EXPECT_EQ(target->rates()->matrix_flops_per_second, 0) << "no kernels of ours";
    }
  }
}

// Which families were asked for while a stored program was loaded.
std::set<std::string> asked_for(const testing::TestGpu& gpu, const std::vector<std::string>& options,
                                const std::string& stored) {
  std::mutex mutex;
  std::set<std::string> asked;
  BackendContext context;
  context.amd_compile_options = options;
  const auto backend = gpu.make_backend(context, 64U << 20U, [&](std::string_view family, std::string_view target) {
    const std::lock_guard lock(mutex);
    asked.emplace(family);
    return testing::forge_family(family, target);
  });
  auto program = first_device(*backend).target().deserialize(stored);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  if (!program.ok()) return {"nothing"};
  const Status status = load(*backend, std::move(program).value());
  EXPECT_TRUE(status.ok()) << status.to_string();
  return asked;
}

TEST(AmdOptions, StoredCodeServesWhoAsksForItsOptionsOrForNone) {
  const testing::TestGpu gpu("gfx942");
  const ir::Graph graph = ir::read_graph(kSoftmax).value();
  const std::vector<std::vector<std::string>> settings = {{}, {"-O1"}};
  for (const std::vector<std::string>& options : settings) {
    BackendContext context;
    context.amd_compile_options = options;
    const auto backend = gpu.make_backend(context);
    const std::string stored = first_device(*backend).target().compile(graph).value()->serialize().value();
    EXPECT_THAT(asked_for(gpu, {}, stored), IsEmpty());
    EXPECT_THAT(asked_for(gpu, options, stored), IsEmpty());
    EXPECT_THAT(asked_for(gpu, {"-O2"}, stored), ElementsAre("softmax"));
  }
}

TEST(AmdOptions, WhatWasMeasuredWithOtherCompileOptionsIsKeptApart) {
  const testing::TestGpu gpu("gfx942");
  BackendContext context;
  context.amd_compile_options = {"-ffp-contract=off"};
  const auto plain = gpu.make_backend();
  const auto with = gpu.make_backend(context);
  EXPECT_THAT(first_device(*with).target().capabilities().features, Contains("-ffp-contract=off"));
  EXPECT_NE(first_device(*with).target().capabilities().features,
            first_device(*plain).target().capabilities().features);
}

// compile_amd_test.cpp shows that they change the code.
TEST(AmdOptions, ARealCompilerTakesEachOption) {
  for (const char* target : {"gfx942", "gfx1100"}) {
    const auto compiler = find_hip_compiler(Environment::from_process(), target);
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    const HipSource source = own_kernels("embedding").value();
    for (const std::string option : {"-O1", "-O2", "-O3", "-ffp-contract=off", "-ffp-contract=on", "-fno-unroll-loops",
                                     "-gline-tables-only", "-mno-cumode"}) {
      const auto object = compile_hip(*compiler, source, target, std::chrono::minutes(5), {option});
      ASSERT_TRUE(object.ok()) << option << ": " << object.status().to_string();
      const auto read = read_code_object(std::as_bytes(std::span(*object)));
      ASSERT_TRUE(read.ok()) << option << ": " << read.status().to_string();
      EXPECT_EQ(read->gfx_target, target) << option;
      EXPECT_EQ(object->find(".debug_line") != std::string::npos, option == "-gline-tables-only") << option;
    }
  }
}

}  // namespace
}  // namespace kpt
