#include "engines/xla/execution/xla_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/own_memory.h"
#include "base/timing.h"
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
  struct Place {
    std::mutex mutex;  // held while the client is made, for ever by a plugin that hangs
    std::weak_ptr<const pjrt::Client> client;
  };
  static std::mutex mutex;
  static auto* const kPlaces = new std::map<std::string, Place>();
  std::string key = setup.plugin.path;
  for (const pjrt::ClientOption& option : setup.client_options) key += describe_option(option);
  const bool counts_threads = setup.is_host && setup.host_threads > 0;
  if (counts_threads) key += fmt::format(" threads={}", setup.host_threads);
  Place* place = nullptr;
  {
    const std::lock_guard lock(mutex);
    place = &(*kPlaces)[key];
  }
  const std::lock_guard making(place->mutex);
  if (auto client = place->client.lock()) return client;
  KPT_ASSIGN_OR_RETURN(auto opened, pjrt::Plugin::open(setup.plugin.path, setup.plugin.name));
  static std::mutex counting;  // the number is the process's until the client is made
  std::unique_lock<std::mutex> counted;
  if (counts_threads) {
    counted = std::unique_lock(counting);
    pjrt::set_host_threads(setup.host_threads);
  }
  KPT_ASSIGN_OR_RETURN(auto client, pjrt::Client::create(std::move(opened), setup.client_options));
  place->client = client;
  return client;
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

ModuleCompilerOptions make_compiler_options(const XlaDeviceSetup& setup, const pjrt::Client& client,
                                            const BackendContext& context) {
  ModuleCompilerOptions options;
  options.environment = context.detection.environment;
  options.files = context.detection.files;
  options.cache_folder = context.compile_cache_folder;
  options.cache_bytes = context.compile_cache_bytes;
  options.time_limit = context.compile_time_limit;
  options.call_limit = setup.compile_limit;
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

namespace {

Result<MemoryStatistics> count_memory(const pjrt::Client& client, DeviceRange devices) {
  MemoryStatistics sum;
  const std::size_t first = devices.first;
  const std::size_t count = std::min(std::max<std::size_t>(devices.count, 1), client.devices().size() - first);
  for (std::size_t i = 0; i < count; ++i) {
    KPT_ASSIGN_OR_RETURN(const pjrt::DeviceMemory one, client.device_memory(first + i));
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

}  // namespace

Result<Tensor> XlaDevice::allocate(DType dtype, std::span<const std::int64_t> dims) {
  KPT_ASSIGN_OR_RETURN(Tensor zeros, Tensor::empty(dtype, dims));
  if (zeros.bytes() > 0) std::memset(zeros.data(), 0, zeros.bytes());
  return upload(zeros);
}

template <typename T>
Result<T> XlaDevice::ask(std::string_view what, std::function<Result<T>()> work) {
  const Vendor vendor = pjrt::vendor_of_plugin(setup_.plugin.name);
  if (threads_->given_up() > 0) {
    return Status(
        StatusCode::kDeviceNotAvailable,
        fmt::format("{} does not answer: PJRT plugin {} has not come back from an earlier request; see whether "
                    "the device is there and free (kpt doctor), and start the program again",
                    info().name, setup_.plugin.name),
        vendor);
  }
  return pjrt::call_within<T>(*threads_, setup_.call_limit, setup_.plugin.name, what, vendor, std::move(work));
}

Result<Tensor> XlaDevice::upload(const Tensor& host) {
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  KPT_ASSIGN_OR_RETURN(const Tensor kept, own_memory(host));
  KPT_ASSIGN_OR_RETURN(auto content, ask<std::shared_ptr<pjrt::DeviceBuffer>>(
                                         "take a tensor", [own, kept, place = setup_.devices.first] {
                                           return own->upload(kept, pjrt::HostMemory::kCopied, place);
                                         }));
  return make_xla_tensor(info().name, std::move(content), {threads_, setup_.call_limit});
}

Result<Tensor> XlaDevice::download(const Tensor& tensor) {
  if (tensor.defined() && tensor.data() != nullptr) return tensor;
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  KPT_ASSIGN_OR_RETURN(const XlaTensorBuffer* const buffer, find_xla_buffer(tensor, *own));
  if (buffer != nullptr) {
    return ask<Tensor>("give a tensor", [content = buffer->content()] { return content->download(); });
  }
  return Status(
      StatusCode::kInvalidArgument,
      fmt::format("{} is not a tensor of {}", tensor.defined() ? tensor.to_string() : "nothing", info().name));
}

Result<MemoryStatistics> XlaDevice::memory() {
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  return ask<MemoryStatistics>("count its memory",
                               [own, devices = setup_.devices] { return count_memory(*own, devices); });
}

Result<pjrt::DeviceMemory> XlaDevice::first_memory() {
  KPT_ASSIGN_OR_RETURN(const auto own, client());
  return ask<pjrt::DeviceMemory>("count its memory",
                                 [own, place = setup_.devices.first] { return own->device_memory(place); });
}

Result<std::shared_ptr<const pjrt::Client>> XlaDevice::open_client() {
  const auto start = std::chrono::steady_clock::now();
  auto client =
      ask<std::shared_ptr<const pjrt::Client>>("open its devices", [setup = setup_] { return shared_client(setup); });
  const double took = milliseconds_since(start);
  log::debug("PJRT devices opened", {{"device", info().name}, {"milliseconds", fmt::format("{:.1f}", took)}});
  return client;
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
    KPT_ASSIGN_OR_RETURN(auto client, open_client());
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
  auto shards =
      ShardPlan::make(program->graph(), count, context.pjrt_split_weights ? Sharding::kWeights : Sharding::kBatch);
  if (!shards.ok()) return Status(shards.status().code(), shards.status().message(), client->plugin().vendor());
  options.shards = std::move(shards).value();
  options.matrix_precision = std::move(extras.matrix_precision);
  options.check_memory = std::move(extras.check_memory);
  options.call_limit = device.setup().call_limit;
  options.limits_runs = device.setup().limits_runs;
  if (count == 1) {
    options.stored = std::move(extras.stored);
  } else if (extras.stored) {
    log::info("a stored program is not used and the model is compiled here",
              {{"reason", fmt::format("it is for one device, and pjrt.devices asks for {}", count)}});
  }
  ModuleCompilerOptions compiling = make_compiler_options(device.setup(), *client, context);
  compiling.compile_elsewhere = std::move(extras.compile_elsewhere);
  auto compiler = std::make_shared<const ModuleCompiler>(std::move(client), std::move(compiling));
  return XlaExecutable::load(std::move(program), weights, std::move(compiler), std::move(options));
}

}  // namespace kpt
