// Models on tpu:N with XLA's real CPU plugin standing in for libtpu, on a machine with chips that is written down: it
// shows that what we do with a client is right, and nothing of TPUs.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/tpu/tpu_backend.h"
#include "backends/tpu/tpu_device_target.h"
#include "base/log.h"
#include "engines/xla/execution/ahead_program.h"
#include "engines/xla/execution/donation.h"
#include "engines/xla/pjrt/compile_options.h"
#include "engines/xla/stablehlo/lower.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tpu_machine.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kIn = 24;
constexpr std::int64_t kHidden = 40;

constexpr const char* kLayers = R"(kpt_graph 1
symbol s0 in 1..64
parameter w1: float32[40, 24] "w1"
parameter b1: float32[40] "b1"
parameter w2: float32[24, 40] "w2"
input x: float32[s0, 24]
h: float32[s0, 40] = aten.linear.default(input=%x, weight=%w1, bias=%b1)
a: float32[s0, 40] = aten.gelu.default(self=%h)
y: float32[s0, 24] = aten.linear.default(input=%a, weight=%w2)
r: float32[s0, 24] = aten.add.Tensor(self=%y, other=%x)
output %r "r"
)";

constexpr const char* kCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
twice: float32[3] = aten.add.Tensor(self=%sum, other=%sum)
buffer_mutation %sum "count"
output %twice "y"
)";

Tensor make(const Dims& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::copy(values.begin(), values.end(), tensor.elements<float>().begin());
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor) {
  const auto elements = tensor.elements<float>();
  return {elements.begin(), elements.end()};
}

class TpuStandIn : public ::testing::Test {
 protected:
  TpuStandIn() {
    auto variables = testing::tpu_machine_variables(testing::cpu_plugin_path());
    variables["KPT_HELPER_DIR"] = build_dir() + "/libexec/kpt";
    context_.detection.environment = Environment::from_map(std::move(variables));
    context_.detection.files = SystemFiles(machine_.root());
    context_.detection.probe_time_limit = std::chrono::seconds(60);
    context_.compile_cache_folder = folder_.path() / "cache";
    context_.compile_cache_bytes = 1 << 26;
    context_.threads = 2;
    backend_ = make_tpu_backend(context_);
  }

  Device& device(std::size_t place) { return *backend_->devices().value().at(place); }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::size_t place) {
    Device* const one[] = {&device(place)};
    return backend_->load(std::move(program), weights, one);
  }
  Result<std::unique_ptr<Executable>> load(const char* graph, const Weights& weights, std::size_t place = 0) {
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                         device(place).target().compile(ir::read_graph(graph).value()));
    return load(std::move(program), weights, place);
  }
  Tensor random_floats(const Dims& dims) {
    Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
    std::normal_distribution<float> normal;
    for (float& value : tensor.elements<float>()) value = normal(random_);
    return tensor;
  }
  Weights random_weights() {
    return {
        {"w1", random_floats({kHidden, kIn})}, {"b1", random_floats({kHidden})}, {"w2", random_floats({kIn, kHidden})}};
  }
  // kLayers in double.
  static std::vector<double> in_double(const Weights& weights, const Tensor& x) {
    const auto at = [](const Tensor& tensor, std::int64_t place) -> double {
      return tensor.elements<const float>()[static_cast<std::size_t>(place)];
    };
    const Tensor& w1 = weights.at("w1");
    const Tensor& w2 = weights.at("w2");
    std::vector<double> result;
    for (std::int64_t row = 0; row < x.dims()[0]; ++row) {
      std::vector<double> hidden;
      for (std::int64_t unit = 0; unit < kHidden; ++unit) {
        double sum = at(weights.at("b1"), unit);
        for (std::int64_t i = 0; i < kIn; ++i) sum += at(x, row * kIn + i) * at(w1, unit * kIn + i);
        hidden.push_back(0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0))));
      }
      for (std::int64_t out = 0; out < kIn; ++out) {
        double sum = at(x, row * kIn + out);
        for (std::int64_t unit = 0; unit < kHidden; ++unit) {
          sum += hidden[static_cast<std::size_t>(unit)] * at(w2, out * kHidden + unit);
        }
        result.push_back(sum);
      }
    }
    return result;
  }
  static void expect_right(Executable& executable, const Weights& weights, const Tensor& x) {
    RunContext context;
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {x};
    const Status status = executable.run(context, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<double> wanted = in_double(weights, x);
    const std::vector<float> given = values_of(outputs.at(0));
    ASSERT_EQ(given.size(), wanted.size());
    double squares = 0;
    for (const double value : wanted) squares += value * value;
    const double bound = 1e-5 * std::sqrt(squares / static_cast<double>(wanted.size()));
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(given[i], wanted[i], bound) << i;
  }

  // kCounter, whose buffer begins as 1, 2, 3.
  static void expect_counts(Executable& executable) {
    const auto state = executable.make_state().value();
    const Tensor inputs[] = {make({3}, {10, 10, 10})};
    const auto run = [&] {
      RunContext context;
      context.state = state.get();
      std::vector<Tensor> outputs;
      const Status status = executable.run(context, inputs, outputs);
      EXPECT_TRUE(status.ok()) << status.message();
      return status.ok() ? values_of(outputs.at(0)) : std::vector<float>();
    };
    EXPECT_THAT(run(), ElementsAre(22, 24, 26));
    EXPECT_THAT(run(), ElementsAre(42, 44, 46));
    ASSERT_TRUE(state->write("count", make({3}, {0, 0, 1})).ok());
    EXPECT_THAT(run(), ElementsAre(20, 20, 22));
    EXPECT_THAT(values_of(state->read("count").value()), ElementsAre(10, 10, 11));
  }
  // As `kpt compile` would store it: an executable that another client made, on its first device.
  static std::shared_ptr<const Program> make_elsewhere(const char* text, const ir::Bindings& sizes, bool overwrites) {
    const auto client = testing::cpu_client().value();
    const ir::Graph graph = ir::read_graph(text).value();
    const xla::LoweredModule module = xla::lower(graph, sizes).value();
    MainAttributes attributes;
    if (overwrites) mark_donated_buffers(graph, module, attributes);
    const auto compiled =
        client->compile(add_attributes(module.text, attributes), pjrt::encode_compile_options({})).value();
    pjrt::TopologyProgram made;
    made.executable = compiled->serialize().value();
    made.figures.compiler = pjrt::describe_compiler(
        std::to_string(client->plugin().api_major()) + "." + std::to_string(client->plugin().api_minor()),
        client->platform_version());
    made.figures.device_kind = client->devices()[0].kind;
    const AheadFacts facts{write_sizes(sizes), hash_module(module), "HIGHEST"};
    return std::make_shared<const AheadProgram>(kTpuForm, "tpu:v5e:2x2", graph, facts, std::move(made));
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  testing::HardwareFixture machine_ = testing::make_tpu_machine();
  testing::TemporaryFolder folder_;
  BackendContext context_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(TpuStandIn, AModelGivesWhatDoublePrecisionGives) {
  KPT_NEEDS_CPU_PLUGIN();
  const Weights weights = random_weights();
  for (const std::size_t place : {0U, 2U}) {
    const auto executable = load(kLayers, weights, place);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    EXPECT_EQ((*executable)->device(), "tpu:" + std::to_string(place));
    for (const std::int64_t rows : {1, 5}) expect_right(**executable, weights, random_floats({rows, kIn}));
    const Tensor x = random_floats({5, kIn});
    EXPECT_EQ(values_of(device(place).download(device(place).upload(x).value()).value()), values_of(x));
  }
}

TEST_F(TpuStandIn, BuffersThatAModelWritesStayOnTheirDevice) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto loaded = load(kCounter, {{"count", make({3}, {1, 2, 3})}}, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  expect_counts(**loaded);
}

TEST_F(TpuStandIn, SeveralDevicesShareAModelFromTheNamedOneOn) {
  KPT_NEEDS_CPU_PLUGIN();
  context_.pjrt_devices = 2;
  backend_ = make_tpu_backend(context_);
  const Weights weights = random_weights();
  const auto executable = load(kLayers, weights, 1);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_THAT((*executable)->describe_runs(), HasSubstr("2 devices"));
  expect_right(**executable, weights, random_floats({4, kIn}));
}

TEST_F(TpuStandIn, AnExecutableMadeElsewhereRunsOnAnyDevice) {
  KPT_NEEDS_CPU_PLUGIN();
  ir::Bindings sizes;
  sizes.set("s0", 3);
  const auto program = make_elsewhere(kLayers, sizes, true);
  const Weights weights = random_weights();
  for (const std::size_t place : {0U, 2U}) {
    std::string lines;
    const auto capture = log::capture(&lines);
    log::configure(log::Level::kInfo, log::Format::kText);
    const auto executable = load(program, weights, place);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    EXPECT_THAT(lines, AllOf(HasSubstr("stored=true"), HasSubstr("device=tpu:" + std::to_string(place))));
    expect_right(**executable, weights, random_floats({3, kIn}));
    expect_right(**executable, weights, random_floats({7, kIn}));
  }
}

// One that was stored before programs were told so holds its buffers twice, and counts alike.
TEST_F(TpuStandIn, AnExecutableMadeElsewhereMayOverwriteWhatItsModelWrites) {
  KPT_NEEDS_CPU_PLUGIN();
  for (const bool overwrites : {true, false}) {
    std::string lines;
    const auto capture = log::capture(&lines);
    log::configure(log::Level::kInfo, log::Format::kText);
    const auto executable =
        load(make_elsewhere(kCounter, {}, overwrites), {{"count", make({3}, {1, 2, 3})}}, overwrites ? 1 : 0);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    EXPECT_THAT(lines, HasSubstr("stored=true"));
    expect_counts(**executable);
  }
}

TEST_F(TpuStandIn, MemoryIsToldOrTheReasonWhyNot) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto memory = device(0).memory();
  if (memory.ok()) {
    EXPECT_TRUE(memory->allocated_bytes.has_value());
  } else {
    EXPECT_THAT(memory.status().message(), HasSubstr("PJRT_Device_MemoryStats"));
  }
}

}  // namespace
}  // namespace kpt
