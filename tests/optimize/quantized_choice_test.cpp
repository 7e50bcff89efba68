// Which convolutions and products stay out of int8 and FP8, one by one: those that are slower there and those that the
// gate refuses. Times come from a CPU that waits where the test says, so that they do not hang on the machine.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "hardware_fixture.h"
#include "ir/text.h"
#include "optimize/optimize.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/pass_testing.h"

namespace kpt::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// How long a node waits beyond its work.
using Wait = std::function<std::chrono::milliseconds(const ir::Graph&, const ir::Node&)>;

class SlowExecutable final : public Executable {
 public:
  SlowExecutable(std::unique_ptr<Executable> right, std::chrono::milliseconds wait)
      : right_(std::move(right)), wait_(wait) {}
  std::string_view device() const override { return right_->device(); }
  bool is_stateful() const override { return right_->is_stateful(); }
  Result<std::unique_ptr<State>> make_state() const override { return right_->make_state(); }
  std::vector<NodePlan> plan() const override { return right_->plan(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override {
    std::this_thread::sleep_for(wait_);
    return right_->run(context, inputs, outputs, event);
  }

 private:
  std::unique_ptr<Executable> right_;
  std::chrono::milliseconds wait_;
};

class SlowBackend final : public Backend {
 public:
  SlowBackend(std::shared_ptr<Backend> right, Wait wait) : right_(std::move(right)), wait_(std::move(wait)) {}
  std::string_view name() const override { return right_->name(); }
  std::vector<const Target*> targets() const override { return right_->targets(); }
  Result<std::vector<Device*>> devices() override { return right_->devices(); }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    std::chrono::milliseconds wait(0);
    for (const ir::Node& node : program->graph().nodes) wait += wait_(program->graph(), node);
    KPT_ASSIGN_OR_RETURN(auto executable, right_->load(std::move(program), weights, devices));
    return std::unique_ptr<Executable>(std::make_unique<SlowExecutable>(std::move(executable), wait));
  }

 private:
  std::shared_ptr<Backend> right_;
  Wait wait_;
};

// Convolutions and products with 48 filters or rows are slow in eight bits, those with 32 slow in all other types.
std::chrono::milliseconds wait_by_filters(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId weight = value_argument(node, "weight");
  if (weight == ir::kNoValue || graph.at(weight).tensor.dims.size() < 2) return {};
  const bool small = element_bytes(graph.at(weight).tensor.dtype) == 1;
  const auto filters = constant_dim(graph.at(weight).tensor, 0);
  const bool slow = (filters == 48 && small) || (filters == 32 && !small);
  return std::chrono::milliseconds(slow ? 20 : 0);  // more than other work on the machine takes from a run
}

constexpr const char* kConvolutions = R"(kpt_graph 1
parameter v: float32[32, 16, 1, 1]
parameter w: float32[48, 32, 3, 3]
input x: float32[1, 16, 6, 6]
gains: float32[1, 32, 6, 6] = aten.conv2d.default(input=%x, weight=%v, bias=none, stride=[1, 1], padding=[0, 0])
loses: float32[1, 48, 6, 6] = aten.conv2d.default(input=%gains, weight=%w, bias=none, stride=[1, 1], padding=[1, 1])
output %loses "y"
)";

constexpr const char* kProducts = R"(kpt_graph 1
parameter v: float32[32, 64]
parameter w: float32[48, 32]
input x: float32[16, 64]
gains: float32[16, 32] = aten.linear.default(input=%x, weight=%v)
loses: float32[16, 48] = aten.linear.default(input=%gains, weight=%w)
output %loses "y"
)";

// A GPU with FP8 products whose memory is the host's: products in FP8 are written out and run on the CPU, with inputs
// that are not rounded. It knows which tensors were copied to it.
class FakeGpuTarget final : public Target {
 public:
  FakeGpuTarget(const Target& right, bool fp8_is_known) : right_(right), capabilities_(right.capabilities()) {
    capabilities_.host_processor = false;
    capabilities_.matrix_dtypes = {DType::kBFloat16};
    (fp8_is_known ? capabilities_.matrix_dtypes : capabilities_.tried_dtypes).push_back(DType::kFloat8E4M3FN);
    capabilities_.own_operators.emplace_back(kLinearFp8Target);
    capabilities_.own_operators.emplace_back(kLinearFp8E5M2Target);
  }
  void leave_inputs_to_data(bool row_scales) {
    capabilities_.fp8_inputs = Fp8Inputs::kByData;
    capabilities_.fp8_row_scales = row_scales;
  }
  std::string_view name() const override { return "nvidia:fake"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    return std::vector<Support>(graph.nodes.size());
  }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override;
  Result<std::unique_ptr<Program>> deserialize(std::string_view) const override {
    return Status(StatusCode::kUnsupported, "nothing is stored for it");
  }

 private:
  const Target& right_;
  Capabilities capabilities_;
};

struct FakeGpuProgram final : public Program {
  FakeGpuProgram(ir::Graph given, std::shared_ptr<const Program> runs)
      : whole(std::move(given)), right(std::move(runs)) {}
  std::string_view target() const override { return "nvidia:fake"; }
  const ir::Graph& graph() const override { return whole; }
  Result<std::string> serialize() const override { return Status(StatusCode::kUnsupported, "nothing is stored"); }

  ir::Graph whole;
  std::shared_ptr<const Program> right;
};

void write_out_fp8(ir::Graph& graph) {
  Weights none;
  GraphEdit edit(graph, none);
  const std::size_t count = edit.size();
  for (NodeIndex index = 0; index < count; ++index) {
    if (!edit.node(index).target.starts_with("kpt.linear_fp8")) continue;
    const ir::Node node = edit.node(index);
    const ir::ValueId weight = value_argument(node, "weight");
    const std::vector<ir::Expr> dims = edit.type(weight).dims;
    const auto add = [&](const char* what, const char* target, std::vector<ir::Expr> sizes,
                         std::vector<ir::NamedArgument> arguments) {
      const ir::ValueId made = edit.add_value(node.name + what, contiguous_type(DType::kFloat32, std::move(sizes)));
      edit.insert_before(index, make_node(node.name + what, target, std::move(arguments), made));
      return made;
    };
    const ir::ValueId wide = add("_wide", "aten.to.dtype", dims, {{"self", {weight}}, {"dtype", {DType::kFloat32}}});
    const ir::ValueId scale = add("_column", "aten.unsqueeze.default", {dims[0], ir::Expr(1)},
                                  {{"self", {value_argument(node, "scale")}}, {"dim", {std::int64_t{1}}}});
    const ir::ValueId scaled = add("_scaled", "aten.mul.Tensor", dims, {{"self", {wide}}, {"other", {scale}}});
    edit.replace_call(index, "aten.linear.default", {{"input", {value_argument(node, "input")}}, {"weight", {scaled}}});
  }
}

Result<std::unique_ptr<Program>> FakeGpuTarget::compile(ir::Graph graph) const {
  ir::Graph written = graph;
  write_out_fp8(written);
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> right, right_.compile(std::move(written)));
  return std::unique_ptr<Program>(std::make_unique<FakeGpuProgram>(std::move(graph), std::move(right)));
}

class FakeGpu final : public Device {
 public:
  FakeGpu(Device& right, bool fp8_is_known) : right_(right), target_(right.target(), fp8_is_known) {}
  const DeviceInfo& info() const override { return right_.info(); }
  const FakeGpuTarget& target() const override { return target_; }
  FakeGpuTarget& target() { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    return right_.allocate(dtype, dims);
  }
  Result<Tensor> upload(const Tensor& host) override {
    KPT_ASSIGN_OR_RETURN(Tensor copy, host.contiguous_copy());
    copies_.push_back(copy);
    return copy;
  }
  Result<Tensor> download(const Tensor& tensor) override { return tensor; }
  bool holds(const Tensor& tensor) const {
    return std::ranges::any_of(copies_, [&](const Tensor& copy) { return copy.data() == tensor.data(); });
  }
  Device& right() { return right_; }

 private:
  Device& right_;
  FakeGpuTarget target_;
  std::vector<Tensor> copies_;  // kept, so that no other tensor comes to lie at their places
};

// A graph of one node runs with tensors that lie on the device, or `copied` counts it.
class FakeGpuBackend final : public Backend {
 public:
  FakeGpuBackend(std::shared_ptr<Backend> right, Device& device, bool fp8_is_known = true)
      : right_(std::move(right)), gpu_(device, fp8_is_known) {}
  std::string_view name() const override { return "nvidia"; }
  std::vector<const Target*> targets() const override { return {&gpu_.target()}; }
  Result<std::vector<Device*>> devices() override { return std::vector<Device*>{&gpu_}; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const>) override;
  FakeGpu& gpu() { return gpu_; }

  int copied = 0;
  int alone = 0;  // runs of one node
  bool refuses_fp8 = false;

 private:
  std::shared_ptr<Backend> right_;
  FakeGpu gpu_;
};

class FakeGpuExecutable final : public Executable {
 public:
  FakeGpuExecutable(std::unique_ptr<Executable> right, FakeGpuBackend& backend, bool alone)
      : right_(std::move(right)), backend_(backend), alone_(alone) {}
  std::string_view device() const override { return right_->device(); }
  bool is_stateful() const override { return right_->is_stateful(); }
  Result<std::unique_ptr<State>> make_state() const override { return right_->make_state(); }
  std::vector<NodePlan> plan() const override { return right_->plan(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override {
    bool resident = context.outputs_on_device;
    for (const Tensor& input : inputs) resident = resident && backend_.gpu().holds(input);
    backend_.alone += alone_ ? 1 : 0;
    backend_.copied += alone_ && !resident ? 1 : 0;
    RunContext own = context;
    own.outputs_on_device = false;
    return right_->run(own, inputs, outputs, event);
  }

 private:
  std::unique_ptr<Executable> right_;
  FakeGpuBackend& backend_;
  bool alone_;
};

Result<std::unique_ptr<Executable>> FakeGpuBackend::load(std::shared_ptr<const Program> program, const Weights& weights,
                                                         std::span<Device* const>) {
  const auto& own = static_cast<const FakeGpuProgram&>(*program);
  const auto is_fp8 = [](const ir::Node& node) { return node.target == kLinearFp8Target; };
  if (refuses_fp8 && std::ranges::any_of(own.whole.nodes, is_fp8)) {
    return Status(StatusCode::kCompilation, "no FP8 today");
  }
  Device* const device = &gpu_.right();
  KPT_ASSIGN_OR_RETURN(auto right, right_->load(own.right, weights, std::span(&device, 1)));
  const bool single = own.whole.nodes.size() == 1;
  return std::unique_ptr<Executable>(std::make_unique<FakeGpuExecutable>(std::move(right), *this, single));
}

// Right but for the scales of the node 'gains', as long as it is quantized.
Result<PassStats> invert_scales(ir::Graph& graph, PassContext& context) {
  for (const ir::Node& node : graph.nodes) {
    if (node.name != "gains" || !is_quantized_product(node.target)) continue;
    const ir::ValueId id = value_argument(node, "scale");
    const auto input = std::ranges::find(graph.inputs, id, &ir::GraphInput::value);
    Tensor& scale = context.weights.find(input->name)->second;
    KPT_ASSIGN_OR_RETURN(scale, scale.contiguous_copy());
    for (std::size_t at = 0; at < scale.elements<float>().size(); at += 2) scale.elements<float>()[at] *= -1;
    return PassStats{1, {node.name}};
  }
  return PassStats{};
}

const Pass kInvertScales = {"invert_scales", "a planted fault", false, [](const Capabilities&) { return Support{}; },
                            invert_scales};

class QuantizedChoice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_matrix_dtype(slow_.device->target().capabilities(), DType::kInt8)) {
      GTEST_SKIP() << "this processor has no fast int8 products";
    }
  }

  static PlacedDevice find_cpu() {
    const Environment environment = Environment::from_process();
    auto context = make_backend_context(load_config({}, environment).value(), environment).value();
    context.threads =
        1;  // several would wait for each other where the machine has other work, longer than we wait here
    return find_runnable_device("cpu", context).value();
  }

  ImportedModel make_model(const char* text) const {
    ImportedModel model;
    model.graph = ir::read_graph(text).value();
    model.weights = pass_testing::draw_weights(model.graph, seed_);
    return model;
  }

  OptimizeOptions make_options() const {
    OptimizeOptions options;
    options.level = Level::kAggressive;
    options.seconds_per_pair = 0.3;
    options.draws.seed = seed_;
    return options;
  }

  OptimizeOutcome optimize(const char* text, const OptimizeOptions& options) const {
    auto outcome = optimize_model(make_model(text), options, slow_, cpu_);
    EXPECT_TRUE(outcome.ok()) << outcome.status().message();
    if (!outcome.ok()) return {};
    for (const OutputVerdict& verdict : outcome->report.gate.worst()) EXPECT_TRUE(verdict.passed) << verdict.reason;
    return std::move(*outcome);
  }

  static bool is_quantized(const OptimizeOutcome& outcome, std::string_view name) {
    if (!outcome.artifact) return false;
    const std::vector<ir::Node>& nodes = outcome.artifact->targets[0].graph.nodes;
    const auto node = std::ranges::find(nodes, name, &ir::Node::name);
    EXPECT_NE(node, nodes.end()) << name;
    return node != nodes.end() && is_quantized_product(node->target);
  }

  static std::vector<std::string> details(const OptimizeReport& report, std::string_view pass) {
    const auto record = std::ranges::find(report.passes, pass, &PassRecord::pass);
    return record == report.passes.end() ? std::vector<std::string>() : record->details;
  }

  unsigned seed_ = std::random_device()();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  PlacedDevice cpu_ = find_cpu();
  PlacedDevice slow_ = {std::make_shared<SlowBackend>(cpu_.backend, wait_by_filters), cpu_.device};
};

class Fp8Choice : public QuantizedChoice {
 protected:
  void SetUp() override { slow_ = {std::make_shared<SlowBackend>(fake_, wait_by_filters), &fake_->gpu()}; }

  std::shared_ptr<FakeGpuBackend> fake_ = std::make_shared<FakeGpuBackend>(cpu_.backend, *cpu_.device);
};

TEST_F(Fp8Choice, OneThatIsSlowerInFp8IsLeftOnAGpuToo) {
  const OptimizeOutcome outcome = optimize(kProducts, make_options());
  EXPECT_TRUE(is_quantized(outcome, "gains"));
  EXPECT_FALSE(is_quantized(outcome, "loses"));
  const OptimizeReport& report = outcome.report;
  for (const KernelChoice& choice : report.kernels) RecordProperty(choice.nodes[0], choice.reason);
  EXPECT_EQ(std::ranges::find(report.dropped, "quantize_fp8", &DroppedPass::pass), report.dropped.end());
  EXPECT_THAT(details(report, "quantize_fp8"),
              Contains("loses stays as it is: it was measured to be slower in fewer bits"));
  const auto left = std::ranges::find(report.kernels, Taken::kUnquantized, &KernelChoice::taken);
  ASSERT_NE(left, report.kernels.end());
  EXPECT_THAT(left->nodes, ElementsAre("loses"));
  EXPECT_EQ(left->operator_target, kLinearFp8Target);
  EXPECT_THAT(left->reason, HasSubstr("bfloat16 is "));
  EXPECT_THAT(left->reason, HasSubstr(" times faster ("));
  EXPECT_GT(fake_->alone, 0);
  EXPECT_EQ(fake_->copied, 0) << "copies between host and device would count in the times";
}

// A quarter of twelve is raised at once; what was not needed goes back.
TEST_F(Fp8Choice, OneOfManyThatTheGateRefusesGoesUpAloneToo) {
  constexpr int kCount = 12;
  std::string text = "kpt_graph 1\n";
  for (int each = 0; each < kCount; ++each) text += fmt::format("parameter w{}: float32[64, 64]\n", each);
  text += "input x: float32[16, 64]\n";
  std::string last = "x";
  for (int each = 0; each < kCount; ++each) {
    const std::string name = each == 5 ? "gains" : fmt::format("product_{}", each);
    text += fmt::format("{}: float32[16, 64] = aten.linear.default(input=%{}, weight=%w{})\n", name, last, each);
    last = name;
  }
  text += fmt::format("output %{} \"y\"\n", last);
  OptimizeOptions options = make_options();
  options.measure = false;
  options.added = {{&kInvertScales, "quantize_fp8"}};
  const OptimizeOutcome outcome = optimize(text.c_str(), options);
  EXPECT_THAT(outcome.report.not_quantized, ElementsAre("gains"));
  EXPECT_FALSE(is_quantized(outcome, "gains"));
  EXPECT_TRUE(is_quantized(outcome, "product_0"));
  EXPECT_TRUE(is_quantized(outcome, last));
}

// Rows that are far from each other: with one scale for the tensor, E4M3 would lose the small ones.
TEST_F(Fp8Choice, InputsWhoseRowsAreFarApartBecomeE5m2WhereTheyShareAScale) {
  constexpr const char* kFarApart = R"(kpt_graph 1
parameter v: float32[32, 64]
parameter w: float32[32, 64]
parameter sizes: float32[16, 1]
input x: float32[16, 64]
apart: float32[16, 64] = aten.mul.Tensor(self=%x, other=%sizes)
far: float32[16, 32] = aten.linear.default(input=%apart, weight=%v)
near: float32[16, 32] = aten.linear.default(input=%x, weight=%w)
output %far "far"
output %near "near"
)";
  ImportedModel model = make_model(kFarApart);
  for (std::size_t row = 0; row < 16; ++row) {
    model.weights.at("sizes").elements<float>()[row] = std::ldexp(1.0F, -2 * static_cast<int>(row));
  }
  OptimizeOptions options = make_options();
  options.measure = false;
  for (const bool row_scales : {true, false}) {
    SCOPED_TRACE(row_scales ? "rows with scales of their own" : "one scale");
    fake_->gpu().target().leave_inputs_to_data(row_scales);
    const auto outcome = optimize_model(model, options, slow_, cpu_);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    ASSERT_TRUE(outcome->artifact.has_value());
    EXPECT_TRUE(outcome->report.gate.passed()) << "what became of the inputs is judged too";
    std::map<std::string, std::string> targets;
    for (const ir::Node& node : outcome->artifact->targets[0].graph.nodes) targets.emplace(node.name, node.target);
    EXPECT_EQ(targets["far"], row_scales ? kLinearFp8Target : kLinearFp8E5M2Target);
    EXPECT_EQ(targets["near"], kLinearFp8Target);
    EXPECT_EQ(details(outcome->report, "quantize_fp8").size(), 2U);
  }
}

TEST_F(Fp8Choice, OneThatTheGateRefusesGoesUpAloneAndIsNamed) {
  OptimizeOptions options = make_options();
  options.measure = false;
  options.added = {{&kInvertScales, "quantize_fp8"}};
  const OptimizeOutcome outcome = optimize(kProducts, options);
  EXPECT_FALSE(is_quantized(outcome, "gains"));
  EXPECT_TRUE(is_quantized(outcome, "loses")) << "nothing was timed, and it is right";
  EXPECT_THAT(outcome.report.not_quantized, ElementsAre("gains"));
  EXPECT_THAT(details(outcome.report, "quantize_fp8"), Contains("gains stays as it is: it is kept precise"));
}

// Types of which nobody knows whether they are fast.
class TriedFp8 : public Fp8Choice {
 protected:
  TriedFp8() { fake_ = std::make_shared<FakeGpuBackend>(cpu_.backend, *cpu_.device, false); }
  static std::string why_dropped(const OptimizeReport& report) {
    const auto dropped = std::ranges::find(report.dropped, "quantize_fp8", &DroppedPass::pass);
    return dropped == report.dropped.end() ? "" : dropped->reason;
  }
  // Only the product that gains, with 32 rows.
  static constexpr const char* kGains = R"(kpt_graph 1
parameter v: float32[32, 64]
input x: float32[16, 64]
gains: float32[16, 32] = aten.linear.default(input=%x, weight=%v)
output %gains "y"
)";
  static constexpr const char* kLoses = R"(kpt_graph 1
parameter w: float32[48, 32]
input x: float32[16, 32]
loses: float32[16, 48] = aten.linear.default(input=%x, weight=%w)
output %loses "y"
)";
};

TEST_F(TriedFp8, IsTakenWhereTheModelIsFasterByIt) {
  const OptimizeOutcome outcome = optimize(kGains, make_options());
  EXPECT_TRUE(is_quantized(outcome, "gains"));
  EXPECT_EQ(why_dropped(outcome.report), "");
  ASSERT_TRUE(outcome.artifact);
  EXPECT_THAT(outcome.artifact->targets[0].needs, Not(Contains("fast-float8_e4m3fn"))) << "nobody says that it is";
}

TEST_F(TriedFp8, IsLeftWhereTheModelIsNot) {
  const OptimizeOutcome outcome = optimize(kLoses, make_options());
  EXPECT_FALSE(is_quantized(outcome, "loses"));
  EXPECT_THAT(why_dropped(outcome.report), HasSubstr("the model is no faster with it"));
}

TEST_F(TriedFp8, IsLeftWhereTheDeviceRefusesTheModel) {
  fake_->refuses_fp8 = true;
  const OptimizeOutcome outcome = optimize(kGains, make_options());
  EXPECT_FALSE(is_quantized(outcome, "gains"));
  EXPECT_THAT(why_dropped(outcome.report), HasSubstr("no FP8 today"));
}

TEST_F(TriedFp8, IsLeftWhereNothingIsMeasured) {
  OptimizeOptions options = make_options();
  options.measure = false;
  const OptimizeOutcome outcome = optimize(kGains, options);
  EXPECT_FALSE(is_quantized(outcome, "gains"));
  EXPECT_EQ(why_dropped(outcome.report), "") << "it was not asked for";
}

TEST_F(QuantizedChoice, OneThatIsSlowerInInt8IsLeftAndTheOtherIsNot) {
  struct Case {
    const char* graph;
    std::string_view pass;
    std::string_view target;
  };
  for (const Case& each : {Case{kConvolutions, "quantize_convs_int8", kConv2dInt8Target},
                           Case{kProducts, "quantize_int8", kLinearInt8Target}}) {
    SCOPED_TRACE(each.pass);
    const OptimizeOutcome outcome = optimize(each.graph, make_options());
    EXPECT_TRUE(is_quantized(outcome, "gains"));
    EXPECT_FALSE(is_quantized(outcome, "loses"));
    const OptimizeReport& report = outcome.report;
    EXPECT_EQ(std::ranges::find(report.dropped, each.pass, &DroppedPass::pass), report.dropped.end());
    EXPECT_THAT(details(report, each.pass),
                Contains("loses stays as it is: it was measured to be slower in fewer bits"));
    EXPECT_EQ(report.not_quantized, std::vector<std::string>{}) << "accuracy asked for nothing";
    const auto left = std::ranges::find(report.kernels, Taken::kUnquantized, &KernelChoice::taken);
    ASSERT_NE(left, report.kernels.end());
    EXPECT_THAT(left->nodes, ElementsAre("loses"));
    EXPECT_EQ(left->operator_target, each.target);
    EXPECT_THAT(left->reason, HasSubstr(" times faster ("));
    const auto kept = std::ranges::find(report.kernels, std::vector<std::string>{"gains"}, &KernelChoice::nodes);
    ASSERT_NE(kept, report.kernels.end());
    EXPECT_EQ(kept->taken, Taken::kOwn);
    EXPECT_THAT(kept->reason, HasSubstr(" times as fast as "));
    EXPECT_THAT(kept->reason, Not(HasSubstr("aten")));
  }
}

TEST_F(QuantizedChoice, TheUsersWordBeatsTheMeasurement) {
  OptimizeOptions options = make_options();
  options.enabled = {"quantize_convs_int8"};
  options.known_losers = std::vector<DroppedPass>{};  // which other passes lose is not the question
  const OptimizeOutcome outcome = optimize(kConvolutions, options);
  EXPECT_TRUE(is_quantized(outcome, "gains"));
  EXPECT_TRUE(is_quantized(outcome, "loses"));
}

TEST_F(QuantizedChoice, WhatWasMeasuredIsKept) {
  const TemporaryFolder folder;
  CompileCache cache = CompileCache::open(folder.path() / "cache", 1 << 30).value();
  OptimizeOptions options = make_options();
  options.cache = &cache;
  const auto reason = [&] {
    const OptimizeOutcome outcome = optimize(kConvolutions, options);
    const auto left = std::ranges::find(outcome.report.kernels, Taken::kUnquantized, &KernelChoice::taken);
    return left == outcome.report.kernels.end() ? std::string("none was left") : left->reason;
  };
  const std::string first = reason();
  EXPECT_THAT(first, HasSubstr(" ms against "));
  EXPECT_EQ(reason(), first) << "the same times: nothing was measured again";
}

TEST_F(QuantizedChoice, AConvolutionThatTheGateRefusesGoesUpAloneAndIsNamed) {
  OptimizeOptions options = make_options();
  options.measure = false;
  options.added = {{&kInvertScales, "quantize_convs_int8"}};
  const OptimizeOutcome outcome = optimize(kConvolutions, options);
  EXPECT_FALSE(is_quantized(outcome, "gains"));
  EXPECT_TRUE(is_quantized(outcome, "loses")) << "nothing was timed, and it is right";
  EXPECT_THAT(outcome.report.not_quantized, ElementsAre("gains"));
  EXPECT_THAT(details(outcome.report, "quantize_convs_int8"), Contains("gains stays as it is: it is kept precise"));
}

}  // namespace
}  // namespace kpt::testing
