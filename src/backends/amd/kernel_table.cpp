#include "backends/amd/kernel_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/code_object.h"
#include "base/text.h"
#include "kernels/gpu/kernel_sources.h"
#include "kernels/gpu/launch.h"

namespace kpt {
namespace {

constexpr std::string_view kCompilerMark = "Compiler: ";

struct Row {
  std::string_view target;
  const gpu::KernelInfo* kernel;
  KernelResources resources;
  int waves;
};

// Every kernel of the family, checked.
Status add_family(HipCompileCache& compiler, std::string_view family, std::string_view target, std::vector<Row>& rows) {
  KPT_ASSIGN_OR_RETURN(const HipSource source, own_kernels(family));
  KPT_ASSIGN_OR_RETURN(const std::string bytes, compiler.compile(source, target));
  KPT_ASSIGN_OR_RETURN(const CodeObject object, read_code_object(std::as_bytes(std::span(bytes))));
  const AmdArchitecture& architecture = *find_amd_architecture(target);
  for (const gpu::KernelInfo& info : gpu::list_kernels()) {
    if (info.family != family) continue;
    const auto found = std::ranges::find(object.kernels, info.name, &KernelResources::name);
    if (found == object.kernels.end()) {
      return {StatusCode::kKernelCompilation,
              fmt::format("the code object of {} for {} lacks {}", family, target, info.name), Vendor::kAmd};
    }
    KPT_RETURN_IF_ERROR(check_resources(architecture, *found));
    rows.push_back({target, &info, *found, waves_per_simd(architecture, *found, info.max_threads)});
  }
  return {};
}

std::string family_table(std::string_view family, std::span<const std::string_view> targets,
                         const std::vector<Row>& rows) {
  std::string text = fmt::format("\n## {}\n\n| kernel | threads |", family);
  for (const std::string_view target : targets) text += fmt::format(" {} |", target);
  text += "\n|---|---|";
  for (std::size_t i = 0; i < targets.size(); ++i) text += "---|";
  text += "\n";
  for (const gpu::KernelInfo& info : gpu::list_kernels()) {
    if (info.family != family) continue;
    text += fmt::format("| `{}` | {} |", info.name, info.max_threads);
    for (const std::string_view target : targets) {
      const auto row =
          std::ranges::find_if(rows, [&](const Row& r) { return r.kernel == &info && r.target == target; });
      if (row == rows.end()) {
        text += " – |";
        continue;
      }
      text += fmt::format(" {} / {} / {} / {} |", row->resources.vector_registers, row->resources.scalar_registers,
                          row->resources.lds_bytes, row->waves);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<std::string_view> kernel_table_targets() {
  return {"gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"};
}

Result<std::string> kernel_table_page(HipCompileCache& compiler, std::span<const std::string_view> targets) {
  std::vector<Row> rows;
  for (const gpu::KernelFamily& family : gpu::kernel_families()) {
    for (const std::string_view target : targets) {
      if (!runs_family(*find_amd_architecture(target), family)) continue;
      KPT_RETURN_IF_ERROR(add_family(compiler, family.name, target, rows));
    }
  }
  std::string page = fmt::format(
      "# Our kernels on AMD GPUs\n\n"
      "What each kernel of `src/kernels/gpu` needs: vector registers / scalar registers / bytes of LDS / waves that a "
      "SIMD\n"
      "holds with blocks of the most threads. Read from code objects that were compiled for each target; none spills "
      "a\n"
      "register. Not run on hardware; which were executed in an emulator is in\n"
      "[backends/amd.md](../backends/amd.md#support).\n\n"
      "Waves are counted in whole workgroups, by vector registers, by scalar registers (in pieces of 16, and 16 more "
      "of each\n"
      "wave for the trap handler) and by LDS (in pieces of 512 bytes, 1280 on gfx950). Sizes and rules are those of "
      "LLVM's\n"
      "AMDGPU target (`AMDGPUBaseInfo.cpp`, `occupancy-levels.ll`) and of AMD's \"GPU specifications\" for ROCm 7; "
      "RDNA "
      "is\n"
      "compiled for one compute unit a workgroup (`-mcumode`).\n\n"
      "{}{}\n\n"
      "Made by `cmake --build <build folder> --target reference_amd_kernels`; a test with the same compiler fails "
      "while it\n"
      "is old.\n",
      kCompilerMark, compiler.compiler().version);
  for (const gpu::KernelFamily& family : gpu::kernel_families()) page += family_table(family.name, targets, rows);
  return page;
}

std::string_view compiler_line(std::string_view page) {
  const std::size_t at = page.find(kCompilerMark);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = page.substr(at + kCompilerMark.size());
  return rest.substr(0, rest.find('\n'));
}

}  // namespace kpt
