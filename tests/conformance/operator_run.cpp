#include "operator_run.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "numerics/accuracy.h"
#include "passes/promote_to_fp64.h"
#include "runtime/loaded_model.h"
#include "validation/reference.h"
#include "written_out.h"

namespace kpt::conformance {
namespace {

Result<PlacedDevice> find_cpu() {
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(const Config config, load_config({}, environment));
  KPT_ASSIGN_OR_RETURN(const BackendContext context, make_backend_context(config, environment));
  return find_runnable_device("cpu", context);
}

Result<Tensor> draw(DType dtype, const std::vector<std::int64_t>& dims, std::mt19937_64& random) {
  KPT_ASSIGN_OR_RETURN(Tensor wide, Tensor::empty(DType::kFloat32, dims));
  std::normal_distribution<float> normal(0, 2);
  for (float& element : wide.elements<float>()) element = normal(random);
  if (dtype == DType::kFloat32) return wide;
  KPT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::empty(dtype, dims));
  const auto source = wide.elements<float>();
  for (std::size_t index = 0; index < source.size(); ++index) {
    const auto whole = static_cast<std::int64_t>(std::floor(source[index] * 2));
    switch (dtype) {
      case DType::kBool: tensor.elements<bool>()[index] = whole > 0; break;
      case DType::kUInt8: tensor.elements<std::uint8_t>()[index] = static_cast<std::uint8_t>(whole); break;
      case DType::kInt32: tensor.elements<std::int32_t>()[index] = static_cast<std::int32_t>(whole); break;
      case DType::kInt64: tensor.elements<std::int64_t>()[index] = whole; break;
      case DType::kFloat64: tensor.elements<double>()[index] = static_cast<double>(source[index]); break;
      case DType::kBFloat16:
        tensor.elements<std::uint16_t>()[index] =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(source[index]) >> 16U);
        break;
      default:
        return Status(StatusCode::kInvalidArgument,
                      "no inputs of type " + std::string(to_string(dtype)) + " are drawn");
    }
  }
  return tensor;
}

}  // namespace

Result<OperatorRun> OperatorRun::make(const ir::Graph& graph, std::mt19937_64& random) {
  OperatorRun run;
  run.model_.graph = graph;
  for (const ir::GraphInput& input : graph.inputs) {
    const ir::TensorType& type = graph.at(input.value).tensor;
    std::vector<std::int64_t> dims;
    for (const ir::Expr& extent : type.dims) dims.push_back(*extent.constant());
    KPT_ASSIGN_OR_RETURN(Tensor tensor, draw(type.dtype, dims, random));
    run.inputs_.push_back({input.name, std::move(tensor)});
  }
  KPT_ASSIGN_OR_RETURN(const PlacedDevice cpu, find_cpu());
  ImportedModel written_out = run.model_;
  pass_runs::write_out_own_operators(written_out);
  KPT_ASSIGN_OR_RETURN(Reference reference, Reference::load(written_out, *cpu.backend, *cpu.device));
  KPT_ASSIGN_OR_RETURN(run.exact_, reference.run(run.inputs_));
  KPT_ASSIGN_OR_RETURN(auto loaded, detail::LoadedModel::load(written_out, *cpu.backend, *cpu.device));
  KPT_ASSIGN_OR_RETURN(Session session, detail::start_session(std::move(loaded)));
  KPT_ASSIGN_OR_RETURN(run.plain_, session.run(run.inputs_));
  return run;
}

void OperatorRun::judge(std::span<const NamedTensor> outputs) const {
  ASSERT_EQ(outputs.size(), plain_.size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    const NamedTensor& output = outputs[index];
    const Tensor& baseline = plain_[index].tensor;
    const Tensor exact = *promote_to_fp64(exact_[index].tensor);
    const auto verdict = compare(output.tensor, baseline, exact, default_tolerance(baseline.dtype()));
    ASSERT_TRUE(verdict.ok()) << output.name << ": " << verdict.status().message();
    EXPECT_TRUE(verdict->passed) << output.name << ": " << verdict->reason;
  }
}

}  // namespace kpt::conformance
