#include "engines/xla/execution/xla_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "engines/xla/execution/module_compiler.h"
#include "engines/xla/execution/sharding.h"
#include "engines/xla/execution/xla_tensor.h"
#include "engines/xla/pjrt/host_flags.h"
#include "engines/xla/stablehlo/call.h"

namespace kpt {
namespace {

std::string describe_option(const pjrt::ClientOption& option) {
  const auto text = [](const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<std::int64_t>>) {
      return fmt::format("{}", fmt::join(value, ","));
    } else {
      return fmt::format("{}", value);
    }
  };
  return fmt::format(";{}={}", option.name, std::visit(text, option.value));
}

// One client for each plugin and options in a process, while somebody uses it.
Result<std::shared_ptr<const pjrt::Client>> shared_client(const XlaDeviceSetup& setup) {
  static std::mutex mutex;
  static auto* const kClients = new std::map<std::string, std::weak_ptr<const pjrt::Client>>();
  std::string key = setup.plugin.path;
  for (const pjrt::ClientOption& option : setup.client_options) key += describe_option(option);
  const std::lock_guard lock(mutex);
  std::weak_ptr<const pjrt::Client>& place = (*kClients)[key];
  if (auto client = place.lock()) return client;
  KPT_ASSIGN_OR_RETURN(auto opened, pjrt::Plugin::open(setup.plugin.path, setup.plugin.name));
  KPT_ASSIGN_OR_RETURN(auto client, pjrt::Client::create(std::move(opened), setup.client_options));
  place = client;
  return client;
}

ModuleCompilerOptions compiler_options(const XlaDeviceSetup& setup, const pjrt::Client& client,
                                       const BackendContext& context) {
  ModuleCompilerOptions options;
  options.environment = context.detection.environment;
  options.files = context.detection.files;
  options.cache_folder = context.compile_cache_folder;
  options.cache_bytes = context.compile_cache_bytes;
  options.time_limit = context.compile_time_limit;
  options.client_options = setup.client_options;
  const DeviceRange devices = setup.devices;
  if (devices.count > 1) {
    options.settings.partitions = static_cast<int>(devices.count);
    options.settings.shardy = true;
  }
  if (devices.count > 1 || devices.first > 0) {
    for (std::size_t i = 0; i < devices.count; ++i) {
      options.settings.device_ids.push_back(client.devices()[devices.first + i].id);
    }
  }
  if (client.platform_name() == "cpu") {  // stablehlo/lower.h says why
    options.settings.flags.emplace_back("xla_cpu_enable_fast_min_max", false);
  }
  if (context.threads == 1 && client.platform_name() == "cpu") {
    options.settings.flags.emplace_back("xla_cpu_multi_thread_eigen", false);
  }
  return options;
}

}  // namespace

Capabilities xla_capabilities() {
  Capabilities capabilities;
  capabilities.whole_graph_only = true;
  capabilities.dynamic_shapes = true;
  capabilities.sizes_cost = true;
#define KPT_ADD_DTYPE(enumerator, name, bytes) \
  if (pjrt::buffer_type_of(DType::enumerator)) capabilities.dtypes.push_back(DType::enumerator);
  KPT_DTYPES(KPT_ADD_DTYPE)
#undef KPT_ADD_DTYPE
  for (const xla::Rule& rule : xla::own_rules()) capabilities.own_operators.emplace_back(rule.target);
  capabilities.products_give_either_type = true;
  return capabilities;
}

Result<Tensor> XlaDevice::allocate(DType dtype, std::span<const std::int64_t> dims) {
  KPT_ASSIGN_OR_RETURN(Tensor zeros, Tensor::empty(dtype, dims));
  if (zeros.bytes() > 0) std::memset(zeros.data(), 0, zeros.bytes());
  return upload(zeros);
}

Result<Tensor> XlaDevice::upload(const Tensor& host) {
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  KPT_ASSIGN_OR_RETURN(auto content, own->upload(host, pjrt::HostMemory::kCopied, setup_.devices.first));
  return make_xla_tensor(info().name, std::move(content));
}

Result<Tensor> XlaDevice::download(const Tensor& tensor) {
  if (tensor.defined() && tensor.data() != nullptr) return tensor;
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  KPT_ASSIGN_OR_RETURN(const XlaTensorBuffer* const buffer, find_xla_buffer(tensor, *own));
  if (buffer != nullptr) return buffer->content()->download();
  return Status(
      StatusCode::kInvalidArgument,
      fmt::format("{} is not a tensor of {}", tensor.defined() ? tensor.to_string() : "nothing", info().name));
}

Result<MemoryStatistics> XlaDevice::memory() {
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  MemoryStatistics sum;
  const std::size_t first = setup_.devices.first;
  const std::size_t count = std::min(std::max<std::size_t>(setup_.devices.count, 1), own->devices().size() - first);
  for (std::size_t i = 0; i < count; ++i) {
    KPT_ASSIGN_OR_RETURN(const pjrt::DeviceMemory one, own->device_memory(first + i));
    const auto add = [is_first = i == 0](std::optional<std::uint64_t>& to, std::optional<std::int64_t> bytes) {
      if (!bytes || *bytes < 0) {
        to.reset();
      } else if (is_first || to) {
        to = to.value_or(0) + static_cast<std::uint64_t>(*bytes);
      }
    };
    add(sum.allocated_bytes, one.bytes_in_use);
    add(sum.peak_bytes, one.peak_bytes_in_use);
    add(sum.limit_bytes, one.bytes_limit);
  }
  return sum;
}

Result<std::shared_ptr<const pjrt::Client>> XlaDevice::client() {
  const std::lock_guard lock(mutex_);
  if (setup_.is_host && pjrt::hides_sve(SystemFiles().read("/proc/cpuinfo").value_or(""))) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{} cannot be used here: the processor has SVE, this system hides it, and code of XLA's "
                              "compiler would use it and end the process",
                              info().name));
  }
  if (client_ == nullptr) {
    KPT_ASSIGN_OR_RETURN(auto client, shared_client(setup_));
    if (setup_.devices.first >= client->devices().size()) {
      return Status(StatusCode::kDeviceNotAvailable,
                    fmt::format("{} is not there: PJRT plugin {} gives this process {} device{}", info().name,
                                setup_.plugin.name, client->devices().size(), client->devices().size() == 1 ? "" : "s"),
                    client->plugin().vendor());
    }
    client_ = std::move(client);
  }
  return client_;
}

Result<std::unique_ptr<Executable>> load_on_device(XlaDevice& device, std::shared_ptr<const XlaProgram> program,
                                                   const Weights& weights, const BackendContext& context,
                                                   XlaLoadExtras extras) {
  KPT_ASSIGN_OR_RETURN(auto client, device.client());
  const auto [first, count] = device.setup().devices;
  if (count > client->devices().size() - first) {
    return Status(StatusCode::kDeviceNotAvailable,
                  fmt::format("the option pjrt.devices asks for {} devices, and {} has {}", count, device.info().name,
                              client->devices().size() - first));
  }
  XlaLoadOptions options;
  options.device = device.info().name;
  options.first_device = first;
  KPT_ASSIGN_OR_RETURN(
      options.shards,
      ShardPlan::make(program->graph(), count, context.pjrt_split_weights ? Sharding::kWeights : Sharding::kBatch));
  options.matrix_precision = std::move(extras.matrix_precision);
  options.check_memory = std::move(extras.check_memory);
  if (count == 1) {
    options.stored = std::move(extras.stored);
  } else if (extras.stored) {
    log::info("a stored program is not used and the model is compiled here",
              {{"reason", fmt::format("it is for one device, and pjrt.devices asks for {}", count)}});
  }
  ModuleCompilerOptions compiling = compiler_options(device.setup(), *client, context);
  compiling.compile_elsewhere = std::move(extras.compile_elsewhere);
  auto compiler = std::make_shared<const ModuleCompiler>(std::move(client), std::move(compiling));
  return XlaExecutable::load(std::move(program), weights, std::move(compiler), std::move(options));
}

}  // namespace kpt
