#include "engines/aten/loader.h"

#include <sys/auxv.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#endif

#include <link.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/build_info.h"
#include "base/build_paths.h"
#include "base/dynamic_library.h"
#include "base/log.h"
#include "base/text.h"
#include "engines/aten/shared_object.h"

namespace kpt {
namespace {

// A failure in the parts that a report shows separately.
struct Problem {
  StatusCode code;
  std::string reason;
  std::string remedy;
};

Status report(const Problem& problem, Finding* finding) {
  if (finding != nullptr) *finding = {Presence::kBroken, problem.reason, problem.remedy};
  return {problem.code, problem.remedy.empty() ? problem.reason : problem.reason + "; " + problem.remedy};
}

std::string minor_text(const aten::TorchVersion& version) { return fmt::format("{}.{}", version.major, version.minor); }

bool same_minor(const aten::TorchVersion& a, const aten::TorchVersion& b) {
  return a.major == b.major && a.minor == b.minor;
}

std::string other_library_remedy(const std::string& needed) {
  return fmt::format("set KPT_TORCH_DIR to a libtorch {}", needed);
}

std::string rebuild_remedy(const aten::TorchVersion& version) {
  return fmt::format("build for it with `KPT_TORCH_VERSION={} make quickstart`", to_string(version));
}

std::string remedy_for(const TorchInstallation& installation) {
  return reinstall_remedy(installation.dir, installation.version ? to_string(*installation.version) : "");
}

// The first line of a complaint, made safe and short.
std::string first_line(std::string_view text) { return printable(trim(text.substr(0, text.find('\n'))), 300); }

// Minor versions ("2.15") for which the folder holds kpt_aten_<major>_<minor>.so.
std::vector<std::string> built_minors(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "kpt_aten_";
  std::vector<std::string> minors;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::string name = entries->path().filename().string();
    if (!name.starts_with(kPrefix) || entries->path().extension() != ".so") continue;
    name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - 3);
    std::ranges::replace(name, '_', '.');
    if (parse_torch_version(name + ".0")) minors.push_back(name);
  }
  std::ranges::sort(minors);
  return minors;
}

// Why a libtorch of this version cannot serve here, or nothing.
std::optional<Problem> judge_version(const aten::TorchVersion& version, const std::filesystem::path& dir,
                                     const std::filesystem::path& modules) {
  const std::vector<std::string> minors = built_minors(modules);
  if (!is_supported(version)) {
    const std::string needed = minors.empty() ? newest_supported() : join(minors, " or ");
    return Problem{StatusCode::kVersionMismatch,
                   fmt::format("libtorch {} at {} is outside the supported range {}", to_string(version), dir.string(),
                               supported_range()),
                   other_library_remedy(needed)};
  }
  if (minors.empty()) {
    return Problem{StatusCode::kNotFound,
                   fmt::format("libtorch {} is at {}, but this build has no ATen engine module in {}",
                               to_string(version), dir.string(), modules.string()),
                   rebuild_remedy(version)};
  }
  if (std::ranges::find(minors, minor_text(version)) == minors.end()) {
    const std::string needed = join(minors, " and ");
    return Problem{
        StatusCode::kVersionMismatch,
        fmt::format("libtorch {} is at {}, but this build was made for {}", to_string(version), dir.string(), needed),
        fmt::format("{} or {}", rebuild_remedy(version), other_library_remedy(join(minors, " or ")))};
  }
  return std::nullopt;
}

// The libtorch_cpu.so that the process holds already, e.g. because it is a Python process that imported torch.
std::optional<std::filesystem::path> find_loaded_libtorch() {
  std::optional<std::filesystem::path> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const std::filesystem::path path(info->dlpi_name != nullptr ? info->dlpi_name : "");
        if (path.filename() != "libtorch_cpu.so") return 0;
        *static_cast<std::optional<std::filesystem::path>*>(data) = path;
        return 1;
      },
      &found);
  return found;
}

std::optional<Problem> check_not_second(const TorchInstallation& installation) {
  const auto loaded = find_loaded_libtorch();
  std::error_code error;
  if (!loaded || std::filesystem::equivalent(*loaded, installation.library("libtorch_cpu.so"), error)) {
    return std::nullopt;
  }
  return Problem{StatusCode::kVersionMismatch,
                 fmt::format("this process has loaded {} already and cannot hold the libtorch at {} beside it",
                             loaded->string(), installation.dir.string()),
                 fmt::format("set KPT_TORCH_DIR to {}", loaded->parent_path().parent_path().string())};
}

// Opens libtorch's own libraries in order, none of which may be damaged.
std::optional<Problem> open_libraries(const TorchInstallation& installation, std::initializer_list<const char*> names,
                                      DynamicLibrary::Visibility visibility, std::optional<DynamicLibrary>* last) {
  for (const char* name : names) {
    const std::filesystem::path path = installation.library(name);
    if (const Status status = check_shared_object(path); !status.ok()) {
      return Problem{status.code(), status.message(), remedy_for(installation)};
    }
    auto library = DynamicLibrary::open(path.string(), visibility);
    if (!library.ok()) {
      return Problem{StatusCode::kVendorLibrary, first_line(library.status().message()), remedy_for(installation)};
    }
    *last = std::move(library).value();
  }
  return std::nullopt;
}

// libtorch's C interface has a function for its own version: major, minor and patch in the three top bytes.
std::optional<aten::TorchVersion> ask_version(const DynamicLibrary& library) {
  const auto function = library.find<std::uint64_t (*)()>("aoti_torch_abi_version");
  if (function == nullptr) return std::nullopt;
  const std::uint64_t encoded = function();
  return aten::TorchVersion{static_cast<std::int32_t>(encoded >> 56 & 0xff),
                            static_cast<std::int32_t>(encoded >> 48 & 0xff),
                            static_cast<std::int32_t>(encoded >> 40 & 0xff)};
}

// NVPL, the BLAS of libtorch's aarch64 wheels, picks its kernels by the processor's name. Where a virtual machine hides
// the vector extension that the name promises (seen: Neoverse-V1 without SVE), its threads wait for each other for
// ever, in Python too. NVPL's own variable makes it take the plain kernels; what the user set stays.
void avoid_missing_vector_kernels() {
#if defined(__aarch64__)
  if ((::getauxval(AT_HWCAP) & HWCAP_SVE) == 0) {
    ::setenv("NVPL_BLAS_DEBUG_CPU_TYPE", "1", /*replace=*/0);  // NOLINT(concurrency-mt-unsafe): under the loading lock
  }
#endif
}

// Opens the installation's libtorch and learns its version.
std::optional<Problem> open_libtorch(const TorchInstallation& installation, const std::filesystem::path& modules,
                                     aten::TorchVersion* version) {
  std::optional<DynamicLibrary> library;
  // Local at first: a wrong version must not serve its symbols to anyone.
  if (auto problem = open_libraries(installation, {"libc10.so", "libtorch_cpu.so"}, DynamicLibrary::Visibility::kLocal,
                                    &library)) {
    return problem;
  }
  const auto answer = ask_version(*library);
  if (!answer && !installation.version) {
    return Problem{StatusCode::kVersionMismatch,
                   fmt::format("the libtorch at {} does not tell its version", installation.dir.string()),
                   other_library_remedy(newest_supported())};
  }
  *version = answer ? *answer : *installation.version;
  if (auto problem = judge_version(*version, installation.dir, modules)) return problem;
  return open_libraries(installation, {"libc10.so", "libtorch_cpu.so"}, DynamicLibrary::Visibility::kGlobal, &library);
}

// Opens one of our modules and checks that it is what its name says.
template <typename Table>
std::optional<Problem> open_module(const std::filesystem::path& path, const char* entry_name,
                                   const aten::TorchVersion& version, const std::filesystem::path& torch_dir,
                                   const Table** table) {
  const std::string remedy = rebuild_remedy(version);
  if (const Status status = check_shared_object(path); !status.ok()) {
    return Problem{status.code(), "the engine module " + status.message(), remedy};
  }
  const auto library = DynamicLibrary::open(path.string());
  if (!library.ok()) {
    return Problem{StatusCode::kVendorLibrary,
                   fmt::format("the engine module does not fit libtorch {} at {}: {}", to_string(version),
                               torch_dir.string(), first_line(library.status().message())),
                   remedy};
  }
  const auto entry = library->find<const Table* (*)()>(entry_name);
  const Table* found = entry != nullptr ? entry() : nullptr;
  if (found == nullptr) {
    return Problem{StatusCode::kVendorLibrary,
                   fmt::format("{} is not an engine module: it has no {}()", path.string(), entry_name), remedy};
  }
  if (found->abi != aten::kModuleAbi) {
    return Problem{StatusCode::kVersionMismatch,
                   fmt::format("the engine module {} has interface {}, this program needs {}", path.string(),
                               found->abi, aten::kModuleAbi),
                   remedy};
  }
  if (found->border != aten::kBorderHash) {
    return Problem{StatusCode::kVersionMismatch,
                   fmt::format("the engine module {} comes from another build than this program", path.string()),
                   remedy};
  }
  if (!same_minor(found->built_for, version)) {
    return Problem{StatusCode::kVersionMismatch,
                   fmt::format("the engine module {} was made for libtorch {}, but {} is at {}", path.string(),
                               to_string(found->built_for), to_string(version), torch_dir.string()),
                   remedy};
  }
  *table = found;
  return std::nullopt;
}

std::filesystem::path module_path(const std::filesystem::path& folder, std::string_view name,
                                  const aten::TorchVersion& version) {
  return folder / fmt::format("{}_{}_{}.so", name, version.major, version.minor);
}

std::optional<Problem> load(const TorchInstallation& installation, const std::filesystem::path& modules,
                            AtenModule* aten) {
  // What the files say is enough to refuse, without a wrong libtorch getting into the process.
  if (installation.version) {
    if (auto problem = judge_version(*installation.version, installation.dir, modules)) return problem;
  }
  if (auto problem = check_not_second(installation)) return problem;
  avoid_missing_vector_kernels();
  if (auto problem = open_libtorch(installation, modules, &aten->library_version)) return problem;
  aten->path = module_path(modules, "kpt_aten", aten->library_version);
  return open_module(aten->path, aten::kModuleEntry, aten->library_version, installation.dir, &aten->table);
}

// What the two kinds of libtorch with GPUs differ in.
struct GpuFiles {
  const char* kind;
  const char* c10;
  const char* library;
  const char* module;
  const char* entry;
  const char* rebuild;
};
constexpr GpuFiles kCudaFiles = {"CUDA",          "libc10_cuda.so",       "libtorch_cuda.so",
                                 "kpt_aten_cuda", aten::kCudaModuleEntry, "make install PRESET=cuda-release"};
constexpr GpuFiles kRocmFiles = {"ROCm",          "libc10_hip.so",        "libtorch_hip.so",
                                 "kpt_aten_rocm", aten::kRocmModuleEntry, "make install"};

// What is missing for GPUs beside a libtorch of this version, or nothing.
std::optional<Problem> judge_gpu_files(const TorchInstallation& installation, const aten::TorchVersion& version,
                                       const std::filesystem::path& modules, const GpuFiles& files) {
  std::error_code error;
  if (!std::filesystem::exists(installation.library(files.library), error)) {
    return Problem{StatusCode::kUnsupported,
                   fmt::format("libtorch {} at {} was built without {}", to_string(version), installation.dir.string(),
                               files.kind),
                   fmt::format("install a {} build of torch", files.kind)};
  }
  if (!std::filesystem::exists(module_path(modules, files.module, version), error)) {
    return Problem{StatusCode::kNotFound,
                   fmt::format("this build has no {} engine module in {}", files.kind, modules.string()),
                   files.rebuild};
  }
  return std::nullopt;
}

std::optional<Problem> load_gpu(const AtenModule& aten, const std::filesystem::path& modules, const GpuFiles& files,
                                AtenCudaModule* gpu) {
  const TorchInstallation& installation = aten.installation;
  if (auto problem = judge_gpu_files(installation, aten.library_version, modules, files)) return problem;
  gpu->path = module_path(modules, files.module, aten.library_version);
  std::optional<DynamicLibrary> last;
  if (auto problem =
          open_libraries(installation, {files.c10, files.library}, DynamicLibrary::Visibility::kGlobal, &last)) {
    return problem;
  }
  return open_module(gpu->path, files.entry, aten.library_version, installation.dir, &gpu->table);
}

// find_torch_installation() with what mends its failure.
Result<TorchInstallation> find_installation(const TorchSearch& search, Finding* finding) {
  auto installation = find_torch_installation(search);
  if (installation.ok()) return installation;
  std::string remedy = "run `make setup`, or set KPT_TORCH_DIR to the folder of a torch package";
  // Without torch a build has no module for one either.
  if (build_info().torch_dir.empty()) remedy = "run `make quickstart`, which builds with libtorch";
  if (!search.torch_dir.empty()) remedy = "set KPT_TORCH_DIR to the folder of a torch package, or unset it";
  const Status failure = report({installation.status().code(), installation.status().message(), remedy}, finding);
  if (finding != nullptr && search.torch_dir.empty()) finding->presence = Presence::kAbsent;
  return failure;
}

// Left out of libtorch or of this build on purpose: nothing is broken.
Status report_gpu(const Problem& problem, Finding* finding) {
  Status failure = report(problem, finding);
  const bool left_out = problem.code == StatusCode::kUnsupported || problem.code == StatusCode::kNotFound;
  if (finding != nullptr && left_out) finding->presence = Presence::kAbsent;
  return failure;
}

// Loading is rare and looks at what the process holds before it adds to it: one at a time.
std::mutex& loading() {
  static std::mutex mutex;
  return mutex;
}

Result<AtenCudaModule> load_gpu_module(const AtenModule& aten, const TorchSearch& search, const GpuFiles& files,
                                       Finding* finding) {
  const std::lock_guard lock(loading());
  AtenCudaModule gpu;
  if (const auto problem = load_gpu(aten, module_folder(search.environment), files, &gpu)) {
    return report_gpu(*problem, finding);
  }
  if (finding != nullptr) *finding = {Presence::kPresent, "", ""};
  return gpu;
}

}  // namespace

Result<AtenModule> load_aten(const TorchSearch& search, Finding* finding) {
  const std::lock_guard lock(loading());
  AtenModule aten;
  KPT_ASSIGN_OR_RETURN(aten.installation, find_installation(search, finding));
  if (const auto problem = load(aten.installation, module_folder(search.environment), &aten)) {
    return report(*problem, finding);
  }
  if (finding != nullptr) *finding = {Presence::kPresent, "", ""};
  log::debug("libtorch loaded",
             {{"dir", aten.installation.dir.string()}, {"version", to_string(aten.library_version)}});
  return aten;
}

Result<AtenCudaModule> load_aten_cuda(const AtenModule& aten, const TorchSearch& search, Finding* finding) {
  return load_gpu_module(aten, search, kCudaFiles, finding);
}

Result<AtenCudaModule> load_aten_rocm(const AtenModule& aten, const TorchSearch& search, Finding* finding) {
  KPT_ASSIGN_OR_RETURN(AtenCudaModule rocm, load_gpu_module(aten, search, kRocmFiles, finding));
  rocm.rocm = true;
  return rocm;
}

Status check_aten_files(const TorchSearch& search, AtenPart part, Finding* finding) {
  KPT_ASSIGN_OR_RETURN(const TorchInstallation installation, find_installation(search, finding));
  const std::filesystem::path modules = module_folder(search.environment);
  // Where the files do not tell the version, only the opened library can.
  if (installation.version) {
    if (const auto problem = judge_version(*installation.version, installation.dir, modules)) {
      return report(*problem, finding);
    }
    const GpuFiles& files = part == AtenPart::kRocm ? kRocmFiles : kCudaFiles;
    const auto lacking =
        part == AtenPart::kCpu ? std::nullopt : judge_gpu_files(installation, *installation.version, modules, files);
    if (lacking) return report_gpu(*lacking, finding);
  }
  if (finding != nullptr) *finding = {Presence::kPresent, "", ""};
  return {};
}

Status to_status(const aten::CallOutcome& outcome, const std::string& what, Vendor vendor) {
  StatusCode code = StatusCode::kVendorLibrary;
  switch (outcome.code) {
    case aten::CallCode::kOk: return {};
    case aten::CallCode::kFailed: break;
    case aten::CallCode::kOutOfMemory: code = StatusCode::kOutOfMemory; break;
    case aten::CallCode::kNoDevice: code = StatusCode::kDeviceNotAvailable; break;
    case aten::CallCode::kInvalidArgument: code = StatusCode::kInvalidArgument; break;
    case aten::CallCode::kOutOfHostMemory:
      return {StatusCode::kOutOfMemory,
              fmt::format("{} failed: the host's memory ran out: {}", what, first_line(outcome.text))};
  }
  return {code, fmt::format("{} failed: {}", what, first_line(outcome.text)), vendor};
}

}  // namespace kpt
