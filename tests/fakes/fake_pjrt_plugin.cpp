// A PJRT plugin that does what the variable FAKE_PJRT says, each time it is asked. Orders are separated by ';':
//   "version MAJOR MINOR"      that version, with a table of plausible size (also the default, as 0.81)
//   "struct_size BYTES"        version 0.81 with that table size
//   "null"                     no table
//   "crash", "abort", "hang"   in GetPjrtApi; with the name of a call ("hang PJRT_Client_Compile") in that call
//   "stall NAME FILE"          that call waits until the file is there
//   "slow NAME MILLISECONDS"   that call takes so long
//   "needs_skip_mds"           hangs unless TPU_SKIP_MDS_QUERY is set, as libtpu does away from Google's cloud
//   "locked"                   PJRT_Plugin_Initialize fails unless ALLOW_MULTIPLE_LIBTPU_LOAD is set, as libtpu's does
//                              beside another process
//   "lack NAME"                the table has no entry of that name
//   "fail NAME CODE TEXT…"     that call gives this error
//   "break TEXT…"              programs start and then fail: waiting for one gives that text, and waiting for what is
//                              copied from its results "there is no result"
//   "say NAME TEXT…"           a line on standard output from that call
//   "platform_version TEXT"    instead of "fake 1"
//   "devices NUMBER"           of every topology, instead of one for each chip
//   "print TEXT"               a line on standard output while PJRT_Compile runs
//   "allocate BYTES"           PJRT_Compile takes and fills that much memory
//   "insist TEXT…"             modules without that text are refused
//   "temporaries BYTES"        that a compiled program needs, instead of 4096
//   "peak BYTES"               of its memory, instead of 5000
//   "greedy"                   a client takes all memory, which fails, unless it is told not to ("preallocate")
//   "bare"                     serialized executables without bytes, cost analysis without entries
// A topology is a name of the form KIND:AxB or KIND:AxBxC; its compiler counts 2 operations for each byte of the text.
// A program has as many results as its text shows behind "->"; result i is a copy of argument i (counted round). What
// serialises such a program is a text of two words. fake_pjrt_live_objects() counts what was not destroyed yet.
// Built with FAKE_PJRT_WITHOUT_ENTRY it is a library without GetPjrtApi.
#include "fake_pjrt_orders.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using fake_pjrt::find_order;
using fake_pjrt::rest_of_order;

// Written down here once more, by offset, so that a slip in the engine's own declarations shows.
struct Table {
  std::uint64_t struct_size = 984;
  void* extension_start = nullptr;
  std::uint64_t version_struct_size = 24;
  void* version_extension_start = nullptr;
  std::int32_t major_version = 0;
  std::int32_t minor_version = 81;
  void* functions[200] = {};
};

template <typename T>
T& at(char* structure, std::size_t offset) {
  return *reinterpret_cast<T*>(structure + offset);
}

std::atomic<int> live_objects{0};

struct Counted {
  Counted() { ++live_objects; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --live_objects; }
};

struct Fault : Counted {
  int code = 0;
  std::string message;
};
struct Event : Counted {
  std::string error;  // that waiting gives; empty: none
};
struct Client : Counted {
  std::array<int, 4> devices = {0, 1, 2, 3};
  std::array<int*, 4> list = {&devices[0], &devices[1], &devices[2], &devices[3]};
};
struct Executable : Counted {
  std::size_t outputs = 1;
  std::size_t text_bytes = 0;
  std::string costs;  // of cost_analysis()
};
struct Topology : Counted {
  std::vector<int> devices;
  std::vector<int*> list;
};
struct Serialized : Counted {
  std::string bytes;
};
struct Buffer : Counted {
  int type = 0;
  std::vector<std::int64_t> dims;
  std::string bytes;
  bool is_broken = false;
};

Fault* fault(int code, std::string message) {
  auto* made = new Fault();
  made->code = code;
  made->message = std::move(message);
  return made;
}

std::size_t bytes_per_element(int type) {
  constexpr std::array<std::size_t, 21> kBytes = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16, 1, 1, 1, 1, 1};
  return type > 0 && type < static_cast<int>(kBytes.size()) ? kBytes[static_cast<std::size_t>(type)] : 1;
}

template <typename T, std::size_t kOffset = 16>
Fault* destroy(char* args) {
  delete at<T*>(args, kOffset);
  return nullptr;
}

Fault* nothing(char*) { return nullptr; }

Fault* initialize(char*) {
  const bool may_share = std::getenv("ALLOW_MULTIPLE_LIBTPU_LOAD") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (may_share || !find_order("locked", "")) return nullptr;
  return fault(10,
               "The TPU is already in use by process with pid 1. Not attempting to load libtpu.so in this process.");
}

Fault* await_event(char* args) {
  const std::string& error = at<Event*>(args, 16)->error;
  return error.empty() ? nullptr : fault(13, error);
}

Fault* error_message(char* args) {
  const auto* error = at<Fault*>(args, 16);
  at<const char*>(args, 24) = error->message.data();
  at<std::size_t>(args, 32) = error->message.size();
  return nullptr;
}

Fault* error_code(char* args) {
  at<int>(args, 24) = at<Fault*>(args, 16)->code;
  return nullptr;
}

Fault* client_create(char* args) {
  const auto count = at<std::size_t>(args, 24);
  char* option = at<char*>(args, 16);
  bool takes_all = rest_of_order("greedy").has_value();
  for (std::size_t i = 0; i < count; ++i, option += 56) {
    const std::string name(at<const char*>(option, 16), at<std::size_t>(option, 24));
    if (name != "cpu_device_count" && name != "preallocate") return fault(3, "unknown option " + name);
    if (name == "preallocate") takes_all = takes_all && at<bool>(option, 40);
  }
  if (takes_all) return fault(8, "another client has the memory");
  at<Client*>(args, 64) = new Client();
  return nullptr;
}

Fault* platform_name(char* args) {
  at<const char*>(args, 24) = "fake";
  at<std::size_t>(args, 32) = 4;
  return nullptr;
}

Fault* platform_version(char* args) {
  static std::string version;
  version = rest_of_order("platform_version").value_or("fake 1");
  at<const char*>(args, 24) = version.data();
  at<std::size_t>(args, 32) = version.size();
  return nullptr;
}

Fault* devices(char* args) {
  at<int* const*>(args, 24) = at<Client*>(args, 16)->list.data();
  at<std::size_t>(args, 32) = 4;
  return nullptr;
}

Fault* device_id(char* args) {
  at<int>(args, 24) = *at<int*>(args, 16);
  return nullptr;
}

Fault* device_kind(char* args) {
  at<const char*>(args, 24) = "fake device";
  at<std::size_t>(args, 32) = 11;
  return nullptr;
}

// A device is its own description, a loaded executable its own executable.
Fault* same(char* args) {
  at<void*>(args, 24) = at<void*>(args, 16);
  return nullptr;
}

Fault* get_executable(char* args) {
  auto* copy = new Executable();
  copy->outputs = at<Executable*>(args, 16)->outputs;
  copy->text_bytes = at<Executable*>(args, 16)->text_bytes;
  at<Executable*>(args, 24) = copy;
  return nullptr;
}

// What PJRT_Client_Compile and PJRT_Compile share.
Fault* make_executable(char* args, Executable*& result) {
  char* program = at<char*>(args, 24);
  const std::string text(at<const char*>(program, 16), at<std::size_t>(program, 24));
  if (std::string(at<const char*>(program, 32), at<std::size_t>(program, 40)) != "mlir") {
    return fault(3, "the program is not in the format mlir");
  }
  if (at<std::size_t>(args, 40) == 0) return fault(3, "there are no compile options");
  if (text.find(rest_of_order("insist").value_or("")) == std::string::npos) return fault(3, "the text is not there");
  if (text.find("refuse") != std::string::npos) return fault(3, "the module is refused\nat line 1");
  auto* made = new Executable();
  if (const auto arrow = text.find("->"); arrow != std::string::npos) {
    const std::string results = text.substr(arrow, text.find('\n', arrow) - arrow);
    made->outputs = 0;
    for (auto place = results.find("tensor<"); place != std::string::npos; place = results.find("tensor<", place + 1)) {
      ++made->outputs;
    }
  }
  made->text_bytes = text.size();
  result = made;
  return nullptr;
}

Fault* compile(char* args) { return make_executable(args, at<Executable*>(args, 48)); }

Fault* compile_for_topology(char* args) {
  if (at<Topology*>(args, 16) == nullptr) return fault(3, "there is no topology");
  if (at<void*>(args, 48) != nullptr) return fault(3, "a client where none can be");
  if (const auto text = rest_of_order("print")) std::cout << *text << std::endl;
  if (const auto bytes = rest_of_order("allocate")) {
    std::vector<char> memory(std::stoull(*bytes));
    std::memset(memory.data(), 1, memory.size());
    std::cout << "allocated " << memory.size() << " " << memory.back() << std::endl;
  }
  return make_executable(args, at<Executable*>(args, 56));
}

Fault* topology_create(char* args) {
  const std::string name(at<const char*>(args, 16), at<std::size_t>(args, 24));
  const auto colon = name.find(':');
  if (colon == std::string::npos) return fault(3, "Unknown TPU topology " + name);
  char* option = at<char*>(args, 32);
  for (std::size_t i = 0; i < at<std::size_t>(args, 40); ++i, option += 56) {
    const std::string key(at<const char*>(option, 16), at<std::size_t>(option, 24));
    if (key != "chips_per_host_bounds" && key != "chip_config_name") return fault(3, "unknown option " + key);
  }
  std::size_t count = name.starts_with("tpu7x") ? 2 : 1;  // devices per chip
  for (std::size_t place = colon + 1; place < name.size(); place = name.find('x', place) + 1) {
    count *= std::stoul(name.substr(place));
    if (name.find('x', place) == std::string::npos) break;
  }
  if (const auto ordered = rest_of_order("devices")) count = std::stoul(*ordered);
  auto* made = new Topology();
  made->devices.resize(count);
  for (int& device : made->devices) made->list.push_back(&device);
  at<Topology*>(args, 48) = made;
  return nullptr;
}

Fault* topology_devices(char* args) {
  const auto* topology = at<Topology*>(args, 16);
  at<int* const*>(args, 24) = topology->list.data();
  at<std::size_t>(args, 32) = topology->list.size();
  return nullptr;
}

Fault* code_size(char* args) {
  at<std::int64_t>(args, 24) = 512;
  return nullptr;
}

Fault* compiled_memory(char* args) {
  at<std::int64_t>(args, 24) = 512;
  at<std::int64_t>(args, 32) = 1000;
  at<std::int64_t>(args, 40) = 200;
  at<std::int64_t>(args, 48) = 8;
  at<std::int64_t>(args, 56) = std::stoll(rest_of_order("temporaries").value_or("4096"));
  at<std::int64_t>(args, 104) = std::stoll(rest_of_order("peak").value_or("5000"));
  return nullptr;
}

// Entries are larger than those of today, as a later version's may be.
Fault* cost_analysis(char* args) {
  constexpr std::size_t kStride = 72;
  constexpr std::array<const char*, 5> kNames = {"flops", "bytes accessed", "optimal_seconds", "other", "flops0{}"};
  if (find_order("bare", "")) return nullptr;
  auto* executable = at<Executable*>(args, 16);
  executable->costs.assign(kStride * kNames.size(), '\0');
  const auto text_bytes = static_cast<float>(executable->text_bytes);
  const std::array<float, 5> values = {2 * text_bytes, text_bytes, 0.25F, 7, 9};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    char* entry = executable->costs.data() + i * kStride;
    at<std::size_t>(entry, 0) = kStride;
    at<const char*>(entry, 16) = kNames[i];
    at<std::size_t>(entry, 24) = std::strlen(kNames[i]);
    at<int>(entry, 32) = 3;
    at<float>(entry, 40) = values[i];
    at<std::size_t>(entry, 48) = 1;
  }
  at<std::size_t>(args, 24) = kNames.size();
  at<const char*>(args, 32) = executable->costs.data();
  return nullptr;
}

Fault* output_count(char* args) {
  at<std::size_t>(args, 24) = at<Executable*>(args, 16)->outputs;
  return nullptr;
}

void delete_serialized(Serialized* serialized) { delete serialized; }

Fault* serialize(char* args) {
  auto* made = new Serialized();
  made->bytes = "fake_executable " + std::to_string(at<Executable*>(args, 16)->outputs);
  if (find_order("bare", "")) made->bytes.clear();
  at<const char*>(args, 24) = made->bytes.data();
  at<std::size_t>(args, 32) = made->bytes.size();
  at<Serialized*>(args, 40) = made;
  at<void (*)(Serialized*)>(args, 48) = &delete_serialized;
  return nullptr;
}

Fault* deserialize(char* args) {
  const std::string bytes(at<const char*>(args, 24), at<std::size_t>(args, 32));
  if (!bytes.starts_with("fake_executable ")) return fault(3, "these bytes are no executable");
  auto* made = new Executable();
  made->outputs = std::stoul(bytes.substr(16));
  at<Executable*>(args, 40) = made;
  return nullptr;
}

Fault* from_host(char* args) {
  auto* made = new Buffer();
  made->type = at<int>(args, 32);
  const auto* dims = at<const std::int64_t*>(args, 40);
  made->dims.assign(dims, dims + at<std::size_t>(args, 48));
  std::size_t bytes = bytes_per_element(made->type);
  for (const std::int64_t dim : made->dims) bytes *= static_cast<std::size_t>(dim);
  made->bytes.assign(at<const char*>(args, 24), bytes);
  at<Event*>(args, 104) = new Event();
  at<Buffer*>(args, 112) = made;
  return nullptr;
}

Fault* execute(char* args) {
  const auto* executable = at<Executable*>(args, 16);
  const auto argument_count = at<std::size_t>(args, 48);
  Buffer* const* const* arguments = at<Buffer* const* const*>(args, 32);
  Buffer** const* outputs = at<Buffer** const*>(args, 56);
  if (argument_count == 0) return fault(3, "a fake program needs an argument");
  const auto error = rest_of_order("break");
  for (std::size_t device = 0; device < at<std::size_t>(args, 40); ++device) {
    for (std::size_t i = 0; i < executable->outputs; ++i) {
      const Buffer* source = arguments[device][i % argument_count];
      auto* made = new Buffer();
      made->type = source->type;
      made->dims = source->dims;
      made->bytes = source->bytes;
      made->is_broken = error.has_value();
      outputs[device][i] = made;
    }
    if (Event** events = at<Event**>(args, 64)) {
      events[device] = new Event();
      events[device]->error = error.value_or("");
    }
  }
  return nullptr;
}

Fault* element_type(char* args) {
  at<int>(args, 24) = at<Buffer*>(args, 16)->type;
  return nullptr;
}

Fault* dimensions(char* args) {
  const auto* buffer = at<Buffer*>(args, 16);
  at<const std::int64_t*>(args, 24) = buffer->dims.data();
  at<std::size_t>(args, 32) = buffer->dims.size();
  return nullptr;
}

Fault* to_host(char* args) {
  const auto* buffer = at<Buffer*>(args, 16);
  if (at<char*>(args, 24) == nullptr) return fault(3, "the layout is missing");
  if (at<std::size_t>(args, 40) < buffer->bytes.size()) return fault(3, "the memory is too small");
  std::memcpy(at<char*>(args, 32), buffer->bytes.data(), buffer->bytes.size());
  auto* done = new Event();
  if (buffer->is_broken) done->error = "there is no result";
  at<Event*>(args, 48) = done;
  return nullptr;
}

Fault* memory_statistics(char* args) {
  at<std::int64_t>(args, 24) = 1234;
  at<std::int64_t>(args, 80) = 5678;
  at<bool>(args, 88) = true;
  return nullptr;
}

struct Row {
  std::size_t slot;
  const char* name;
  std::size_t smallest_arguments;  // as a plugin of today insists on
  Fault* (*function)(char*);
};

constexpr Row kRows[] = {
    {0, "PJRT_Error_Destroy", 24, &destroy<Fault>},
    {1, "PJRT_Error_Message", 40, &error_message},
    {2, "PJRT_Error_GetCode", 28, &error_code},
    {3, "PJRT_Plugin_Initialize", 16, &initialize},
    {4, "PJRT_Plugin_Attributes", 32, &nothing},
    {5, "PJRT_Event_Destroy", 24, &destroy<Event>},
    {8, "PJRT_Event_Await", 24, &await_event},
    {10, "PJRT_Client_Create", 88, &client_create},
    {11, "PJRT_Client_Destroy", 24, &destroy<Client>},
    {12, "PJRT_Client_PlatformName", 40, &platform_name},
    {14, "PJRT_Client_PlatformVersion", 40, &platform_version},
    {16, "PJRT_Client_AddressableDevices", 40, &devices},
    {20, "PJRT_Client_Compile", 56, &compile},
    {22, "PJRT_Client_BufferFromHostBuffer", 120, &from_host},
    {23, "PJRT_DeviceDescription_Id", 28, &device_id},
    {26, "PJRT_DeviceDescription_Kind", 40, &device_kind},
    {29, "PJRT_Device_GetDescription", 32, &same},
    {34, "PJRT_Device_MemoryStats", 201, &memory_statistics},
    {40, "PJRT_Executable_Destroy", 24, &destroy<Executable>},
    {44, "PJRT_Executable_NumOutputs", 32, &output_count},
    {45, "PJRT_Executable_SizeOfGeneratedCodeInBytes", 32, &code_size},
    {46, "PJRT_Executable_GetCostAnalysis", 40, &cost_analysis},
    {49, "PJRT_Executable_Serialize", 56, &serialize},
    {50, "PJRT_LoadedExecutable_Destroy", 24, &destroy<Executable>},
    {51, "PJRT_LoadedExecutable_GetExecutable", 32, &get_executable},
    {55, "PJRT_LoadedExecutable_Execute", 80, &execute},
    {56, "PJRT_Executable_DeserializeAndLoad", 72, &deserialize},
    {58, "PJRT_Buffer_Destroy", 24, &destroy<Buffer>},
    {59, "PJRT_Buffer_ElementType", 28, &element_type},
    {60, "PJRT_Buffer_Dimensions", 40, &dimensions},
    {70, "PJRT_Buffer_ToHostBuffer", 56, &to_host},
    {82, "PJRT_TopologyDescription_Create", 56, &topology_create},
    {83, "PJRT_TopologyDescription_Destroy", 24, &destroy<Topology>},
    {85, "PJRT_TopologyDescription_PlatformVersion", 40, &platform_version},
    {86, "PJRT_TopologyDescription_GetDeviceDescriptions", 40, &topology_devices},
    {89, "PJRT_Compile", 64, &compile_for_topology},
    {96, "PJRT_Executable_GetCompiledMemoryStats", 112, &compiled_memory},
};

[[noreturn]] void hang() {
  while (true) ::pause();
}

void end_if_ordered(const std::string& name) {
  if (find_order("crash", name)) std::raise(SIGSEGV);
  if (find_order("abort", name)) std::abort();
  if (find_order("hang", name)) hang();
  if (const auto file = name.empty() ? std::nullopt : rest_of_order("stall " + name)) {
    while (::access(file->c_str(), F_OK) != 0) ::usleep(2000);
  }
  if (const auto time = name.empty() ? std::nullopt : rest_of_order("slow " + name)) {
    ::usleep(static_cast<unsigned>(std::stoul(*time)) * 1000);
  }
}

template <std::size_t kRow>
Fault* enter(char* args) {
  const Row& row = kRows[kRow];
  end_if_ordered(row.name);
  if (const auto text = rest_of_order(std::string("say ") + row.name)) std::cout << *text << std::endl;
  if (const auto order = rest_of_order(std::string("fail ") + row.name)) {
    if (std::string(row.name).ends_with("_Destroy")) row.function(args);  // refused, yet nothing leaks
    const auto space = order->find(' ');
    return fault(std::stoi(*order), space == std::string::npos ? "" : order->substr(space + 1));
  }
  if (at<std::size_t>(args, 0) < row.smallest_arguments) {
    return fault(3, std::string(row.name) + ": the arguments are too small");
  }
  return row.function(args);
}

template <std::size_t... kRow>
void fill(Table& table, std::index_sequence<kRow...>) {
  ((table.functions[kRows[kRow].slot] =
        find_order("lack", kRows[kRow].name) ? nullptr : reinterpret_cast<void*>(&enter<kRow>)),
   ...);
}

// NOLINTBEGIN(concurrency-mt-unsafe): asked by one thread only.
const Table* answer() {
  static Table table;
  table = Table{};
  fill(table, std::make_index_sequence<std::size(kRows)>());
  if (const auto version = rest_of_order("version")) {
    table.major_version = std::stoi(*version);
    table.minor_version = std::stoi(version->substr(version->find(' ') + 1));
  }
  if (const auto bytes = rest_of_order("struct_size")) table.struct_size = std::stoull(*bytes);
  if (find_order("null", "")) return nullptr;
  end_if_ordered("");
  if (find_order("needs_skip_mds", "") && std::getenv("TPU_SKIP_MDS_QUERY") == nullptr) hang();
  return &table;
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

#ifdef FAKE_PJRT_WITHOUT_ENTRY
extern "C" [[gnu::visibility("default")]] const void* get_another_api() { return answer(); }
#else
extern "C" [[gnu::visibility("default")]] const void* GetPjrtApi() { return answer(); }
extern "C" [[gnu::visibility("default")]] int fake_pjrt_live_objects() { return live_objects; }
#endif
