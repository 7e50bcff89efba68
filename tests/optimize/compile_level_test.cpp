// The passes of a level for hardware that is not here: judged on the CPU where that can run them.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "hardware_fixture.h"
#include "ir/text.h"
#include "optimize/cached.h"
#include "optimize/compile_level.h"
#include "passes/own_calls.h"
#include "passes/pass_testing.h"

namespace kpt::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kAbsentProduct = R"(kpt_graph 1
symbol s0 in 1..64
parameter w: float32[64, 64]
input x: float32[s0, 64]
linear: float32[s0, 64] = aten.linear.default(input=%x, weight=%w)
add: float32[s0, 64] = aten.add.Tensor(self=%linear, other=%x)
output %add "y"
)";

constexpr const char* kFailsAtRun = R"(kpt_graph 1
parameter w: float32[64, 64]
parameter v: float32[32, 48]
input x: float32[2, 64]
linear: float32[2, 64] = aten.linear.default(input=%x, weight=%w)
wrong: float32[2, 32] = aten.linear.default(input=%linear, weight=%v)
output %wrong "y"
)";

constexpr const char* kUnknownNode = R"(kpt_graph 1
parameter w: float32[64, 64]
input x: float32[2, 64]
linear: float32[2, 64] = aten.linear.default(input=%x, weight=%w)
strange: float32[2, 64] = nobody.knows.default(self=%linear)
output %strange "y"
)";

class AbsentTarget final : public Target {
 public:
  AbsentTarget(const Target& cpu, std::vector<DType> matrix_dtypes) : capabilities_(cpu.capabilities()) {
    capabilities_.host_processor = false;
    capabilities_.matrix_dtypes = std::move(matrix_dtypes);
    capabilities_.own_operators.emplace_back(kLinearFp8Target);
  }
  std::string_view name() const override { return "far:away"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    return std::vector<Support>(graph.nodes.size());
  }
  Result<std::unique_ptr<Program>> compile(ir::Graph) const override {
    return Status(StatusCode::kUnsupported, "nothing is compiled for it");
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view) const override {
    return Status(StatusCode::kUnsupported, "nothing is stored for it");
  }

 private:
  Capabilities capabilities_;
};

class CompileLevels : public ::testing::Test {
 protected:
  static Result<PlacedDevice> find_cpu() {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
    return find_runnable_device("cpu", context);
  }

  Result<LevelOutcome> apply(const char* text, Level level, const std::vector<DType>& matrix_dtypes,
                             const Result<PlacedDevice>& cpu, const DeviceHere& here = {}) const {
    ImportedModel model;
    model.graph = ir::read_graph(text).value();
    model.weights = pass_testing::draw_weights(model.graph, seed_);
    DrawOptions draws;
    draws.seed = seed_;
    if (!model.graph.symbols.empty()) draws.sizes = {{"s0", 16}};
    const AbsentTarget target(cpu_->device->target(), matrix_dtypes);
    return apply_level(model, level, draws, target, here, cpu);
  }

  static std::vector<std::string> targets(const LevelOutcome& outcome) {
    std::vector<std::string> names;
    for (const ir::Node& node : outcome.model.graph.nodes) names.push_back(node.target);
    return names;
  }

  unsigned seed_ = std::random_device()();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  Result<PlacedDevice> cpu_ = find_cpu();
};

TEST_F(CompileLevels, PassesAreForTheTargetAndTheCpuJudges) {
  const auto outcome = apply(kAbsentProduct, Level::kBalanced, {DType::kBFloat16}, cpu_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  ASSERT_TRUE(outcome->report.has_value()) << outcome->not_judged;
  EXPECT_FALSE(outcome->refused());
  EXPECT_EQ(outcome->report->device, "cpu");
  EXPECT_EQ(outcome->report->speed, std::nullopt) << "nothing is measured";
  EXPECT_THAT(outcome->report->notes, Contains(HasSubstr("on cpu: far:away is not here")));
  EXPECT_THAT(outcome->report->gate.draws, Contains(HasSubstr("s0=16")));
  EXPECT_TRUE(outcome->samples.empty()) << "the CPU's answers are not those of the target";
  EXPECT_THAT(ir::print_graph(outcome->model.graph), HasSubstr("bfloat16"));
  EXPECT_THAT(outcome->needs, Contains("fast-bfloat16"));
  const auto plain = apply(kAbsentProduct, Level::kBalanced, {}, cpu_);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_THAT(ir::print_graph(plain->model.graph), ::testing::Not(HasSubstr("bfloat16"))) << "whatever the CPU has";
  const auto precise = apply(kAbsentProduct, Level::kConservative, {DType::kBFloat16}, cpu_);
  ASSERT_TRUE(precise.ok()) << precise.status().message();
  EXPECT_THAT(ir::print_graph(precise->model.graph), ::testing::Not(HasSubstr("bfloat16")));
}

TEST_F(CompileLevels, ADeviceThatIsHereJudges) {
  const auto outcome = apply(kAbsentProduct, Level::kConservative, {}, cpu_, {*cpu_, ""});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  ASSERT_TRUE(outcome->report.has_value());
  EXPECT_TRUE(outcome->report->notes.empty());
  ASSERT_FALSE(outcome->samples.empty()) << "loading could check nothing";
  EXPECT_EQ(outcome->samples[0].outputs.size(), 1U);
  EXPECT_EQ(outcome->samples[0].reference.size(), 1U);
}

TEST_F(CompileLevels, ADeviceThatCannotBeUsedIsNotSaidToBeAbsent) {
  const auto outcome = apply(kAbsentProduct, Level::kConservative, {}, cpu_, {std::nullopt, "its driver hangs"});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_THAT(outcome->report->notes, Contains(HasSubstr("on cpu: far:away cannot be used here: its driver hangs")));
}

// A graph that lies about a weight: the product fails when it runs, as one does for which memory or a library's code
// is lacking.
TEST_F(CompileLevels, WhatFailsOnTheCpuIsNotJudged) {
  const auto outcome = apply(kFailsAtRun, Level::kBalanced, {DType::kBFloat16}, cpu_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_FALSE(outcome->report.has_value());
  EXPECT_THAT(outcome->not_judged, HasSubstr("cannot be multiplied"));
  EXPECT_THAT(ir::print_graph(outcome->model.graph), HasSubstr("bfloat16"));
  const auto on_it = apply(kFailsAtRun, Level::kBalanced, {}, cpu_, {*cpu_, ""});
  EXPECT_EQ(on_it.status().code(), StatusCode::kVendorLibrary)
      << "the target's own device fails: that is no limit of a CPU";
}

TEST_F(CompileLevels, WhatTheCpuCannotRunIsNotJudged) {
  const auto narrow = apply(kAbsentProduct, Level::kAggressive, {DType::kFloat8E4M3FN}, cpu_);
  ASSERT_TRUE(narrow.ok()) << narrow.status().message();
  EXPECT_FALSE(narrow->report.has_value());
  EXPECT_FALSE(narrow->refused());
  EXPECT_THAT(narrow->not_judged, HasSubstr("linear_fp8"));
  EXPECT_THAT(targets(*narrow), Contains(kLinearFp8Target));
  const auto strange = apply(kUnknownNode, Level::kBalanced, {DType::kBFloat16}, cpu_);
  ASSERT_TRUE(strange.ok()) << strange.status().message();
  EXPECT_THAT(strange->not_judged, HasSubstr("nobody.knows"));
  EXPECT_THAT(ir::print_graph(strange->model.graph), HasSubstr("bfloat16"));
  EXPECT_THAT(strange->needs, Contains("fast-bfloat16"));
}

TEST_F(CompileLevels, WithoutACpuEngineTheReasonIsItsOwn) {
  const Result<PlacedDevice> none = Status(StatusCode::kDeviceNotAvailable, "libtorch was not found");
  const auto outcome = apply(kAbsentProduct, Level::kBalanced, {DType::kBFloat16}, none);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->not_judged, "libtorch was not found");
  EXPECT_THAT(ir::print_graph(outcome->model.graph), HasSubstr("bfloat16"));
}

TEST_F(CompileLevels, NothingIsMeasuredForWhatIsNotHere) {
  ImportedModel model;
  model.graph = ir::read_graph(kAbsentProduct).value();
  model.weights = pass_testing::draw_weights(model.graph, seed_);
  const AbsentTarget target(cpu_->device->target(), {});
  OptimizeOptions options;
  options.target = &target;
  EXPECT_EQ(optimize_model(model, options, *cpu_, *cpu_).status().code(), StatusCode::kInvalidArgument);
}

// The key has the device that judges, not what the passes are for.
TEST_F(CompileLevels, AKeptResultOfTheJudgesOwnIsNotTakenForTheTarget) {
  ImportedModel model;
  model.graph = ir::read_graph(kAbsentProduct).value();
  model.weights = pass_testing::draw_weights(model.graph, seed_);
  const TemporaryFolder folder;
  CompileCache cache = CompileCache::open(folder.path() / "cache", 1 << 30).value();
  OptimizeOptions options;
  options.measure = false;
  options.draws.seed = seed_;
  const auto optimize = [&] {
    return optimize_to_file(model, options, *cpu_, *cpu_, 1, folder.path() / "model.kpt", &cache).value();
  };
  EXPECT_FALSE(optimize().from_cache);
  EXPECT_TRUE(optimize().from_cache);
  const AbsentTarget target(cpu_->device->target(), {DType::kBFloat16});
  options.target = &target;
  EXPECT_FALSE(optimize().from_cache);
  EXPECT_EQ(read_artifact(folder.path() / "model.kpt").value().targets.at(0).name, "far:away");
  options.target = nullptr;
  EXPECT_TRUE(optimize().from_cache);
  EXPECT_EQ(read_artifact(folder.path() / "model.kpt").value().targets.at(0).name, "cpu");
}

}  // namespace
}  // namespace kpt::testing
