#include "backends/amd/hip_compiler.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/code_object.h"
#include "backends/amd/target_traits.h"
#include "base/child_process.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/timing.h"
#include "kernels/gpu/kernel_sources.h"

namespace kpt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCodeObject = 256U << 20U;

Result<const AmdArchitecture*> get_architecture(std::string_view gfx_target) {
  const AmdArchitecture* row = find_amd_architecture(gfx_target);
  if (row != nullptr) return row;
  return Status(StatusCode::kInvalidArchitecture,
                fmt::format("there is no AMD target {} in this release", printable(gfx_target, 64)), Vendor::kAmd);
}

// A folder for one compilation, gone with the object.
class WorkFolder {
 public:
  static Result<WorkFolder> make() {
    static std::atomic<unsigned> counter = 0;
    std::error_code error;
    const fs::path base = fs::temp_directory_path(error);
    if (error) return Status(StatusCode::kIo, "there is no folder for temporary files: " + error.message());
    std::string pattern = (base / fmt::format("kpt-hip-{}-XXXXXX", counter++)).string();
    if (::mkdtemp(pattern.data()) == nullptr) return file_failure("cannot make", pattern, errno);
    return WorkFolder(pattern);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit WorkFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// A path that stays below the folder it is put into.
bool is_plain_path(std::string_view path) {
  if (path.empty() || path.starts_with('/')) return false;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

Status write_sources(const HipSource& source, const fs::path& folder) {
  if (!is_plain_path(source.name) || source.name.find('/') != std::string::npos) {
    return {StatusCode::kInvalidArgument,
            fmt::format("'{}' is no name for a kernel source", printable(source.name, 100))};
  }
  for (const HipFile& file : source.headers) {
    if (!is_plain_path(file.path)) {
      return {StatusCode::kInvalidArgument, fmt::format("'{}' is no path for a header", printable(file.path, 100))};
    }
    KPT_RETURN_IF_ERROR(write_file_atomically(folder / "include" / file.path, file.text));
  }
  return write_file_atomically(folder / source.name, source.text);
}

std::vector<std::string> base_options(std::string_view gfx_target) {
  return {"-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", fmt::format("--offload-arch={}", gfx_target)};
}

std::vector<std::string> compile_arguments(const HipCompiler& compiler, const HipSource& source,
                                           const AmdArchitecture& architecture, const fs::path& folder) {
  std::vector<std::string> arguments = {compiler.path};
  std::ranges::move(hip_options(architecture), std::back_inserter(arguments));
  arguments.push_back("-I" + (folder / "include").string());
  arguments.insert(arguments.end(), {"-o", (folder / "result").string(), (folder / source.name).string()});
  return arguments;
}

// "norm.hip:12:5: error: use of undeclared identifier" as a Status; paths lose the folder they were in.
Status compiler_error(const HipSource& source, std::string_view gfx_target, const std::string& output,
                      const std::string& outcome, const fs::path& folder) {
  const std::string fallback = fmt::format("the compiler ended with {} and no error", outcome);
  for (const std::string_view line : split(output, '\n')) {
    const std::size_t at = line.find("error: ");
    if (at == std::string_view::npos) continue;
    const std::string text = printable(line.substr(at + 7), 400);
    std::string_view place = line.substr(0, at);
    for (const std::string& prefix : {(folder / "include").string() + "/", folder.string() + "/"}) {
      if (place.starts_with(prefix)) {
        place.remove_prefix(prefix.size());
        break;
      }
    }
    const auto parts = split(place, ':');
    if (parts.size() >= 3 && parse_uint(parts[1])) {
      return Status(StatusCode::kKernelCompilation,
                    fmt::format("{} line {} does not compile for {}: {}", printable(parts[0], 200), parts[1],
                                gfx_target, text),
                    Vendor::kAmd)
          .with("file", printable(parts[0], 200))
          .with("line", std::string(parts[1]))
          .with("text", text);
    }
    return {StatusCode::kKernelCompilation,
            fmt::format("{} does not compile for {}: {}", source.name, gfx_target, text), Vendor::kAmd};
  }
  return {StatusCode::kKernelCompilation,
          fmt::format("{} does not compile for {}: {}", source.name, gfx_target, fallback), Vendor::kAmd};
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

Status check_target(const std::string& object, std::string_view gfx_target) {
  const auto read = read_code_object(bytes_of(object));
  if (!read.ok()) return read.status();
  if (read->gfx_target == gfx_target) return {};
  return {StatusCode::kCorruptData,
          fmt::format("a code object for {} came where one for {} was asked for", read->gfx_target, gfx_target)};
}

// What a compiler prints to standard output; nothing when it fails or does not answer in time.
std::optional<std::string> ask(std::vector<std::string> arguments, std::chrono::milliseconds limit) {
  ChildCommand command;
  command.arguments = std::move(arguments);
  command.time_limit = limit;
  auto outcome = run_child(command);
  if (!outcome.ok() || !outcome->succeeded()) return std::nullopt;
  return std::move(outcome->standard_output);
}

bool accepts_target(const std::string& compiler, std::string_view gfx_target, std::chrono::milliseconds limit) {
  std::vector<std::string> arguments = {compiler};
  std::ranges::move(base_options(gfx_target), std::back_inserter(arguments));
  arguments.insert(arguments.end(), {"-fsyntax-only", "/dev/null"});
  return ask(std::move(arguments), limit).has_value();
}

// Empty when it does not answer.
std::string version_of(const std::string& compiler, std::chrono::milliseconds limit) {
  const std::string answer = ask({compiler, "--version"}, limit).value_or("");
  const auto lines = split(answer, '\n');
  return lines.empty() ? "" : printable(trim(lines.front()), 200);
}

// Code objects are linked by the lld that the compiler finds: beside itself or in PATH.
bool finds_linker(const std::string& compiler, std::chrono::milliseconds limit) {
  const fs::path linker(trim(ask({compiler, "-print-prog-name=lld"}, limit).value_or("")));
  std::error_code error;
  return linker.is_absolute() && fs::is_regular_file(linker, error);
}

struct CompilerCandidate {
  std::string path;
  bool any_version;  // neither its name nor its place says how old it is
};

// "Debian clang version 14.0.6" → 14.
std::optional<std::uint64_t> find_clang_version(std::string_view line) {
  constexpr std::string_view kBefore = "clang version ";
  const std::size_t at = line.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = line.substr(at + kBefore.size());
  return parse_uint(number.substr(0, number.find_first_not_of("0123456789")));
}

// Older ones know many targets and then fail at our source. ROCm's clang has ROCm's age, whatever LLVM calls it.
std::string find_age_fault(std::string_view version) {
  constexpr std::uint64_t kOldest = 19;
  if (version.starts_with("AMD clang")) return "";
  const auto number = find_clang_version(version);
  if (!number) return "does not say which clang it is";
  return *number < kOldest ? fmt::format("is clang {}, and our kernels need {}", *number, kOldest) : "";
}

// Why no target can be compiled with it; empty when one may.
std::string find_fault(const CompilerCandidate& candidate, const std::string& version,
                       std::chrono::milliseconds limit) {
  if (version.empty()) return "does not answer to --version";
  if (candidate.any_version) {
    if (std::string fault = find_age_fault(version); !fault.empty()) return fault;
  }
  return finds_linker(candidate.path, limit) ? "" : "finds no lld";
}

std::vector<CompilerCandidate> find_compiler_candidates(const Environment& environment) {
  constexpr std::string_view kPlain = "clang++";
  constexpr std::array<std::string_view, 6> kSystemNames = {"amdclang++", "clang++-22", "clang++-21",
                                                            "clang++-20", "clang++-19", kPlain};
  std::vector<CompilerCandidate> candidates;
  if (const auto rocm = environment.find("ROCM_PATH")) candidates.push_back({*rocm + "/llvm/bin/clang++", false});
  candidates.push_back({"/opt/rocm/llvm/bin/clang++", false});
  const std::string searched = environment.find("PATH").value_or("");
  for (const std::string_view name : kSystemNames) {
    for (const std::string_view folder : split(searched, ':')) {
      // A relative entry would run what lies in the current folder.
      if (folder.starts_with('/')) candidates.push_back({fmt::format("{}/{}", folder, name), name == kPlain});
    }
  }
  return candidates;
}

// The headers that a text includes, and what they include. Others would change the cache key.
void add_included(std::string_view text, std::vector<HipFile>& headers) {
  for (const std::string_view line : split(text, '\n')) {
    constexpr std::string_view kInclude = "#include \"";
    if (!line.starts_with(kInclude)) continue;
    const std::string_view path = line.substr(kInclude.size(), line.rfind('"') - kInclude.size());
    const auto sources = gpu::kernel_sources();
    const auto found = std::ranges::find(sources, path, &gpu::SourceFile::path);
    if (found == sources.end() || std::ranges::find(headers, path, &HipFile::path) != headers.end()) continue;
    headers.push_back({std::string(found->path), std::string(found->text)});
    add_included(found->text, headers);
  }
}

}  // namespace

std::vector<std::string> hip_options(const AmdArchitecture& architecture) {
  std::vector<std::string> options = base_options(architecture.gfx_target);
  for (const char* option : {"-std=c++20", "-O3", "-mcode-object-version=5", "--no-gpu-bundle-output",
                             "-fno-color-diagnostics", "-fno-caret-diagnostics", "-ferror-limit=5"}) {
    options.emplace_back(option);
  }
  // One compute unit for a workgroup: its barrier then needs no invalidation of caches.
  if (architecture.wavefront_size == 32) options.emplace_back("-mcumode");
  options.push_back(fmt::format("-DKPT_WAVE={}", architecture.wavefront_size));
  options.push_back(fmt::format("-DKPT_SIMD_REGISTERS={}", architecture.registers.registers));
  return options;
}

Result<HipSource> own_kernels(std::string_view family) {
  HipSource source;
  source.name = std::string(family) + ".hip";
  source.text = gpu::hip_source(family);
  if (source.text.empty()) {
    return Status(StatusCode::kNotFound, fmt::format("there is no family of kernels '{}'", printable(family, 64)));
  }
  add_included(source.text, source.headers);
  std::ranges::sort(source.headers, {}, &HipFile::path);
  return source;
}

std::string source_digest(const HipSource& source) {
  CacheKey key("hip-source");
  key.add("name", source.name).add("text", source.text);
  for (const HipFile& file : source.headers) key.add(file.path, file.text);
  return key.digest();
}

std::vector<HipCompilerChoice> find_hip_compilers(const Environment& environment,
                                                  std::span<const std::string> gfx_targets,
                                                  std::chrono::milliseconds question_limit) {
  std::vector<HipCompilerChoice> choices(gfx_targets.size());
  for (const CompilerCandidate& candidate : find_compiler_candidates(environment)) {
    const std::string& path = candidate.path;
    if (std::ranges::all_of(choices, [](const HipCompilerChoice& choice) { return choice.compiler.has_value(); }))
      break;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    const HipCompiler compiler{path, version_of(path, question_limit)};
    const std::string fault = find_fault(candidate, compiler.version, question_limit);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].compiler) continue;
      if (fault.empty() && accepts_target(path, gfx_targets[i], question_limit)) {
        choices[i] = {compiler, ""};
      } else if (choices[i].reason.empty()) {
        choices[i].reason = fmt::format("{} {}", path, fault.empty() ? "does not know it" : fault);
      }
    }
  }
  for (HipCompilerChoice& choice : choices) {
    if (!choice.compiler && choice.reason.empty()) choice.reason = "there is none here";
  }
  return choices;
}

Result<HipCompiler> find_hip_compiler(const Environment& environment, std::string_view gfx_target) {
  KPT_RETURN_IF_ERROR(get_architecture(gfx_target).status());
  const std::string target(gfx_target);
  HipCompilerChoice choice = std::move(find_hip_compilers(environment, std::span(&target, 1)).front());
  if (choice.compiler) return *std::move(choice.compiler);
  return Status(StatusCode::kUnsupported,
                fmt::format("no compiler for {}: {}; install clang-22 and lld-22, or ROCm", gfx_target, choice.reason),
                Vendor::kAmd);
}

bool runs_family(const AmdArchitecture& architecture, const gpu::KernelFamily& family) {
  return family.unit == gpu::MatrixUnit::kNone || family.unit == matrix_unit_of(architecture);
}

namespace {

// What the compiler wrote: a code object, or assembly with `more` = {"-S"}.
Result<std::string> run_compiler(const HipCompiler& compiler, const HipSource& source, std::string_view gfx_target,
                                 std::chrono::milliseconds time_limit, const std::vector<std::string>& more) {
  KPT_ASSIGN_OR_RETURN(const AmdArchitecture* architecture, get_architecture(gfx_target));
  KPT_ASSIGN_OR_RETURN(const WorkFolder folder, WorkFolder::make());
  KPT_RETURN_IF_ERROR(write_sources(source, folder.path()));
  ChildCommand command;
  command.arguments = compile_arguments(compiler, source, *architecture, folder.path());
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  command.time_limit = time_limit;
  KPT_ASSIGN_OR_RETURN(const ChildOutcome outcome, run_child(command));
  if (outcome.timed_out) {
    return Status(StatusCode::kCompilationTimeout,
                  fmt::format("{} for {}: {}", source.name, gfx_target, outcome.describe(time_limit)), Vendor::kAmd);
  }
  if (!outcome.succeeded()) {
    return compiler_error(source, gfx_target, outcome.standard_error, outcome.describe(time_limit), folder.path());
  }
  return read_text_file(folder.path() / "result", kMaxCodeObject);
}

}  // namespace

Result<std::string> compile_hip(const HipCompiler& compiler, const HipSource& source, std::string_view gfx_target,
                                std::chrono::milliseconds time_limit, const std::vector<std::string>& options) {
  KPT_ASSIGN_OR_RETURN(std::string object, run_compiler(compiler, source, gfx_target, time_limit, options));
  if (const Status status = check_target(object, gfx_target); !status.ok()) {
    return Status(StatusCode::kKernelCompilation,
                  fmt::format("{} made of {} what cannot be used: {}", compiler.path, source.name, status.message()),
                  Vendor::kAmd);
  }
  return object;
}

Result<std::string> hip_assembly(const HipCompiler& compiler, const HipSource& source, std::string_view gfx_target,
                                 std::chrono::milliseconds time_limit) {
  return run_compiler(compiler, source, gfx_target, time_limit, {"-S"});
}

std::optional<std::string> HipCompileCache::find_kept(const CacheKey& key, std::string_view gfx_target) {
  if (cache_ == nullptr) return std::nullopt;
  auto kept = cache_->get(key);
  if (!kept.ok()) {
    log::warn(kept.status().to_string());
    return std::nullopt;
  }
  if (!kept->has_value()) return std::nullopt;
  if (const Status status = check_target(**kept, gfx_target); !status.ok()) {
    log::warn(status.to_string());
    return std::nullopt;
  }
  return *std::move(kept);
}

CacheKey hip_cache_key(const HipCompiler& compiler, const HipSource& source, std::span<const std::string> options) {
  CacheKey key("amd-kernel");
  key.add("format", std::uint64_t{2}).add("compiler", compiler.version);
  key.add("name", source.name).add("text", source.text);
  for (const HipFile& file : source.headers) key.add(file.path, file.text);
  for (const std::string& option : options) key.add("option", option);
  return key;
}

Result<std::string> HipCompileCache::compile(const HipSource& source, std::string_view gfx_target) {
  KPT_ASSIGN_OR_RETURN(const AmdArchitecture* architecture, get_architecture(gfx_target));
  std::vector<std::string> options = hip_options(*architecture);
  options.insert(options.end(), options_.begin(), options_.end());
  const CacheKey key = hip_cache_key(compiler_, source, options);
  auto kept = find_kept(key, gfx_target);
  {
    const std::lock_guard lock(mutex_);
    ++(kept ? statistics_.hits : statistics_.misses);
    if (!kept) ++statistics_.compilations;
  }
  if (kept) return std::move(*kept);
  const auto start = std::chrono::steady_clock::now();
  auto object = compile_hip(compiler_, source, gfx_target, time_limit_, options_);
  if (!object.ok()) {
    const std::lock_guard lock(mutex_);
    ++statistics_.errors;
    return object;
  }
  log::info("GPU kernels compiled", {{"source", source.name},
                                     {"target", std::string(gfx_target)},
                                     {"milliseconds", fmt::format("{:.1f}", milliseconds_since(start))}});
  if (cache_ != nullptr) {
    if (const Status status = cache_->put(key, *object); !status.ok()) log::warn(status.to_string());
  }
  return object;
}

CompileStatistics HipCompileCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace kpt
