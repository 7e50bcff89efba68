// The section about libtorch: found, fits this build, opens, and multiplies right.
#include <fmt/format.h>

#include "base/build_info.h"
#include "base/text.h"
#include "config/automatic.h"
#include "device/hardware_json.h"
#include "device/probe_process.h"
#include "doctor/sections.h"
#include "engines/aten/torch_installation.h"
#include "engines/aten/torch_report.h"

namespace kpt::doctor {
namespace {

TorchReport probe_in_child(const SectionInput& input) {
  std::vector<std::string> arguments = {"torch",
                                        torch_folder(input.request.config, input.request.environment).string()};
  for (const auto& folder : input.detection.site_packages) arguments.push_back(folder.string());
  const Result<std::string> answer = run_probe(input.detection.probe_options(), arguments);
  const Result<TorchReport> report =
      answer.ok() ? parse_report<TorchReport>(*answer, "the probe for libtorch") : answer.status();
  if (report.ok()) return *report;
  TorchReport broken;
  broken.finding = explain_probe_failure(report.status(), "reinstall torch, or point torch.dir at another one");
  return broken;
}

Check library_check(const TorchReport& report) {
  Check check{.category = "libtorch", .name = "library"};
  check.details = nlohmann::ordered_json(report);
  if (report.finding.presence == Presence::kPresent) {
    const std::string flavour = report.flavour == "none" || report.flavour.empty() ? "CPU only"
                                : report.flavour.starts_with("rocm")               ? report.flavour
                                                                                   : "CUDA " + report.flavour;
    const std::string cudnn = report.cudnn_version.empty() ? "" : ", cuDNN " + report.cudnn_version;
    check.message = fmt::format("{} ({}{}) at {}, {} threads, opened in {:.2f} s", report.library_version, flavour,
                                cudnn, report.torch_dir, report.threads, report.open_seconds.value_or(0));
    return check;
  }
  check.message = report.finding.reason;
  check.recommendation = report.finding.remedy;
  // A build without the engine cannot be mended by installing libtorch; everything but running models works with it.
  check.state = build_info().torch_version.empty() ? State::kWarn : State::kFail;
  return check;
}

Check product_check(const TorchMatmulCheck& product) {
  Check check{.category = "libtorch", .name = fmt::format("{} {}", product.device, product.dtype)};
  check.state = product.passed ? State::kPass : State::kFail;
  const std::string error = product.relative_error ? fmt::format("{:.1e}", *product.relative_error) : "not a number";
  check.message = fmt::format("matrix product {}×{}×{} against fp64: error {}, allowed {:.1e} (seed {})", product.rows,
                              product.inner, product.columns, error, product.tolerance, product.seed);
  if (!product.passed) check.recommendation = "this libtorch computes wrong products here; install another version";
  return check;
}

Check cuda_check(const TorchReport& report) {
  Check check{.category = "libtorch", .name = report.flavour.starts_with("rocm") ? "rocm" : "cuda"};
  check.present = report.cuda.presence != Presence::kAbsent && !report.cuda_devices.empty();
  check.message = report.cuda.reason;
  check.recommendation = report.cuda.remedy;
  if (report.cuda.presence == Presence::kBroken) check.state = State::kFail;
  if (report.cuda.presence == Presence::kPresent) {
    const std::size_t count = report.cuda_devices.size();
    check.message = fmt::format("sees {} device{}", count, count == 1 ? "" : "s");
    if (count > 0 && !report.cuda_own_kernels) {
      check.state = State::kWarn;
      check.message += ", but this build has no GPU kernels of ours: no nvcc was there when it was made";
      check.recommendation = "install the CUDA toolkit, then make install PRESET=cuda-release";
    }
  }
  return check;
}

}  // namespace

std::vector<Check> check_libtorch(const SectionInput& input) {
  if (!input.may_probe("torch")) {
    return {Check{.category = "libtorch",
                  .name = "library",
                  .message = "not looked at: option probe.backends leaves out torch",
                  .present = false}};
  }
  return describe_libtorch(probe_in_child(input));
}

std::vector<Check> describe_libtorch(const TorchReport& report) {
  std::vector<Check> checks = {library_check(report)};
  for (const TorchMatmulCheck& product : report.checks) checks.push_back(product_check(product));
  if (report.finding.presence == Presence::kPresent) checks.push_back(cuda_check(report));
  for (const std::string& note : report.notes) {
    checks.push_back(Check{.category = "libtorch",
                           .name = "note",
                           .state = State::kWarn,
                           .message = note,
                           .recommendation = reinstall_remedy(report.torch_dir, report.library_version)});
  }
  return checks;
}

}  // namespace kpt::doctor
