#include "engines/aten/torch_probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engines/aten/loader.h"

namespace kpt {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The count comes from a library: never trust it beyond the array.
std::vector<TorchMatmulCheck> describe(const aten::SelfCheck& check, const std::string& device) {
  std::vector<TorchMatmulCheck> checks;
  const auto count = std::clamp<std::int32_t>(check.count, 0, static_cast<std::int32_t>(std::size(check.errors)));
  for (std::int32_t i = 0; i < count; ++i) {
    const aten::MatmulError& error = check.errors[i];
    TorchMatmulCheck row{.device = device,
                         .dtype = error.dtype,
                         .seed = check.seed,
                         .rows = check.rows,
                         .inner = check.inner,
                         .columns = check.columns,
                         .relative_error = std::nullopt,
                         .tolerance = error.tolerance,
                         .passed = error.relative_error <= error.tolerance};
    if (std::isfinite(error.relative_error)) row.relative_error = error.relative_error;
    checks.push_back(std::move(row));
  }
  return checks;
}

// The first product that is wrong, as a failure; ok when all are right.
Status judge(const std::vector<TorchMatmulCheck>& checks, Vendor vendor) {
  if (checks.empty()) return {StatusCode::kValidation, "libtorch's self check computed nothing", vendor};
  const auto wrong = std::ranges::find_if(checks, [](const TorchMatmulCheck& check) { return !check.passed; });
  if (wrong == checks.end()) return {};
  const std::string error = wrong->relative_error ? fmt::format("{:.1e}", *wrong->relative_error) : "not a number";
  return {StatusCode::kValidation,
          fmt::format("libtorch multiplies wrongly: {} on {}, error {} above {:.1e} (seed {}, {}x{}x{})", wrong->dtype,
                      wrong->device, error, wrong->tolerance, wrong->seed, wrong->rows, wrong->inner, wrong->columns),
          vendor};
}

void read_facts(const aten::ModuleTable& table, TorchReport* report) {
  // 12 KiB of text: not on the stack.
  const auto facts = std::make_unique<aten::BuildFacts>();
  if (const Status status = to_status(table.build_facts(facts.get()), "reading libtorch's settings"); !status.ok()) {
    report->notes.push_back(status.message());
    return;
  }
  report->threads = facts->threads;
  report->cpu_capability = facts->cpu_capability;
  report->blas = facts->blas;
}

Status check_cpu(const aten::ModuleTable& table, std::uint64_t seed, TorchReport* report) {
  aten::SelfCheck check{};
  KPT_RETURN_IF_ERROR(to_status(table.self_check(seed, &check), "libtorch's self check on the CPU"));
  report->checks = describe(check, "cpu");
  return judge(report->checks, Vendor::kNone);
}

Vendor vendor_of(const AtenCudaModule& gpu) { return gpu.rocm ? Vendor::kAmd : Vendor::kNvidia; }

Status check_cuda_device(const AtenCudaModule& gpu, int index, std::uint64_t seed, TorchReport* report) {
  const aten::CudaModuleTable& table = *gpu.table;
  const std::string name = fmt::format("cuda:{}", index);
  aten::CudaDeviceFacts facts{};
  KPT_RETURN_IF_ERROR(to_status(table.describe_device(index, &facts), "asking libtorch about " + name, vendor_of(gpu)));
  aten::SelfCheck check{};
  const Status checked =
      to_status(table.self_check(index, seed, &check), "libtorch's self check on " + name, vendor_of(gpu));
  TorchCudaDevice device{.index = index,
                         .name = facts.name,
                         .capability_major = facts.capability_major,
                         .capability_minor = facts.capability_minor,
                         .multiprocessors = facts.multiprocessors,
                         .memory_total_bytes = facts.memory_total_bytes,
                         .memory_free_bytes = std::nullopt,
                         .reserved_bytes = std::nullopt};
  MemoryStatistics memory;
  if (const Status status = to_status(table.memory_statistics(index, &memory), "reading the memory of " + name);
      status.ok()) {
    device.memory_free_bytes = memory.free_bytes;
    device.reserved_bytes = memory.reserved_bytes;
  } else {
    report->notes.push_back(status.message());
  }
  report->cuda_devices.push_back(std::move(device));
  KPT_RETURN_IF_ERROR(checked);
  const std::vector<TorchMatmulCheck> checks = describe(check, name);
  report->checks.insert(report->checks.end(), checks.begin(), checks.end());
  return judge(checks, vendor_of(gpu));
}

// libtorch's part for GPUs, of either vendor. Must come before the first call into the CPU module; see
// load_aten_cuda().
std::optional<AtenCudaModule> open_cuda(const AtenModule& aten, const TorchSearch& search, TorchReport* report) {
  const auto start = std::chrono::steady_clock::now();
  auto cuda = aten.installation.rocm ? load_aten_rocm(aten, search, &report->cuda)
                                     : load_aten_cuda(aten, search, &report->cuda);
  if (!cuda.ok()) return std::nullopt;
  report->cuda_open_seconds = seconds_since(start);
  report->cuda_module_path = cuda->path.string();
  report->cuda_own_kernels = cuda->table->has_own_kernels;
  return std::move(cuda).value();
}

void check_cuda(const AtenCudaModule& gpu, std::uint64_t seed, TorchReport* report) {
  std::int32_t count = 0;
  Status status = to_status(gpu.table->device_count(&count), "counting GPUs", vendor_of(gpu));
  // Sixteen GPUs fill the largest machines; a larger number is a broken answer.
  constexpr std::int32_t kMaxDevices = 64;
  for (std::int32_t index = 0; status.ok() && index < std::min(count, kMaxDevices); ++index) {
    status = check_cuda_device(gpu, index, seed, report);
  }
  if (!status.ok()) {
    report->cuda = {
        Presence::kBroken, status.message(),
        gpu.rocm
            ? "check that `rocminfo` works and that its driver serves the ROCm of this torch; else reinstall torch"
            : "check that `nvidia-smi` works and that its driver serves the CUDA of this torch; else reinstall torch"};
  }
}

}  // namespace

TorchProbe probe_torch(const TorchSearch& search, std::uint64_t seed) {
  TorchProbe probe;
  TorchReport& report = probe.report;
  const auto start = std::chrono::steady_clock::now();
  const auto aten = load_aten(search, &report.finding);
  if (!aten.ok()) {
    probe.status = aten.status();
    // What was found stays worth showing.
    if (const auto installation = find_torch_installation(search); installation.ok()) {
      report.torch_dir = installation->dir.string();
      report.source = installation->source;
      report.flavour = installation->flavour;
      report.cudnn_version = installation->cudnn_version;
      if (installation->version) report.library_version = to_string(*installation->version);
    }
    return probe;
  }
  report.open_seconds = seconds_since(start);
  report.torch_dir = aten->installation.dir.string();
  report.source = aten->installation.source;
  report.flavour = aten->installation.flavour;
  report.cudnn_version = aten->installation.cudnn_version;
  report.library_version = to_string(aten->library_version);
  report.module_path = aten->path.string();
  report.module_version = to_string(aten->table->built_for);
  if (aten->installation.version && *aten->installation.version != aten->library_version) {
    report.notes.push_back(fmt::format("version.py says {}, the library itself {}", aten->installation.version_text,
                                       report.library_version));
  }
  const auto cuda = open_cuda(*aten, search, &report);
  read_facts(*aten->table, &report);
  probe.status = check_cpu(*aten->table, seed, &report);
  if (!probe.status.ok()) {
    report.finding = {Presence::kBroken, probe.status.message(),
                      "install another release of torch, or set KPT_TORCH_DIR to the folder of one"};
  }
  if (cuda) check_cuda(*cuda, seed, &report);
  return probe;
}

}  // namespace kpt
