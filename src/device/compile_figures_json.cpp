#include "device/compile_figures_json.h"

#include <cmath>

#include <fmt/format.h>

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

struct CountRow {
  const char* name;
  std::optional<std::uint64_t> CompileFigures::* place;
};
constexpr CountRow kCounts[] = {
    {"code_bytes", &CompileFigures::code_bytes},           {"argument_bytes", &CompileFigures::argument_bytes},
    {"output_bytes", &CompileFigures::output_bytes},       {"alias_bytes", &CompileFigures::alias_bytes},
    {"temporary_bytes", &CompileFigures::temporary_bytes}, {"peak_bytes", &CompileFigures::peak_bytes},
};

struct NumberRow {
  const char* name;
  std::optional<double> CompileFigures::* place;
};
constexpr NumberRow kNumbers[] = {
    {"flops", &CompileFigures::flops},
    {"transcendentals", &CompileFigures::transcendentals},
    {"bytes_accessed", &CompileFigures::bytes_accessed},
    {"compiler_seconds", &CompileFigures::compiler_seconds},
};

struct KernelRow {
  const char* name;
  std::uint64_t KernelFigures::* place;
};
constexpr KernelRow kKernelRows[] = {
    {"threads", &KernelFigures::threads},
    {"vector_registers", &KernelFigures::vector_registers},
    {"accumulation_registers", &KernelFigures::accumulation_registers},
    {"scalar_registers", &KernelFigures::scalar_registers},
    {"vector_spills", &KernelFigures::vector_spills},
    {"scalar_spills", &KernelFigures::scalar_spills},
    {"lds_bytes", &KernelFigures::lds_bytes},
    {"private_bytes", &KernelFigures::private_bytes},
    {"waves", &KernelFigures::waves},
    {"most_waves", &KernelFigures::most_waves},
};
// More kernels than any program launches.
constexpr std::size_t kMostKernels = 4096;

Status corrupt(const char* name) {
  return {StatusCode::kCorruptData, fmt::format("the figure '{}' of a compiled program cannot be read", name)};
}

Status read_text(const Json& json, const char* name, std::string& text) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return corrupt(name);
  text = found->get<std::string>();
  return {};
}

Result<KernelFigures> read_kernel(const Json& json) {
  KernelFigures kernel;
  if (!json.is_object()) return corrupt("kernels");
  KPT_RETURN_IF_ERROR(read_text(json, "name", kernel.name));
  for (const KernelRow& row : kKernelRows) {
    const auto found = json.find(row.name);
    if (found == json.end() || !found->is_number_unsigned()) return corrupt(row.name);
    kernel.*row.place = found->get<std::uint64_t>();
  }
  return kernel;
}

}  // namespace

Json to_json(const KernelFigures& kernel) {
  Json json = {{"name", kernel.name}};
  for (const KernelRow& row : kKernelRows) json[row.name] = kernel.*row.place;
  return json;
}

Json to_json(const CompileStatistics& statistics) {
  return {{"compilations", statistics.compilations},
          {"hits", statistics.hits},
          {"misses", statistics.misses},
          {"errors", statistics.errors},
          {"hit_rate", statistics.hit_rate()}};
}

Json to_json(const CompileFigures& figures) {
  Json json = {{"compiler", figures.compiler}, {"device_kind", figures.device_kind}};
  for (const CountRow& row : kCounts) json[row.name] = figures.*row.place ? Json(*(figures.*row.place)) : Json();
  for (const NumberRow& row : kNumbers) json[row.name] = figures.*row.place ? Json(*(figures.*row.place)) : Json();
  json["kernels"] = Json::array();
  for (const KernelFigures& kernel : figures.kernels) json["kernels"].push_back(to_json(kernel));
  return json;
}

Result<CompileFigures> read_compile_figures(const Json& json) {
  CompileFigures figures;
  if (!json.is_object()) return corrupt("compiler");
  KPT_RETURN_IF_ERROR(read_text(json, "compiler", figures.compiler));
  KPT_RETURN_IF_ERROR(read_text(json, "device_kind", figures.device_kind));
  for (const CountRow& row : kCounts) {
    const auto found = json.find(row.name);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_number_unsigned()) return corrupt(row.name);
    figures.*row.place = found->get<std::uint64_t>();
  }
  for (const NumberRow& row : kNumbers) {
    const auto found = json.find(row.name);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_number()) return corrupt(row.name);
    const auto value = found->get<double>();
    if (!std::isfinite(value) || value < 0) return corrupt(row.name);
    figures.*row.place = value;
  }
  const auto kernels = json.find("kernels");
  if (kernels == json.end()) return figures;
  if (!kernels->is_array() || kernels->size() > kMostKernels) return corrupt("kernels");
  for (const Json& entry : *kernels) {
    KPT_ASSIGN_OR_RETURN(KernelFigures kernel, read_kernel(entry));
    figures.kernels.push_back(std::move(kernel));
  }
  return figures;
}

}  // namespace kpt
