#include "numbers_check.h"

#include <map>

#include <gtest/gtest.h>

#include "conformance/operator_run.h"
#include "graph_run.h"
#include "ir/text.h"

namespace kpt::xla_test {

void check_numbers(ModuleRunner& runner, const std::string& text, std::mt19937_64& random) {
  const auto graph = ir::read_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto run = conformance::OperatorRun::make(*graph, random);
  ASSERT_TRUE(run.ok()) << run.status().message();
  std::map<std::string, Tensor> inputs;
  for (const NamedTensor& input : run->inputs()) inputs.emplace(input.name, input.tensor);
  GraphRun graph_run(runner, run->model().graph, run->model().weights);
  const auto outputs = graph_run.run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  run->judge(*outputs);
}

}  // namespace kpt::xla_test
