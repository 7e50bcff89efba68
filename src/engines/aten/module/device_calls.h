// Functions of CudaModuleTable that need nothing of a vendor: the modules for GPUs share them.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include <c10/core/Device.h>

#include "engines/aten/module/device_memory.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module_abi.h"

namespace kpt::aten {

// Also initializes libtorch's state of GPUs, which allocator and generator need. Throws CallFailure, with kNoDevice
// where there is no such GPU or no driver.
c10::DeviceIndex require_device(std::int32_t index);

// guarded_call() for a body that takes memory of a device. Too little of it is kOutOfMemory also where a vendor's
// library found none for itself, and is counted: a request that failed, whoever made it.
template <typename Body>
CallOutcome memory_call(std::int32_t index, const Body& body) noexcept {
  const auto device = static_cast<c10::DeviceIndex>(index);
  bool ran_out = false;
  CallOutcome outcome = guarded_call([&] {
    try {
      body();
    } catch (const CallFailure&) {
      throw;
    } catch (const std::exception& error) {
      ran_out = ran_out_of_memory(error, device);
      throw;
    }
  });
  if (ran_out) outcome.code = CallCode::kOutOfMemory;
  if (outcome.code == CallCode::kOutOfMemory) count_out_of_memory(device);
  return outcome;
}

namespace calls {

CallOutcome device_count(std::int32_t* count) noexcept;
CallOutcome memory_statistics(std::int32_t index, MemoryStatistics* statistics) noexcept;
CallOutcome reset_peak_memory(std::int32_t index) noexcept;
CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept;
CallOutcome set_warning_sink(void (*sink)(const char* text)) noexcept;
CallOutcome allocate(std::int32_t index, DType dtype, const Dims* dims, Tensor* tensor) noexcept;
CallOutcome upload(std::int32_t index, const Tensor* host, Tensor* tensor) noexcept;
CallOutcome download(const Tensor* tensor, Tensor* host) noexcept;
CallOutcome begin_upload(std::int32_t index, const Tensor* host, Tensor* tensor, Event* event) noexcept;
CallOutcome begin_download(const Tensor* tensor, Tensor* host, Event* event) noexcept;
CallOutcome begin_copy(std::int32_t index, const Tensor* from, Tensor* tensor, Event* event) noexcept;

}  // namespace calls
}  // namespace kpt::aten
