// libamdhip64 as a JSON file tells it (KPT_FAKE_HIP). Keys of a device: name, gfx ("gfx942:sramecc+:xnack-"), pci,
// memory_total. "properties_offset" moves gcnArchName inside the property structure, which differs between versions;
// with KPT_FAKE_ROCM5 the library has the function and the structure of ROCm 5 and not those of ROCm 6. "real_time":
// true makes events tell the host's clock instead of a quarter of a millisecond for each.
// "calls" makes any function fail; two more orders are for kernels: "kernel_faults": true (it starts, and what waits
// for it says it failed) and "kernel_hangs": true (its stream is never ready, nor is an event or another stream that
// comes after it). "streams_hang": true makes streams that are never ready, and with "events_wait": n an event is ready
// when it was asked n times. fake_hip_calls() and fake_hip_live()
// tell a test what was called and how many objects were not given back; fake_hip_reset() forgets all of it.
// fake_hip_fail(n, code) makes the nth call from then on return the code, once, whatever its name is;
// fake_hip_failed() is that name, empty while it has not come. fake_hip_hang(n) makes the nth call from then on wait
// until fake_hip_let_go(); fake_hip_hang_in(name) every call of that name. fake_hip_hung() tells which one waits first,
// empty while none does. Safe for several threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <thread>

#include "fake_hip_device.h"
#include "fake_spec.h"

namespace {

constexpr int kInvalidDevice = 101;
#if defined(KPT_FAKE_ROCM5)
constexpr std::size_t kPropertyBytes = 792;
constexpr std::size_t kTargetOffset = 396;
#else
constexpr std::size_t kPropertyBytes = 1472;  // of hipDeviceProp_tR0600
constexpr std::size_t kTargetOffset = 1160;
#endif

fake::Spec& spec() {
  static fake::Spec instance("KPT_FAKE_HIP");
  return instance;
}

fake::HipDevice& device() {
  static fake::HipDevice instance;
  return instance;
}

thread_local int current = 0;
std::string calls;

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

// Calls that shall not return. Never destroyed: they may still wait when the process ends.
struct Hang {
  std::atomic<int> countdown{0};  // 1: the next call; 0: none
  std::atomic<const char*> everywhere{nullptr};
  std::atomic<const char*> first{nullptr};
  std::atomic<int> round{0};

  void wait(const char* function) {
    int left = countdown;
    while (left > 0 && !countdown.compare_exchange_weak(left, left - 1)) {
    }
    const char* const name = everywhere;
    if (left != 1 && (name == nullptr || std::strcmp(name, function) != 0)) return;
    const char* none = nullptr;
    first.compare_exchange_strong(none, function);
    for (const int begun = round; round == begun;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

Hang& hang() {
  static auto* const kHang = new Hang;
  return *kHang;
}

// The one call that shall fail.
struct Failure {
  int countdown = 0;  // 1: the next call; 0: none
  int code = 0;
  std::string function;
} failure;

// A call, which others wait for. Notes it; `code` is what it shall return before it does anything.
class Entry {
 public:
  explicit Entry(const char* function) : lock_(begin(function)) {
    calls += function;
    calls += '\n';
    if (failure.countdown > 0 && --failure.countdown == 0) {
      failure.function = function;
      code = failure.code;
    } else {
      code = spec().enter(function);
    }
  }
  int code;

 private:
  static std::unique_lock<std::mutex> begin(const char* function) {
    hang().wait(function);
    return std::unique_lock(mutex());
  }
  std::unique_lock<std::mutex> lock_;
};

// The same for calls that wait for kernels.
struct WaitingEntry : Entry {
  explicit WaitingEntry(const char* function) : Entry(function) {
    if (code == 0) code = device().fault;
  }
};

template <typename T>
int give(std::map<T*, std::unique_ptr<T>>& objects, void** handle) {
  auto object = std::make_unique<T>();
  T* key = object.get();
  *handle = key;
  objects.emplace(key, std::move(object));
  return 0;
}

template <typename T>
int take(std::map<T*, std::unique_ptr<T>>& objects, void* handle) {
  return objects.erase(static_cast<T*>(handle)) == 1 ? 0 : fake::kInvalidHandle;
}

bool is_stream(void* handle) {
  return handle == nullptr || device().streams.contains(static_cast<fake::Stream*>(handle));
}

int fill_properties(const char* function, char* properties, int device) {
  const Entry entry(function);
  if (entry.code != 0) return entry.code;
  if (const int code = spec().enter(function, device, kInvalidDevice); code != 0) return code;
  const nlohmann::json& json = spec().device(device);
  std::memset(properties, 0, kPropertyBytes);
  fake::copy_text(json.value("name", ""), properties, 256);
  const auto offset = spec().json().value("properties_offset", kTargetOffset);
  fake::copy_text(json.value("gfx", ""), properties + offset, 256);
  return 0;
}

}  // namespace

KPT_FAKE_EXPORT int hipInit(unsigned) { return Entry("hipInit").code; }

KPT_FAKE_EXPORT int hipRuntimeGetVersion(int* version) {
  *version = spec().json().value("version", 0);
  return spec().enter("hipRuntimeGetVersion");
}

KPT_FAKE_EXPORT int hipGetDeviceCount(int* count) {
  const Entry entry("hipGetDeviceCount");
  *count = spec().json().value("count", spec().device_count());
  return entry.code;
}

KPT_FAKE_EXPORT int hipDeviceGetName(char* name, int length, int device) {
  if (const int code = spec().enter("hipDeviceGetName", device, kInvalidDevice); code != 0) return code;
  fake::copy_text(spec().device(device).value("name", ""), name, length);
  return 0;
}

KPT_FAKE_EXPORT int hipDeviceTotalMem(std::size_t* bytes, int device) {
  if (const int code = spec().enter("hipDeviceTotalMem", device, kInvalidDevice); code != 0) return code;
  *bytes = spec().device(device).value("memory_total", std::size_t{0});
  return 0;
}

KPT_FAKE_EXPORT int hipDeviceGetPCIBusId(char* text, int length, int device) {
  if (const int code = spec().enter("hipDeviceGetPCIBusId", device, kInvalidDevice); code != 0) return code;
  fake::copy_text(spec().device(device).value("pci", ""), text, length);
  return 0;
}

#if defined(KPT_FAKE_ROCM5)
KPT_FAKE_EXPORT int hipGetDeviceProperties(char* properties, int device) {
  return fill_properties("hipGetDeviceProperties", properties, device);
}
#else
KPT_FAKE_EXPORT int hipGetDevicePropertiesR0600(char* properties, int device) {
  return fill_properties("hipGetDevicePropertiesR0600", properties, device);
}
#endif

KPT_FAKE_EXPORT const char* hipGetErrorString(int error) {
  switch (error) {
    case 0: return "no error";
    case 1: return "invalid argument";
    case 2: return "out of memory";
    case 3: return "initialization error";
    case 100: return "no ROCm-capable device is detected";
    case 101: return "invalid device ordinal";
    case 209: return "no kernel image is available for execution on the device";
    case 719: return "unspecified launch failure";
    default: return "unknown error";
  }
}

KPT_FAKE_EXPORT const char* fake_hip_calls() { return calls.c_str(); }
KPT_FAKE_EXPORT std::size_t fake_hip_live() {
  const std::lock_guard lock(mutex());
  return device().live();
}
KPT_FAKE_EXPORT void fake_hip_let_go() {
  hang().countdown = 0;
  hang().everywhere = nullptr;
  hang().first = nullptr;
  ++hang().round;
}
KPT_FAKE_EXPORT void fake_hip_hang(int nth) { hang().countdown = nth; }
KPT_FAKE_EXPORT void fake_hip_hang_in(const char* function) { hang().everywhere = function; }
KPT_FAKE_EXPORT const char* fake_hip_hung() {
  const char* const first = hang().first;
  return first != nullptr ? first : "";
}
KPT_FAKE_EXPORT void fake_hip_reset() {
  const std::lock_guard lock(mutex());
  device() = {};
  calls.clear();
  current = 0;
  failure = {};
}
KPT_FAKE_EXPORT void fake_hip_fail(int nth, int code) { failure = {nth, code, ""}; }
KPT_FAKE_EXPORT const char* fake_hip_failed() { return failure.function.c_str(); }

KPT_FAKE_EXPORT int hipSetDevice(int index) {
  const Entry entry("hipSetDevice");
  if (entry.code != 0) return entry.code;
  if (index < 0 || index >= spec().device_count()) return kInvalidDevice;
  current = index;
  return 0;
}

KPT_FAKE_EXPORT int hipDeviceSynchronize() { return WaitingEntry("hipDeviceSynchronize").code; }

KPT_FAKE_EXPORT int hipMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  const Entry entry("hipMemGetInfo");
  if (entry.code != 0) return entry.code;
  *total = spec().device(current).value("memory_total", std::size_t{0});
  *free_bytes = *total - std::min<std::size_t>(*total, device().used_bytes());
  return 0;
}

KPT_FAKE_EXPORT int hipMalloc(void** pointer, std::size_t bytes) {
  const Entry entry("hipMalloc");
  if (entry.code != 0) return entry.code;
  return device().allocate(pointer, bytes, spec().device(current).value("memory_total", std::size_t{0}));
}

// What is asked to go goes, even when the call is told to fail: so a test that counts sees only what was not asked for.
KPT_FAKE_EXPORT int hipFree(void* pointer) {
  const Entry entry("hipFree");
  const int released = device().release(pointer);
  return entry.code != 0 ? entry.code : released;
}

KPT_FAKE_EXPORT int hipHostMalloc(void** pointer, std::size_t bytes, unsigned) {
  const Entry entry("hipHostMalloc");
  if (entry.code != 0) return entry.code;
  auto memory = std::make_unique<std::byte[]>(bytes);
  *pointer = memory.get();
  const std::byte* key = memory.get();
  device().host_memory.emplace(key, std::move(memory));
  return 0;
}

KPT_FAKE_EXPORT int hipHostFree(void* pointer) {
  const Entry entry("hipHostFree");
  const bool known = device().host_memory.erase(static_cast<const std::byte*>(pointer)) == 1;
  return entry.code != 0 ? entry.code : (known ? 0 : fake::kInvalidValue);
}

KPT_FAKE_EXPORT int hipMemcpyAsync(void* target, const void* source, std::size_t bytes, int kind, void* stream) {
  const Entry entry("hipMemcpyAsync");
  if (entry.code != 0) return entry.code;
  const bool to_device = kind == 1 || kind == 3;
  const bool from_device = kind == 2 || kind == 3;
  if (kind < 1 || kind > 3 || !is_stream(stream) || device().holds(target, bytes) != to_device ||
      device().holds(source, bytes) != from_device) {
    return fake::kInvalidValue;
  }
  std::memmove(target, source, bytes);
  return 0;
}

KPT_FAKE_EXPORT int hipMemsetAsync(void* target, int value, std::size_t bytes, void* stream) {
  const Entry entry("hipMemsetAsync");
  if (entry.code != 0) return entry.code;
  if (!is_stream(stream) || !device().holds(target, bytes)) return fake::kInvalidValue;
  std::memset(target, value, bytes);
  return 0;
}

KPT_FAKE_EXPORT int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const Entry entry("hipDeviceGetStreamPriorityRange");
  if (entry.code != 0) return entry.code;
  *least = 1;
  *greatest = -1;
  return 0;
}

KPT_FAKE_EXPORT int hipStreamCreateWithPriority(void** stream, unsigned, int priority) {
  const Entry entry("hipStreamCreateWithPriority");
  if (entry.code != 0) return entry.code;
  if (priority < -1 || priority > 1) return fake::kInvalidValue;
  calls += "priority " + std::to_string(priority) + '\n';
  const int given = give(device().streams, stream);
  static_cast<fake::Stream*>(*stream)->hangs = spec().json().value("streams_hang", false);
  return given;
}

KPT_FAKE_EXPORT int hipStreamDestroy(void* stream) {
  const Entry entry("hipStreamDestroy");
  // The real one would wait for ever.
  if (stream != nullptr && is_stream(stream) && static_cast<fake::Stream*>(stream)->hangs) calls += "hanging\n";
  const int taken = take(device().streams, stream);
  return entry.code != 0 ? entry.code : taken;
}

KPT_FAKE_EXPORT int hipStreamSynchronize(void* stream) {
  const WaitingEntry entry("hipStreamSynchronize");
  if (entry.code != 0) return entry.code;
  return is_stream(stream) ? 0 : fake::kInvalidHandle;
}

KPT_FAKE_EXPORT int hipStreamQuery(void* stream) {
  const WaitingEntry entry("hipStreamQuery");
  if (entry.code != 0) return entry.code;
  if (!is_stream(stream)) return fake::kInvalidHandle;
  return stream != nullptr && static_cast<fake::Stream*>(stream)->hangs ? fake::kNotReady : 0;
}

KPT_FAKE_EXPORT int hipStreamWaitEvent(void* stream, void* event, unsigned) {
  const Entry entry("hipStreamWaitEvent");
  if (entry.code != 0) return entry.code;
  const auto* known = static_cast<const fake::Event*>(event);
  if (!is_stream(stream) || !device().events.contains(static_cast<fake::Event*>(event))) return fake::kInvalidHandle;
  if (stream != nullptr && known->hangs) static_cast<fake::Stream*>(stream)->hangs = true;
  return 0;
}

KPT_FAKE_EXPORT int hipEventCreateWithFlags(void** event, unsigned) {
  const Entry entry("hipEventCreateWithFlags");
  if (entry.code != 0) return entry.code;
  return give(device().events, event);
}

KPT_FAKE_EXPORT int hipEventDestroy(void* event) {
  const Entry entry("hipEventDestroy");
  const int taken = take(device().events, event);
  return entry.code != 0 ? entry.code : taken;
}

KPT_FAKE_EXPORT int hipEventRecord(void* event, void* stream) {
  const Entry entry("hipEventRecord");
  if (entry.code != 0) return entry.code;
  auto* known = static_cast<fake::Event*>(event);
  if (!is_stream(stream) || !device().events.contains(known)) return fake::kInvalidHandle;
  known->recorded = true;
  known->tick = ++device().ticks;
  known->at = std::chrono::steady_clock::now();
  known->hangs = stream != nullptr && static_cast<fake::Stream*>(stream)->hangs;
  known->not_ready = spec().json().value("events_wait", 0);
  return 0;
}

KPT_FAKE_EXPORT int hipEventQuery(void* event) {
  const WaitingEntry entry("hipEventQuery");
  if (entry.code != 0) return entry.code;
  auto* known = static_cast<fake::Event*>(event);
  if (!device().events.contains(known)) return fake::kInvalidHandle;
  if (known->hangs) return fake::kNotReady;
  if (known->not_ready > 0) {
    --known->not_ready;
    return fake::kNotReady;
  }
  for (auto& other : device().events) {  // what was recorded before has passed too
    if (other.second->tick < known->tick) other.second->not_ready = 0;
  }
  return 0;
}

KPT_FAKE_EXPORT int hipEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const WaitingEntry entry("hipEventElapsedTime");
  if (entry.code != 0) return entry.code;
  auto* first = static_cast<fake::Event*>(begin);
  auto* last = static_cast<fake::Event*>(end);
  if (!device().events.contains(first) || !device().events.contains(last)) return fake::kInvalidHandle;
  if (!first->recorded || !last->recorded) return fake::kInvalidHandle;
  if (first->hangs || last->hangs || first->not_ready > 0 || last->not_ready > 0) return fake::kNotReady;
  *milliseconds = 0.25F * static_cast<float>(last->tick - first->tick);
  if (spec().json().value("real_time", false)) {
    *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
  }
  return 0;
}

KPT_FAKE_EXPORT int hipModuleLoadData(void** module, const void* image) {
  const Entry entry("hipModuleLoadData");
  if (entry.code != 0) return entry.code;
  const std::string target = spec().device(current).value("gfx", "");
  return device().load(reinterpret_cast<fake::Module**>(module), image, target.substr(0, target.find(':')));
}

KPT_FAKE_EXPORT int hipModuleUnload(void* module) {
  const Entry entry("hipModuleUnload");
  const int taken = take(device().modules, module);
  return entry.code != 0 ? entry.code : taken;
}

KPT_FAKE_EXPORT int hipModuleGetFunction(void** function, void* module, const char* kernel) {
  const Entry entry("hipModuleGetFunction");
  if (entry.code != 0) return entry.code;
  return device().find(reinterpret_cast<fake::Function**>(function), static_cast<fake::Module*>(module), kernel);
}

KPT_FAKE_EXPORT int hipModuleLaunchKernel(void* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                                          unsigned threads, unsigned threads_y, unsigned threads_z, unsigned,
                                          void* stream, void** parameters, void** extra) {
  const Entry entry("hipModuleLaunchKernel");
  if (entry.code != 0) return entry.code;
  const auto mark = [&](int index) { return reinterpret_cast<std::uintptr_t>(extra[index]); };
  if (blocks_y * blocks_z * threads_y * threads_z != 1 || parameters != nullptr || extra == nullptr || mark(0) != 1 ||
      mark(2) != 2 || mark(4) != 3 || !is_stream(stream)) {
    return fake::kInvalidValue;
  }
  if (spec().json().value("kernel_hangs", false) && stream != nullptr) {
    static_cast<fake::Stream*>(stream)->hangs = true;
    return 0;
  }
  if (spec().json().value("kernel_faults", false)) {
    device().fault = fake::kLaunchFailure;
    return 0;
  }
  return device().launch(static_cast<fake::Function*>(function), blocks, threads, extra[1],
                         *static_cast<std::size_t*>(extra[3]));
}
