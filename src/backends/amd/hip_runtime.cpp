#include "backends/amd/hip_runtime.h"

#include <algorithm>
#include <array>
#include <bit>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"

namespace kpt {
namespace {

constexpr int kToDevice = 1;
constexpr int kToHost = 2;
constexpr int kOnDevice = 3;
constexpr unsigned kNonBlocking = 1;
// Marks of the list that hands a launch its arguments as bytes.
constexpr std::uintptr_t kArgumentPointer = 1;
constexpr std::uintptr_t kArgumentBytes = 2;
constexpr std::uintptr_t kArgumentEnd = 3;

StatusCode code_of(int error, std::string_view call) {
  switch (error) {
    // Of the host there may be enough, and not enough that may be pinned.
    case kHipErrorOutOfMemory:
      return call == "hipHostMalloc" ? StatusCode::kMemoryAllocation : StatusCode::kOutOfMemory;
    case kHipErrorNotInitialized:
    case kHipErrorNoDevice:
    case kHipErrorInvalidDevice: return StatusCode::kDeviceNotAvailable;
    case kHipErrorNoBinaryForGpu:
    case kHipErrorInvalidDeviceFunction: return StatusCode::kInvalidArchitecture;
    case kHipErrorInvalidImage:
    case kHipErrorInvalidKernelFile: return StatusCode::kCorruptData;
    case kHipErrorNotFound: return StatusCode::kNotFound;
    case kHipErrorIllegalAddress:
    case kHipErrorLaunchTimeOut:
    case kHipErrorAssert:
    case kHipErrorLaunchFailure:
      return call == "hipModuleLaunchKernel" ? StatusCode::kKernelLaunch : StatusCode::kKernel;
    default: return call == "hipModuleLaunchKernel" ? StatusCode::kKernelLaunch : StatusCode::kDevice;
  }
}

Status amd_failure(StatusCode code, std::string message) { return {code, std::move(message), Vendor::kAmd}; }

// Asks `query`, by `call` of HIP's, until it says something else than 'not ready'.
template <typename Query>
Status wait_until_ready(const HipRuntime& runtime, std::string_view call, std::chrono::milliseconds limit,
                        const Query& query) {
  const auto end = std::chrono::steady_clock::now() + limit;
  // Short work is waited for without sleep; long work must not keep a core busy.
  constexpr std::chrono::microseconds kLongest{500};
  std::chrono::microseconds pause{0};
  for (int round = 0;; ++round) {
    const int code = query();
    if (code != kHipErrorNotReady) return runtime.check(code, call);
    if (std::chrono::steady_clock::now() >= end) {
      return amd_failure(StatusCode::kDeadlineExceeded,
                         fmt::format("{} still says 'not ready' after {} ms", call, limit.count()));
    }
    if (round < 100) {
      std::this_thread::yield();
      continue;
    }
    pause = std::min(pause + std::chrono::microseconds(10), kLongest);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Result<std::shared_ptr<const HipRuntime>> HipRuntime::open(const std::vector<std::string>& libraries) {
  const auto library = open_hip_library(libraries);
  if (!library.ok()) return amd_failure(library.status().code(), library.status().message());
  const HipApi api = HipApi::load(*library);
  if (const char* missing = api.missing()) {
    return amd_failure(StatusCode::kVersionMismatch,
                       fmt::format("{} lacks {}; ROCm 5 to 7 are known", library->path(), missing));
  }
  const std::shared_ptr<HipRuntime> runtime(new HipRuntime(api, library->path()));
  const int init = api.init(0);
  const int counted = api.get_device_count(&runtime->device_count_);
  // Without a GPU hipInit says "invalid device" in some versions, while the count says what is meant.
  if (init != kHipSuccess && counted != kHipErrorNoDevice) return runtime->check(init, "hipInit");
  KPT_RETURN_IF_ERROR(runtime->check(counted, "hipGetDeviceCount"));
  if (runtime->device_count_ <= 0) return runtime->check(kHipErrorNoDevice, "hipGetDeviceCount");
  return std::shared_ptr<const HipRuntime>(runtime);
}

Result<HipDevice> HipRuntime::open_device(const std::shared_ptr<const HipRuntime>& runtime, int index) {
  if (index < 0 || index >= runtime->device_count_) {
    return amd_failure(StatusCode::kDeviceNotAvailable,
                       fmt::format("there is no AMD GPU {}: HIP shows {}", index, runtime->device_count_));
  }
  int code = kHipSuccess;
  const auto target = runtime->api_.find_gfx_target(index, code);
  KPT_RETURN_IF_ERROR(runtime->check(code, "hipGetDeviceProperties", fmt::format("GPU {}", index)));
  if (!target) {
    return amd_failure(StatusCode::kInvalidArchitecture,
                       fmt::format("hipGetDeviceProperties told no gfx target of GPU {}", index));
  }
  const AmdArchitecture* architecture = find_amd_architecture(*target);
  if (architecture == nullptr) {
    return amd_failure(StatusCode::kInvalidArchitecture,
                       fmt::format("GPU {} is {}, which this release does not know", index, *target));
  }
  KPT_RETURN_IF_ERROR(runtime->check(runtime->api_.set_device(index), "hipSetDevice", fmt::format("GPU {}", index)));
  return HipDevice(runtime, index, *architecture);
}

Status HipRuntime::check(int code, std::string_view call, std::string_view context) const {
  if (code == kHipSuccess) return {};
  const std::string where = context.empty() ? "" : fmt::format(" ({})", context);
  return amd_failure(code_of(code, call), fmt::format("{} failed{}: {}", call, where, api_.error_text(code)))
      .with("call", std::string(call))
      .with("hip_error", std::to_string(code));
}

HipHandle::HipHandle(HipHandle&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)),
      release_(other.release_),
      call_(other.call_) {}

HipHandle& HipHandle::operator=(HipHandle&& other) noexcept {
  if (this == &other) return *this;
  release();
  runtime_ = std::move(other.runtime_);
  device_ = other.device_;
  handle_ = std::exchange(other.handle_, nullptr);
  release_ = other.release_;
  call_ = other.call_;
  return *this;
}

HipHandle::~HipHandle() { release(); }

void HipHandle::release() {
  if (handle_ == nullptr) return;
  Status status = select_device();
  // Given back even so: the handle belongs to its device, not to the current one.
  const Status released = runtime_->check((runtime_->api().*release_)(handle_), call_);
  if (status.ok()) status = released;
  if (!status.ok()) log::warn("an object of the HIP runtime could not be given back", {{"reason", status.message()}});
  handle_ = nullptr;
}

Status HipHandle::select_device() const {
  return runtime_->check(runtime_->api().set_device(device_), "hipSetDevice", fmt::format("GPU {}", device_));
}

Status HipEvent::synchronize(std::chrono::milliseconds limit) const {
  const HipRuntime& runtime = handle_.runtime();
  return wait_until_ready(runtime, "hipEventQuery", limit, [&] { return runtime.api().event_query(get()); });
}

Result<std::chrono::duration<float, std::milli>> HipEvent::since(const HipEvent& begin) const {
  float milliseconds = 0;
  const int code = handle_.runtime().api().event_elapsed_time(&milliseconds, begin.get(), get());
  KPT_RETURN_IF_ERROR(handle_.runtime().check(code, "hipEventElapsedTime"));
  return std::chrono::duration<float, std::milli>(milliseconds);
}

Result<void*> HipModule::function(const std::string& kernel) {
  if (const auto found = functions_.find(kernel); found != functions_.end()) return found->second;
  void* function = nullptr;
  const HipRuntime& runtime = handle_.runtime();
  KPT_RETURN_IF_ERROR(runtime.check(runtime.api().module_get_function(&function, handle_.get(), kernel.c_str()),
                                    "hipModuleGetFunction", kernel));
  functions_.emplace(kernel, function);
  return function;
}

const KernelResources* HipModule::find(std::string_view kernel) const {
  const auto found = std::ranges::lower_bound(contents_.kernels, kernel, {},
                                              [](const KernelResources& one) { return std::string_view(one.name); });
  return found == contents_.kernels.end() || found->name != kernel ? nullptr : &*found;
}

Status HipStream::copy(void* target, const void* source, std::size_t bytes, int kind) const {
  if (bytes == 0) return {};
  KPT_RETURN_IF_ERROR(handle_.select_device());
  return handle_.runtime().check(handle_.runtime().api().memcpy_async(target, source, bytes, kind, get()),
                                 "hipMemcpyAsync", fmt::format("{} bytes", bytes));
}

Status HipStream::copy_to_device(void* target, const void* source, std::size_t bytes) const {
  return copy(target, source, bytes, kToDevice);
}

Status HipStream::copy_to_host(void* target, const void* source, std::size_t bytes) const {
  return copy(target, source, bytes, kToHost);
}

Status HipStream::copy_on_device(void* target, const void* source, std::size_t bytes) const {
  return copy(target, source, bytes, kOnDevice);
}

Status HipStream::fill(void* target, std::uint8_t value, std::size_t bytes) const {
  if (bytes == 0) return {};
  KPT_RETURN_IF_ERROR(handle_.select_device());
  return handle_.runtime().check(handle_.runtime().api().memset_async(target, value, bytes, get()), "hipMemsetAsync",
                                 fmt::format("{} bytes", bytes));
}

Status HipStream::record(const HipEvent& event) const {
  return handle_.runtime().check(handle_.runtime().api().event_record(event.get(), get()), "hipEventRecord");
}

Status HipStream::wait(const HipEvent& event) const {
  return handle_.runtime().check(handle_.runtime().api().stream_wait_event(get(), event.get(), 0),
                                 "hipStreamWaitEvent");
}

Status HipStream::synchronize(std::chrono::milliseconds limit) const {
  const HipRuntime& runtime = handle_.runtime();
  return wait_until_ready(runtime, "hipStreamQuery", limit, [&] { return runtime.api().stream_query(get()); });
}

Status HipDevice::select() const {
  return runtime_->check(runtime_->api().set_device(index_), "hipSetDevice", fmt::format("GPU {}", index_));
}

Result<HipMemory> HipDevice::allocate(std::size_t bytes) const {
  KPT_RETURN_IF_ERROR(select());
  void* memory = nullptr;
  KPT_RETURN_IF_ERROR(runtime_->check(runtime_->api().allocate(&memory, std::max<std::size_t>(bytes, 1)), "hipMalloc",
                                      fmt::format("{} bytes on GPU {}", bytes, index_)));
  return HipMemory(HipHandle(runtime_, index_, memory, &HipApi::release, "hipFree"), bytes);
}

Result<HipMemory> HipDevice::allocate_host(std::size_t bytes) const {
  KPT_RETURN_IF_ERROR(select());
  void* memory = nullptr;
  KPT_RETURN_IF_ERROR(runtime_->check(runtime_->api().host_allocate(&memory, std::max<std::size_t>(bytes, 1), 0),
                                      "hipHostMalloc", fmt::format("{} bytes", bytes)));
  return HipMemory(HipHandle(runtime_, index_, memory, &HipApi::host_release, "hipHostFree"), bytes);
}

Result<HipMemoryInfo> HipDevice::memory_info() const {
  KPT_RETURN_IF_ERROR(select());
  HipMemoryInfo info;
  KPT_RETURN_IF_ERROR(
      runtime_->check(runtime_->api().mem_get_info(&info.free_bytes, &info.total_bytes), "hipMemGetInfo"));
  return info;
}

Result<HipStream> HipDevice::make_stream(HipPriority priority) const {
  KPT_RETURN_IF_ERROR(select());
  int least = 0;  // smaller numbers go first; 0 is normal
  int greatest = 0;
  KPT_RETURN_IF_ERROR(
      runtime_->check(runtime_->api().stream_priorities(&least, &greatest), "hipDeviceGetStreamPriorityRange"));
  int number = 0;
  if (priority == HipPriority::kLow) number = least;
  if (priority == HipPriority::kHigh) number = greatest;
  void* stream = nullptr;
  KPT_RETURN_IF_ERROR(
      runtime_->check(runtime_->api().stream_create(&stream, kNonBlocking, number), "hipStreamCreateWithPriority"));
  return HipStream(HipHandle(runtime_, index_, stream, &HipApi::stream_destroy, "hipStreamDestroy"));
}

Result<HipEvent> HipDevice::make_event() const {
  KPT_RETURN_IF_ERROR(select());
  void* event = nullptr;
  KPT_RETURN_IF_ERROR(runtime_->check(runtime_->api().event_create(&event, 0), "hipEventCreateWithFlags"));
  return HipEvent(HipHandle(runtime_, index_, event, &HipApi::event_destroy, "hipEventDestroy"));
}

Result<HipModule> HipDevice::load_module(std::span<const std::byte> code_object) const {
  auto read = read_code_object(code_object);
  if (!read.ok()) return amd_failure(read.status().code(), read.status().message());
  CodeObject contents = std::move(read).value();
  if (contents.gfx_target != architecture_->gfx_target) {
    return amd_failure(StatusCode::kInvalidArchitecture,
                       fmt::format("the code object is for {} and GPU {} is {}", contents.gfx_target, index_,
                                   architecture_->gfx_target));
  }
  KPT_RETURN_IF_ERROR(select());
  const auto image = std::make_shared<const std::vector<std::byte>>(code_object.begin(), code_object.end());
  void* module = nullptr;
  KPT_RETURN_IF_ERROR(runtime_->check(runtime_->api().module_load_data(&module, image->data()), "hipModuleLoadData",
                                      contents.gfx_target));
  return HipModule(HipHandle(runtime_, index_, module, &HipApi::module_unload, "hipModuleUnload"), image,
                   std::move(contents));
}

Status HipDevice::launch(const HipModule& module, void* function, const gpu::Launch& launch, void* stream) const {
  const KernelResources* kernel = module.find(launch.kernel);
  if (kernel == nullptr) {
    return amd_failure(StatusCode::kNotFound, fmt::format("the code object for {} has no kernel {}",
                                                          module.contents().gfx_target, launch.kernel));
  }
  if (launch.threads == 0 || launch.threads > kernel->max_threads || launch.arg_bytes != kernel->argument_bytes ||
      launch.blocks == 0) {
    return amd_failure(
        StatusCode::kKernelLaunch,
        fmt::format("kernel {} takes {} bytes of arguments and up to {} threads, not {} and {} x {}", launch.kernel,
                    kernel->argument_bytes, kernel->max_threads, launch.arg_bytes, launch.blocks, launch.threads));
  }
  KPT_RETURN_IF_ERROR(select());
  alignas(16) std::array<std::byte, gpu::kMaxArgBytes> arguments = launch.args;
  std::size_t bytes = launch.arg_bytes;
  void* list[] = {std::bit_cast<void*>(kArgumentPointer), arguments.data(), std::bit_cast<void*>(kArgumentBytes),
                  &bytes, std::bit_cast<void*>(kArgumentEnd)};
  const int code = runtime_->api().module_launch_kernel(function, launch.blocks, 1, 1, launch.threads, 1, 1, 0, stream,
                                                        nullptr, list);
  return runtime_->check(code, "hipModuleLaunchKernel",
                         fmt::format("{}, {} blocks of {}", launch.kernel, launch.blocks, launch.threads));
}

Status HipDevice::synchronize() const {
  KPT_RETURN_IF_ERROR(select());
  return runtime_->check(runtime_->api().device_synchronize(), "hipDeviceSynchronize");
}

}  // namespace kpt
