#include "pass_runs.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "numerics/accuracy.h"
#include "runtime/loaded_model.h"
#include "validation/reference.h"

namespace kpt::pass_runs {
namespace {
constexpr std::size_t kFewElements = 10;  // so few that one error may be small by luck
constexpr double kCoarsest = 0.9;         // the cosine that is asked of 8-bit products
}  // namespace

Cpu::Cpu(const std::string& device) {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  auto placed = find_runnable_device(device, context);
  available_ = placed.status();
  if (placed.ok()) placed_ = std::move(placed).value();
}

Result<Session> Cpu::start(ImportedModel model) {
  KPT_ASSIGN_OR_RETURN(auto loaded, detail::LoadedModel::load(std::move(model), backend(), device()));
  return detail::start_session(std::move(loaded));
}

Evaluator Cpu::evaluator() {
  return [this](const ir::Graph& graph, const Weights& weights) -> Result<std::vector<Tensor>> {
    ImportedModel model;
    model.graph = graph;
    model.weights = weights;
    KPT_ASSIGN_OR_RETURN(Session session, start(std::move(model)));
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> outputs, session.run({}));
    std::vector<Tensor> tensors;
    for (NamedTensor& output : outputs) tensors.push_back(std::move(output.tensor));
    return tensors;
  };
}

std::vector<PassRecord> optimize(Cpu& cpu, std::span<const Pass* const> passes, ImportedModel& model,
                                 const Capabilities& capabilities, const std::vector<std::string>& kept_precise) {
  PassContext context{model.weights, capabilities, cpu.evaluator(), kept_precise};
  auto records = run_passes(passes, model.graph, context);
  EXPECT_TRUE(records.ok()) << records.status().message();
  return records.ok() ? *records : std::vector<PassRecord>{};
}

namespace {

// A model may write its inputs: every run gets its own.
std::vector<NamedTensor> copy_of(const std::vector<NamedTensor>& inputs) {
  std::vector<NamedTensor> copies;
  for (const NamedTensor& input : inputs) copies.push_back({input.name, input.tensor.contiguous_copy().value()});
  return copies;
}

}  // namespace

void expect_same_answers(Cpu& cpu, const ImportedModel& before, const ImportedModel& after,
                         const std::vector<std::vector<NamedTensor>>& inputs, DType tolerance, double least_cosine,
                         double most_error) {
  expect_same_answers(cpu, cpu, before, after, inputs, tolerance, least_cosine, most_error);
}

void expect_same_answers(Cpu& cpu, Cpu& oracle, const ImportedModel& before, const ImportedModel& after,
                         const std::vector<std::vector<NamedTensor>>& inputs, DType tolerance, double least_cosine,
                         double most_error) {
  auto plain = cpu.start(before);
  auto optimized = cpu.start(after);
  auto reference = Reference::load(before, oracle.backend(), oracle.device());
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  ASSERT_TRUE(optimized.ok()) << optimized.status().message();
  ASSERT_TRUE(reference.ok()) << reference.status().message();
  // Outputs of a few elements are judged over all inputs together.
  struct Errors {
    double candidate = 0;
    double baseline = 0;
    std::string reason;
  };
  std::map<std::string, Errors> few;
  bool has_larger = false;
  for (const std::vector<NamedTensor>& given : inputs) {
    const auto baseline = plain->run(copy_of(given));
    const auto candidate = optimized->run(copy_of(given));
    const auto exact = reference->run(copy_of(given));
    ASSERT_TRUE(baseline.ok()) << baseline.status().message();
    ASSERT_TRUE(candidate.ok()) << candidate.status().message();
    ASSERT_TRUE(exact.ok()) << exact.status().message();
    ASSERT_EQ(candidate->size(), baseline->size());
    for (std::size_t index = 0; index < baseline->size(); ++index) {
      const NamedTensor& output = (*candidate)[index];
      const DType dtype = output.tensor.dtype();
      const auto verdict = compare(output.tensor, (*baseline)[index].tensor, (*exact)[index].tensor,
                                   default_tolerance(is_floating(dtype) ? tolerance : dtype));
      ASSERT_TRUE(verdict.ok()) << output.name << ": " << verdict.status().message();
      // The index of the greatest of several values may change where they are rounded coarsely.
      const bool coarse = least_cosine < 1;
      const bool near = is_floating(dtype)
                            ? (coarse && verdict->cosine >= least_cosine) || verdict->candidate_rmse <= most_error
                            : coarse;
      if (is_floating(dtype) && static_cast<std::size_t>(output.tensor.element_count()) <= kFewElements &&
          std::isfinite(verdict->candidate_rmse)) {
        Errors& errors = few[output.name];
        errors.candidate += verdict->candidate_rmse;
        errors.baseline += verdict->baseline_rmse;
        if (!verdict->passed && !near) errors.reason = verdict->reason;
        continue;
      }
      has_larger = has_larger || is_floating(dtype);
      EXPECT_TRUE(verdict->passed || near) << output.name << ": " << verdict->reason << ", cosine " << verdict->cosine;
    }
  }
  // Coarse rounding may change a product of two vectors that stand nearly at right angles by any factor. Larger outputs
  // show a wrong scale.
  if (has_larger && least_cosine <= kCoarsest) return;
  for (const auto& [name, errors] : few) {
    EXPECT_TRUE(errors.reason.empty() || errors.candidate <= 3 * errors.baseline)
        << name << ": " << errors.reason << "; over all inputs " << errors.candidate << " against " << errors.baseline;
  }
}

}  // namespace kpt::pass_runs
