// A small BERT on "amd:0" of the test libamdhip64, as exported and after the passes of each level, judged by the
// accuracy gate: the plain run and fp64 are libtorch's on the CPU.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "backends/amd/test_gpu.h"
#include "bert_graph.h"
#include "config/config.h"
#include "fp8_checkpoint.h"
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
    if (target == "gfx942" || target == "gfx950" || target == "gfx1201") return {"kpt.linear_fp8.default"};
    if (target == "gfx90a" || target == "gfx1100") return {"kpt.linear_int8.default"};
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

// The codes are the model's own, so the run on the CPU rounds as this one does: the two are nearer to each other than
// to fp64, which rounds nothing to FP8.
TEST_P(AmdModel, AnFp8CheckpointPassesTheGateAndGivesWhatTheCpuGives) {
  SCOPED_TRACE(seed_);
  const ImportedModel model = make_fp8_checkpoint(seed_, "7");
  const GateReport report = judge(model, model, Level::kConservative);
  EXPECT_TRUE(report.passed()) << failures(report);
  EXPECT_EQ(report.outputs.size(), 4U);
  const auto draws = make_draws(model, {2, seed_, {}, {}}).value();
  const auto outputs = [&](const PlacedDevice& place) {
    auto run = ModelRun::load(model, place);
    EXPECT_TRUE(run.ok()) << run.status().to_string();
    auto made = run.ok() ? run->run(draws[0].inputs) : Result<std::vector<NamedTensor>>(run.status());
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

TEST_P(AmdModel, AWrongScaleOfAnFp8CheckpointIsNoticed) {
  SCOPED_TRACE(seed_);
  const ImportedModel model = make_fp8_checkpoint(seed_, "7");
  ImportedModel candidate = model;
  const Tensor scales = candidate.weights.at("w_scale").contiguous_copy().value();
  for (float& scale : scales.elements<float>()) scale *= 1.25F;
  candidate.weights.at("w_scale") = scales;
  EXPECT_FALSE(judge(model, std::move(candidate), Level::kConservative).passed());
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

// From the option's name to the device: freed memory stays in the pool as far as it says.
TEST(AmdMemory, WhatIsKeptIsAnOption) {
  const std::int64_t bytes[] = {4096};
  for (const auto& [kept, reserved] : {std::pair("0", 0U), std::pair("4095", 0U), std::pair("4096", 4096U)}) {
    const testing::TestGpu gpu("gfx942");
    const Config config =
        load_config({{}, {}, {fmt::format("amd.memory_kept_bytes={}", kept)}}, Environment({})).value();
    const auto backend = gpu.make_backend(make_backend_context(config, Environment({})).value());
    Device& device = *backend->devices().value().front();
    EXPECT_TRUE(device.allocate(DType::kUInt8, bytes).ok());
    EXPECT_EQ(device.memory()->reserved_bytes, reserved) << kept;
  }
}

// Every kind of matrix cores, CDNA2 to 4, RDNA3 and 4, and none.
INSTANTIATE_TEST_SUITE_P(Targets, AmdModel,
                         ::testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1030"));

}  // namespace
}  // namespace kpt::execution_test
