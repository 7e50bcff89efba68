// Graphs with a node that has no lowering, the rest of them on XLA's CPU plugin (placement.split): held against
// libtorch alone and fp64.
#include <chrono>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "conformance/operator_run.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "ir/text.h"
#include "runtime/loaded_model.h"
#include "runtime/split_plan.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

// What XLA computes goes through the CPU and back, once as it lies and once turned. The factor keeps erfinv away from
// its poles, where it would magnify roundings.
constexpr const char* kSplitModel = R"(kpt_graph 1
input x: float32[6, 5]
input w: float32[4, 5]
input b: float32[4]
sums: float32[6, 4] = aten.linear.default(input=%x, weight=%w, bias=%b)
squashed: float32[6, 4] = aten.tanh.default(self=%sums)
inner: float32[6, 4] = aten.mul.Scalar(self=%squashed, other=0.75)
normal: float32[6, 4] = aten.erfinv.default(self=%inner)
turned: float32[4, 6]{strides=[1, 4]} = aten.permute.default(self=%normal, dims=[1, 0])
products: float32[6, 6] = aten.matmul.default(self=%normal, other=%turned)
output %products "products"
output %normal "normal"
output %squashed "squashed"
)";

Result<PlacedDevice> find_xla_cpu(bool may_split) {
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(const Config config, load_config({}, environment));
  KPT_ASSIGN_OR_RETURN(BackendContext context, make_backend_context(config, environment));
  context.detection.pjrt_plugins = {"xla_cpu_pjrt=" + testing::cpu_plugin_path()};
  context.detection.probe_time_limit = std::chrono::seconds(60);
  context.compile_cache_folder.clear();
  context.split_graphs = may_split;
  return find_runnable_device("xla:cpu", context);
}

TEST(SplitNumbers, AreThoseOfLibtorchAlone) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto device = find_xla_cpu(true);
  ASSERT_TRUE(device.ok()) << device.status().message();
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto run = conformance::OperatorRun::make(ir::read_graph(kSplitModel).value(), random);
  ASSERT_TRUE(run.ok()) << run.status().message();
  auto loaded = detail::LoadedModel::load(run->model(), *device->backend, *device->device);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_NE((*loaded)->program().placement(), nullptr);
  EXPECT_EQ(describe_parts(*(*loaded)->program().placement()), "3 parts: 5 nodes on xla:cpu, 1 on cpu");
  auto session = detail::start_session(*loaded);
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (int again = 0; again < 2; ++again) {
    const auto outputs = session->run(run->inputs());
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    run->judge(*outputs);
  }
}

// A number that a run reads out of a tensor goes to the CPU with what uses it.
TEST(SplitNumbers, NumbersOutOfTensorsAreReadOnTheCpu) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto device = find_xla_cpu(true);
  ASSERT_TRUE(device.ok()) << device.status().message();
  const auto graph = ir::read_graph(R"(kpt_graph 1
symbol u0 in -1000..1000
input x: float32[6, 5]
input n: int64[]
squashed: float32[6, 5] = aten.tanh.default(self=%x)
count: int(u0) = aten.item.default(self=%n)
scaled: float32[6, 5] = aten.mul.Scalar(self=%squashed, other=%count)
sines: float32[6, 5] = aten.sin.default(self=%scaled)
output %sines "sines"
)");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto run = conformance::OperatorRun::make(*graph, random);
  ASSERT_TRUE(run.ok()) << run.status().message();
  auto loaded = detail::LoadedModel::load(run->model(), *device->backend, *device->device);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_NE((*loaded)->program().placement(), nullptr);
  EXPECT_EQ(describe_parts(*(*loaded)->program().placement()), "3 parts: 2 nodes on xla:cpu, 2 on cpu");
  auto session = detail::start_session(*loaded);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto outputs = session->run(run->inputs());
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  run->judge(*outputs);
}

TEST(SplitNumbers, NeedTheOption) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto device = find_xla_cpu(false);
  ASSERT_TRUE(device.ok()) << device.status().message();
  ImportedModel model;
  model.graph = ir::read_graph(kSplitModel).value();
  const Status status = detail::LoadedModel::load(model, *device->backend, *device->device).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("aten.erfinv.default"));
}

}  // namespace
}  // namespace kpt
