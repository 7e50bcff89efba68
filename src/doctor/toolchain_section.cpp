// Compilers that turn kernels into machine code: nvcc when our CUDA kernels are built, clang when a model is loaded on
// an AMD GPU or compiled for one. Whether a GPU that is here has its compiler is a line of section amd.
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "backends/amd/hip_compiler.h"
#include "base/child_process.h"
#include "base/text.h"
#include "doctor/sections.h"

namespace kpt::doctor {
namespace {

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
    check.recommendation =
        "to build them: install the CUDA toolkit, or set CUDA_HOME to it, then make install PRESET=cuda-release";
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

Check amd_clang_check(const SectionInput& input) {
  Check check{.category = "toolchains", .name = "clang for AMD"};
  const std::vector<std::string> targets = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};
  const std::vector<HipCompilerChoice> choices =
      find_hip_compilers(input.request.environment, targets, kCompilerTimeLimit);
  std::map<std::string, std::vector<std::string>> served;  // by compiler
  std::vector<std::string> open;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (choices[i].compiler) {
      served[choices[i].compiler->path].push_back(targets[i]);
    } else {
      open.push_back(fmt::format("{}: {}", targets[i], choices[i].reason));
    }
  }
  if (served.empty()) {
    check.present = false;
    check.message =
        fmt::format("none for AMD GPUs ({}); models that run on one, and kpt compile, need it", open.front());
    check.recommendation = "to compile for AMD GPUs: apt-get install clang-22 lld-22";
    return check;
  }
  std::vector<std::string> parts;
  for (const auto& [path, names] : served) parts.push_back(fmt::format("{} compiles for {}", path, join(names, " ")));
  check.message = join(parts, "; ");
  check.details = {{"compilers", served}};
  if (!open.empty()) check.recommendation = "clang 22 knows all targets: apt-get install clang-22 lld-22";
  return check;
}

}  // namespace

std::vector<Check> check_toolchains(const SectionInput& input) { return {nvcc_check(input), amd_clang_check(input)}; }

}  // namespace kpt::doctor
