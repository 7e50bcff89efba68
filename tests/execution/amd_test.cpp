// A small BERT on "amd:0" of the test libamdhip64, as exported and after the passes of each level, judged by the
// accuracy gate: the plain run and fp64 are libtorch's on the CPU.
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "api/backend_list.h"
#include "backends/amd/test_gpu.h"
#include "bert_graph.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "passes/runner.h"
#include "validation/gate.h"
#include "validation/gate_report.h"

namespace kpt::execution_test {
namespace {

using ::testing::HasSubstr;

class AmdModel : public ::testing::TestWithParam<const char*> {
 protected:
  AmdModel() : gpu_(GetParam()), backend_(gpu_.make_backend()), seed_(std::random_device{}()) {}

  PlacedDevice device() {
    PlacedDevice placed;
    placed.backend = backend_;
    placed.device = backend_->devices().value().front();
    return placed;
  }
  // The gate's report on this form of the model, run on the GPU.
  GateReport judge(const ImportedModel& model, ImportedModel candidate, Level level) {
    const PlacedDevice cpu = find_device_under_test();
    const Gate gate =
        Gate::prepare(model, make_draws(model, {2, seed_, {}, {}}).value(), {level, {}}, cpu, cpu).value();
    auto run = ModelRun::load(std::move(candidate), device());
    EXPECT_TRUE(run.ok()) << run.status().to_string();
    return gate.judge(*run).value();
  }

  // What aggressive makes of products: FP8 where the target multiplies it, int8 where it has matrix cores at all.
  static std::set<std::string> eight_bit_products() {
    const std::string_view target = GetParam();
    if (target == "gfx942" || target == "gfx1201") return {"kpt.linear_fp8.default"};
    if (target == "gfx1100") return {"kpt.linear_int8.default"};
    return {};
  }

  testing::TestGpu gpu_;
  std::shared_ptr<Backend> backend_;
  std::uint64_t seed_;
};

std::string failures(const GateReport& report) {
  std::string text;
  for (const OutputVerdict& verdict : report.outputs) text += verdict.output + ": " + verdict.reason + "\n";
  return text;
}

TEST_P(AmdModel, PassesTheGateAsExported) {
  SCOPED_TRACE(seed_);
  const ImportedModel model = make_bert(seed_);
  const GateReport report = judge(model, model, Level::kConservative);
  EXPECT_TRUE(report.passed()) << failures(report);
  EXPECT_EQ(report.outputs.size(), 4U);  // two outputs on two draws
}

TEST_P(AmdModel, PassesTheGateAfterThePassesOfEachLevel) {
  SCOPED_TRACE(seed_);
  const ImportedModel model = make_bert(seed_);
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    SCOPED_TRACE(level_name(level));
    ImportedModel candidate = model;
    PassContext context{candidate.weights, device().device->target().capabilities(), {}, {}};
    const auto records = run_passes(level_passes(level), candidate.graph, context);
    ASSERT_TRUE(records.ok()) << records.status().to_string();
    std::size_t own = 0;
    std::set<std::string> quantized;
    for (const ir::Node& node : candidate.graph.nodes) {
      own += node.target.starts_with("kpt.") ? 1U : 0U;
      if (node.target == "kpt.linear_fp8.default" || node.target == "kpt.linear_int8.default") {
        quantized.insert(node.target);
      }
    }
    EXPECT_GT(own, 0U) << "no pass put a node of ours into the graph";
    EXPECT_EQ(quantized, level == Level::kAggressive ? eight_bit_products() : std::set<std::string>());
    const GateReport report = judge(model, std::move(candidate), level);
    EXPECT_TRUE(report.passed()) << failures(report);
  }
}

// As on a GPU that has none: aggressive makes nothing of eight bits, and what it makes is right.
TEST_P(AmdModel, PassesTheGateWithoutMatrixCores) {
  SCOPED_TRACE(seed_);
  BackendContext without;
  without.amd_matrix_cores = false;
  backend_ = gpu_.make_backend(without);
  const ImportedModel model = make_bert(seed_);
  ImportedModel candidate = model;
  PassContext context{candidate.weights, device().device->target().capabilities(), {}, {}};
  const auto records = run_passes(level_passes(Level::kAggressive), candidate.graph, context);
  ASSERT_TRUE(records.ok()) << records.status().to_string();
  for (const ir::Node& node : candidate.graph.nodes) {
    EXPECT_NE(node.target, "kpt.linear_fp8.default") << node.name;
    EXPECT_NE(node.target, "kpt.linear_int8.default") << node.name;
  }
  const GateReport report = judge(model, std::move(candidate), Level::kAggressive);
  EXPECT_TRUE(report.passed()) << failures(report);
}

// The gate would notice: one weight of the candidate is not the model's.
TEST_P(AmdModel, AWrongWeightIsNoticed) {
  SCOPED_TRACE(seed_);
  const ImportedModel model = make_bert(seed_);
  ImportedModel candidate = model;
  const std::string name = "encoder.layer.1.output.dense.bias";
  const Tensor weight = candidate.weights.at(name).contiguous_copy().value();
  weight.elements<float>()[3] += 0.01F;
  candidate.weights.at(name) = weight;
  EXPECT_FALSE(judge(model, std::move(candidate), Level::kConservative).passed());
}

// As PyTorch exports a model of FP8 weights with scales: two layers, the second with a weight that the graph widens.
constexpr const char* kFp8Checkpoint = R"(kpt_graph 1
buffer w: float8_e4m3fn[32, 48] "w"
buffer w_scale: float32[1, 32] "w_scale"
buffer x_scale: float32[] "x_scale"
buffer v: float8_e4m3fn[24, 32] "v"
buffer v_scale: float32[24, 1] "v_scale"
input x: float32[7, 48]
div: float32[7, 48] = aten.div.Tensor(self=%x, other=%x_scale)
clamp: float32[7, 48] = aten.clamp.default(self=%div, min=-448, max=448)
to: float8_e4m3fn[7, 48] = aten.to.dtype(self=%clamp, dtype=dtype(float8_e4m3fn))
t: float8_e4m3fn[48, 32]{strides=[1, 48]} = aten.t.default(self=%w)
rows: float32[7, 1] = aten.expand.default(self=%x_scale, size=[7, 1])
dense: float32[7, 1] = aten.clone.default(self=%rows, memory_format=memory_format(contiguous))
mm: float32[7, 32] = aten._scaled_mm.default(self=%to, mat2=%t, scale_a=%dense, scale_b=%w_scale, bias=none, scale_result=none, out_dtype=dtype(float32), use_fast_accum=false)
wide: float32[24, 32] = aten.to.dtype(self=%v, dtype=dtype(float32))
scaled: float32[24, 32] = aten.mul.Tensor(self=%wide, other=%v_scale)
out: float32[7, 24] = aten.linear.default(input=%mm, weight=%scaled)
output %mm "first"
output %out "second"
)";

// There is no fp64 form of such a model, so libtorch's run on the CPU is the measure.
TEST_P(AmdModel, AnFp8CheckpointGivesWhatTheCpuGives) {
  SCOPED_TRACE(seed_);
  ImportedModel model;
  model.graph = ir::read_graph(kFp8Checkpoint).value();
  std::mt19937_64 random(seed_);
  std::normal_distribution<float> normal(0, 1);
  for (const ir::GraphInput& input : model.graph.inputs) {
    if (input.kind == ir::InputKind::kUser) continue;
    const ir::TensorType& type = model.graph.at(input.value).tensor;
    Dims dims;
    for (const ir::Expr& dim : type.dims) dims.push_back(*dim.constant());
    const Tensor weight = Tensor::empty(type.dtype, dims).value();
    if (type.dtype == DType::kFloat32) {
      for (float& value : weight.elements<float>()) value = 0.01F + 0.001F * std::abs(normal(random));
    } else {
      auto* const codes = static_cast<std::uint8_t*>(weight.data());
      for (std::size_t i = 0; i < weight.bytes(); ++i) {
        codes[i] = static_cast<std::uint8_t>(random());
        if ((codes[i] & 0x7fU) == 0x7fU) codes[i] = 0x80;  // NaN would hide the rest; minus zero is another's NaN
      }
    }
    model.weights.emplace(input.name, weight);
  }
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{7, 48}).value();
  for (float& value : x.elements<float>()) value = normal(random);
  const std::vector<NamedTensor> inputs = {{"x", x}};
  const auto outputs = [&](const PlacedDevice& place) {
    auto run = ModelRun::load(model, place);
    EXPECT_TRUE(run.ok()) << run.status().to_string();
    auto made = run.ok() ? run->run(inputs) : Result<std::vector<NamedTensor>>(run.status());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : std::vector<NamedTensor>();
  };
  const auto wanted = outputs(find_device_under_test());
  const auto got = outputs(device());
  ASSERT_EQ(got.size(), 2U);
  ASSERT_EQ(wanted.size(), 2U);
  for (std::size_t output = 0; output < 2; ++output) {
    const auto a = got[output].tensor.elements<float>();
    const auto b = wanted[output].tensor.elements<float>();
    ASSERT_EQ(a.size(), b.size());
    float greatest = 0;
    for (const float value : b) greatest = std::max(greatest, std::abs(value));
    EXPECT_GT(greatest, 0);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * greatest) << output << ", " << i;
  }
}

TEST_P(AmdModel, WhatNoKernelCoversIsListedWhenItIsLoaded) {
  ImportedModel model = make_bert(1);
  for (ir::Node& node : model.graph.nodes) {
    if (node.target == "aten.tanh.default") node.target = "aten.atan.default";
    if (node.target == "aten.select.int") node.target = "aten.unknown.int";
  }
  const auto loaded = ModelRun::load(std::move(model), device());
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(loaded.status().message(), HasSubstr("2 of 77 nodes cannot run on amd:"));
  EXPECT_THAT(loaded.status().message(), HasSubstr("'tanh' aten.atan.default: no kernel of ours computes it"));
  EXPECT_THAT(loaded.status().message(), HasSubstr("'select' aten.unknown.int: no kernel of ours computes it"));
}

// The matrix cores of CDNA3, RDNA3 and RDNA4, and none.
INSTANTIATE_TEST_SUITE_P(Targets, AmdModel, ::testing::Values("gfx942", "gfx1100", "gfx1201", "gfx1030"));

}  // namespace
}  // namespace kpt::execution_test
