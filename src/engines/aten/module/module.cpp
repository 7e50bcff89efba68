// kpt_aten_<major>_<minor>.so: what the tree asks of libtorch on the CPU.
#include <mutex>
#include <string>
#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/graph_executable.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/matmul_check.h"
#include "engines/aten/module/record_activity.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/thread_count.h"
#include "engines/aten/module/warning_sink.h"
#include "engines/aten/module_abi.h"
#include "kernels/cpu/cpu_features.h"

namespace kpt::aten {

const GpuKind kGpuKind = {"nvidia:", Vendor::kNvidia, "", false, nullptr};  // none is used here

namespace {

// "…, BLAS_INFO=nvpl, …" is the only place where libtorch names the library it multiplies with.
std::string_view find_blas(std::string_view configuration) {
  constexpr std::string_view kKey = "BLAS_INFO=";
  const auto start = configuration.find(kKey);
  if (start == std::string_view::npos) return {};
  const std::string_view rest = configuration.substr(start + kKey.size());
  return rest.substr(0, rest.find_first_of(", \n"));
}

CallOutcome runtime_version(TorchVersion* version) noexcept {
  return guarded_call([version] {
    // The libtorch in the process answers here, not the headers: major, minor and patch in the three top bytes.
    const std::uint64_t encoded = aoti_torch_abi_version();
    *version = {static_cast<std::int32_t>(encoded >> 56 & 0xff), static_cast<std::int32_t>(encoded >> 48 & 0xff),
                static_cast<std::int32_t>(encoded >> 40 & 0xff)};
  });
}

CallOutcome build_facts(BuildFacts* facts) noexcept {
  return guarded_call([facts] {
    *facts = {};
    facts->threads = at::get_num_threads();
    copy_text(at::get_cpu_capability(), facts->cpu_capability);
    const std::string configuration = at::show_config();
    copy_text(find_blas(configuration), facts->blas);
    copy_text(configuration, facts->configuration);
    copy_text(at::get_parallel_info(), facts->parallel);
  });
}

CallOutcome self_check(std::uint64_t seed, SelfCheck* check) noexcept {
  return guarded_call([=] { *check = check_matmul(seed, at::kCPU, {at::kFloat, at::kDouble}); });
}

CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept {
  return guarded_call([=] { *answers = CompiledGraph::check(*graph, at::kCPU); });
}

CallOutcome load_graph(const std::shared_ptr<const ir::Graph>* graph, const Weights* weights, Status* status,
                       std::unique_ptr<Executable>* executable) noexcept {
  return guarded_call([=] {
    auto loaded = GraphExecutable::load(*graph, *weights);
    *status = loaded.status();
    if (loaded.ok()) *executable = std::move(loaded).value();
  });
}

CallOutcome set_warning_sink(void (*sink)(const char* text)) noexcept {
  return guarded_call([=] { WarningSink::instance().set(sink); });
}

CallOutcome set_threads(std::int32_t threads, std::int32_t* interop_threads) noexcept {
  return guarded_call([=] {
    set_thread_count(threads);
    static std::once_flag once;
    std::call_once(once, [&] {
      try {
        at::set_num_interop_threads(*interop_threads);
      } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch): the caller is told what holds
      }
    });
    *interop_threads = static_cast<std::int32_t>(at::get_num_interop_threads());
  });
}

CallOutcome hide_instructions(const std::vector<std::string>* words) noexcept {
  return guarded_call([=] { kernels::hide_cpu_features(*words); });
}

CallOutcome record(const std::function<void()>* work, bool with_gpus, std::vector<Activity>* activities) noexcept {
  return guarded_call([=] { *activities = record_activity(*work, with_gpus); });
}

constexpr ModuleTable kTable = {
    .abi = kModuleAbi,
    .built_for = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH},
    .border = kBorderHash,
    .runtime_version = runtime_version,
    .build_facts = build_facts,
    .self_check = self_check,
    .check_graph = check_graph,
    .load_graph = load_graph,
    .set_threads = set_threads,
    .set_warning_sink = set_warning_sink,
    .hide_instructions = hide_instructions,
    .record = record,
};

}  // namespace
}  // namespace kpt::aten

extern "C" [[gnu::visibility("default")]] const kpt::aten::ModuleTable* kpt_aten_module() { return &kpt::aten::kTable; }
