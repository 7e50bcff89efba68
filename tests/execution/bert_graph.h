// A small BERT (two layers, static shapes) as a graph with random weights, on the CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/backend_list.h"
#include "device/execution.h"
#include "importer/model_file.h"
#include "runtime/loaded_model.h"

namespace kpt::execution_test {

ImportedModel make_bert(std::uint64_t seed);

// Loaded on the CPU of this process's configuration.
std::shared_ptr<const detail::LoadedModel> load_on_cpu(ImportedModel model);

// Inputs in the model's order.
std::vector<Tensor> make_inputs(const ir::Graph& graph, std::uint64_t seed);

bool same_bytes(const Tensor& a, const Tensor& b);

}  // namespace kpt::execution_test
