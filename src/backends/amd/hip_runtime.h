// The HIP runtime, opened at run time: devices, memory, streams, events, modules and launches on AMD GPUs.
//
//   auto runtime = HipRuntime::open();
//   auto device = HipRuntime::open_device(*runtime, 0);
//   auto memory = device->allocate(bytes);                   // freed with the object
//   auto stream = device->make_stream();
//   stream->copy_to_device(memory->data(), source, bytes);   // queued
//   auto module = device->load_module(code_object);          // refused unless it is for this very gfx target
//   device->launch(*module, *module->function(launch.kernel), launch, stream->get());
//   stream->synchronize(std::chrono::seconds(10));
//
// Every failure is a Status of Vendor::kAmd whose message names the call of HIP's that failed:
//   kOutOfMemory, kDeviceNotAvailable, kInvalidArchitecture (no code for this GPU), kCorruptData (no code object),
//   kNotFound (no library, no such kernel), kKernelLaunch (not started), kKernel (failed while it ran),
//   kDeadlineExceeded (did not end in time), kVersionMismatch (the library lacks a function), kDevice (all else).
// A kernel that fails while it runs is reported by whatever waits for it first, and by every call after that: the
// device has to be opened anew by a new process.
//
// Objects keep the runtime alive. A device may be used by several threads; a stream, an event or a module by one at a
// time. What a queued copy or kernel uses must outlive it: synchronize before it goes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/amd/architecture.h"
#include "backends/amd/code_object.h"
#include "backends/amd/hip_api.h"
#include "kernels/gpu/launch.h"
#include "kpt/status.h"

namespace kpt {

class HipDevice;

class HipRuntime {
 public:
  // The first library that is there. Fails with kNotFound, kVendorLibrary, kVersionMismatch, kDeviceNotAvailable (no
  // GPU). Known to abort on GPUs newer than itself: callers who did not see it work before ask in a child process first
  // (hip_probe.h).
  static Result<std::shared_ptr<const HipRuntime>> open(
      const std::vector<std::string>& libraries = hip_library_names());
  // Fails with kDeviceNotAvailable, and with kInvalidArchitecture for a target that the table does not have.
  static Result<HipDevice> open_device(const std::shared_ptr<const HipRuntime>& runtime, int index);

  int device_count() const { return device_count_; }
  std::string library_path() const { return path_; }

  const HipApi& api() const { return api_; }
  // Ok for kHipSuccess; otherwise the typed error of `call`, with `context` ("4096 bytes") in the sentence.
  Status check(int code, std::string_view call, std::string_view context = "") const;

 private:
  HipRuntime(HipApi api, std::string path) : api_(api), path_(std::move(path)) {}

  HipApi api_;
  std::string path_;
  int device_count_ = 0;
};

// Something of HIP's that is given back when it goes. A failure to give back is logged: there is no one left to tell.
class HipHandle {
 public:
  using Release = HipFunction<int (*)(void*)> HipApi::*;
  HipHandle(std::shared_ptr<const HipRuntime> runtime, int device, void* handle, Release release, std::string_view call)
      : runtime_(std::move(runtime)), device_(device), handle_(handle), release_(release), call_(call) {}
  HipHandle(HipHandle&& other) noexcept;
  HipHandle& operator=(HipHandle&& other) noexcept;
  HipHandle(const HipHandle&) = delete;
  HipHandle& operator=(const HipHandle&) = delete;
  ~HipHandle();

  void* get() const { return handle_; }
  const HipRuntime& runtime() const { return *runtime_; }
  // Makes the device the calling thread's current one, as HIP's calls want it.
  Status select_device() const;

 private:
  void release();

  std::shared_ptr<const HipRuntime> runtime_;
  int device_;
  void* handle_;
  Release release_;
  std::string_view call_;
};

// Memory of a device, or of the host such that the device reaches it (pinned).
class HipMemory {
 public:
  HipMemory(HipHandle handle, std::size_t bytes) : handle_(std::move(handle)), bytes_(bytes) {}
  void* data() const { return handle_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  HipHandle handle_;
  std::size_t bytes_;
};

class HipEvent {
 public:
  explicit HipEvent(HipHandle handle) : handle_(std::move(handle)) {}
  void* get() const { return handle_.get(); }
  // Waits until it has passed. kDeadlineExceeded when it has not by the limit.
  Status synchronize(std::chrono::milliseconds limit) const;
  // Between two events that were recorded and have passed.
  Result<std::chrono::duration<float, std::milli>> since(const HipEvent& begin) const;

 private:
  HipHandle handle_;
};

// A code object on a device.
class HipModule {
 public:
  HipModule(HipHandle handle, std::shared_ptr<const std::vector<std::byte>> image, CodeObject contents)
      : image_(std::move(image)), handle_(std::move(handle)), contents_(std::move(contents)) {}
  const CodeObject& contents() const { return contents_; }
  // Looked up once and kept. Fails with kNotFound.
  Result<void*> function(const std::string& kernel);
  // What the code object says of a kernel; null when it has none of the name.
  const KernelResources* find(std::string_view kernel) const;

 private:
  std::shared_ptr<const std::vector<std::byte>> image_;  // HIP may read it until the module goes
  HipHandle handle_;
  CodeObject contents_;
  std::map<std::string, void*, std::less<>> functions_;
};

class HipStream {
 public:
  explicit HipStream(HipHandle handle) : handle_(std::move(handle)) {}
  void* get() const { return handle_.get(); }

  // All of these are queued. Host memory that is not pinned makes a copy wait.
  Status copy_to_device(void* target, const void* source, std::size_t bytes) const;
  Status copy_to_host(void* target, const void* source, std::size_t bytes) const;
  Status copy_on_device(void* target, const void* source, std::size_t bytes) const;
  Status fill(void* target, std::uint8_t value, std::size_t bytes) const;
  Status record(const HipEvent& event) const;
  Status wait(const HipEvent& event) const;
  // Waits for all that is queued. kDeadlineExceeded when it has not ended by the limit: the work goes on, and what it
  // uses must stay.
  Status synchronize(std::chrono::milliseconds limit) const;

 private:
  Status copy(void* target, const void* source, std::size_t bytes, int kind) const;

  HipHandle handle_;
};

enum class HipPriority : std::uint8_t { kLow, kNormal, kHigh };

struct HipMemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

class HipDevice {
 public:
  HipDevice(std::shared_ptr<const HipRuntime> runtime, int index, const AmdArchitecture& architecture)
      : runtime_(std::move(runtime)), index_(index), architecture_(&architecture) {}

  int index() const { return index_; }
  std::string library_path() const { return runtime_->library_path(); }
  const AmdArchitecture& architecture() const { return *architecture_; }

  // At least one byte.
  Result<HipMemory> allocate(std::size_t bytes) const;
  Result<HipMemory> allocate_host(std::size_t bytes) const;
  Result<HipMemoryInfo> memory_info() const;
  // Waits for no other stream. Where the device has fewer priorities, neighbours are the same.
  Result<HipStream> make_stream(HipPriority priority = HipPriority::kNormal) const;
  Result<HipEvent> make_event() const;  // with time
  // A copy of the bytes is kept. kInvalidArchitecture when the code object is for another target than this device's.
  Result<HipModule> load_module(std::span<const std::byte> code_object) const;
  // `function`: of the module, of launch.kernel. Threads and bytes of arguments are checked against the code object
  // before anything is started. Queued.
  Status launch(const HipModule& module, void* function, const gpu::Launch& launch, void* stream) const;
  Status synchronize() const;

 private:
  Status select() const;

  std::shared_ptr<const HipRuntime> runtime_;
  int index_;
  const AmdArchitecture* architecture_;
};

}  // namespace kpt
