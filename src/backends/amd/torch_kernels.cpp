#include "backends/amd/torch_kernels.h"

#include <link.h>

#include <algorithm>
#include <set>

#include "backends/amd/hip_launcher.h"
#include "engines/aten/own_targets.h"

namespace kpt {
namespace {

void add_families(const ir::Graph& graph, std::set<std::string_view>& families);

void add_families(const ir::Argument& argument, std::set<std::string_view>& families) {
  if (const auto* body = std::get_if<ir::Subgraph>(&argument.value)) add_families(*body->graph, families);
  if (const ir::List* list = argument.list()) {
    for (const ir::Argument& item : list->items) add_families(item, families);
  }
}

void add_families(const ir::Graph& graph, std::set<std::string_view>& families) {
  for (const ir::Node& node : graph.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) add_families(argument.value, families);
    for (const aten::RocmOwnTarget& row : aten::kRocmOwnTargets) {
      if (row.target != node.target) continue;
      for (const std::string_view family : row.families) {
        if (!family.empty()) families.insert(family);
      }
    }
  }
}

int keep_hip(dl_phdr_info* info, std::size_t /*bytes*/, void* found) {
  const std::string_view path = info->dlpi_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("libamdhip64.so") && !name.starts_with("libamdhip64-")) return 0;
  *static_cast<std::string*>(found) = path;
  return 1;
}

}  // namespace

std::string find_loaded_hip() {
  std::string found;
  dl_iterate_phdr(keep_hip, &found);
  return found;
}

TorchKernels::TorchKernels(const BackendContext& context, std::string library, KernelSource kernels)
    : library_(std::move(library)), kernels_(std::move(kernels)) {
  if (kernels_) return;
  store_ = std::make_unique<KernelStore>(context);
  kernels_ = [store = store_.get()](std::string_view family, std::string_view target) {
    return store->get(family, target);
  };
}

std::string TorchKernels::find_obstacle(std::string_view gfx_target) {
  if (library_.empty() && find_loaded_hip().empty()) return "libtorch has loaded no libamdhip64";
  if (store_ == nullptr) return "";
  return store_->find_compiler(gfx_target).message();
}

Result<std::shared_ptr<const HipRuntime>> TorchKernels::open_runtime() {
  const std::lock_guard lock(mutex_);
  if (runtime_ == nullptr) {
    const std::string library = library_.empty() ? find_loaded_hip() : library_;
    if (library.empty()) {
      return Status(StatusCode::kNotFound, "libtorch has loaded no libamdhip64, which kernels of ours are started by",
                    Vendor::kAmd);
    }
    KPT_ASSIGN_OR_RETURN(runtime_, HipRuntime::open({library}));
  }
  return runtime_;
}

Result<std::shared_ptr<gpu::Launcher>> TorchKernels::make_launcher(const AmdGpu& gpu, const ir::Graph& graph) {
  std::set<std::string_view> families;
  add_families(graph, families);
  if (families.empty()) return std::shared_ptr<gpu::Launcher>();
  std::vector<std::string> objects;
  for (const std::string_view family : families) {
    KPT_ASSIGN_OR_RETURN(std::string object, kernels_(family, gpu.gfx_target));
    objects.push_back(std::move(object));
  }
  KPT_ASSIGN_OR_RETURN(const auto runtime, open_runtime());
  KPT_ASSIGN_OR_RETURN(const HipDevice device, HipRuntime::open_device(runtime, gpu.index));
  // Detection cannot tell them where the driver does not list the GPU's place on the bus.
  const int compute_units = std::max(gpu.compute_units, 1);
  KPT_ASSIGN_OR_RETURN(std::unique_ptr<HipLauncher> launcher, HipLauncher::make(device, compute_units, objects));
  return std::shared_ptr<gpu::Launcher>(std::move(launcher));
}

}  // namespace kpt
