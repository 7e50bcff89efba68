// The backend on a table that a test makes: what it asks of a module, and what it says when the module refuses.
#include "backends/amd/amd_torch_backend.h"

#include <cmath>
#include <cstdio>

#include <gmock/gmock.h>

#include "backends/amd/test_gpu.h"
#include "base/log.h"
#include "engines/aten/graph_engine.h"
#include "kernels/gpu/norm.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using aten::CallCode;
using aten::CallOutcome;
using ::testing::HasSubstr;
using ::testing::Not;

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

AmdReport one_gpu(const DetectionContext& /*context*/) {
  AmdReport report;
  report.finding.presence = Presence::kPresent;
  AmdGpu gpu;
  gpu.name = "AMD Instinct MI300X";
  gpu.gfx_target = "gfx942";
  gpu.architecture = "CDNA3";
  gpu.compute_units = 4;
  gpu.memory_total_bytes = 1U << 30U;
  report.gpus = {gpu};
  return report;
}

std::unique_ptr<Backend> make_backend(const BackendContext& context = BackendContext()) {
  return make_amd_torch_backend(
      context, {one_gpu, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); }, "", {}});
}

// With kernels of ours, on the test libamdhip64.
std::unique_ptr<Backend> make_backend_with_kernels() {
  return make_amd_torch_backend(BackendContext(),
                                {one_gpu, []() -> Result<const aten::CudaModuleTable*> { return &fake_table(); },
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
  EXPECT_THAT(answers[1].reason, HasSubstr("amd.engine=native"));
}

TEST_F(AmdTorchBackend, WithKernelsOfOursTheirOperatorsRun) {
  const auto backend = make_backend_with_kernels();
  const Target& target = backend->devices().value().front()->target();
  EXPECT_THAT(target.capabilities().own_operators,
              ::testing::UnorderedElementsAre("kpt.add_norm.default", "kpt.glu.default", "kpt.linear.default",
                                              "kpt.linear_int4.default", "kpt.linear_weight_int8.default",
                                              "kpt.rotary.default"));
  EXPECT_EQ(target.capabilities().float16_operators, target.capabilities().own_operators);
  EXPECT_THAT(target.capabilities().features, ::testing::Contains("own-kernels"));
  EXPECT_TRUE(target.supports(program_of("kpt.glu.default")->graph()).value()[0].supported);
  EXPECT_FALSE(target.supports(program_of("kpt.attention.default")->graph()).value()[0].supported);
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
