#include "backends/nvidia/driver_probe.h"

#include <array>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "backends/nvidia/architecture.h"
#include "backends/nvidia/driver_errors.h"
#include "backends/nvidia/nvml.h"
#include "base/dynamic_library.h"
#include "base/text.h"
#include "device/vendor_text.h"

namespace kpt {
namespace {

// Attribute numbers of the driver interface.
constexpr int kMaxThreadsPerBlock = 1;
constexpr int kMaxSharedMemoryPerBlock = 8;
constexpr int kMultiprocessorCount = 16;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

// More than any machine has; a count beyond it is a fault of the library.
constexpr int kMaxDevices = 64;
constexpr int kOldestCuda = 12000;
constexpr int kCuda13 = 13000;

struct Uuid {
  std::array<unsigned char, 16> bytes;
};

// Own declarations of the driver's C interface. Optional functions are nullptr when an old driver lacks them.
struct CudaDriver {
  int (*init)(unsigned) = nullptr;
  int (*driver_get_version)(int*) = nullptr;
  int (*device_get_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_get_attribute)(int*, int, int) = nullptr;
  int (*device_get_name)(char*, int, int) = nullptr;
  int (*device_get_uuid)(Uuid*, int) = nullptr;
  int (*device_total_mem)(std::size_t*, int) = nullptr;
  int (*device_get_pci_bus_id)(char*, int, int) = nullptr;
  int (*get_error_name)(int, const char**) = nullptr;

  std::string error_name(int code) const {
    const char* text = nullptr;
    if (get_error_name == nullptr || get_error_name(code, &text) != kCudaSuccess || text == nullptr) return {};
    return printable_text(std::string(text));
  }
};

template <typename Function>
void load(const DynamicLibrary& library, const char* name, Function& function) {
  function = library.find<Function>(name);
}

// Nothing if all needed functions are there, else the name of the first that is not.
std::optional<std::string> load_driver(const DynamicLibrary& library, CudaDriver& driver) {
  load(library, "cuInit", driver.init);
  load(library, "cuDriverGetVersion", driver.driver_get_version);
  load(library, "cuDeviceGetCount", driver.device_get_count);
  load(library, "cuDeviceGet", driver.device_get);
  load(library, "cuDeviceGetAttribute", driver.device_get_attribute);
  load(library, "cuDeviceGetName", driver.device_get_name);
  load(library, "cuDeviceGetUuid_v2", driver.device_get_uuid);
  if (driver.device_get_uuid == nullptr) load(library, "cuDeviceGetUuid", driver.device_get_uuid);
  load(library, "cuDeviceTotalMem_v2", driver.device_total_mem);
  load(library, "cuDeviceGetPCIBusId", driver.device_get_pci_bus_id);
  load(library, "cuGetErrorName", driver.get_error_name);
  if (driver.init == nullptr) return "cuInit";
  if (driver.device_get_count == nullptr) return "cuDeviceGetCount";
  if (driver.device_get == nullptr) return "cuDeviceGet";
  if (driver.device_get_attribute == nullptr) return "cuDeviceGetAttribute";
  return std::nullopt;
}

std::string format_uuid(const Uuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

// Questions about one device. A refused one leaves its field empty and a note.
class DeviceReader {
 public:
  DeviceReader(const CudaDriver& driver, int index, std::vector<std::string>& notes)
      : driver_(driver), index_(index), notes_(notes) {}

  std::optional<NvidiaGpu> read() {
    int device = 0;
    if (!accept(driver_.device_get(&device, index_), "handle")) return std::nullopt;
    NvidiaGpu gpu;
    gpu.index = index_;
    read_identity(device, gpu);
    const bool known =
        accept(driver_.device_get_attribute(&gpu.capability_major, kCapabilityMajor, device), "compute capability") &&
        accept(driver_.device_get_attribute(&gpu.capability_minor, kCapabilityMinor, device), "compute capability");
    if (known && plausible_capability(gpu)) {
      gpu.architecture = nvidia_architecture_name(gpu.capability_major, gpu.capability_minor);
      gpu.matrix_precisions = nvidia_matrix_precisions(gpu.capability_major, gpu.capability_minor);
    }
    gpu.multiprocessors = attribute(device, kMultiprocessorCount, "multiprocessor count").value_or(0);
    gpu.max_threads_per_block = attribute(device, kMaxThreadsPerBlock, "threads of a block");
    gpu.max_shared_memory_per_block_bytes = attribute(device, kMaxSharedMemoryPerBlock, "shared memory of a block");
    std::size_t total = 0;
    if (driver_.device_total_mem != nullptr && accept(driver_.device_total_mem(&total, device), "memory size")) {
      gpu.memory_total_bytes = total;
    }
    return gpu;
  }

 private:
  void read_identity(int device, NvidiaGpu& gpu) {
    std::array<char, 256> text{};
    const int length = static_cast<int>(text.size()) - 1;
    if (driver_.device_get_name != nullptr && accept(driver_.device_get_name(text.data(), length, device), "name")) {
      gpu.name = printable_text(text);
    }
    Uuid uuid{};
    if (driver_.device_get_uuid != nullptr && accept(driver_.device_get_uuid(&uuid, device), "uuid")) {
      gpu.uuid = format_uuid(uuid);
    }
    text.fill('\0');
    if (driver_.device_get_pci_bus_id != nullptr &&
        accept(driver_.device_get_pci_bus_id(text.data(), length, device), "PCI address")) {
      gpu.pci_bus_id = to_lower(printable_text(text));
    }
  }

  // Nothing also for a number that nothing can have.
  std::optional<int> attribute(int device, int number, const char* what) {
    int value = 0;
    if (!accept(driver_.device_get_attribute(&value, number, device), what) || value <= 0) return std::nullopt;
    return value;
  }

  bool plausible_capability(NvidiaGpu& gpu) {
    if (gpu.capability_major >= 1 && gpu.capability_major < 1000 && gpu.capability_minor >= 0 &&
        gpu.capability_minor < 100) {
      return true;
    }
    notes_.push_back(fmt::format("GPU {}: the driver gave the impossible compute capability {}.{}", index_,
                                 gpu.capability_major, gpu.capability_minor));
    gpu.capability_major = 0;
    gpu.capability_minor = 0;
    return false;
  }

  bool accept(int code, const char* what) {
    if (code == kCudaSuccess) return true;
    const std::string name = driver_.error_name(code);
    notes_.push_back(fmt::format("GPU {}: the driver did not tell the {}: {}", index_, what,
                                 name.empty() ? fmt::format("error {}", code) : name));
    return false;
  }

  const CudaDriver& driver_;
  int index_;
  std::vector<std::string>& notes_;
};

void read_version(const CudaDriver& driver, NvidiaReport& report) {
  int version = 0;
  if (driver.driver_get_version == nullptr || driver.driver_get_version(&version) != kCudaSuccess || version <= 0) {
    report.notes.emplace_back("the driver did not tell which CUDA version it serves");
    return;
  }
  report.cuda_driver_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  if (version < kOldestCuda) {
    report.finding = {Presence::kBroken,
                      fmt::format("the driver serves CUDA {}; CUDA 12 or newer is needed", report.cuda_driver_version),
                      "install NVIDIA driver 580 or newer"};
  } else if (version < kCuda13) {
    report.notes.push_back(
        fmt::format("the driver serves CUDA {}; a libtorch built for CUDA 13 needs driver 580 or newer",
                    report.cuda_driver_version));
  }
}

// The number of devices, or the code of the driver's failure with the finding set.
struct DeviceCount {
  int count = 0;
  int error = kCudaSuccess;
};

DeviceCount count_devices(const CudaDriver& driver, NvidiaReport& report) {
  int count = 0;
  const char* call = "cuInit";
  int error = driver.init(0);
  if (error == kCudaSuccess) {
    call = "cuDeviceGetCount";
    error = driver.device_get_count(&count);
    if (error == kCudaSuccess && count <= 0) error = kCudaErrorNoDevice;
  }
  if (error != kCudaSuccess) {
    // "too old" says more than what an old driver stumbles over afterwards.
    if (report.finding.presence != Presence::kBroken) {
      report.finding = explain_cuda_error(error, call, driver.error_name(error));
    }
    return {0, error};
  }
  if (count > kMaxDevices) {
    report.notes.push_back(fmt::format("the driver claims {} GPUs; only the first {} were asked", count, kMaxDevices));
    count = kMaxDevices;
  }
  return {count, kCudaSuccess};
}

// NVML sees every GPU, the driver only those that CUDA_VISIBLE_DEVICES leaves; the parent knows that variable.
void explain_hidden(const Result<Nvml>& nvml, NvidiaReport& report) {
  const auto all = nvml.ok() ? nvml->device_count() : std::nullopt;
  if (!all || *all == 0 || !report.finding.reason.starts_with(kNoGpuShown)) return;
  report.finding.reason += fmt::format("; NVML lists {}", *all);
}

}  // namespace

NvidiaReport probe_nvidia_driver(const std::string& cuda_library, const std::string& nvml_library) {
  NvidiaReport report;
  const auto library = DynamicLibrary::open(cuda_library);
  if (!library.ok()) {
    const bool missing = library.status().code() == StatusCode::kNotFound;
    report.finding = missing
                         ? Finding{Presence::kAbsent, fmt::format("no NVIDIA driver library ({})", cuda_library), ""}
                         : Finding{Presence::kBroken, library.status().message(), "reinstall the NVIDIA driver"};
    return report;
  }
  CudaDriver driver;
  if (const auto lacking = load_driver(*library, driver)) {
    report.finding = {Presence::kBroken, fmt::format("{} lacks {}", library->path(), *lacking),
                      "reinstall the NVIDIA driver"};
    return report;
  }
  const auto nvml = Nvml::open(nvml_library);
  if (nvml.ok()) {
    report.driver_version = nvml->driver_version().value_or("");
  } else {
    report.notes.push_back(fmt::format("NVML cannot be used, so free memory, clocks, ECC and MIG are not shown: {}",
                                       nvml.status().message()));
  }
  read_version(driver, report);
  const DeviceCount devices = count_devices(driver, report);
  if (devices.error != kCudaSuccess) {
    if (devices.error == kCudaErrorNoDevice) explain_hidden(nvml, report);
    return report;
  }
  for (int index = 0; index < devices.count; ++index) {
    auto gpu = DeviceReader(driver, index, report.notes).read();
    if (!gpu) continue;
    if (nvml.ok()) nvml->complete(*gpu, report.notes);
    report.gpus.push_back(std::move(*gpu));
  }
  if (report.finding.presence == Presence::kBroken) return report;
  if (report.gpus.empty()) {
    report.finding = {Presence::kBroken, "the driver counts GPUs, but tells nothing about any of them",
                      "check that 'nvidia-smi' works; if not, reboot"};
  } else {
    report.finding.presence = Presence::kPresent;
  }
  return report;
}

}  // namespace kpt
