#include "engines/xla/pjrt/topology_compile.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "engines/xla/pjrt/pjrt_execution_calls.h"
#include "engines/xla/pjrt/pjrt_topology_calls.h"

namespace kpt::pjrt {
namespace {

using abi::Call;
using Failure = std::optional<TopologyFailure>;

constexpr int kUnimplemented = 12;
constexpr std::size_t kMaxMessageBytes = 4000;  // a compiler may quote the whole module

Failure unusable(std::string message) { return TopologyFailure{"", 0, std::move(message)}; }

// The plugin's table. Every call gives nothing, or the failure in the plugin's words.
class Table {
 public:
  Failure open(const std::string& path) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one thread
      return unusable(reason != nullptr ? reason : path + " cannot be opened");
    }
    const auto get_api = reinterpret_cast<GetApiFunction>(::dlsym(library, kGetApiName));
    if (get_api == nullptr) return unusable(path + " has no function " + kGetApiName);
    head_ = get_api();
    if (head_ == nullptr) return unusable(std::string("its ") + kGetApiName + " gives no table");
    const std::size_t bytes = head_->struct_size;
    if (bytes < kSmallestTableBytes || bytes > kLargestTableBytes) {
      return unusable("its table has " + std::to_string(bytes) + " bytes, which is none of an interface we know");
    }
    if (head_->version.major_version != kSupportedMajor || head_->version.minor_version < kOldestMinor) {
      return unusable("it speaks PJRT " + std::to_string(head_->version.major_version) + "." +
                      std::to_string(head_->version.minor_version) + ", but 0." + std::to_string(kOldestMinor) +
                      " or newer of the same major version is needed");
    }
    for (const Slot slot : {Slot::kErrorDestroy, Slot::kErrorMessage, Slot::kErrorGetCode}) {
      if (find(slot) == nullptr) return unusable("its table lacks " + std::string(name_of(slot)));
    }
    return std::nullopt;
  }

  template <typename Args>
  Failure call(Call<Args>& args) const {
    using Entry = abi::Error* (*)(Args*);
    void* const address = find(Args::kSlot);
    if (address == nullptr) {
      return TopologyFailure{std::string(name_of(Args::kSlot)), kUnimplemented, "the plugin's table lacks this entry"};
    }
    abi::Error* const error = reinterpret_cast<Entry>(address)(&args);
    if (error == nullptr) return std::nullopt;
    return take_error(error, Args::kSlot);
  }

  const ApiHead& head() const { return *head_; }

 private:
  void* find(Slot slot) const {
    const std::size_t offset = sizeof(ApiHead) + static_cast<std::size_t>(slot) * sizeof(void*);
    if (offset + sizeof(void*) > head_->struct_size) return nullptr;
    void* entry = nullptr;
    std::memcpy(&entry, reinterpret_cast<const std::byte*>(head_) + offset, sizeof(entry));
    return entry;
  }

  TopologyFailure take_error(abi::Error* error, Slot slot) const {
    using Describe = void (*)(void*);
    using GetCode = abi::Error* (*)(void*);
    Call<abi::ErrorMessageArgs> message;
    message.error = error;
    reinterpret_cast<Describe>(find(Slot::kErrorMessage))(&message);
    Call<abi::ErrorGetCodeArgs> code;
    code.error = error;
    abi::Error* const second = reinterpret_cast<GetCode>(find(Slot::kErrorGetCode))(&code);
    TopologyFailure failure{std::string(name_of(slot)), second == nullptr ? code.code : 2, "no message"};
    if (message.message != nullptr) {
      failure.message.assign(message.message, std::min(message.message_size, kMaxMessageBytes));
    }
    for (abi::Error* const each : {error, second}) {
      if (each == nullptr) continue;
      Call<abi::ErrorDestroyArgs> destroy;
      destroy.error = each;
      reinterpret_cast<Describe>(find(Slot::kErrorDestroy))(&destroy);
    }
    return failure;
  }

  const ApiHead* head_ = nullptr;
};

// What is absent on purpose is no failure: the figure stays empty.
Failure unless_unimplemented(Failure failure) {
  if (failure && failure->code == kUnimplemented) return std::nullopt;
  return failure;
}

Failure describe_topology(const Table& table, abi::TopologyDescription* topology, TopologyFigures& figures) {
  Call<abi::TopologyDescriptionPlatformVersionArgs> version;
  version.topology = topology;
  if (Failure failure = unless_unimplemented(table.call(version))) return failure;
  if (version.platform_version != nullptr) {
    figures.platform_version.assign(version.platform_version,
                                    std::min(version.platform_version_size, kMaxMessageBytes));
  }
  Call<abi::TopologyDescriptionGetDeviceDescriptionsArgs> devices;
  devices.topology = topology;
  if (Failure failure = table.call(devices)) return failure;
  figures.devices = static_cast<std::int64_t>(devices.num_descriptions);
  if (devices.num_descriptions == 0 || devices.descriptions == nullptr) {
    return unusable("it gives a topology without a device");
  }
  Call<abi::DeviceDescriptionKindArgs> kind;
  kind.device_description = devices.descriptions[0];
  if (Failure failure = unless_unimplemented(table.call(kind))) return failure;
  if (kind.device_kind != nullptr) {
    figures.device_kind.assign(kind.device_kind, std::min(kind.device_kind_size, kMaxMessageBytes));
  }
  return std::nullopt;
}

Failure read_memory(const Table& table, abi::Executable* executable, TopologyFigures& figures) {
  Call<abi::ExecutableSizeOfGeneratedCodeInBytesArgs> code;
  code.executable = executable;
  if (Failure failure = table.call(code)) {
    if (failure->code != kUnimplemented) return failure;
  } else {
    figures.code_bytes = code.size_in_bytes;
  }
  Call<abi::ExecutableGetCompiledMemoryStatsArgs> memory;
  memory.executable = executable;
  if (Failure failure = table.call(memory)) return unless_unimplemented(std::move(failure));
  if (!figures.code_bytes || *figures.code_bytes <= 0) figures.code_bytes = memory.generated_code_size_in_bytes;
  figures.argument_bytes = memory.argument_size_in_bytes;
  figures.output_bytes = memory.output_size_in_bytes;
  figures.alias_bytes = memory.alias_size_in_bytes;
  figures.temporary_bytes = memory.temp_size_in_bytes;
  // Known since version 0.72; before, and where it is not counted, it stays 0.
  if (memory.peak_memory_in_bytes > 0) figures.peak_bytes = memory.peak_memory_in_bytes;
  return std::nullopt;
}

Failure read_costs(const Table& table, abi::Executable* executable, TopologyFigures& figures) {
  Call<abi::ExecutableGetCostAnalysisArgs> cost;
  cost.executable = executable;
  if (Failure failure = table.call(cost)) return unless_unimplemented(std::move(failure));
  if (cost.properties == nullptr || cost.num_properties == 0) return std::nullopt;
  // An array of another version's structures: the stride is what the plugin says, within reason.
  const std::size_t stride = cost.properties->struct_size;
  if (stride < sizeof(abi::NamedValue) || stride > 1024) return unusable("its cost analysis cannot be read");
  const std::pair<std::string_view, std::optional<double>*> wanted[] = {{"flops", &figures.flops},
                                                                        {"transcendentals", &figures.transcendentals},
                                                                        {"bytes accessed", &figures.bytes_accessed},
                                                                        {"optimal_seconds", &figures.optimal_seconds}};
  for (std::size_t i = 0; i < cost.num_properties; ++i) {
    abi::NamedValue value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(cost.properties) + i * stride, sizeof(value));
    if (value.type != abi::kNamedFloat || value.name == nullptr) continue;
    for (const auto& [name, place] : wanted) {
      if (std::string_view(value.name, value.name_size) == name && std::isfinite(value.float_value)) {
        *place = value.float_value;
      }
    }
  }
  return std::nullopt;
}

Failure serialize(const Table& table, abi::Executable* executable, std::string& bytes) {
  Call<abi::ExecutableSerializeArgs> args;
  args.executable = executable;
  if (Failure failure = table.call(args)) return failure;
  if (args.serialized_bytes != nullptr) bytes.assign(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr) args.serialized_executable_deleter(args.serialized_executable);
  if (bytes.empty()) return unusable("it gives a serialized executable without bytes");
  return std::nullopt;
}

abi::NamedValue named(std::string_view name, int type, std::size_t size) {
  abi::NamedValue value{};
  value.struct_size = sizeof(value);
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = size;
  return value;
}

Failure create_topology(const Table& table, const TopologyRequest& request, abi::TopologyDescription*& topology) {
  std::vector<abi::NamedValue> options;
  if (!request.chips_per_host.empty()) {
    options.push_back(named("chips_per_host_bounds", abi::kNamedInt64List, request.chips_per_host.size()));
    options.back().int64_array_value = request.chips_per_host.data();
  }
  if (!request.chip_config.empty()) {
    options.push_back(named("chip_config_name", abi::kNamedString, request.chip_config.size()));
    options.back().string_value = request.chip_config.data();
  }
  Call<abi::TopologyDescriptionCreateArgs> args;
  args.topology_name = request.topology.data();
  args.topology_name_size = request.topology.size();
  args.create_options = options.data();
  args.num_options = options.size();
  if (Failure failure = table.call(args)) return failure;
  topology = args.topology;
  return topology == nullptr ? unusable("it gives no topology") : std::nullopt;
}

Failure compile(const Table& table, const TopologyRequest& request, abi::TopologyDescription* topology,
                abi::Executable*& executable) {
  constexpr std::string_view kFormat = "mlir";
  std::string code = request.module_text;  // the interface takes it as writable
  Call<abi::Program> program;
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  Call<abi::CompileArgs> args;
  args.topology = topology;
  args.program = &program;
  args.compile_options = request.compile_options.data();
  args.compile_options_size = request.compile_options.size();
  if (Failure failure = table.call(args)) return failure;
  executable = args.executable;
  return executable == nullptr ? unusable("it gives no executable") : std::nullopt;
}

// What the plugin made for us, given back at the end. A failure there changes nothing any more.
struct Handles {
  explicit Handles(const Table& made_by) : table(made_by) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    if (executable != nullptr) {
      Call<abi::ExecutableDestroyArgs> args;
      args.executable = executable;
      static_cast<void>(table.call(args));
    }
    if (topology != nullptr) {
      Call<abi::TopologyDescriptionDestroyArgs> args;
      args.topology = topology;
      static_cast<void>(table.call(args));
    }
  }
  const Table& table;
  abi::TopologyDescription* topology = nullptr;
  abi::Executable* executable = nullptr;
};

Failure run(const TopologyRequest& request, TopologyResult& result) {
  Table table;
  if (Failure failure = table.open(request.library)) return failure;
  result.figures.api_major = table.head().version.major_version;
  result.figures.api_minor = table.head().version.minor_version;
  Call<abi::PluginInitializeArgs> initialize;
  if (Failure failure = table.call(initialize)) return failure;
  Handles handles(table);
  if (Failure failure = create_topology(table, request, handles.topology)) return failure;
  if (Failure failure = describe_topology(table, handles.topology, result.figures)) return failure;
  if (Failure failure = compile(table, request, handles.topology, handles.executable)) return failure;
  if (Failure failure = read_memory(table, handles.executable, result.figures)) return failure;
  if (Failure failure = read_costs(table, handles.executable, result.figures)) return failure;
  return serialize(table, handles.executable, result.executable);
}

std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class JsonObject {
 public:
  void add(std::string_view name, std::string_view text) { add_raw(name, quoted(text)); }
  void add(std::string_view name, std::int64_t value) { add_raw(name, std::to_string(value)); }
  void add(std::string_view name, const std::optional<std::int64_t>& value) {
    if (value) add(name, *value);
  }
  void add(std::string_view name, const std::optional<double>& value) {
    if (!value) return;
    char digits[64];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), *value, std::chars_format::scientific, 9);
    add_raw(name, std::string_view(digits, static_cast<std::size_t>(end.ptr - digits)));
  }
  void add_raw(std::string_view name, std::string_view value) {
    text_ += text_.empty() ? "{" : ",";
    text_ += quoted(name);
    text_ += ":";
    text_ += value;
  }
  std::string text() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  std::string text_;
};

}  // namespace

TopologyResult compile_for_topology(const TopologyRequest& request) {
  TopologyResult result;
  result.failure = run(request, result);
  if (result.failure) result.executable.clear();
  return result;
}

std::string to_json(const TopologyResult& result) {
  JsonObject inner;
  JsonObject outer;
  if (result.failure) {
    inner.add("call", result.failure->call);
    inner.add("code", std::int64_t{result.failure->code});
    inner.add("message", result.failure->message);
    outer.add_raw("failure", inner.text());
    return outer.text();
  }
  const TopologyFigures& figures = result.figures;
  inner.add("api", std::to_string(figures.api_major) + "." + std::to_string(figures.api_minor));
  inner.add("devices", figures.devices);
  inner.add("device_kind", figures.device_kind);
  inner.add("platform_version", figures.platform_version);
  inner.add("code_bytes", figures.code_bytes);
  inner.add("argument_bytes", figures.argument_bytes);
  inner.add("output_bytes", figures.output_bytes);
  inner.add("alias_bytes", figures.alias_bytes);
  inner.add("temporary_bytes", figures.temporary_bytes);
  inner.add("peak_bytes", figures.peak_bytes);
  inner.add("flops", figures.flops);
  inner.add("transcendentals", figures.transcendentals);
  inner.add("bytes_accessed", figures.bytes_accessed);
  inner.add("optimal_seconds", figures.optimal_seconds);
  outer.add_raw("figures", inner.text());
  return outer.text();
}

}  // namespace kpt::pjrt
