#include "engines/aten/torch_installation.h"

#include <algorithm>
#include <array>
#include <system_error>

#include <fmt/format.h>

#include "base/build_info.h"
#include "base/files.h"
#include "base/text.h"
#include "device/python_environments.h"

namespace kpt {
namespace {

// KPT_TORCH_OLDEST and KPT_TORCH_NEWEST are macros from CMake, "2.11" and "2.15".
constexpr std::string_view kOldest = KPT_TORCH_OLDEST;
constexpr std::string_view kNewest = KPT_TORCH_NEWEST;

bool has_libtorch(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "lib" / "libtorch_cpu.so", error);
}

// `folder` itself, or the torch package in it when it is a site-packages folder or a virtual environment.
std::optional<std::filesystem::path> find_in(const std::filesystem::path& folder) {
  if (has_libtorch(folder)) return folder;
  if (has_libtorch(folder / "torch")) return folder / "torch";
  std::error_code error;
  std::filesystem::directory_iterator entries(folder / "lib", error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (!entries->path().filename().string().starts_with("python3")) continue;
    std::filesystem::path torch = entries->path() / "site-packages" / "torch";
    if (has_libtorch(torch)) return torch;
  }
  return std::nullopt;
}

// The quoted value of `name = '…'` or `name: Optional[str] = '…'` on a line of its own; nothing for None.
std::optional<std::string> find_assignment(std::string_view text, std::string_view name) {
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    if (!rest.starts_with(' ') && !rest.starts_with(':') && !rest.starts_with('=')) continue;
    const auto equals = rest.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view value = trim(rest.substr(equals + 1));
    if (value.size() < 2 || (value.front() != '\'' && value.front() != '"')) return std::nullopt;
    const auto end = value.find(value.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    return std::string(value.substr(1, end - 1));
  }
  return std::nullopt;
}

// What an archive's version says: "2.15.0+rocm7.1", "2.15.0+cu132", "2.15.0+cpu". Empty when it does not.
std::string flavour_of(std::string_view version_text) {
  const auto plus = version_text.find('+');
  const std::string_view suffix = plus == std::string_view::npos ? "" : version_text.substr(plus + 1);
  if (suffix == "cpu") return "none";
  if (suffix.starts_with("rocm")) return fmt::format("rocm {}", suffix.substr(4));
  if (suffix.starts_with("cu") && suffix.size() > 3 && parse_uint(suffix.substr(2))) {
    return fmt::format("{}.{}", suffix.substr(2, suffix.size() - 3), suffix.back());
  }
  return "";
}

// The three numbers that a wheel's cudnn_version.h defines; empty unless all of them are there.
std::string parse_cudnn_version(std::string_view header) {
  std::string version;
  for (const std::string_view name : {"CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"}) {
    std::optional<std::uint64_t> number;
    for (const std::string_view line : split(header, '\n')) {
      const std::string_view rest = line.starts_with("#define ") ? line.substr(8) : std::string_view();
      if (!rest.starts_with(name) || !rest.substr(name.size()).starts_with(' ')) continue;
      number = parse_uint(trim(rest.substr(name.size())));
    }
    if (!number) return "";
    version += fmt::format("{}{}", version.empty() ? "" : ".", *number);
  }
  return version;
}

TorchInstallation describe(const std::filesystem::path& dir, std::string source) {
  constexpr std::size_t kMaxBytes = 64 << 10;
  TorchInstallation installation;
  installation.dir = dir;
  installation.source = std::move(source);
  if (const auto text = read_text_file(dir / "version.py", kMaxBytes); text.ok()) {
    installation.version_text = find_assignment(*text, "__version__").value_or("");
    const auto cuda = find_assignment(*text, "cuda");
    const auto hip = find_assignment(*text, "hip");
    // A file that names no version says nothing reliable about the flavour either.
    if (cuda) {
      installation.flavour = *cuda;
    } else if (hip) {
      installation.flavour = "rocm " + *hip;
    } else if (!installation.version_text.empty()) {
      installation.flavour = "none";
    }
  } else if (const auto line = read_text_file(dir / "build-version", kMaxBytes); line.ok()) {
    // An unpacked libtorch archive has no version.py, only this line.
    installation.version_text = std::string(trim(*line));
    installation.flavour = flavour_of(installation.version_text);
  }
  const bool cuda = parse_uint(installation.flavour.substr(0, installation.flavour.find('.'))).has_value();
  const auto header = read_text_file(dir.parent_path() / "nvidia/cudnn/include/cudnn_version.h", kMaxBytes);
  if (cuda && header.ok()) installation.cudnn_version = parse_cudnn_version(*header);
  installation.version = parse_torch_version(installation.version_text);
  if (!installation.version) installation.version_text.clear();
  std::error_code error;
  installation.rocm = installation.flavour.starts_with("rocm") ||
                      std::filesystem::exists(installation.library("libtorch_hip.so"), error);
  return installation;
}

std::pair<std::int32_t, std::int32_t> minor_of(std::string_view text) {
  const auto version = parse_torch_version(std::string(text) + ".0").value_or(aten::TorchVersion{});
  return {version.major, version.minor};
}

}  // namespace

std::optional<aten::TorchVersion> parse_torch_version(std::string_view text) {
  std::array<std::int32_t, 3> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = parse_uint(text.substr(0, end));
    if (!number || *number > 255) return std::nullopt;
    numbers[i] = static_cast<std::int32_t>(*number);
    text.remove_prefix(end);
    if (i == 2) break;
    if (!text.starts_with('.')) return std::nullopt;
    text.remove_prefix(1);
  }
  return aten::TorchVersion{numbers[0], numbers[1], numbers[2]};
}

std::string to_string(const aten::TorchVersion& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

bool is_supported(const aten::TorchVersion& version) {
  const std::pair minor(version.major, version.minor);
  return minor >= minor_of(kOldest) && minor <= minor_of(kNewest);
}

std::string supported_range() { return fmt::format("{} to {}", kOldest, kNewest); }
std::string newest_supported() { return std::string(kNewest); }

std::string reinstall_remedy(const std::filesystem::path& torch_dir, std::string_view version) {
  const std::string package = version.empty() ? "torch" : fmt::format("torch=={}", version);
  const std::filesystem::path dir = torch_dir.has_filename() ? torch_dir : torch_dir.parent_path();
  const std::filesystem::path folder = dir.parent_path();
  if (dir.filename() == "torch" && folder.filename().string().ends_with("-packages")) {
    return pip_command(folder, "--force-reinstall " + package);
  }
  return fmt::format("put {} into {} again, or set KPT_TORCH_DIR to another", package, dir.string());
}

Result<TorchInstallation> find_torch_installation(const TorchSearch& search) {
  if (!search.torch_dir.empty()) {
    if (const auto dir = find_in(search.torch_dir)) return describe(*dir, "option torch.dir");
    return Status(
        StatusCode::kNotFound,
        fmt::format("option torch.dir names {}, but there is no lib/libtorch_cpu.so in it", search.torch_dir));
  }
  const std::filesystem::path built_with(build_info().torch_dir);
  if (!built_with.empty() && has_libtorch(built_with)) return describe(built_with, "build");
  for (const std::filesystem::path& folder : search.site_packages) {
    if (has_libtorch(folder / "torch")) return describe(folder / "torch", "python environment");
  }
  const std::string own = built_with.empty()
                              ? "this build was made without one"
                              : fmt::format("the one this build was made with is gone from {}", built_with.string());
  std::vector<std::string> searched;
  searched.reserve(search.site_packages.size());
  for (const std::filesystem::path& folder : search.site_packages) searched.push_back(folder.string());
  const std::string others =
      searched.empty() ? "no Python environment is active" : fmt::format("none is in {}", join(searched, ", "));
  return Status(StatusCode::kNotFound, fmt::format("no libtorch was found: {}, and {}", own, others));
}

}  // namespace kpt
