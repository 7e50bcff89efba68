// A device of a PJRT plugin, and models on it: what the backends xla and tpu share.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/call_threads.h"
#include "device/backend_context.h"
#include "device/execution.h"
#include "device/hardware.h"
#include "engines/xla/execution/xla_executable.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/plugin_calls.h"

namespace kpt {

// What graphs on any PJRT plugin may be made of: fixed sizes are made when a run brings them.
Capabilities xla_capabilities();

struct XlaDeviceSetup {
  DeviceInfo info;
  PjrtPlugin plugin;                               // one that answered its probe
  std::vector<pjrt::ClientOption> client_options;  // that the plugin's client is made with
  DeviceRange devices;   // of the client: where it begins, and how many models are spread over
  bool is_host = false;  // the plugin compiles for this machine's processor
  int host_threads = 0;  // that it computes with there; 0: as many as it likes
  // For one answer of the plugin: to open its devices, to move a tensor, to do a run that has no deadline.
  std::chrono::milliseconds call_limit = kLongestCall;
  bool limits_runs = true;  // false: a run that has no deadline has no limit
  // To compile a program in this process, which is where pjrt.compile_timeout_ms is 0; 0: as long as it likes.
  std::chrono::milliseconds compile_limit = pjrt::kLongestCompile;
};

// The plugin is opened when a tensor is uploaded, a model loaded or the memory asked for. A process has one client for
// each plugin and options, while somebody uses it. Thread safe. The target must outlive it.
class XlaDevice final : public Device {
 public:
  XlaDevice(const Target& target, XlaDeviceSetup setup)
      : target_(target), setup_(std::move(setup)), threads_(std::make_shared<CallThreads>()) {}
  XlaDevice(const XlaDevice&) = delete;
  XlaDevice& operator=(const XlaDevice&) = delete;
  ~XlaDevice() override { let_go(std::move(client_)); }

  const DeviceInfo& info() const override { return setup_.info; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override;
  Result<Tensor> upload(const Tensor& host) override;
  Result<Tensor> download(const Tensor& tensor) override;
  // Of all devices that models are spread over; the plugin counts, and some do not.
  Result<MemoryStatistics> memory() override;

  // The same of the first of them.
  Result<pjrt::DeviceMemory> first_memory();

  const XlaDeviceSetup& setup() const { return setup_; }
  // Fails as the plugin does, with kUnsupported for a host whose code would end the process, with kDeadlineExceeded
  // when the plugin does not answer, and with kDeviceNotAvailable when the client has fewer devices than this one's
  // place, or when the plugin has not answered before and still has not.
  Result<std::shared_ptr<const pjrt::Client>> client();
  // Destroys what the plugin has a part in, within the setup's limit.
  void let_go(std::shared_ptr<const void> things) noexcept {
    if (things != nullptr) threads_->let_go(std::move(things), setup_.call_limit, setup_.plugin.name);
  }

 private:
  // Asks the plugin within the setup's limit; `work` owns what it uses.
  template <typename T>
  Result<T> ask(std::string_view what, std::function<Result<T>()> work);
  Result<std::shared_ptr<const pjrt::Client>> open_client();

  const Target& target_;
  XlaDeviceSetup setup_;
  std::shared_ptr<CallThreads> threads_;
  std::mutex mutex_;
  std::shared_ptr<const pjrt::Client> client_;
};

// How programs for these devices of the client are compiled, by the context: cache, time limit, threads.
ModuleCompilerOptions make_compiler_options(const XlaDeviceSetup& setup, const pjrt::Client& client,
                                            const BackendContext& context);

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
