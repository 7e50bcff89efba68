// Faults as careless passes make them, planted into a small BERT; and rewrites that change nothing but rounding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "importer/model_file.h"
#include "kpt/tensor.h"
#include "passes/pipeline.h"

namespace kpt::validation_test {

struct Fault {
  std::string name;
  std::string node;                             // where the first value goes wrong
  std::function<void(ImportedModel&)> plant;    // into the candidate
  Level level = Level::kConservative;           // at which it must be caught
  std::function<void(ImportedModel&)> correct;  // the same rewrite done right; empty: leaving the model as it is
};

// tests/execution/bert.graph with random weights whose outputs feel a fault anywhere inside.
ImportedModel make_small_bert(std::uint64_t seed);

// For that model.
std::vector<Fault> list_faults();

// Every linear becomes a product and a sum: other kernels, other rounding, the same meaning and the same names.
void split_linears(ImportedModel& model);

ir::Node& node_named(ImportedModel& model, const std::string& name);
ir::Argument& argument_of(ir::Node& node, const std::string& name);
ir::ValueId value_named(const ir::Graph& graph, const std::string& name);
// Puts a node before the one at `index`; its value has the type of `like`.
ir::ValueId insert_node(ImportedModel& model, std::size_t index, const std::string& target,
                        std::vector<ir::NamedArgument> arguments, const ir::TensorType& like);
std::size_t index_of_node(const ImportedModel& model, const std::string& name);

}  // namespace kpt::validation_test
