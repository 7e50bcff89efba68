#include "engines/xla/pjrt/client.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace kpt::pjrt {
namespace {

constexpr std::array<std::pair<DType, abi::BufferType>, 20> kTypes = {{
    {DType::kBool, 1},
    {DType::kInt8, 2},
    {DType::kInt16, 3},
    {DType::kInt32, 4},
    {DType::kInt64, 5},
    {DType::kUInt8, 6},
    {DType::kUInt16, 7},
    {DType::kUInt32, 8},
    {DType::kUInt64, 9},
    {DType::kFloat16, 10},
    {DType::kFloat32, 11},
    {DType::kFloat64, 12},
    {DType::kBFloat16, 13},
    {DType::kComplex64, 14},
    {DType::kComplex128, 15},
    {DType::kFloat8E5M2, 16},
    {DType::kFloat8E4M3FN, 17},
    {DType::kFloat8E5M2FNUZ, 19},
    {DType::kFloat8E4M3FNUZ, 20},
    {DType::kFloat8E8M0FNU, 28},
}};

// The values point into `options`, which must stay.
std::vector<abi::NamedValue> name_values(std::span<const ClientOption> options) {
  std::vector<abi::NamedValue> values(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) {
    const ClientOption& option = options[i];
    abi::NamedValue& value = values[i];
    value.struct_size = sizeof(value);
    value.name = option.name.data();
    value.name_size = option.name.size();
    value.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&option.value)) {
      value.type = abi::kNamedString;
      value.string_value = text->data();
      value.value_size = text->size();
    } else if (const auto* number = std::get_if<std::int64_t>(&option.value)) {
      value.type = abi::kNamedInt64;
      value.int64_value = *number;
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&option.value)) {
      value.type = abi::kNamedInt64List;
      value.int64_array_value = list->data();
      value.value_size = list->size();
    } else if (const auto* real = std::get_if<float>(&option.value)) {
      value.type = abi::kNamedFloat;
      value.float_value = *real;
    } else {
      value.type = abi::kNamedBool;
      value.bool_value = std::get<bool>(option.value);
    }
  }
  return values;
}

int semantics_of(HostMemory memory) {
  switch (memory) {
    case HostMemory::kCopied: return abi::kImmutableOnlyDuringCall;
    case HostMemory::kBorrowed: return abi::kImmutableUntilTransferCompletes;
    case HostMemory::kShared: return abi::kImmutableZeroCopy;
  }
  return abi::kImmutableOnlyDuringCall;
}

}  // namespace

std::optional<abi::BufferType> buffer_type_of(DType dtype) {
  const auto found = std::ranges::find(kTypes, dtype, &std::pair<DType, abi::BufferType>::first);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<DType> dtype_of(abi::BufferType type) {
  const auto found = std::ranges::find(kTypes, type, &std::pair<DType, abi::BufferType>::second);
  return found == kTypes.end() ? std::nullopt : std::optional(found->first);
}

Result<std::shared_ptr<const Client>> Client::create(std::shared_ptr<const Plugin> plugin,
                                                     std::span<const ClientOption> options) {
  const std::vector<abi::NamedValue> values = name_values(options);
  abi::Call<abi::ClientCreateArgs> create;
  create.create_options = values.data();
  create.num_options = values.size();
  KPT_RETURN_IF_ERROR(plugin->call(create));
  if (create.client == nullptr) {
    return Status(StatusCode::kVendorLibrary,
                  fmt::format("PJRT plugin {}: PJRT_Client_Create gave no client; reinstall it", plugin->name()),
                  plugin->vendor());
  }
  const std::shared_ptr<Client> client(new Client(std::move(plugin), create.client));
  KPT_RETURN_IF_ERROR(client->describe());
  return std::shared_ptr<const Client>(client);
}

Client::~Client() {
  abi::Call<abi::ClientDestroyArgs> destroy;
  destroy.client = client_;
  plugin_->call_quietly(destroy);
}

Status Client::describe() {
  abi::Call<abi::ClientPlatformNameArgs> name;
  name.client = client_;
  KPT_RETURN_IF_ERROR(plugin_->call(name));
  platform_name_.assign(name.platform_name, name.platform_name_size);
  abi::Call<abi::ClientPlatformVersionArgs> version;
  version.client = client_;
  KPT_RETURN_IF_ERROR(plugin_->call(version));
  platform_version_.assign(version.platform_version, version.platform_version_size);
  abi::Call<abi::ClientAddressableDevicesArgs> devices;
  devices.client = client_;
  KPT_RETURN_IF_ERROR(plugin_->call(devices));
  devices_.assign(devices.addressable_devices, devices.addressable_devices + devices.num_addressable_devices);
  if (devices_.empty()) {
    return {
        StatusCode::kDeviceNotAvailable,
        fmt::format("PJRT plugin {} sees no device; see whether one is there and free: kpt doctor", plugin_->name()),
        plugin_->vendor()};
  }
  for (abi::Device* device : devices_) {
    abi::Call<abi::DeviceGetDescriptionArgs> description;
    description.device = device;
    KPT_RETURN_IF_ERROR(plugin_->call(description));
    abi::Call<abi::DeviceDescriptionIdArgs> id;
    id.device_description = description.device_description;
    KPT_RETURN_IF_ERROR(plugin_->call(id));
    abi::Call<abi::DeviceDescriptionKindArgs> kind;
    kind.device_description = description.device_description;
    KPT_RETURN_IF_ERROR(plugin_->call(kind));
    facts_.push_back({id.id, std::string(kind.device_kind, kind.device_kind_size)});
  }
  return {};
}

Result<DeviceMemory> Client::device_memory(std::size_t device) const {
  abi::Call<abi::DeviceMemoryStatsArgs> statistics;
  statistics.device = devices_.at(device);
  KPT_RETURN_IF_ERROR(plugin_->call(statistics));
  DeviceMemory memory;
  memory.bytes_in_use = statistics.bytes_in_use;
  if (statistics.peak_bytes_in_use_is_set) memory.peak_bytes_in_use = statistics.peak_bytes_in_use;
  if (statistics.bytes_limit_is_set) memory.bytes_limit = statistics.bytes_limit;
  return memory;
}

Result<std::shared_ptr<const LoadedExecutable>> Client::compile(std::string_view text, std::string_view options) const {
  constexpr std::string_view kFormat = "mlir";
  std::string code(text);  // the interface takes it as writable
  abi::Call<abi::ClientCompileArgs> compile;
  abi::Program program{};
  program.struct_size = sizeof(program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  compile.client = client_;
  compile.program = &program;
  compile.compile_options = options.data();
  compile.compile_options_size = options.size();
  KPT_RETURN_IF_ERROR(plugin_->call(compile));
  return adopt(compile.executable);
}

Result<std::shared_ptr<const LoadedExecutable>> Client::deserialize(std::string_view bytes,
                                                                    std::string_view options) const {
  abi::Call<abi::ExecutableDeserializeAndLoadArgs> load;
  load.client = client_;
  load.serialized_executable = bytes.data();
  load.serialized_executable_size = bytes.size();
  if (!options.empty()) {
    load.overridden_serialized_compile_options = options.data();
    load.overridden_serialized_compile_options_size = options.size();
  }
  KPT_RETURN_IF_ERROR(plugin_->call(load));
  return adopt(load.loaded_executable);
}

Result<std::shared_ptr<const LoadedExecutable>> Client::adopt(abi::LoadedExecutable* executable) const {
  if (executable == nullptr) {
    return Status(StatusCode::kVendorLibrary,
                  fmt::format("PJRT plugin {} reported success but gave no executable; reinstall it", plugin_->name()),
                  plugin_->vendor());
  }
  const std::shared_ptr<LoadedExecutable> loaded(new LoadedExecutable(shared_from_this(), executable));
  KPT_RETURN_IF_ERROR(loaded->describe());
  return std::shared_ptr<const LoadedExecutable>(loaded);
}

Result<std::shared_ptr<DeviceBuffer>> Client::upload(const Tensor& host, HostMemory memory, std::size_t device) const {
  const auto type = buffer_type_of(host.dtype());
  if (!type) {
    return Status(StatusCode::kUnsupported, fmt::format("XLA has no type for {}", to_string(host.dtype())));
  }
  if (device >= devices_.size()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("PJRT plugin {} has {} devices, not {}", plugin_->name(), devices_.size(), device + 1));
  }
  Tensor source = host;
  if (!host.is_contiguous()) {
    KPT_ASSIGN_OR_RETURN(source, host.contiguous_copy());
    if (memory == HostMemory::kCopied) memory = HostMemory::kBorrowed;  // the copy is ours to keep
  }
  const bool is_empty = source.element_count() == 0;
  if (source.data() == nullptr && !is_empty) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} has no address to upload from", host.to_string()));
  }
  static constexpr std::byte kNothing{};
  const Dims dims = source.dims();
  abi::Call<abi::ClientBufferFromHostBufferArgs> upload;
  upload.client = client_;
  upload.data = is_empty ? &kNothing : source.data();
  upload.type = *type;
  upload.dims = dims.data();
  upload.num_dims = dims.size();
  upload.host_buffer_semantics = semantics_of(memory);
  upload.device = devices_[device];
  KPT_RETURN_IF_ERROR(plugin_->call(upload));
  Completion done(plugin_, upload.done_with_host_buffer);
  if (upload.buffer == nullptr) {
    return Status(StatusCode::kVendorLibrary,
                  fmt::format("PJRT plugin {} reported success but gave no buffer; reinstall it", plugin_->name()),
                  plugin_->vendor());
  }
  auto buffer = std::make_shared<DeviceBuffer>(shared_from_this(), upload.buffer, source.dtype(), dims);
  if (memory == HostMemory::kCopied) {
    KPT_RETURN_IF_ERROR(done.wait());
    return buffer;
  }
  buffer->host_ = std::move(source);
  buffer->shares_host_ = memory == HostMemory::kShared;
  buffer->upload_ = std::move(done);
  return buffer;
}

}  // namespace kpt::pjrt
