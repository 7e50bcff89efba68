// Functions of CudaModuleTable that need nothing of a vendor: the modules for GPUs share them.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/Device.h>

#include "engines/aten/module_abi.h"

namespace kpt::aten {

// Also initializes libtorch's state of GPUs, which allocator and generator need. Throws CallFailure, with kNoDevice
// where there is no such GPU or no driver.
c10::DeviceIndex require_device(std::int32_t index);

namespace calls {

CallOutcome device_count(std::int32_t* count) noexcept;
CallOutcome memory_statistics(std::int32_t index, MemoryStatistics* statistics) noexcept;
CallOutcome reset_peak_memory(std::int32_t index) noexcept;
CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept;
CallOutcome set_warning_sink(void (*sink)(const char* text)) noexcept;
CallOutcome allocate(std::int32_t index, DType dtype, const Dims* dims, Tensor* tensor) noexcept;
CallOutcome upload(std::int32_t index, const Tensor* host, Tensor* tensor) noexcept;
CallOutcome download(const Tensor* tensor, Tensor* host) noexcept;

}  // namespace calls
}  // namespace kpt::aten
