// Compilers that later turn kernels into machine code. None is needed to run models.
#include <array>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/child_process.h"
#include "base/text.h"
#include "doctor/sections.h"

namespace kpt::doctor {
namespace {

constexpr std::chrono::milliseconds kCompilerTimeLimit{3000};

std::optional<std::string> find_program(const SectionInput& input, const std::vector<std::string>& folders,
                                        std::string_view name) {
  std::vector<std::string> places = folders;
  const std::string path = input.request.environment.find("PATH").value_or("");
  for (const std::string_view folder : split(path, ':')) places.emplace_back(folder);
  for (const std::string& folder : places) {
    if (!folder.starts_with('/')) continue;  // a relative entry would run what lies in the current folder
    std::string candidate = folder + "/" + std::string(name);
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error)) return candidate;
  }
  return std::nullopt;
}

std::optional<std::string> first_output(const std::vector<std::string>& command) {
  const auto outcome = run_child({.arguments = command, .environment_overrides = {}, .time_limit = kCompilerTimeLimit});
  if (!outcome.ok() || !outcome->succeeded()) return std::nullopt;
  return outcome->standard_output;
}

// The text after `marker` up to a comma, blank or line end.
std::string word_after(std::string_view text, std::string_view marker) {
  const auto at = text.find(marker);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + marker.size());
  return std::string(text.substr(0, text.find_first_of(", \n")));
}

Check nvcc_check(const SectionInput& input) {
  Check check{.category = "toolchains", .name = "nvcc"};
  std::vector<std::string> folders;
  if (const auto home = input.request.environment.find("CUDA_HOME")) folders.push_back(*home + "/bin");
  folders.emplace_back("/usr/local/cuda/bin");
  const auto path = find_program(input, folders, "nvcc");
  if (!path) {
    check.present = false;
    check.message = "not found; only needed to build our own CUDA kernels";
    return check;
  }
  const auto text = first_output({*path, "--version"});
  const std::string version = text ? word_after(*text, "release ") : "";
  check.details = {{"path", *path}, {"version", version}};
  check.message = fmt::format("CUDA {} at {}", version, *path);
  if (version.empty()) {
    check.state = State::kWarn;
    check.message = fmt::format("{} does not answer to --version", *path);
    check.recommendation = "reinstall the CUDA toolkit, or take it out of PATH and CUDA_HOME";
  }
  return check;
}

// True if this clang accepts the target; an unknown one is refused by the driver before anything is compiled.
bool knows_target(const std::string& clang, std::string_view target) {
  const auto outcome = run_child({.arguments = {clang, "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc",
                                                fmt::format("--offload-arch={}", target), "-fsyntax-only", "/dev/null"},
                                  .environment_overrides = {},
                                  .time_limit = kCompilerTimeLimit});
  return outcome.ok() && outcome->succeeded();
}

Check amd_clang_check(const SectionInput& input) {
  Check check{.category = "toolchains", .name = "clang for AMD"};
  constexpr std::array kNames = {"amdclang++", "clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++"};
  constexpr std::array kTargets = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};
  std::vector<std::string> folders;
  if (const auto rocm = input.request.environment.find("ROCM_PATH")) folders.push_back(*rocm + "/llvm/bin");
  folders.emplace_back("/opt/rocm/llvm/bin");
  std::string seen;
  for (const std::string_view name : kNames) {
    const auto path = find_program(input, folders, name);
    if (!path) continue;
    if (!first_output({*path, "--version"})) {  // broken or hanging: five more questions would only take longer
      seen = *path;
      continue;
    }
    std::vector<std::string> targets;
    for (const std::string_view target : kTargets) {
      if (knows_target(*path, target)) targets.emplace_back(target);
    }
    if (targets.empty()) {
      seen = *path;
      continue;
    }
    check.message = fmt::format("{} compiles for {}", *path, join(targets, " "));
    check.details = {{"path", *path}, {"targets", targets}};
    if (targets.size() < kTargets.size()) check.recommendation = "clang 22 knows all targets: apt-get install clang-22";
    return check;
  }
  check.present = false;
  check.message =
      seen.empty() ? "not found; only needed to compile for AMD GPUs" : fmt::format("{} knows no AMD target", seen);
  check.recommendation = "to compile for AMD GPUs: apt-get install clang-22 lld-22";
  return check;
}

}  // namespace

std::vector<Check> check_toolchains(const SectionInput& input) { return {nvcc_check(input), amd_clang_check(input)}; }

}  // namespace kpt::doctor
