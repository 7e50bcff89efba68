// A PJRT client and what belongs to it: devices, buffers, compiled programs. Each object keeps what it needs alive, so
// they may go in any order. Thread safe except where a class says otherwise; the interface itself has no cancel, so a
// call that a plugin never answers blocks for ever (under a limit: compile_process.h for compilations, plugin_calls.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engines/xla/pjrt/pjrt_client_calls.h"
#include "engines/xla/pjrt/pjrt_execution_calls.h"
#include "engines/xla/pjrt/plugin.h"
#include "kpt/dtype.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt::pjrt {

// An option of PJRT_Client_Create; plugins name their own ("cpu_device_count", "preallocate").
struct ClientOption {
  std::string name;
  std::variant<std::string, std::int64_t, std::vector<std::int64_t>, float, bool> value;
};

struct DeviceFacts {
  int id = 0;
  std::string kind;  // "cpu", "NVIDIA H200"
};

struct DeviceMemory {
  std::int64_t bytes_in_use = 0;
  std::optional<std::int64_t> peak_bytes_in_use;
  std::optional<std::int64_t> bytes_limit;
};

// What the compiler says a program needs on a device.
struct ProgramMemory {
  std::int64_t code_bytes = 0;
  std::int64_t argument_bytes = 0;
  std::int64_t output_bytes = 0;
  std::int64_t alias_bytes = 0;  // of arguments that outputs reuse
  std::int64_t temporary_bytes = 0;
  std::int64_t peak_bytes = 0;  // 0 where the plugin does not say
};

// What the compiler counts of one run; a figure that it does not tell is absent.
struct ProgramCosts {
  std::optional<double> flops;
  std::optional<double> transcendentals;
  std::optional<double> bytes_accessed;
  std::optional<double> optimal_seconds;  // its own estimate of the time
};

// How long a plugin may look at the host's memory.
enum class HostMemory : std::uint8_t {
  kCopied,    // until upload() returns
  kBorrowed,  // until the transfer is done; the buffer keeps a share until then
  kShared,    // as long as the buffer lives: it may be read in place, without a copy; nobody may write it
};

// The number of a type in the interface; nothing for one that XLA lacks (complex32).
std::optional<abi::BufferType> buffer_type_of(DType dtype);
std::optional<DType> dtype_of(abi::BufferType type);

class DeviceBuffer;
class LoadedExecutable;

class Client : public std::enable_shared_from_this<Client> {
 public:
  static Result<std::shared_ptr<const Client>> create(std::shared_ptr<const Plugin> plugin,
                                                      std::span<const ClientOption> options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const Plugin& plugin() const { return *plugin_; }
  const std::shared_ptr<const Plugin>& shared_plugin() const { return plugin_; }
  const std::string& platform_name() const { return platform_name_; }  // "cpu", "cuda", "rocm", "tpu"
  const std::string& platform_version() const { return platform_version_; }
  // The devices of this process, in the order by which calls below count them.
  const std::vector<DeviceFacts>& devices() const { return facts_; }
  // Fails with kUnsupported where the plugin does not count.
  Result<DeviceMemory> device_memory(std::size_t device) const;

  // `text` is StableHLO with one function @main; `options` of encode_compile_options(). Fails with kCompilation and the
  // compiler's message.
  Result<std::shared_ptr<const LoadedExecutable>> compile(std::string_view text, std::string_view options) const;
  // What serialize() gave, for the same plugin and platform version only: others may compute wrong results silently.
  // `options` of encode_compile_options() take the place of those it was compiled with; empty: it keeps its own.
  Result<std::shared_ptr<const LoadedExecutable>> deserialize(std::string_view bytes,
                                                              std::string_view options = {}) const;

  // The host tensor may be strided; it must have an address. Fails with kUnsupported for a type that XLA lacks.
  Result<std::shared_ptr<DeviceBuffer>> upload(const Tensor& host, HostMemory memory, std::size_t device = 0) const;

 private:
  friend class LoadedExecutable;
  Client(std::shared_ptr<const Plugin> plugin, abi::Client* client) : plugin_(std::move(plugin)), client_(client) {}
  Status describe();
  Result<std::shared_ptr<const LoadedExecutable>> adopt(abi::LoadedExecutable* executable) const;

  std::shared_ptr<const Plugin> plugin_;
  abi::Client* client_;
  std::string platform_name_;
  std::string platform_version_;
  std::vector<abi::Device*> devices_;
  std::vector<DeviceFacts> facts_;
};

// Work that a plugin has under way. Waits in its destructor: what the work reads or writes may go only afterwards. Not
// thread safe.
class Completion {
 public:
  Completion() = default;  // done
  Completion(std::shared_ptr<const Plugin> plugin, abi::Event* event) : plugin_(std::move(plugin)), event_(event) {}
  Completion(Completion&& other) noexcept;
  Completion& operator=(Completion&& other) noexcept;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion();

  // Blocks until the work is done and says how it went; ok when asked again.
  Status wait();

 private:
  std::shared_ptr<const Plugin> plugin_;
  abi::Event* event_ = nullptr;
};

// Memory on one device, without an address for us. Contents never change; a buffer that was given away to a run is
// empty, and using it afterwards fails with kInvalidArgument (a plugin may crash on it).
class DeviceBuffer {
 public:
  DeviceBuffer(std::shared_ptr<const Client> client, abi::Buffer* buffer, DType dtype, const Dims& dims)
      : client_(std::move(client)), buffer_(buffer), dtype_(dtype), dims_(dims) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  std::size_t bytes() const;
  const Client& client() const { return *client_; }

  // Waits for what is still being computed or uploaded.
  Result<Tensor> download() const;
  // Row-major, exactly bytes() long; `target` must live until the completion says so.
  Result<Completion> start_download(std::span<std::byte> target) const;
  // The host's memory may be written again afterwards, unless it is shared: then there is nothing to wait for. Not for
  // several threads at once.
  Status wait_for_upload() { return shares_host_ ? Status() : upload_.wait(); }

 private:
  friend class Client;
  friend class LoadedExecutable;

  std::shared_ptr<const Client> client_;
  abi::Buffer* buffer_;
  DType dtype_;
  Dims dims_;
  Tensor host_;  // a share in what the plugin may still read
  bool shares_host_ = false;
  mutable std::atomic<bool> given_away_{false};
  Completion upload_;
};

// What a run gave: by device, then by output.
struct Execution {
  std::vector<std::vector<std::shared_ptr<DeviceBuffer>>> outputs;
  std::vector<Completion> completions;  // one per device

  // Blocks until all devices are done; the first failure.
  Status wait();
};

class LoadedExecutable {
 public:
  LoadedExecutable(const LoadedExecutable&) = delete;
  LoadedExecutable& operator=(const LoadedExecutable&) = delete;
  ~LoadedExecutable();

  std::size_t output_count() const { return output_count_; }
  // Queues a run. `arguments`: by device in the order of the assignment, then by parameter. Parameters in `given_away`
  // (positions) may be overwritten where the module aliases them to results, and cannot be used afterwards; all others
  // keep their contents.
  Result<Execution> execute(std::span<const std::vector<const DeviceBuffer*>> arguments,
                            std::span<const std::size_t> given_away = {}) const;
  Result<std::string> serialize() const;
  Result<ProgramMemory> memory() const;
  Result<ProgramCosts> costs() const;

 private:
  friend class Client;
  LoadedExecutable(std::shared_ptr<const Client> client, abi::LoadedExecutable* loaded)
      : client_(std::move(client)), loaded_(loaded) {}
  Status describe();
  static Status check_arguments(std::span<const std::vector<const DeviceBuffer*>> arguments);
  Result<std::shared_ptr<DeviceBuffer>> adopt(abi::Buffer* buffer) const;
  Status adopt_all(const std::vector<std::vector<abi::Buffer*>>& outputs, Execution& execution) const;

  std::shared_ptr<const Client> client_;
  abi::LoadedExecutable* loaded_;
  abi::Executable* executable_ = nullptr;
  std::size_t output_count_ = 0;
};

}  // namespace kpt::pjrt
