#include "optimize/evaluator.h"

#include "validation/model_run.h"

namespace kpt {

Evaluator make_evaluator(const PlacedDevice& cpu) {
  return [&cpu](const ir::Graph& graph, const Weights& weights) -> Result<std::vector<Tensor>> {
    ImportedModel part;
    part.graph = graph;
    part.weights = weights;
    KPT_ASSIGN_OR_RETURN(ModelRun run, ModelRun::load(std::move(part), cpu));
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> outputs, run.run({}));
    std::vector<Tensor> tensors;
    for (NamedTensor& output : outputs) tensors.push_back(std::move(output.tensor));
    return tensors;
  };
}

}  // namespace kpt
