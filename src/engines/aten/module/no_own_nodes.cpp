// For a CUDA module without kernels of ours (no nvcc): none of our own operators runs on a GPU.
#include "engines/aten/module/own_nodes.h"

namespace kpt::aten {

std::span<const OwnNodeEntry> own_node_table() noexcept { return {}; }

}  // namespace kpt::aten
