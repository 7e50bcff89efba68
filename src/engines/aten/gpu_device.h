// A GPU that libtorch uses, through the table of the module that was opened for it: what the backends of both vendors
// have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "device/execution.h"
#include "engines/aten/loader.h"

namespace kpt {

// What libtorch's profiler heard, for Device::record(): fails with kUnsupported when nothing of it happened on a GPU.
// `listener`: who tells it of the device; `advice`: one clause.
Result<std::vector<Activity>> require_gpu_work(std::vector<Activity> activities, std::string_view device, Vendor vendor,
                                               std::string_view listener, std::string_view advice);

// Thread safe.
class AtenGpuDevice : public Device {
 public:
  // `target` must outlive it; the table lives until the process ends.
  AtenGpuDevice(const Target& target, const aten::CudaModuleTable& table, std::int32_t index, DeviceInfo info,
                Vendor vendor, const HardwareRates* rates)
      : target_(target), table_(table), index_(index), info_(std::move(info)), vendor_(vendor), rates_(rates) {}

  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override;
  Result<Tensor> upload(const Tensor& host) override;
  Result<Tensor> download(const Tensor& tensor) override;
  Result<Tensor> begin_upload(const Tensor& host, Event* event) override;
  Result<Tensor> begin_download(const Tensor& tensor, Event* event) override;
  Result<Tensor> begin_copy(Device& from, const Tensor& tensor, Event* event) override;
  Result<MemoryStatistics> memory() override;
  Status reset_peak_memory() override;
  Status empty_cache() override;
  const HardwareRates* rates() const override { return rates_; }

  // Fails with kInvalidArgument for a program of another target. `program` must be a GraphProgram.
  Result<std::unique_ptr<Executable>> load(const Program& program, const Weights& weights,
                                           const aten::CudaMemoryLimits& limits, const NvidiaPolicy& policy,
                                           const std::shared_ptr<gpu::Launcher>& launcher = nullptr) const;

 private:
  // What came of asking for memory: where there was too little, with needed_bytes if libtorch told them, what there is,
  // and advice. `what` ends before the device's name.
  Status describe_request(const aten::CallOutcome& outcome, const char* what) const;

  const Target& target_;
  const aten::CudaModuleTable& table_;
  std::int32_t index_;
  DeviceInfo info_;
  Vendor vendor_;
  const HardwareRates* rates_;
};

}  // namespace kpt
