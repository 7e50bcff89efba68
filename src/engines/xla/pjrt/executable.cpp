// Buffers, completions and runs of client.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/pjrt_topology_calls.h"

namespace kpt::pjrt {

Completion::Completion(Completion&& other) noexcept
    : plugin_(std::move(other.plugin_)), event_(std::exchange(other.event_, nullptr)) {}

Completion& Completion::operator=(Completion&& other) noexcept {
  if (this != &other) {
    Completion old(std::move(*this));  // waits for what it held
    plugin_ = std::move(other.plugin_);
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Completion::~Completion() {
  const Status status = wait();
  if (!status.ok()) log::warn("PJRT work that nobody waited for failed", {{"reason", status.message()}});
}

Status Completion::wait() {
  if (event_ == nullptr) return {};
  abi::Event* const event = std::exchange(event_, nullptr);
  abi::Call<abi::EventAwaitArgs> await;
  await.event = event;
  Status status = plugin_->call(await);
  abi::Call<abi::EventDestroyArgs> destroy;
  destroy.event = event;
  plugin_->call_quietly(destroy);
  return status;
}

DeviceBuffer::~DeviceBuffer() {
  abi::Call<abi::BufferDestroyArgs> destroy;
  destroy.buffer = buffer_;
  client_->plugin().call_quietly(destroy);
  // A shared upload is done when nobody reads the host's memory any more, which the line above brings about; a failure
  // of it was the run's to report.
  (void)upload_.wait();
}

std::size_t DeviceBuffer::bytes() const {
  return static_cast<std::size_t>(count_elements(dims_).value_or(0)) * element_bytes(dtype_);
}

Result<Tensor> DeviceBuffer::download() const {
  KPT_ASSIGN_OR_RETURN(Tensor host, Tensor::empty(dtype_, dims_));
  KPT_ASSIGN_OR_RETURN(Completion done, start_download({static_cast<std::byte*>(host.data()), host.bytes()}));
  KPT_RETURN_IF_ERROR(done.wait());
  return host;
}

Result<Completion> DeviceBuffer::start_download(std::span<std::byte> target) const {
  if (given_away_) return Status(StatusCode::kInvalidArgument, "the buffer was given away to an earlier run");
  if (target.size() != bytes()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} bytes were offered for a buffer of {}", target.size(), bytes()));
  }
  if (target.empty()) return Completion();
  std::array<std::int64_t, kMaxRank> minor_to_major{};
  for (std::size_t i = 0; i < dims_.size(); ++i) minor_to_major[i] = static_cast<std::int64_t>(dims_.size() - 1 - i);
  abi::MemoryLayout layout{};
  layout.struct_size = sizeof(layout);
  layout.type = abi::kTiledLayout;
  layout.tiled.struct_size = sizeof(layout.tiled);
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = dims_.size();
  abi::Call<abi::BufferToHostBufferArgs> copy;
  copy.src = buffer_;
  copy.host_layout = &layout;
  copy.dst = target.data();
  copy.dst_size = target.size();
  KPT_RETURN_IF_ERROR(client_->plugin().call(copy));
  return Completion(client_->shared_plugin(), copy.event);
}

Status Execution::wait() {
  Status first;
  for (Completion& completion : completions) {
    Status status = completion.wait();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

LoadedExecutable::~LoadedExecutable() {
  const Plugin& plugin = client_->plugin();
  if (executable_ != nullptr) {
    abi::Call<abi::ExecutableDestroyArgs> destroy;
    destroy.executable = executable_;
    plugin.call_quietly(destroy);
  }
  abi::Call<abi::LoadedExecutableDestroyArgs> destroy;
  destroy.executable = loaded_;
  plugin.call_quietly(destroy);
}

Status LoadedExecutable::describe() {
  const Plugin& plugin = client_->plugin();
  abi::Call<abi::LoadedExecutableGetExecutableArgs> get;
  get.loaded_executable = loaded_;
  KPT_RETURN_IF_ERROR(plugin.call(get));
  executable_ = get.executable;
  abi::Call<abi::ExecutableNumOutputsArgs> count;
  count.executable = executable_;
  KPT_RETURN_IF_ERROR(plugin.call(count));
  constexpr std::size_t kMost = 1U << 20U;
  if (count.num_outputs > kMost) {
    return {StatusCode::kVendorLibrary,
            fmt::format("PJRT plugin {} claims {} outputs; reinstall it", plugin.name(), count.num_outputs),
            plugin.vendor()};
  }
  output_count_ = count.num_outputs;
  return {};
}

Result<std::shared_ptr<DeviceBuffer>> LoadedExecutable::adopt(abi::Buffer* buffer) const {
  const Plugin& plugin = client_->plugin();
  if (buffer == nullptr) {
    return Status(StatusCode::kVendorLibrary,
                  fmt::format("PJRT plugin {} left out a result of a run; reinstall it", plugin.name()),
                  plugin.vendor());
  }
  // From here on it is destroyed whatever happens.
  auto destroy = [&plugin](abi::Buffer* unwanted) {
    abi::Call<abi::BufferDestroyArgs> args;
    args.buffer = unwanted;
    plugin.call_quietly(args);
  };
  std::unique_ptr<abi::Buffer, decltype(destroy)> owned(buffer, destroy);
  abi::Call<abi::BufferElementTypeArgs> type;
  type.buffer = buffer;
  KPT_RETURN_IF_ERROR(plugin.call(type));
  abi::Call<abi::BufferDimensionsArgs> dims;
  dims.buffer = buffer;
  KPT_RETURN_IF_ERROR(plugin.call(dims));
  const auto dtype = dtype_of(type.type);
  const std::span<const std::int64_t> extents(dims.dims, dims.num_dims);
  if (!dtype || dims.num_dims > kMaxRank || !count_elements(extents)) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("PJRT plugin {} gave a result of type {} and rank {}, which this version cannot hold",
                              plugin.name(), type.type, dims.num_dims),
                  plugin.vendor());
  }
  return std::make_shared<DeviceBuffer>(client_, owned.release(), *dtype, Dims(extents));
}

Result<Execution> LoadedExecutable::execute(std::span<const std::vector<const DeviceBuffer*>> arguments,
                                            std::span<const std::size_t> given_away) const {
  const std::size_t devices = arguments.size();
  KPT_RETURN_IF_ERROR(check_arguments(arguments));
  const std::size_t count = arguments[0].size();
  std::vector<std::vector<abi::Buffer*>> given(devices);
  std::vector<abi::Buffer* const*> given_lists(devices);
  std::vector<std::vector<abi::Buffer*>> outputs(devices, std::vector<abi::Buffer*>(output_count_));
  std::vector<abi::Buffer**> output_lists(devices);
  std::vector<abi::Event*> events(devices);
  for (std::size_t device = 0; device < devices; ++device) {
    for (const DeviceBuffer* argument : arguments[device]) given[device].push_back(argument->buffer_);
    given_lists[device] = given[device].data();
    output_lists[device] = outputs[device].data();
    for (const std::size_t position : given_away) arguments[device].at(position)->given_away_ = true;
  }
  std::vector<std::int64_t> kept;
  for (std::size_t position = 0; position < count; ++position) {
    if (std::ranges::find(given_away, position) == given_away.end())
      kept.push_back(static_cast<std::int64_t>(position));
  }
  abi::ExecuteOptions options{};
  options.struct_size = sizeof(options);
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  abi::Call<abi::LoadedExecutableExecuteArgs> execute;
  execute.executable = loaded_;
  execute.options = &options;
  execute.argument_lists = given_lists.data();
  execute.num_devices = devices;
  execute.num_args = count;
  execute.output_lists = output_lists.data();
  execute.device_complete_events = events.data();
  KPT_RETURN_IF_ERROR(client_->plugin().call(execute));
  Execution execution;
  for (abi::Event* event : events) execution.completions.emplace_back(client_->shared_plugin(), event);
  KPT_RETURN_IF_ERROR(adopt_all(outputs, execution));
  return execution;
}

Status LoadedExecutable::check_arguments(std::span<const std::vector<const DeviceBuffer*>> arguments) {
  if (arguments.empty()) return {StatusCode::kInvalidArgument, "a run needs the arguments of at least one device"};
  for (const std::vector<const DeviceBuffer*>& list : arguments) {
    if (list.size() != arguments[0].size()) {
      return {StatusCode::kInvalidArgument, "every device of a run needs the same number of arguments"};
    }
    for (const DeviceBuffer* argument : list) {
      if (argument->given_away_) return {StatusCode::kInvalidArgument, "an argument was given away to an earlier run"};
    }
  }
  return {};
}

Status LoadedExecutable::adopt_all(const std::vector<std::vector<abi::Buffer*>>& outputs, Execution& execution) const {
  Status first;
  for (const std::vector<abi::Buffer*>& list : outputs) {
    auto& adopted = execution.outputs.emplace_back();
    for (abi::Buffer* buffer : list) {  // all of them, so that none leaks when one is odd
      auto result = adopt(buffer);
      if (result.ok()) adopted.push_back(std::move(*result));
      if (!result.ok() && first.ok()) first = result.status();
    }
  }
  return first;
}

Result<std::string> LoadedExecutable::serialize() const {
  abi::Call<abi::ExecutableSerializeArgs> serialize;
  serialize.executable = executable_;
  KPT_RETURN_IF_ERROR(client_->plugin().call(serialize));
  std::string bytes(serialize.serialized_bytes, serialize.serialized_bytes_size);
  if (serialize.serialized_executable_deleter != nullptr) {
    serialize.serialized_executable_deleter(serialize.serialized_executable);
  }
  return bytes;
}

Result<ProgramMemory> LoadedExecutable::memory() const {
  abi::Call<abi::ExecutableGetCompiledMemoryStatsArgs> statistics;
  statistics.executable = executable_;
  KPT_RETURN_IF_ERROR(client_->plugin().call(statistics));
  return ProgramMemory{statistics.generated_code_size_in_bytes, statistics.argument_size_in_bytes,
                       statistics.output_size_in_bytes,         statistics.alias_size_in_bytes,
                       statistics.temp_size_in_bytes,           statistics.peak_memory_in_bytes};
}

Result<ProgramCosts> LoadedExecutable::costs() const {
  abi::Call<abi::ExecutableGetCostAnalysisArgs> analysis;
  analysis.executable = executable_;
  KPT_RETURN_IF_ERROR(client_->plugin().call(analysis));
  ProgramCosts costs;
  if (analysis.properties == nullptr || analysis.num_properties == 0) return costs;
  // An array of another version's structures: the stride is what the plugin says, within reason.
  const std::size_t stride = analysis.properties->struct_size;
  if (stride < sizeof(abi::NamedValue) || stride > 1024) {
    return Status(
        StatusCode::kVendorLibrary,
        fmt::format("the cost analysis of PJRT plugin {} cannot be read; reinstall it", client_->plugin().name()),
        client_->plugin().vendor());
  }
  const std::pair<std::string_view, std::optional<double>*> wanted[] = {{"flops", &costs.flops},
                                                                        {"transcendentals", &costs.transcendentals},
                                                                        {"bytes accessed", &costs.bytes_accessed},
                                                                        {"optimal_seconds", &costs.optimal_seconds}};
  for (std::size_t i = 0; i < analysis.num_properties; ++i) {
    abi::NamedValue value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(analysis.properties) + i * stride, sizeof(value));
    if (value.type != abi::kNamedFloat || value.name == nullptr) continue;
    for (const auto& [name, place] : wanted) {
      const bool is_it = std::string_view(value.name, value.name_size) == name;
      if (is_it && std::isfinite(value.float_value) && value.float_value >= 0) *place = value.float_value;
    }
  }
  return costs;
}

}  // namespace kpt::pjrt
