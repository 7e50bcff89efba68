// The inputs with which a model was exported, if the archive has them: a pickle of (args, kwargs), read by the
// restricted reader that executes nothing.
#pragma once

#include <string>
#include <vector>

#include "importer/archive_layout.h"
#include "ir/graph.h"
#include "kpt/tensor.h"

namespace kpt::pt2 {

// Tensors by the names of the graph's inputs. What is absent or of other types gives fewer or none, with a note.
std::vector<NamedTensor> read_sample_inputs(const ArchiveLayout& layout, const ir::Graph& graph,
                                            std::vector<std::string>* notes);

}  // namespace kpt::pt2
