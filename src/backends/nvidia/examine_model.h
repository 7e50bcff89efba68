// What a model wastes on an NVIDIA GPU of some architecture, told from its graph.
#pragma once

#include <vector>

#include "backends/nvidia/architecture.h"
#include "device/model_findings.h"
#include "ir/graph.h"

namespace kpt {

// Products in a type that the matrix units do not take, with what would make them do; and products whose rows are no
// whole 16 bytes, which the units' fastest kernels cannot read, most work first. Nothing of this refuses a model.
std::vector<ModelFinding> examine_model(const ir::Graph& graph, const ir::Bindings& sizes,
                                        const NvidiaArchitecture& architecture);

}  // namespace kpt
