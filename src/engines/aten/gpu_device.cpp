#include "engines/aten/gpu_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "engines/aten/graph_engine.h"
#include "engines/aten/shortage_text.h"
#include "memory/available_memory.h"

namespace kpt {

Result<std::vector<Activity>> require_gpu_work(std::vector<Activity> activities, std::string_view device, Vendor vendor,
                                               std::string_view listener, std::string_view advice) {
  const bool heard = std::ranges::any_of(activities, [](const Activity& activity) {
    return activity.kind == Activity::Kind::kKernel || activity.kind == Activity::Kind::kCopy;
  });
  if (heard) return activities;
  return Status(StatusCode::kUnsupported, fmt::format("{} told of no work on {}: {}", listener, device, advice),
                vendor);
}

Status AtenGpuDevice::describe_request(const aten::CallOutcome& outcome, const char* what) const {
  Status status = to_status(outcome, what + info_.name, vendor_);
  if (outcome.code != aten::CallCode::kOutOfMemory) return status;  // nor the host's, which has other figures
  MemoryStatistics memory;
  if (table_.memory_statistics(index_, &memory).code != aten::CallCode::kOk) memory = {};
  const auto needed = aten::find_requested_bytes(status.message());
  return with_memory_facts(std::move(status), needed, memory, kAdviceForRequests);
}

Result<Tensor> AtenGpuDevice::allocate(DType dtype, std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return Status(StatusCode::kInvalidArgument, fmt::format("a tensor of rank {} has too many axes", dims.size()));
  }
  if (!count_elements(dims)) return Status(StatusCode::kInvalidArgument, "a tensor has extents without a product");
  Tensor tensor;
  const Dims extents(dims);
  KPT_RETURN_IF_ERROR(describe_request(table_.allocate(index_, dtype, &extents, &tensor), "allocating memory on "));
  return tensor;
}

Result<Tensor> AtenGpuDevice::upload(const Tensor& host) {
  Tensor tensor;
  KPT_RETURN_IF_ERROR(describe_request(table_.upload(index_, &host, &tensor), "copying a tensor to "));
  return tensor;
}

Result<Tensor> AtenGpuDevice::download(const Tensor& tensor) {
  if (tensor.defined() && tensor.device() == "cpu") return tensor;
  Tensor host;
  KPT_RETURN_IF_ERROR(to_status(table_.download(&tensor, &host), "copying a tensor from " + info_.name, vendor_));
  return host;
}

Result<Tensor> AtenGpuDevice::begin_upload(const Tensor& host, Event* event) {
  Tensor tensor;
  KPT_RETURN_IF_ERROR(describe_request(table_.begin_upload(index_, &host, &tensor, event), "copying a tensor to "));
  return tensor;
}

Result<Tensor> AtenGpuDevice::begin_download(const Tensor& tensor, Event* event) {
  *event = Event();
  if (tensor.defined() && tensor.device() == "cpu") return tensor;
  Tensor host;
  KPT_RETURN_IF_ERROR(
      to_status(table_.begin_download(&tensor, &host, event), "copying a tensor from " + info_.name, vendor_));
  return host;
}

Result<Tensor> AtenGpuDevice::begin_copy(Device& from, const Tensor& tensor, Event* event) {
  const auto* const other = dynamic_cast<const AtenGpuDevice*>(&from);
  const bool together = other != nullptr && &other->table_ == &table_ && tensor.device() == other->info_.name;
  if (!together) return Device::begin_copy(from, tensor, event);
  Tensor copy;
  KPT_RETURN_IF_ERROR(describe_request(table_.begin_copy(index_, &tensor, &copy, event), "copying a tensor to "));
  return copy;
}

Result<MemoryStatistics> AtenGpuDevice::memory() {
  MemoryStatistics statistics;
  KPT_RETURN_IF_ERROR(
      to_status(table_.memory_statistics(index_, &statistics), "reading the memory of " + info_.name, vendor_));
  return statistics;
}

Status AtenGpuDevice::reset_peak_memory() {
  return to_status(table_.reset_peak_memory(index_), "resetting the peak of memory of " + info_.name, vendor_);
}

Status AtenGpuDevice::empty_cache() {
  return to_status(table_.empty_cache(), "giving back memory of " + info_.name, vendor_);
}

Result<std::unique_ptr<Executable>> AtenGpuDevice::load(const Program& program, const Weights& weights,
                                                        const aten::CudaMemoryLimits& limits,
                                                        const NvidiaPolicy& policy,
                                                        const std::shared_ptr<gpu::Launcher>& launcher) const {
  if (program.target() != target().name()) {
    return Status(StatusCode::kInvalidArgument, fmt::format("a program for {} cannot be loaded on {}, which is {}",
                                                            program.target(), info_.name, target().name()));
  }
  const auto graph = static_cast<const GraphProgram&>(program).shared_graph();
  Status status;
  std::unique_ptr<Executable> executable;
  KPT_RETURN_IF_ERROR(
      describe_request(table_.load_graph(index_, &graph, &weights, &limits, &policy, &launcher, &status, &executable),
                       "loading the graph on "));
  KPT_RETURN_IF_ERROR(status);
  return executable;
}

}  // namespace kpt
