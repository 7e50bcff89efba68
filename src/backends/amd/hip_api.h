// HIP's C interface, declared by ourselves and found at run time: nothing of ROCm is needed to build.
//
// Only functions whose signatures are the same in ROCm 5, 6 and 7. Not among them: attribute numbers and the layout of
// the property structure, which changed; the gfx target is therefore looked for as text (find_gfx_target()).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/call_threads.h"
#include "base/dynamic_library.h"
#include "kpt/status.h"

namespace kpt {

using HipStreamHandle = void*;
using HipEventHandle = void*;
using HipModuleHandle = void*;
using HipFunctionHandle = void*;

// The error codes that this project treats apart.
inline constexpr int kHipSuccess = 0;
inline constexpr int kHipErrorOutOfMemory = 2;
inline constexpr int kHipErrorNotInitialized = 3;
inline constexpr int kHipErrorInvalidDeviceFunction = 98;
inline constexpr int kHipErrorNoDevice = 100;
inline constexpr int kHipErrorInvalidDevice = 101;
inline constexpr int kHipErrorInvalidImage = 200;
inline constexpr int kHipErrorNoBinaryForGpu = 209;
inline constexpr int kHipErrorInvalidKernelFile = 218;
inline constexpr int kHipErrorNotFound = 500;
inline constexpr int kHipErrorNotReady = 600;
inline constexpr int kHipErrorIllegalAddress = 700;
inline constexpr int kHipErrorLaunchTimeOut = 702;
inline constexpr int kHipErrorAssert = 710;
inline constexpr int kHipErrorLaunchFailure = 719;

// X(name in the library, member, signature): what a program that runs kernels needs.
#define KPT_HIP_FUNCTIONS(X)                                                                                          \
  X(hipInit, init, int (*)(unsigned))                                                                                 \
  X(hipGetDeviceCount, get_device_count, int (*)(int*))                                                               \
  X(hipSetDevice, set_device, int (*)(int))                                                                           \
  X(hipDeviceSynchronize, device_synchronize, int (*)())                                                              \
  X(hipMemGetInfo, mem_get_info, int (*)(std::size_t*, std::size_t*))                                                 \
  X(hipMalloc, allocate, int (*)(void**, std::size_t))                                                                \
  X(hipFree, release, int (*)(void*))                                                                                 \
  X(hipHostMalloc, host_allocate, int (*)(void**, std::size_t, unsigned))                                             \
  X(hipHostFree, host_release, int (*)(void*))                                                                        \
  X(hipMemcpyAsync, memcpy_async, int (*)(void*, const void*, std::size_t, int, HipStreamHandle))                     \
  X(hipMemsetAsync, memset_async, int (*)(void*, int, std::size_t, HipStreamHandle))                                  \
  X(hipDeviceGetStreamPriorityRange, stream_priorities, int (*)(int*, int*))                                          \
  X(hipStreamCreateWithPriority, stream_create, int (*)(HipStreamHandle*, unsigned, int))                             \
  X(hipStreamDestroy, stream_destroy, int (*)(HipStreamHandle))                                                       \
  X(hipStreamSynchronize, stream_synchronize, int (*)(HipStreamHandle))                                               \
  X(hipStreamQuery, stream_query, int (*)(HipStreamHandle))                                                           \
  X(hipStreamWaitEvent, stream_wait_event, int (*)(HipStreamHandle, HipEventHandle, unsigned))                        \
  X(hipEventCreateWithFlags, event_create, int (*)(HipEventHandle*, unsigned))                                        \
  X(hipEventDestroy, event_destroy, int (*)(HipEventHandle))                                                          \
  X(hipEventRecord, event_record, int (*)(HipEventHandle, HipStreamHandle))                                           \
  X(hipEventQuery, event_query, int (*)(HipEventHandle))                                                              \
  X(hipEventElapsedTime, event_elapsed_time, int (*)(float*, HipEventHandle, HipEventHandle))                         \
  X(hipModuleLoadData, module_load_data, int (*)(HipModuleHandle*, const void*))                                      \
  X(hipModuleUnload, module_unload, int (*)(HipModuleHandle))                                                         \
  X(hipModuleGetFunction, module_get_function, int (*)(HipFunctionHandle*, HipModuleHandle, const char*))             \
  X(hipModuleLaunchKernel, module_launch_kernel,                                                                      \
    int (*)(HipFunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, HipStreamHandle, \
            void**, void**))

// The first that is there. Fails with kNotFound when none is, kVendorLibrary when one is there and cannot be loaded.
Result<DynamicLibrary> open_hip_library(const std::vector<std::string>& libraries);
// Newest first.
std::vector<std::string> hip_library_names();

// A function of the library, or null. Whoever waits for the thread that calls it learns its name (base/call_threads.h):
// it may never return.
template <typename Pointer>
struct HipFunction;
template <typename Answer, typename... Arguments>
struct HipFunction<Answer (*)(Arguments...)> {
  Answer (*pointer)(Arguments...) = nullptr;
  const char* name = nullptr;

  Answer operator()(Arguments... arguments) const {
    const CallInProgress call(name);
    return pointer(arguments...);
  }
  bool operator==(std::nullptr_t) const { return pointer == nullptr; }
};

// A function that the library lacks is nullptr.
struct HipApi {
  static HipApi load(const DynamicLibrary& library);

  // "out of memory (HIP error 2)".
  std::string error_text(int code) const;
  // "gfx942" of a device, without features; empty with the code of a call that failed, or kHipSuccess when the
  // properties hold no target.
  std::optional<std::string> find_gfx_target(int device, int& code) const;
  // The name of the first function of KPT_HIP_FUNCTIONS that is missing; null when all are there.
  const char* missing() const;

#define KPT_DECLARE_FUNCTION(name, member, ...) HipFunction<__VA_ARGS__> member;
  KPT_HIP_FUNCTIONS(KPT_DECLARE_FUNCTION)
#undef KPT_DECLARE_FUNCTION
  // What a program can do without.
  HipFunction<int (*)(int*)> runtime_get_version;
  HipFunction<int (*)(char*, int, int)> device_get_name;
  HipFunction<int (*)(std::size_t*, int)> device_total_mem;
  HipFunction<int (*)(char*, int, int)> device_get_pci_bus_id;
  HipFunction<int (*)(void*, int)> get_device_properties;
  HipFunction<const char* (*)(int)> get_error_string;
};

}  // namespace kpt
