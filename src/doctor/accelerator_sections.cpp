// Sections about accelerators: NVIDIA, AMD, TPU and PJRT plugins.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/detect_amd.h"
#include "backends/amd/engine_choice.h"
#include "backends/amd/hip_compiler.h"
#include "backends/nvidia/detect_nvidia.h"
#include "backends/nvidia/nvidia_backend.h"
#include "backends/tpu/detect_tpu.h"
#include "base/text.h"
#include "config/automatic.h"
#include "device/hardware_json.h"
#include "device/python_environments.h"
#include "doctor/sections.h"
#include "engines/aten/loader.h"
#include "engines/xla/pjrt/detect_plugins.h"

namespace kpt::doctor {
namespace {

// The line that says whether a vendor's stack is here. Absent hardware is no failure; hardware without its software is
// worth a warning, hardware whose software does not work a failure.
Check summary_check(std::string category, std::string name, const Finding& finding) {
  Check check{.category = std::move(category), .name = std::move(name)};
  check.present = finding.presence != Presence::kAbsent;
  check.message = finding.reason;
  check.recommendation = finding.remedy;
  if (finding.presence == Presence::kNotInstalled) check.state = State::kWarn;
  if (finding.presence == Presence::kBroken) check.state = State::kFail;
  return check;
}

Check switched_off(std::string category, std::string name, std::string_view backend) {
  return Check{.category = std::move(category),
               .name = std::move(name),
               .message = fmt::format("not looked at: option probe.backends leaves out {}", backend),
               .present = false};
}

std::string matrix_units(const std::vector<Precision>& precisions) {
  return precisions.empty() ? "no matrix units" : "matrix units " + names_of(precisions);
}

// What could not be read; `remedy` is what may bring it.
void add_notes(std::vector<Check>& checks, const std::string& category, const std::vector<std::string>& notes,
               const std::string& remedy) {
  for (const std::string& note : notes) {
    checks.push_back(
        Check{.category = category, .name = "note", .state = State::kWarn, .message = note, .recommendation = remedy});
  }
}

// A line of parts; what could not be read is left out, not shown as zero.
Check gpu_check(std::string category, int index, const Finding& finding, std::vector<std::string> parts) {
  std::erase(parts, "");
  Check check{.category = std::move(category), .name = fmt::format("gpu {}", index), .message = join(parts, ", ")};
  check.present = finding.presence == Presence::kPresent;
  return check;
}

std::string_view version_of(std::string_view version) { return version.empty() ? "of unknown version" : version; }
std::string count_of(int count, std::string_view unit) { return count > 0 ? fmt::format("{} {}", count, unit) : ""; }
std::string bytes_of(std::uint64_t bytes) { return bytes > 0 ? format_bytes(bytes) : ""; }

Check gpu_check(const NvidiaGpu& gpu, const Finding& finding) {
  std::string memory = bytes_of(gpu.memory_total_bytes);
  if (gpu.memory_free_bytes) memory += fmt::format(" ({} free)", format_bytes(*gpu.memory_free_bytes));
  std::string ecc;
  if (gpu.ecc_enabled) ecc = *gpu.ecc_enabled ? "ECC on" : "ECC off";
  const std::string architecture =
      gpu.capability_major > 0 ? fmt::format("sm_{}{} {}", gpu.capability_major, gpu.capability_minor, gpu.architecture)
                               : "";
  Check check = gpu_check("nvidia", gpu.index, finding,
                          {gpu.name, architecture, count_of(gpu.multiprocessors, "SMs"), memory,
                           matrix_units(gpu.matrix_precisions), ecc, gpu.mig_enabled.value_or(false) ? "MIG on" : ""});
  if (check.present && !has_nvidia_target(gpu.capability_major, gpu.capability_minor)) {
    check.state = State::kWarn;
    check.message += "; libtorch has no code for it";
    check.recommendation = "use another device: --device cpu";
  }
  return check;
}

TorchSearch torch_search(const SectionInput& input) {
  return {input.request.environment, torch_folder(input.request.config, input.request.environment).string(),
          input.detection.site_packages};
}

// The GPUs are there and their driver answers: can libtorch and our module use them?
Check engine_check(const SectionInput& input) {
  const TorchSearch search = torch_search(input);
  Check check{.category = "nvidia", .name = "engine", .message = "libtorch's CUDA library and our module are here"};
  Finding finding;
  if (check_aten_files(search, AtenPart::kCuda, &finding).ok()) return check;
  check.state = State::kWarn;
  check.message = "no model can run on an NVIDIA GPU: " + finding.reason;
  check.recommendation = finding.remedy;
  return check;
}

// What the GPU does now; nothing when NVML tells none of it.
std::optional<Check> load_check(const NvidiaGpu& gpu) {
  std::vector<std::string> told;
  std::vector<std::string> missing;
  const auto add = [&](std::string_view name, const std::optional<int>& value, const std::string& text) {
    if (value) {
      told.push_back(text);
    } else {
      missing.emplace_back(name);
    }
  };
  const auto watts = [](int milliwatts) { return fmt::format("{:.0f} W", milliwatts / 1000.0); };
  const auto with_most = [](const std::string& text, const std::string& most) {
    return most.empty() ? text : text + " of " + most;
  };
  const auto clock = [&](const std::optional<int>& now, const std::optional<int>& most) {
    return with_most(std::to_string(now.value_or(0)), most ? std::to_string(*most) : "") + " MHz";
  };
  add("utilisation", gpu.utilization_percent, fmt::format("{} % busy", gpu.utilization_percent.value_or(0)));
  add("temperature", gpu.temperature_celsius, fmt::format("{} °C", gpu.temperature_celsius.value_or(0)));
  add("power", gpu.power_milliwatts,
      with_most(watts(gpu.power_milliwatts.value_or(0)),
                gpu.power_limit_milliwatts ? watts(*gpu.power_limit_milliwatts) : ""));
  add("SM clock", gpu.clock_sm_now_mhz, "SM at " + clock(gpu.clock_sm_now_mhz, gpu.clock_sm_mhz));
  add("memory clock", gpu.clock_memory_now_mhz, "memory at " + clock(gpu.clock_memory_now_mhz, gpu.clock_memory_mhz));
  if (told.empty()) return std::nullopt;
  std::string message = join(told, ", ");
  if (!missing.empty()) message += "; not told: " + join(missing, ", ");
  return Check{.category = "nvidia", .name = fmt::format("gpu {} now", gpu.index), .message = std::move(message)};
}

Check gpu_check(const AmdGpu& gpu, const Finding& finding) {
  std::string fp8;
  if (gpu.fp8_flavour == Fp8Flavour::kFnuz) fp8 = "FP8 in the FNUZ form";
  if (gpu.fp8_flavour == Fp8Flavour::kOcp) fp8 = "FP8 in the OCP form";
  const std::string wavefront = gpu.wavefront_size > 0 ? fmt::format("wavefront {}", gpu.wavefront_size) : "";
  return gpu_check(
      "amd", gpu.index, finding,
      {gpu.name, std::string(trim(gpu.gfx_target + " " + gpu.architecture)), count_of(gpu.compute_units, "CUs"),
       wavefront, bytes_of(gpu.memory_total_bytes), matrix_units(gpu.matrix_precisions), fp8});
}

// Which engine runs models on AMD GPUs here, and why.
Check amd_engine_check(const SectionInput& input) {
  const TorchSearch search = torch_search(input);
  const AmdEngineDecision engine = choose_amd_engine(search, input.detection.files, amd_engine(input.request.config));
  Check check{.category = "amd", .name = "engine"};
  check.message = fmt::format("models run {}: {}",
                              engine.libtorch ? "through libtorch" : "as launches of our own kernels", engine.reason);
  Finding finding;
  if (engine.libtorch && !check_aten_files(search, AtenPart::kRocm, &finding).ok()) {
    check.state = State::kWarn;
    check.message = "no model can run on an AMD GPU through libtorch: " + finding.reason;
    check.recommendation = finding.remedy;
  }
  return check;
}

// Kernels for AMD GPUs are compiled when a model is loaded; without a compiler only files that hold them run.
void add_compilers(std::vector<Check>& checks, const SectionInput& input, const std::vector<AmdGpu>& gpus) {
  std::vector<std::string> targets;
  for (const AmdGpu& gpu : gpus) {
    if (gpu.gfx_target.empty() || std::ranges::find(targets, gpu.gfx_target) != targets.end()) continue;
    if (find_amd_architecture(gpu.gfx_target) != nullptr) {
      targets.push_back(gpu.gfx_target);
      continue;
    }
    checks.push_back(Check{.category = "amd",
                           .name = "kernels",
                           .state = State::kWarn,
                           .message = fmt::format("this release has no kernels for {}", gpu.gfx_target),
                           .recommendation = "install a newer KernelPyTorch, or use another device: --device cpu"});
  }
  const auto choices = find_hip_compilers(input.request.environment, targets, kCompilerTimeLimit);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Check check{.category = "amd", .name = "compiler"};
    if (const auto& compiler = choices[i].compiler) {
      check.message = fmt::format("{} ({}) compiles kernels for {}", compiler->path, compiler->version, targets[i]);
      check.details = {{"target", targets[i]}, {"path", compiler->path}, {"version", compiler->version}};
    } else {
      check.state = State::kWarn;
      check.message = fmt::format("nothing compiles kernels for {}: {}; only .kpt files compiled for it can run",
                                  targets[i], choices[i].reason);
      check.recommendation = "apt-get install clang-22 lld-22";
    }
    checks.push_back(std::move(check));
  }
}

// Chips that are there with their software. Of an unknown generation nothing but their number is known.
void describe_chips(Check& chips, const TpuReport& report) {
  const bool known = !report.generation.empty();
  std::vector<std::string> parts = {
      fmt::format("{} × TPU {}", report.chips, known ? report.generation : "of unknown generation"),
      report.hbm_bytes_per_chip > 0 ? format_bytes(report.hbm_bytes_per_chip) + " each" : "",
      report.topology.empty() ? "" : "topology " + report.topology,
      report.libtpu_version.empty() ? "" : "libtpu " + report.libtpu_version};
  std::erase(parts, "");
  chips.message = join(parts, ", ");
  if (known) return;
  chips.state = State::kWarn;
  chips.recommendation =
      "set TPU_ACCELERATOR_TYPE to what this machine is (such as v5litepod-4); for a newer generation, install a newer "
      "KernelPyTorch";
}

}  // namespace

std::vector<Check> check_nvidia(const SectionInput& input) {
  if (!input.may_probe("nvidia")) return {switched_off("nvidia", "driver", "nvidia")};
  const NvidiaReport report = detect_nvidia(input.detection);
  Check driver = summary_check("nvidia", "driver", report.finding);
  driver.details = nlohmann::ordered_json(report);
  if (report.finding.presence == Presence::kPresent) {
    driver.message = fmt::format("driver {}, serves CUDA {}", version_of(report.driver_version),
                                 version_of(report.cuda_driver_version));
  }
  std::vector<Check> checks = {driver};
  for (const NvidiaGpu& gpu : report.gpus) {
    checks.push_back(gpu_check(gpu, report.finding));
    if (auto load = load_check(gpu)) checks.push_back(*std::move(load));
  }
  if (report.finding.presence == Presence::kPresent) checks.push_back(engine_check(input));
  add_notes(
      checks, "nvidia", report.notes,
      "see what `nvidia-smi -q` tells; unset CUDA_VISIBLE_DEVICES if it hides GPUs, else update the NVIDIA driver");
  return checks;
}

std::vector<Check> check_amd(const SectionInput& input) {
  if (!input.may_probe("amd")) return {switched_off("amd", "runtime", "amd")};
  const AmdReport report = detect_amd(input.detection);
  Check runtime = summary_check("amd", "runtime", report.finding);
  runtime.details = nlohmann::ordered_json(report);
  if (report.finding.presence == Presence::kPresent) {
    runtime.message =
        fmt::format("HIP runtime {}, ROCm {}", version_of(report.hip_runtime_version), version_of(report.rocm_version));
  }
  std::vector<Check> checks = {runtime};
  for (const AmdGpu& gpu : report.gpus) checks.push_back(gpu_check(gpu, report.finding));
  if (report.finding.presence == Presence::kPresent) checks.push_back(amd_engine_check(input));
  add_compilers(checks, input, report.gpus);
  add_notes(checks, "amd", report.notes,
            "see what `rocminfo` tells; install a ROCm release that knows this GPU, or mount /sys in this container");
  return checks;
}

std::vector<Check> check_tpu_and_pjrt(const SectionInput& input) {
  std::vector<Check> checks;
  if (!input.may_probe("tpu")) {
    checks.push_back(switched_off("tpu", "chips", "tpu"));
  } else {
    const TpuReport report = detect_tpu(input.detection);
    Check chips = summary_check("tpu", "chips", report.finding);
    chips.details = nlohmann::ordered_json(report);
    if (report.finding.presence == Presence::kPresent) {
      describe_chips(chips, report);
    }
    checks.push_back(std::move(chips));
    for (const std::string& note : report.notes) {
      checks.push_back(Check{.category = "tpu", .name = "note", .message = note, .present = false});
    }
  }
  if (!input.may_probe("pjrt")) {
    checks.push_back(switched_off("tpu", "pjrt plugins", "pjrt"));
    return checks;
  }
  const std::vector<PjrtPlugin> plugins = detect_plugins(input.detection);
  if (plugins.empty()) {
    checks.push_back(
        Check{.category = "tpu",
              .name = "pjrt plugins",
              .message = "none found; the XLA engine needs one",
              .recommendation = pip_remedy(input.detection.site_packages, "xla-cpu-pjrt", "set pjrt.plugins=name=path"),
              .present = false});
  }
  for (const PjrtPlugin& plugin : plugins) {
    Check check = summary_check("tpu", "pjrt " + plugin.name, plugin.finding);
    // One that a user named must work; one that merely lies in a Python environment may be for other hardware.
    if (check.state == State::kFail && plugin.source == "python environment") check.state = State::kWarn;
    check.details = nlohmann::ordered_json(plugin);
    if (plugin.finding.presence == Presence::kPresent) {
      check.message =
          fmt::format("API {}.{}, from the {} ({})", plugin.api_major, plugin.api_minor, plugin.source, plugin.path);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace kpt::doctor
