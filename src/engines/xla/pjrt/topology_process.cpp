#include "engines/xla/pjrt/topology_process.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/build_paths.h"
#include "base/child_process.h"
#include "base/sha256.h"
#include "base/text.h"
#include "device/machine_architecture.h"
#include "engines/xla/pjrt/compile_lock.h"
#include "engines/xla/pjrt/exchange_folder.h"

namespace kpt::pjrt {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr std::string_view kProgram = "kpt-tpu-compile";
constexpr std::string_view kForeign = "x86_64";  // what TPU compilers are made for
constexpr std::string_view kEmulator = "qemu-x86_64-static";
constexpr std::string_view kForeignLoader = "/lib64/ld-linux-x86-64.so.2";
constexpr std::size_t kMaxExecutableBytes = std::size_t{1} << 34U;
constexpr std::size_t kMaxMessageBytes = 2000;

Status failure(StatusCode code, std::string message) { return {code, std::move(message), Vendor::kTpu}; }

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000.0; }

std::string find_in_path(std::string_view program, const Environment& environment) {
  const std::string folders = environment.find("PATH").value_or("/usr/bin:/bin");
  for (const std::string_view folder : split(folders, ':')) {
    if (folder.empty()) continue;
    const fs::path path = fs::path(folder) / program;
    if (::access(path.c_str(), X_OK) == 0) return path.string();
  }
  return "";
}

// How the compile program is started for this plugin.
struct Start {
  std::vector<std::string> command;  // before its own arguments
  std::string missing_package;       // when something is not here: `command` is empty then
  std::string missing;               // what it is
};

Result<Start> find_start(const std::string& library, const Environment& environment, const SystemFiles& files) {
  const auto made_for = read_elf_architecture(library);
  if (!made_for.ok()) return failure(made_for.status().code(), made_for.status().message());
  const std::string host = find_host_architecture(files);
  Start start;
  if (*made_for == host) {
    KPT_ASSIGN_OR_RETURN(const fs::path program, find_helper(environment, std::string(kProgram)));
    start.command = {program.string()};
    return start;
  }
  if (*made_for != kForeign) {
    return failure(StatusCode::kUnsupported, fmt::format("{} is made for {}, this machine is {}; only {} is emulated",
                                                         library, *made_for, host, kForeign));
  }
  const auto program = find_helper(environment, fmt::format("{}-{}", kProgram, kForeign));
  const std::string emulator = find_in_path(kEmulator, environment);
  if (!program.ok()) {
    start.missing_package = "g++-x86-64-linux-gnu";
    start.missing = fmt::format("the program {}-{}, which is built where that cross compiler is", kProgram, kForeign);
  } else if (emulator.empty()) {
    start.missing_package = "qemu-user-static";
    start.missing = fmt::format("the emulator {}", kEmulator);
  } else if (!files.exists(kForeignLoader)) {
    start.missing_package = "libc6:amd64 libstdc++6:amd64";
    start.missing = fmt::format("{} (after dpkg --add-architecture amd64)", kForeignLoader);
  } else {
    start.command = {emulator, "-cpu", "max", "-L", "/", program->string()};
  }
  return start;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// The limit is set by a shell, so that it holds for an emulator too: one that emulates setrlimit() keeps it from
// itself.
std::vector<std::string> limited(std::vector<std::string> command, std::uint64_t memory_bytes) {
  if (memory_bytes == 0) return command;
  std::vector<std::string> all = {"/bin/sh", "-c", "ulimit -d \"$1\" && shift && exec \"$@\"", std::string(kProgram),
                                  std::to_string(memory_bytes / 1024)};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

// PJRT's codes are those of abseil.
StatusCode code_of(std::int64_t code, std::string_view call) {
  if (call.empty()) return StatusCode::kVendorLibrary;
  switch (code) {
    case 7: return StatusCode::kPermissionDenied;
    case 8: return StatusCode::kOutOfMemory;
    case 12: return StatusCode::kUnsupported;
    case 14: return StatusCode::kDeviceNotAvailable;
    default: return call == "PJRT_TopologyDescription_Create" ? StatusCode::kInvalidArgument : StatusCode::kCompilation;
  }
}

// Nothing was run, so none of it is about a device that is here.
std::string_view compiler_remedy_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOutOfMemory: return "use smaller sizes, a smaller element type or a generation with more memory";
    case StatusCode::kPermissionDenied:
    case StatusCode::kDeviceNotAvailable: return "see what libtpu lacks here: kpt doctor --category tpu";
    case StatusCode::kInvalidArgument: return "install another release of libtpu, or compile for another slice";
    case StatusCode::kUnsupported:
    case StatusCode::kVendorLibrary: return "install another release of libtpu";
    default: return "try another release of libtpu, or report it with the model";
  }
}

Status read_failure(const Json& json) {
  const std::string call = json.at("call").get<std::string>();
  const auto code = json.at("code").get<std::int64_t>();
  const std::string message = printable(json.at("message").get<std::string>(), kMaxMessageBytes);
  const StatusCode ours = code_of(code, call);
  const std::string what =
      call.empty() ? "the TPU compiler's library cannot be used" : fmt::format("the TPU compiler refused ({})", call);
  return failure(ours, fmt::format("{}: {}; {}", what, trim(message), compiler_remedy_of(ours)));
}

std::optional<std::uint64_t> read_count(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, found->get<std::int64_t>()));
}

std::optional<double> read_number(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  const auto value = found->get<double>();
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

CompileFigures read_figures(const Json& json) {
  CompileFigures figures;
  figures.compiler =
      describe_compiler(json.at("api").get<std::string>(), json.at("platform_version").get<std::string>());
  figures.device_kind = printable(json.at("device_kind").get<std::string>(), 100);
  figures.code_bytes = read_count(json, "code_bytes");
  figures.argument_bytes = read_count(json, "argument_bytes");
  figures.output_bytes = read_count(json, "output_bytes");
  figures.alias_bytes = read_count(json, "alias_bytes");
  figures.temporary_bytes = read_count(json, "temporary_bytes");
  figures.peak_bytes = read_count(json, "peak_bytes");
  figures.flops = read_number(json, "flops");
  figures.transcendentals = read_number(json, "transcendentals");
  figures.bytes_accessed = read_number(json, "bytes_accessed");
  figures.compiler_seconds = read_number(json, "optimal_seconds");
  return figures;
}

std::string last_line(std::string_view text) {
  text = trim(text);
  const auto start = text.rfind('\n');
  return printable(start == std::string_view::npos ? text : text.substr(start + 1), 400);
}

bool has_answer(const std::string& output) { return output.find(fmt::format("{}: {{", kProgram)) != std::string::npos; }

Status describe_end(const ChildOutcome& outcome, const TopologyLimits& limits, milliseconds given) {
  if (outcome.timed_out) {
    return failure(StatusCode::kCompilationTimeout,
                   fmt::format("compiling for a TPU was stopped after {:.1f} s; raise the option {}, or make the model "
                               "or its sizes smaller",
                               seconds(given), limits.time_option));
  }
  const std::string complaint = last_line(outcome.standard_error);
  return failure(StatusCode::kCompilation,
                 fmt::format("the TPU compiler ended without an answer: {}{}{}{}", outcome.describe(given),
                             complaint.empty() ? "" : ": ", complaint,
                             limits.memory_bytes == 0 ? ""
                                                      : fmt::format("; it may use {} (option tpu.compile_memory_bytes)",
                                                                    format_bytes(limits.memory_bytes))));
}

}  // namespace

std::string describe_compiler(std::string_view api, std::string_view platform_version) {
  const std::string version = printable(platform_version, 200);
  return fmt::format("PJRT {}{}{}", printable(api, 20), trim(version).empty() ? "" : "; ", trim(version));
}

fs::path topology_lock_path(const std::string& library) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  const fs::path folder = error ? fs::path("/tmp") : parent;
  const fs::path real = fs::weakly_canonical(library, error);
  const std::string digest = sha256_hex(error ? library : real.string());
  return folder / fmt::format("{}-{}-{}.lock", kProgram, ::geteuid(), digest.substr(0, 16));
}

std::string find_missing_package(const std::string& library, const Environment& environment, const SystemFiles& files) {
  const auto start = find_start(library, environment, files);
  return start.ok() ? start->missing_package : "";
}

Result<TopologyProgram> read_topology_answer(const std::string& output) {
  const std::string mark = fmt::format("{}: ", kProgram);
  for (const std::string_view line : split(output, '\n')) {
    if (!line.starts_with(mark)) continue;
    try {
      const Json json = Json::parse(printable(line.substr(mark.size())));
      if (json.contains("failure")) return read_failure(json.at("failure"));
      TopologyProgram program;
      program.figures = read_figures(json.at("figures"));
      program.devices = json.at("figures").at("devices").get<std::int64_t>();
      return program;
    } catch (const Json::exception& error) {
      return failure(StatusCode::kCompilation,
                     fmt::format("the answer of {} cannot be read: {}", kProgram, printable(error.what(), 200)));
    }
  }
  return failure(StatusCode::kCompilation, fmt::format("{} ended without an answer", kProgram));
}

Result<TopologyProgram> compile_topology_in_child(const TopologyRequest& request, const TopologyLimits& limits,
                                                  const Environment& environment, const SystemFiles& files) {
  KPT_ASSIGN_OR_RETURN(const Start start, find_start(request.library, environment, files));
  if (start.command.empty()) {
    return failure(StatusCode::kNotFound,
                   fmt::format("compiling for TPUs on this processor needs {}; apt-get install {}", start.missing,
                               start.missing_package));
  }
  // A limit of centuries would overflow the clock.
  const Clock::time_point deadline = Clock::now() + std::min<milliseconds>(limits.time, std::chrono::hours(24 * 365));
  KPT_ASSIGN_OR_RETURN(const CompileLock lock, CompileLock::take(topology_lock_path(request.library), deadline));
  KPT_ASSIGN_OR_RETURN(const ExchangeFolder folder, ExchangeFolder::make());
  KPT_RETURN_IF_ERROR(write_file_atomically(folder.request(), request.module_text));
  ChildCommand command;
  command.arguments = start.command;
  command.arguments.insert(
      command.arguments.end(),
      {request.library, request.topology, to_hex(request.compile_options),
       request.chips_per_host.empty() ? "-" : fmt::format("{}", fmt::join(request.chips_per_host, ",")),
       request.chip_config.empty() ? "-" : request.chip_config, folder.request().string(), folder.result().string()});
  command.arguments = limited(std::move(command.arguments), limits.memory_bytes);
  // Away from Google's cloud the library would wait for a metadata server; it compiles for one host.
  command.environment_overrides = {"TPU_SKIP_MDS_QUERY=1", "TPU_WORKER_HOSTNAMES=localhost"};
  if (limits.beside_client) command.environment_overrides.emplace_back("ALLOW_MULTIPLE_LIBTPU_LOAD=1");
  command.time_limit = std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
  KPT_ASSIGN_OR_RETURN(const ChildOutcome outcome, run_child(command));
  const bool answered = !outcome.timed_out && outcome.signal == 0 && has_answer(outcome.standard_output);
  if (!answered) return describe_end(outcome, limits, limits.time);
  KPT_ASSIGN_OR_RETURN(TopologyProgram program, read_topology_answer(outcome.standard_output));
  KPT_ASSIGN_OR_RETURN(program.executable, read_text_file(folder.result(), kMaxExecutableBytes));
  if (program.executable.empty()) {
    return failure(StatusCode::kCompilation, fmt::format("{} wrote no executable", kProgram));
  }
  return program;
}

}  // namespace kpt::pjrt
