// The backend on a table that a test makes: what it asks of a module, and what it says when the module refuses.
#include "backends/amd/amd_torch_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backends/amd/architecture.h"
#include "backends/amd/test_gpu.h"
#include "base/log.h"
#include "engines/aten/graph_engine.h"
#include "kernels/gpu/norm.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using aten::CallCode;
using aten::CallOutcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct FakeGpus {
  std::int32_t count = 1;
  std::int32_t percent = 0;  // what limit_memory() was told
  std::uint64_t margin_bytes = 0;
  std::shared_ptr<gpu::Launcher> launcher;  // what load_graph() was given
};
FakeGpus& gpus() {
  static FakeGpus fake;
  return fake;
}

CallOutcome ok() { return CallOutcome{CallCode::kOk, {}}; }

CallOutcome device_count(std::int32_t* count) noexcept {
  *count = gpus().count;
  return ok();
}

CallOutcome limit_memory(std::int32_t /*index*/, std::int32_t percent) noexcept {
  gpus().percent = percent;
  return ok();
}

CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept {
  answers->assign(graph->nodes.size(), Support{});
  return ok();
}

CallOutcome load_graph(std::int32_t /*index*/, const std::shared_ptr<const ir::Graph>* /*graph*/,
                       const Weights* /*weights*/, const aten::CudaMemoryLimits* limits, const NvidiaPolicy* /*policy*/,
                       const std::shared_ptr<gpu::Launcher>* launcher, Status* /*status*/,
                       std::unique_ptr<Executable>* /*executable*/) noexcept {
  gpus().margin_bytes = limits->margin_bytes;
  gpus().launcher = *launcher;
  CallOutcome outcome{CallCode::kOutOfMemory, {}};
  std::snprintf(outcome.text, sizeof(outcome.text), "the fake has no memory\nand says so on two lines");
  return outcome;
}

CallOutcome memory_statistics(std::int32_t /*index*/, MemoryStatistics* statistics) noexcept {
  statistics->free_bytes = 4096;
  return ok();
}

const aten::CudaModuleTable& fake_table() {
  static const aten::CudaModuleTable kTable = [] {
    aten::CudaModuleTable table{};
    table.device_count = device_count;
    table.limit_memory = limit_memory;
    table.check_graph = check_graph;
    table.load_graph = load_graph;
    table.memory_statistics = memory_statistics;
    return table;
  }();
  return kTable;
}

AmdReport gpu_of(std::string_view gfx_target) {
  AmdReport report;
  report.finding.presence = Presence::kPresent;
  AmdGpu gpu;
  gpu.name = gfx_target == "gfx942" ? "AMD Instinct MI300X" : "AMD GPU";
  gpu.gfx_target = gfx_target;
  gpu.architecture = find_amd_architecture(gfx_target)->name;
  gpu.compute_units = 4;
  gpu.memory_total_bytes = 1U << 30U;
  report.gpus = {gpu};
  return report;
}

AmdReport one_gpu(const DetectionContext& /*context*/) { return gpu_of("gfx942"); }

std::unique_ptr<Backend> make_backend(const BackendContext& context = BackendContext()) {
  return make_amd_torch_backend(
      context, {one_gpu, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); }, "", {}});
}

// With kernels of ours, on the test libamdhip64.
std::unique_ptr<Backend> make_backend_with_kernels(std::string_view gfx_target = "gfx942",
                                                   const BackendContext& context = BackendContext()) {
  const auto detect = [gfx_target](const DetectionContext&) { return gpu_of(gfx_target); };
  return make_amd_torch_backend(context,
                                {detect, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); },
                                 build_dir() + "/fakes/amd/libamdhip64.so.6", testing::forge_family});
}

std::shared_ptr<const Program> program_of(const std::string& target) {
  ir::Graph graph;
  graph.nodes.resize(1);
  graph.nodes[0].target = target;
  return std::make_shared<GraphProgram>("amd:gfx942", std::move(graph));
}

class AmdTorchBackend : public ::testing::Test {
 protected:
  AmdTorchBackend() { gpus() = {}; }
};

TEST_F(AmdTorchBackend, AGpuIsADeviceOfItsTarget) {
  const auto backend = make_backend();
  const auto devices = backend->devices();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ(devices->front()->info().name, "amd:0");
  EXPECT_EQ(devices->front()->target().name(), "amd:gfx942");
  const Capabilities& capabilities = devices->front()->target().capabilities();
  EXPECT_THAT(capabilities.matrix_dtypes, ::testing::UnorderedElementsAre(DType::kBFloat16, DType::kFloat16));
  EXPECT_THAT(capabilities.own_operators, ::testing::IsEmpty());
  EXPECT_EQ(gpus().percent, 0) << "all of it is what the program around us may have changed";
}

TEST_F(AmdTorchBackend, NoGpuThatLibtorchSeesIsOneSentence) {
  gpus().count = 0;
  const auto devices = make_backend()->devices();
  EXPECT_EQ(devices.status().code(), StatusCode::kDeviceNotAvailable);
  EXPECT_EQ(devices.status().vendor(), Vendor::kAmd);
  EXPECT_EQ(devices.status().message(), "libtorch's ROCm library sees no AMD GPU here");
}

TEST_F(AmdTorchBackend, ALibtorchThatCannotBeOpenedSaysWhy) {
  const auto backend = make_amd_torch_backend(
      BackendContext(),
      {one_gpu,
       []() -> Result<const aten::CudaModuleTable*> { return Status(StatusCode::kUnsupported, "built without ROCm"); },
       "",
       {}});
  EXPECT_EQ(backend->devices().status().message(), "built without ROCm");
}

TEST_F(AmdTorchBackend, MemoryLimitsReachTheModuleAndItsFailuresComeBackTyped) {
  BackendContext context;
  context.amd_memory_percent = 40;
  context.amd_margin_bytes = 12345;
  const auto backend = make_backend(context);
  Device* const device = backend->devices().value().front();
  EXPECT_EQ(gpus().percent, 40);
  std::shared_ptr<const Program> program = std::make_shared<GraphProgram>("amd:gfx942", ir::Graph());
  const auto loaded = backend->load(program, {}, std::span(&device, 1));
  EXPECT_EQ(gpus().margin_bytes, 12345U);
  EXPECT_EQ(loaded.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(loaded.status().vendor(), Vendor::kAmd);
  EXPECT_EQ(loaded.status().message(), "loading the graph on amd:0 failed: the fake has no memory");
  EXPECT_THAT(loaded.status().to_string(), HasSubstr("free_bytes=4096, advice="));
  program = std::make_shared<GraphProgram>("amd:gfx90a", ir::Graph());
  EXPECT_EQ(backend->load(program, {}, std::span(&device, 1)).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(AmdTorchBackend, WithoutMatrixCoresLevelsLowerNoProducts) {
  const auto target = [](bool matrix_cores) {
    BackendContext context;
    context.amd_matrix_cores = matrix_cores;
    auto backend = make_backend(context);
    return backend->devices().value().front()->target().capabilities();
  };
  const Capabilities with = target(true);
  EXPECT_THAT(with.matrix_dtypes, ::testing::UnorderedElementsAre(DType::kBFloat16, DType::kFloat16));
  EXPECT_THAT(with.features, ::testing::Contains("matrix-cores"));
  const Capabilities without = target(false);
  EXPECT_THAT(without.matrix_dtypes, ::testing::IsEmpty());
  EXPECT_NE(without.features, with.features) << "kpt optimize keeps the results apart by them";
  EXPECT_EQ(without.dtypes, with.dtypes) << "a model in bfloat16 still runs";
}

// The only test that sets it: a process says it once.
TEST_F(AmdTorchBackend, ThatLibtorchKeepsMemoryByItselfIsSaidOnce) {
  log::LineSink lines;
  const auto capture = log::capture(&lines);
  const auto load = [](std::uint64_t kept_bytes) {
    BackendContext context;
    context.amd_kept_bytes = kept_bytes;
    const auto backend = make_backend(context);
    Device* const device = backend->devices().value().front();
    (void)backend->load(program_of("aten.relu.default"), {}, std::span(&device, 1));
  };
  load(std::uint64_t{1} << 50U);
  load(1U << 30U);
  EXPECT_THAT(lines, Not(HasSubstr("amd.memory_kept_bytes"))) << "libtorch keeps no more than that either";
  load((1U << 30U) - 1);
  EXPECT_THAT(lines, HasSubstr("amd.memory_kept_bytes has no effect where models run through libtorch's ROCm build"));
  lines.clear();
  load(0);
  EXPECT_THAT(lines, Not(HasSubstr("amd.memory_kept_bytes")));
}

TEST_F(AmdTorchBackend, AnotherArchitectureThanTheUserChoseIsRefused) {
  BackendContext context;
  context.amd_architecture = "gfx1100";
  const auto backend = make_backend(context);
  const auto devices = backend->devices();
  ASSERT_TRUE(devices.ok()) << devices.status().to_string();
  const Status status = backend->load(program_of("aten.add.Tensor"), {}, std::span(*devices).first(1)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArchitecture);
  EXPECT_EQ(status.message(),
            "amd:0 is gfx942, and amd.architecture is gfx1100; take another device, or set it to auto");
}

TEST_F(AmdTorchBackend, OperatorsOfOursNeedOurKernels) {
  const auto backend = make_backend();
  const Target& target = backend->devices().value().front()->target();
  ir::Graph graph;
  graph.nodes.resize(2);
  graph.nodes[0].target = "aten.relu.default";
  graph.nodes[1].target = "kpt.glu.default";
  const auto answers = target.supports(graph).value();
  EXPECT_TRUE(answers[0].supported);
  EXPECT_FALSE(answers[1].supported);
  // Without a libamdhip64, or where an earlier test has opened one, without a compiler.
  EXPECT_THAT(
      answers[1].reason,
      ::testing::AnyOf("kernels of ours do not run beside libtorch here: libtorch has loaded no libamdhip64; set "
                       "amd.engine=native",
                       StartsWith("kernels of ours do not run beside libtorch here: no compiler for gfx942")));
}

TEST_F(AmdTorchBackend, WithKernelsOfOursTheirOperatorsRun) {
  const auto backend = make_backend_with_kernels();
  const Target& target = backend->devices().value().front()->target();
  EXPECT_THAT(target.capabilities().own_operators,
              ::testing::UnorderedElementsAre("kpt.add_norm.default", "kpt.attention.default", "kpt.glu.default",
                                              "kpt.linear.default", "kpt.linear_fp8.default", "kpt.linear_int4.default",
                                              "kpt.linear_int8.default", "kpt.linear_weight_int8.default",
                                              "kpt.rotary.default"));
  EXPECT_EQ(target.capabilities().float16_operators, target.capabilities().own_operators);
  EXPECT_THAT(target.capabilities().features, ::testing::Contains("own-kernels"));
  EXPECT_TRUE(target.supports(program_of("kpt.glu.default")->graph()).value()[0].supported);
  const Support convolution = target.supports(program_of("kpt.conv2d.default")->graph()).value()[0];
  EXPECT_FALSE(convolution.supported);
  EXPECT_EQ(convolution.reason, "there is no kernel of ours for it; run `kpt optimize` here again");
  // Made for NVIDIA GPUs, which multiply E5M2 by E4M3.
  EXPECT_EQ(target.supports(program_of("kpt.linear_fp8_e5m2.default")->graph()).value()[0].reason, convolution.reason);
  EXPECT_EQ(target.capabilities().fp8_inputs, Fp8Inputs::kE4M3);
}

// As the native engine has it (AmdBackendTest.CapabilitiesFollowTheMatrixCores), but for bfloat16 and float16, whose
// products are hipBLAS's.
TEST_F(AmdTorchBackend, ProductsOfEightBitsFollowTheMatrixCoresOfOurs) {
  struct Row {
    std::string_view target;
    bool int8, fp8;
  };
  constexpr Row kRows[] = {{"gfx908", false, false}, {"gfx90a", true, false},   {"gfx942", true, true},
                           {"gfx950", true, true},   {"gfx1030", false, false}, {"gfx1100", true, false},
                           {"gfx1201", true, true}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.target);
    for (const bool matrix_cores : {true, false}) {
      BackendContext context;
      context.amd_matrix_cores = matrix_cores;
      const auto backend = make_backend_with_kernels(row.target, context);
      const Target& target = backend->devices().value().front()->target();
      const Capabilities& capabilities = target.capabilities();
      const auto has = [&](DType dtype, const char* op) {
        const auto& own = capabilities.own_operators;
        const bool product = std::ranges::find(capabilities.matrix_dtypes, dtype) != capabilities.matrix_dtypes.end();
        EXPECT_EQ(product, std::ranges::find(own, op) != own.end());
        return product;
      };
      EXPECT_EQ(has(DType::kInt8, "kpt.linear_int8.default"), row.int8 && matrix_cores);
      EXPECT_EQ(has(DType::kFloat8E4M3FN, "kpt.linear_fp8.default"), row.fp8 && matrix_cores);
      EXPECT_THAT(capabilities.own_operators, ::testing::Contains("kpt.attention.default"));
      const Support fp8 = target.supports(program_of("kpt.linear_fp8.default")->graph()).value()[0];
      EXPECT_EQ(fp8.supported, row.fp8 && matrix_cores);
      if (fp8.supported) continue;
      EXPECT_EQ(fp8.reason, matrix_cores ? fmt::format("{} has no matrix cores for float8_e4m3fn; run `kpt optimize` "
                                                       "here again",
                                                       row.target)
                                         : "amd.matrix_cores=false leaves alone the matrix cores that it needs");
    }
  }
}

TEST_F(AmdTorchBackend, KernelsForTheMatrixCoresAreThoseOfTheGpu) {
  for (const std::string target : {"gfx942", "gfx1201"}) {
    const testing::TestGpu machine(target);
    for (const bool matrix_cores : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", target, matrix_cores));
      BackendContext context;
      context.amd_matrix_cores = matrix_cores;
      const auto backend = make_backend_with_kernels(target, context);
      Device* const device = backend->devices().value().front();
      const auto program = std::make_shared<GraphProgram>(std::string(device->target().name()),
                                                          ir::Graph(program_of("kpt.attention.default")->graph()));
      (void)backend->load(program, {}, std::span(&device, 1));
      ASSERT_NE(gpus().launcher, nullptr);
      const gpu::MatrixUnit unit = gpus().launcher->shape().matrix;
      EXPECT_EQ(unit, !matrix_cores        ? gpu::MatrixUnit::kNone
                      : target == "gfx942" ? gpu::MatrixUnit::kCdna3
                                           : gpu::MatrixUnit::kRdna4);
      // Whether it is there: arguments that it does not take are refused later.
      gpu::Launch launch;
      launch.kernel = target == "gfx942" ? "attention_cdna3_f16_64" : "attention_rdna4_f16_64";
      EXPECT_EQ(gpus().launcher->launch(launch, nullptr).code() == StatusCode::kNotFound, !matrix_cores);
      gpus() = {};
    }
  }
}

TEST_F(AmdTorchBackend, TheModuleGetsALauncherOfTheKernelsThatTheGraphNeeds) {
  const testing::TestGpu machine("gfx942");
  const auto backend = make_backend_with_kernels();
  Device* const device = backend->devices().value().front();
  (void)backend->load(program_of("aten.relu.default"), {}, std::span(&device, 1));
  EXPECT_EQ(gpus().launcher, nullptr);
  (void)backend->load(program_of("kpt.add_norm.default"), {}, std::span(&device, 1));
  ASSERT_NE(gpus().launcher, nullptr);
  EXPECT_EQ(gpus().launcher->shape().wave, 64);
  // The test library executes it on the host's memory.
  const std::vector<float> input = {1, 2, 3, 6};
  std::vector<float> normed(4);
  gpu::NormCall call;
  call.kind = gpu::NormKind::kRms;
  call.input = input.data();
  call.normed = normed.data();
  call.rows = 1;
  call.width = call.input_stride = 4;
  const Status status = run_plan(*gpus().launcher, plan_norm(call, gpus().launcher->shape()), nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::size_t index = 0; index < input.size(); ++index) {
    EXPECT_NEAR(normed[index], input[index] / std::sqrt(12.5), 1e-6);
  }
  // Nothing else was loaded.
  gpu::Launch other;
  other.kernel = "rotary_f32";
  EXPECT_EQ(gpus().launcher->launch(other, nullptr).code(), StatusCode::kNotFound);
  gpus() = {};
}

TEST_F(AmdTorchBackend, AGpuWhoseComputeUnitsNobodyTellsRunsOurKernels) {
  const testing::TestGpu machine("gfx942");
  const auto detect = [](const DetectionContext& context) {
    AmdReport report = one_gpu(context);
    report.gpus[0].compute_units = 0;  // /sys/class/kfd does not list its place on the bus
    return report;
  };
  const auto backend = make_amd_torch_backend(
      BackendContext(), {detect, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); },
                         build_dir() + "/fakes/amd/libamdhip64.so.6", testing::forge_family});
  Device* const device = backend->devices().value().front();
  EXPECT_THAT(device->target().capabilities().own_operators, ::testing::Contains("kpt.glu.default"));
  const Status status = backend->load(program_of("kpt.glu.default"), {}, std::span(&device, 1)).status();
  EXPECT_THAT(status.message(), HasSubstr("the fake has no memory")) << "the module was asked";
  ASSERT_NE(gpus().launcher, nullptr);
  EXPECT_EQ(gpus().launcher->shape().multiprocessors, 1);
  gpus() = {};
}

TEST_F(AmdTorchBackend, AKernelThatCannotBeCompiledEndsTheLoad) {
  const testing::TestGpu machine("gfx942");
  AmdTorchParts parts{one_gpu, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); },
                      build_dir() + "/fakes/amd/libamdhip64.so.6",
                      [](std::string_view family, std::string_view) -> Result<std::string> {
                        return Status(StatusCode::kCompilation, std::string(family) + " does not compile");
                      }};
  const auto backend = make_amd_torch_backend(BackendContext(), std::move(parts));
  Device* const device = backend->devices().value().front();
  EXPECT_EQ(backend->load(program_of("kpt.rotary.default"), {}, std::span(&device, 1)).status().message(),
            "rotary does not compile");
}

TEST_F(AmdTorchBackend, WhatLibtorchsProfilerHeardOfTheGpuIsRecorded) {
  using Kind = Activity::Kind;
  std::vector<Activity> heard = {{Kind::kCall, "hipModuleLaunchKernel", 10, 2, 7, 1},
                                 {Kind::kKernel, "norm_f32", 20, 5, 0, 1}};
  AmdTorchParts parts{one_gpu, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); }, "", {}};
  parts.record = [&heard](const std::function<Status()>& work) -> Result<std::vector<Activity>> {
    KPT_RETURN_IF_ERROR(work());
    return heard;
  };
  const auto backend = make_amd_torch_backend(BackendContext(), std::move(parts));
  Device& device = *backend->devices().value().front();
  const auto recorded = device.record([] { return Status(); });
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  ASSERT_EQ(recorded->size(), 2U);
  EXPECT_EQ((*recorded)[1].name, "norm_f32");
  EXPECT_EQ(device.record([]() -> Status { return {StatusCode::kCancelled, "not today"}; }).status().message(),
            "not today");
  heard.pop_back();
  const Status silent = device.record([] { return Status(); }).status();
  EXPECT_EQ(silent.code(), StatusCode::kUnsupported);
  EXPECT_EQ(silent.vendor(), Vendor::kAmd);
  EXPECT_THAT(silent.message(), AllOf(StartsWith("ROCm's tracer behind libtorch's profiler told of no work on amd:0"),
                                      HasSubstr("amd.engine=native")));
}

// The model is compiled anew then (runtime/loaded_model.cpp).
TEST_F(AmdTorchBackend, AProgramOfOurOwnKernelsIsAnotherVersion) {
  const auto backend = make_backend();
  const Target& target = backend->devices().value().front()->target();
  const Status status = target.deserialize("kpt-amd-program 1\namd:gfx942\n").status();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(status.message(), HasSubstr("amd.engine=native"));
  EXPECT_EQ(target.deserialize("anything").status().code(), StatusCode::kCorruptData);
}

}  // namespace
}  // namespace kpt
