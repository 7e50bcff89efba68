// What is wrong or wasteful about a model on a TPU, told from its graph: milliseconds, where the compiler takes
// minutes.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/tpu/topology.h"
#include "device/model_findings.h"
#include "ir/graph.h"

namespace kpt {

// Products that leave a quarter of the matrix unit idle, or more, are named with their work; the compiler may still
// turn or join them. `memory_bytes`: what a program may take of one device.
std::vector<ModelFinding> examine_model(const ir::Graph& graph, const ir::Bindings& sizes,
                                        const TpuGeneration& generation, std::uint64_t memory_bytes);

}  // namespace kpt
