// A small BERT (two layers, static shapes) as a graph with random weights, and the device under test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/backend_list.h"
#include "device/execution.h"
#include "importer/model_file.h"
#include "runtime/loaded_model.h"

namespace kpt::execution_test {

ImportedModel make_bert(std::uint64_t seed);

// Where load_here() loads, from this process's configuration: "cpu" unless a program's main() chose another.
void choose_device(std::string name);
PlacedDevice find_device_under_test();
// Whether it says that it runs one of our operators: "kpt.linear_int8.default".
bool runs_own_operator(std::string_view target);
// Loaded there.
std::shared_ptr<const detail::LoadedModel> load_here(ImportedModel model);

// Inputs in the model's order.
std::vector<Tensor> make_inputs(const ir::Graph& graph, std::uint64_t seed);

bool same_bytes(const Tensor& a, const Tensor& b);

}  // namespace kpt::execution_test
