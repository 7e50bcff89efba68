// One module over four devices of the real CPU plugin, held against one device.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/xla/xla_backend.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A transformer's feed-forward part and a sum over all rows, which needs what every device has.
constexpr const char* kLayers = R"(kpt_graph 1
symbol s0 in 1..64
parameter w1: float32[32, 12] "w1"
parameter b1: float32[32] "b1"
parameter w2: float32[12, 32] "w2"
parameter b2: float32[12] "b2"
input x: float32[s0, 12]
h: float32[s0, 32] = aten.linear.default(input=%x, weight=%w1, bias=%b1)
a: float32[s0, 32] = aten.gelu.default(self=%h)
y: float32[s0, 12] = aten.linear.default(input=%a, weight=%w2, bias=%b2)
r: float32[s0, 12] = aten.add.Tensor(self=%y, other=%x)
m: float32[12] = aten.mean.dim(self=%r, dim=[0])
output %r "r"
output %m "m"
)";

// A buffer that every run adds the sum of its rows to.
constexpr const char* kSharedCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[4, 3]
sum: float32[3] = aten.sum.dim_IntList(self=%x, dim=[0])
next: float32[3] = aten.add.Tensor(self=%c, other=%sum)
y: float32[4, 3] = aten.add.Tensor(self=%x, other=%next)
buffer_mutation %next "count"
output %y "y"
)";

Tensor draw_floats(std::mt19937& random, const Dims& dims) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::normal_distribution<float> normal;
  for (float& value : tensor.elements<float>()) value = normal(random);
  return tensor;
}

class SeveralDevices : public ::testing::Test {
 protected:
  // A backend of its own for each number of devices: an Executable needs its backend.
  struct Loaded {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Executable> executable;
  };

  Result<Loaded> load(const std::string& text, const Weights& weights, std::size_t devices, bool split_weights) {
    BackendContext context;
    context.detection.environment = Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}});
    context.detection.probe_time_limit = std::chrono::seconds(60);
    context.detection.pjrt_plugins = {"xla_cpu_pjrt=" + testing::cpu_plugin_path()};
    context.compile_cache_folder = folder_.path() / "cache";
    context.compile_cache_bytes = 1 << 26;
    context.compile_time_limit = time_limit_;
    context.pjrt_devices = devices;
    context.pjrt_split_weights = split_weights;
    Loaded loaded{make_xla_backend(context), nullptr};
    KPT_ASSIGN_OR_RETURN(const auto all, loaded.backend->devices());
    KPT_ASSIGN_OR_RETURN(ir::Graph graph, ir::read_graph(text));
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, all.at(0)->target().compile(std::move(graph)));
    Device* const one[] = {all.at(0)};
    KPT_ASSIGN_OR_RETURN(loaded.executable, loaded.backend->load(std::move(program), weights, one));
    return loaded;
  }

  static Result<std::vector<Tensor>> run(Executable& executable, const Tensor& input, State* state = nullptr) {
    RunContext context;
    context.state = state;
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {input};
    KPT_RETURN_IF_ERROR(executable.run(context, inputs, outputs));
    return outputs;
  }

  testing::TemporaryFolder folder_;
  std::chrono::milliseconds time_limit_{0};
};

TEST_F(SeveralDevices, GiveWhatOneGivesWithinRounding) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Weights weights = {{"w1", draw_floats(random, {32, 12})},
                           {"b1", draw_floats(random, {32})},
                           {"w2", draw_floats(random, {12, 32})},
                           {"b2", draw_floats(random, {12})}};
  const auto single = load(kLayers, weights, 1, false);
  ASSERT_TRUE(single.ok()) << single.status().message();
  for (const bool split_weights : {false, true}) {
    SCOPED_TRACE(split_weights ? "weights" : "batch");
    const auto several = load(kLayers, weights, 4, split_weights);
    ASSERT_TRUE(several.ok()) << several.status().message();
    EXPECT_THAT(several->executable->describe_runs(), HasSubstr("on 4 devices"));
    for (const std::int64_t rows : {4, 16, 4}) {
      const Tensor x = draw_floats(random, {rows, 12});
      const auto expected = run(*single->executable, x);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const auto actual = run(*several->executable, x);
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      for (std::size_t output = 0; output < 2; ++output) {
        ASSERT_EQ((*actual)[output].dims(), (*expected)[output].dims());
        const auto ours = (*actual)[output].elements<float>();
        const auto theirs = (*expected)[output].elements<float>();
        for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], 2e-4) << output << ", " << i;
      }
    }
  }
}

TEST_F(SeveralDevices, AnyRowsDoWhereWeightsAreShared) {
  KPT_NEEDS_CPU_PLUGIN();
  std::mt19937 random(5);
  const Weights weights = {{"w1", draw_floats(random, {32, 12})},
                           {"b1", draw_floats(random, {32})},
                           {"w2", draw_floats(random, {12, 32})},
                           {"b2", draw_floats(random, {12})}};
  const Tensor x = draw_floats(random, {5, 12});
  EXPECT_TRUE(run(*load(kLayers, weights, 4, true).value().executable, x).ok());
  const Status uneven = run(*load(kLayers, weights, 4, false).value().executable, x).status();
  EXPECT_EQ(uneven.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(uneven.message(), HasSubstr("4 devices cannot share a batch of 5 rows"));
}

TEST_F(SeveralDevices, BuffersThatAModelWritesAreTheSameOnEach) {
  KPT_NEEDS_CPU_PLUGIN();
  Tensor start = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : start.elements<float>()) value = 1;
  Tensor x = Tensor::empty(DType::kFloat32, Dims{4, 3}).value();
  for (float& value : x.elements<float>()) value = 2;
  const auto loaded = load(kSharedCounter, {{"count", start}}, 4, false);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto state = loaded->executable->make_state().value();
  for (const float expected : {11.0F, 19.0F, 27.0F}) {
    const auto outputs = run(*loaded->executable, x, state.get());
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_THAT((*outputs)[0].elements<float>(), ::testing::Each(expected));
  }
  EXPECT_THAT(state->read("count").value().elements<float>(), ElementsAre(25, 25, 25));
  ASSERT_TRUE(state->write("count", start).ok());
  EXPECT_EQ(run(*loaded->executable, x, state.get()).value()[0].elements<float>()[11], 11);
}

TEST_F(SeveralDevices, TheirProgramComesFromTheCacheAndFromAChildToo) {
  KPT_NEEDS_CPU_PLUGIN();
  Tensor start = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : start.elements<float>()) value = 1;
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{4, 3}).value();
  time_limit_ = std::chrono::seconds(120);
  for (const char* way : {"compiled in a child", "from the cache"}) {
    SCOPED_TRACE(way);
    const auto loaded = load(kSharedCounter, {{"count", start}}, 4, false);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto state = loaded->executable->make_state().value();
    EXPECT_TRUE(run(*loaded->executable, x, state.get()).ok());
  }
}

TEST_F(SeveralDevices, TensorsOfTheFirstDeviceAreSharedOut) {
  KPT_NEEDS_CPU_PLUGIN();
  std::mt19937 random(6);
  const auto loaded = load(R"(kpt_graph 1
input x: float32[8, 2]
sum: float32[8, 2] = aten.add.Tensor(self=%x, other=%x)
input_mutation %sum "x"
output %sum "y"
)",
                           {}, 4, false);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  Device& device = *loaded->backend->devices().value().at(0);
  const Tensor x = draw_floats(random, {8, 2});
  const Tensor uploaded = device.upload(x).value();
  const auto outputs = run(*loaded->executable, uploaded);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ((*outputs)[0].elements<float>()[15], 2 * x.elements<float>()[15]);
  EXPECT_EQ(device.download(uploaded).value().elements<float>()[15], 2 * x.elements<float>()[15]);
}

}  // namespace
}  // namespace kpt
