#include "backends/amd/torch_kernels.h"

#include <link.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "backends/amd/hip_launcher.h"
#include "backends/amd/target_traits.h"
#include "engines/aten/own_targets.h"

namespace kpt {
namespace {

// What the nodes of ours in a graph and the graphs in it may launch.
class NeededFamilies {
 public:
  explicit NeededFamilies(gpu::MatrixUnit unit) : unit_(unit) {}

  void add(const ir::Graph& graph) {
    for (const ir::Node& node : graph.nodes) {
      for (const ir::NamedArgument& argument : node.arguments) add(argument.value);
      for (const aten::RocmOwnTarget& row : aten::kRocmOwnTargets) {
        if (row.target == node.target) add(row, row.needed_product || !gives_float32(graph, node));
      }
    }
  }
  // Attention by libtorch's kernels launches none, and asks the launcher all the same.
  bool has_nodes() const { return has_nodes_; }
  const std::set<std::string>& families() const { return families_; }

 private:
  // Attention in float32 is libtorch's everywhere.
  static bool gives_float32(const ir::Graph& graph, const ir::Node& node) {
    return !node.outputs.empty() && graph.at(node.outputs[0].values[0]).tensor.dtype == DType::kFloat32;
  }
  void add(const ir::Argument& argument) {
    if (const auto* body = std::get_if<ir::Subgraph>(&argument.value)) add(*body->graph);
    if (const ir::List* list = argument.list()) {
      for (const ir::Argument& item : list->items) add(item);
    }
  }
  void add(const aten::RocmOwnTarget& row, bool with_matrix_cores) {
    has_nodes_ = true;
    for (const std::string_view family : row.families) {
      if (!family.empty()) families_.emplace(family);
    }
    if (!with_matrix_cores || row.matrix_family.empty() || unit_ == gpu::MatrixUnit::kNone) return;
    families_.insert(fmt::format("{}_{}", row.matrix_family, gpu::unit_name(unit_)));
  }

  gpu::MatrixUnit unit_;
  bool has_nodes_ = false;
  std::set<std::string> families_;
};

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
    : library_(std::move(library)), kernels_(std::move(kernels)), matrix_cores_(context.amd_matrix_cores) {
  if (kernels_) return;
  store_ = std::make_unique<KernelStore>(context);
  kernels_ = [store = store_.get()](std::string_view family, std::string_view target) {
    return store->get(family, target);
  };
}

std::string TorchKernels::find_obstacle(std::string_view gfx_target) {
  if (library_.empty() && find_loaded_hip().empty()) return "libtorch has loaded no libamdhip64; set amd.engine=native";
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
  const AmdArchitecture* const architecture = find_amd_architecture(gpu.gfx_target);
  const bool use = matrix_cores_ && architecture != nullptr;
  NeededFamilies needed(use ? matrix_unit_of(*architecture) : gpu::MatrixUnit::kNone);
  needed.add(graph);
  if (!needed.has_nodes()) return std::shared_ptr<gpu::Launcher>();
  std::vector<std::string> objects;
  for (const std::string& family : needed.families()) {
    KPT_ASSIGN_OR_RETURN(std::string object, kernels_(family, gpu.gfx_target));
    objects.push_back(std::move(object));
  }
  KPT_ASSIGN_OR_RETURN(const auto runtime, open_runtime());
  KPT_ASSIGN_OR_RETURN(const HipDevice device, HipRuntime::open_device(runtime, gpu.index));
  // Detection cannot tell them where the driver does not list the GPU's place on the bus.
  const int compute_units = std::max(gpu.compute_units, 1);
  KPT_ASSIGN_OR_RETURN(std::unique_ptr<HipLauncher> launcher,
                       HipLauncher::make(device, compute_units, objects, matrix_cores_));
  return std::shared_ptr<gpu::Launcher>(std::move(launcher));
}

}  // namespace kpt
