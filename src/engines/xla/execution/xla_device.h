// A device of a PJRT plugin, and models on it: what the backends xla and tpu share.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/backend_context.h"
#include "device/execution.h"
#include "device/hardware.h"
#include "engines/xla/execution/xla_executable.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/pjrt/client.h"

namespace kpt {

// What graphs on any PJRT plugin may be made of: fixed sizes are made when a run brings them.
Capabilities xla_capabilities();

struct XlaDeviceSetup {
  DeviceInfo info;
  PjrtPlugin plugin;                               // one that answered its probe
  std::vector<pjrt::ClientOption> client_options;  // that the plugin's client is made with
  DeviceRange devices;   // of the client: where it begins, and how many models are spread over
  bool is_host = false;  // the plugin compiles for this machine's processor
};

// The plugin is opened when a tensor is uploaded, a model loaded or the memory asked for. A process has one client for
// each plugin and options, while somebody uses it. Thread safe. The target must outlive it.
class XlaDevice final : public Device {
 public:
  XlaDevice(const Target& target, XlaDeviceSetup setup) : target_(target), setup_(std::move(setup)) {}

  const DeviceInfo& info() const override { return setup_.info; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override;
  Result<Tensor> upload(const Tensor& host) override;
  Result<Tensor> download(const Tensor& tensor) override;
  // Of all devices that models are spread over; the plugin counts, and some do not.
  Result<MemoryStatistics> memory() override;

  const XlaDeviceSetup& setup() const { return setup_; }
  // Fails as the plugin does, with kUnsupported for a host whose code would end the process, and with
  // kDeviceNotAvailable when the client has fewer devices than this one's place.
  Result<std::shared_ptr<const pjrt::Client>> client();

 private:
  const Target& target_;
  XlaDeviceSetup setup_;
  std::mutex mutex_;
  std::shared_ptr<const pjrt::Client> client_;
};

// What a backend adds to loading on its devices.
struct XlaLoadExtras {
  std::string matrix_precision{kHighestPrecision};
  std::function<Status(const pjrt::ProgramMemory& memory)> check_memory;
  std::optional<StoredExecutable> stored;  // left aside when the model is spread over several devices
  std::function<Result<std::string>(const std::string& module_text, const std::string& compile_options)>
      compile_elsewhere;  // as in ModuleCompilerOptions
};

// Loads with the context's options: cache, time limit, threads, pjrt.devices and pjrt.sharding. Fails with
// kDeviceNotAvailable when fewer devices are there than pjrt.devices asks for, and as XlaExecutable::load() does.
Result<std::unique_ptr<Executable>> load_on_device(XlaDevice& device, std::shared_ptr<const XlaProgram> program,
                                                   const Weights& weights, const BackendContext& context,
                                                   XlaLoadExtras extras = {});

}  // namespace kpt
