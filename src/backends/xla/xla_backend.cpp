#include "backends/xla/xla_backend.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "backends/xla/find_plugins.h"
#include "backends/xla/module_compiler.h"
#include "backends/xla/plugin_names.h"
#include "backends/xla/sharding.h"
#include "backends/xla/xla_executable.h"
#include "backends/xla/xla_program.h"
#include "backends/xla/xla_tensor.h"
#include "base/log.h"
#include "device/hardware_json.h"
#include "device/probe_process.h"
#include "engines/xla/pjrt/host_flags.h"
#include "engines/xla/stablehlo/call.h"

namespace kpt {
namespace {

class XlaTarget final : public Target {
 public:
  explicit XlaTarget(std::string name) : name_(std::move(name)) {
    capabilities_.whole_graph_only = true;
    capabilities_.dynamic_shapes = true;
    capabilities_.sizes_cost = true;
#define KPT_ADD_DTYPE(enumerator, name, bytes) \
  if (pjrt::buffer_type_of(DType::enumerator)) capabilities_.dtypes.push_back(DType::enumerator);
    KPT_DTYPES(KPT_ADD_DTYPE)
#undef KPT_ADD_DTYPE
    for (const xla::Rule& rule : xla::own_rules()) capabilities_.own_operators.emplace_back(rule.target);
    capabilities_.products_give_either_type = true;
    if (name_ == "xla:cuda" || name_ == "xla:rocm") capabilities_.matrix_dtypes = {DType::kBFloat16, DType::kFloat16};
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return xla::check_lowering(graph); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return XlaProgram::make(name_, std::move(graph));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return XlaProgram::deserialize(name_, bytes);
  }

 private:
  std::string name_;
  Capabilities capabilities_;
};

// What a plugin of this kind must be told: the host is as many devices as are asked for, and on a GPU memory is taken
// as it is needed, since libtorch may live beside it.
std::vector<pjrt::ClientOption> client_options(std::string_view device, std::size_t devices) {
  if (device == "xla:cpu") return {{"cpu_device_count", static_cast<std::int64_t>(devices)}};
  if (device == "xla:cuda" || device == "xla:rocm") return {{"preallocate", false}};
  return {};
}

// One client per plugin in a process, while somebody uses it; of the host, one per number of devices.
Result<std::shared_ptr<const pjrt::Client>> shared_client(const PjrtPlugin& plugin, const std::string& device,
                                                          std::size_t devices) {
  static std::mutex mutex;
  static auto* const kClients = new std::map<std::string, std::weak_ptr<const pjrt::Client>>();
  const std::lock_guard lock(mutex);
  std::weak_ptr<const pjrt::Client>& place =
      (*kClients)[device == "xla:cpu" ? fmt::format("{}:{}", plugin.path, devices) : plugin.path];
  if (auto client = place.lock()) return client;
  KPT_ASSIGN_OR_RETURN(auto opened, pjrt::Plugin::open(plugin.path, plugin.name));
  KPT_ASSIGN_OR_RETURN(auto client, pjrt::Client::create(std::move(opened), client_options(device, devices)));
  place = client;
  return client;
}

class XlaDevice final : public Device {
 public:
  // `devices`: of the plugin, over which models are spread.
  XlaDevice(const Target& target, PjrtPlugin plugin, std::size_t devices)
      : target_(target), plugin_(std::move(plugin)), devices_(devices) {
    info_ = {std::string(target.name()),
             "PJRT plugin " + plugin_.path,
             fmt::format("PJRT {}.{}", plugin_.api_major, plugin_.api_minor),
             0,
             true,
             ""};
  }
  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }

  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    KPT_ASSIGN_OR_RETURN(Tensor zeros, Tensor::empty(dtype, dims));
    if (zeros.bytes() > 0) std::memset(zeros.data(), 0, zeros.bytes());
    return upload(zeros);
  }
  Result<Tensor> upload(const Tensor& host) override {
    KPT_ASSIGN_OR_RETURN(const auto own, client());
    KPT_ASSIGN_OR_RETURN(auto content, own->upload(host, pjrt::HostMemory::kCopied));
    return make_xla_tensor(info_.name, std::move(content));
  }
  Result<Tensor> download(const Tensor& tensor) override {
    if (tensor.defined() && tensor.data() != nullptr) return tensor;
    KPT_ASSIGN_OR_RETURN(const auto own, client());
    KPT_ASSIGN_OR_RETURN(const XlaTensorBuffer* const buffer, find_xla_buffer(tensor, *own));
    if (buffer != nullptr) return buffer->content()->download();
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("{} is not a tensor of {}", tensor.defined() ? tensor.to_string() : "nothing", info_.name));
  }

  // Of all devices that models are spread over; the plugin counts, and some do not.
  Result<MemoryStatistics> memory() override {
    KPT_ASSIGN_OR_RETURN(const auto own, client());
    MemoryStatistics sum;
    const std::size_t count = std::min(std::max<std::size_t>(devices_, 1), own->devices().size());
    for (std::size_t i = 0; i < count; ++i) {
      KPT_ASSIGN_OR_RETURN(const pjrt::DeviceMemory one, own->device_memory(i));
      const auto add = [first = i == 0](std::optional<std::uint64_t>& to, std::optional<std::int64_t> bytes) {
        if (!bytes || *bytes < 0) {
          to.reset();
        } else if (first || to) {
          to = to.value_or(0) + static_cast<std::uint64_t>(*bytes);
        }
      };
      add(sum.allocated_bytes, one.bytes_in_use);
      add(sum.peak_bytes, one.peak_bytes_in_use);
      add(sum.limit_bytes, one.bytes_limit);
    }
    return sum;
  }

  Result<std::shared_ptr<const pjrt::Client>> client() {
    const std::lock_guard lock(mutex_);
    if (info_.name == "xla:cpu" && pjrt::hides_sve(SystemFiles().read("/proc/cpuinfo").value_or(""))) {
      return Status(
          StatusCode::kUnsupported,
          "xla:cpu cannot be used here: the processor has SVE, this system hides it, and code of XLA's compiler "
          "would use it and end the process");
    }
    if (client_ == nullptr) {
      KPT_ASSIGN_OR_RETURN(client_, shared_client(plugin_, info_.name, devices_));
    }
    return client_;
  }

 private:
  const Target& target_;
  PjrtPlugin plugin_;
  std::size_t devices_;
  DeviceInfo info_;
  std::mutex mutex_;
  std::shared_ptr<const pjrt::Client> client_;
};

// Only for a plugin that the user named: an environment may well hold one for hardware that is not here.
void warn_about(const PjrtPlugin& plugin) {
  if (plugin.source == "python environment") return;
  log::warn("a PJRT plugin cannot be used",
            {{"plugin", plugin.name}, {"reason", plugin.finding.reason}, {"remedy", plugin.finding.remedy}});
}

class XlaBackend final : public Backend {
 public:
  explicit XlaBackend(const BackendContext& context) : context_(context) {
    for (const char* name : {"xla:cpu", "xla:cuda", "xla:rocm"}) targets_.emplace_back(name);
  }

  std::string_view name() const override { return "xla"; }

  std::vector<const Target*> targets() const override {
    const std::lock_guard lock(mutex_);
    std::vector<const Target*> all;
    for (const XlaTarget& target : targets_) all.push_back(&target);
    return all;
  }

  Result<std::vector<Device*>> devices() override {
    const std::lock_guard lock(mutex_);
    if (!detected_) detect();
    std::vector<Device*> all;
    for (XlaDevice& device : devices_) all.push_back(&device);
    return all;
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    auto* const device = devices.size() == 1 ? dynamic_cast<XlaDevice*>(devices[0]) : nullptr;
    if (device == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the xla backend loads a program on one of its own devices");
    }
    auto own = std::dynamic_pointer_cast<const XlaProgram>(std::move(program));
    if (own == nullptr || own->target() != device->target().name()) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("a program for {} cannot be loaded on {}",
                      own == nullptr ? std::string_view("another backend") : own->target(), device->info().name));
    }
    KPT_ASSIGN_OR_RETURN(auto client, device->client());
    const std::size_t count = context_.pjrt_devices;
    if (count > client->devices().size()) {
      return Status(StatusCode::kDeviceNotAvailable,
                    fmt::format("the option pjrt.devices asks for {} devices, and {} has {}", count,
                                device->info().name, client->devices().size()));
    }
    KPT_ASSIGN_OR_RETURN(
        ShardPlan shards,
        ShardPlan::make(own->graph(), count, context_.pjrt_split_weights ? Sharding::kWeights : Sharding::kBatch));
    ModuleCompilerOptions options;
    options.environment = context_.detection.environment;
    options.files = context_.detection.files;
    options.cache_folder = context_.compile_cache_folder;
    options.cache_bytes = context_.compile_cache_bytes;
    options.time_limit = context_.compile_time_limit;
    options.client_options = client_options(device->info().name, count);
    if (count > 1) {
      options.settings.partitions = static_cast<int>(count);
      options.settings.shardy = true;
      for (std::size_t i = 0; i < count; ++i) options.settings.device_ids.push_back(client->devices()[i].id);
    }
    if (client->platform_name() == "cpu") {  // stablehlo/lower.h says why
      options.settings.flags.emplace_back("xla_cpu_enable_fast_min_max", false);
    }
    if (context_.threads == 1 && client->platform_name() == "cpu") {
      options.settings.flags.emplace_back("xla_cpu_multi_thread_eigen", false);
    }
    auto compiler = std::make_shared<const ModuleCompiler>(std::move(client), std::move(options));
    return XlaExecutable::load(std::move(own), weights, device->info().name, std::move(compiler), std::move(shards));
  }

 private:
  // A plugin that this process has open already answered its probe.
  void detect() {
    const ProbeOptions options = context_.detection.probe_options();
    const auto ask = [&options](const std::string& path) -> Result<std::string> {
      if (!pjrt::Plugin::is_open(path)) return run_probe(options, {"pjrt", path});
      KPT_ASSIGN_OR_RETURN(const auto plugin, pjrt::Plugin::open(path, path));
      PjrtPlugin report;
      report.finding.presence = Presence::kPresent;
      report.api_major = plugin->api_major();
      report.api_minor = plugin->api_minor();
      return dump_json(nlohmann::ordered_json(report));
    };
    const std::vector<PjrtPlugin> plugins = detect_plugins(context_.detection, ask);
    const std::vector<std::string> names = name_xla_devices(plugins);
    for (std::size_t i = 0; i < plugins.size(); ++i) {
      if (plugins[i].finding.presence != Presence::kPresent) {
        warn_about(plugins[i]);
        continue;
      }
      auto target = std::ranges::find(targets_, names[i], &XlaTarget::name);
      if (target == targets_.end()) {
        targets_.emplace_back(names[i]);
        target = std::prev(targets_.end());
      }
      devices_.emplace_back(*target, plugins[i], context_.pjrt_devices);
    }
    detected_ = true;
  }

  BackendContext context_;
  mutable std::mutex mutex_;
  std::deque<XlaTarget> targets_;  // addresses stay when it grows
  std::deque<XlaDevice> devices_;
  bool detected_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_xla_backend(const BackendContext& context) {
  return std::make_unique<XlaBackend>(context);
}

}  // namespace kpt
