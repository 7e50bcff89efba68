#include "backends/tpu/topology_choice.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

// With its shape: a generation alone would leave open whether its default slice or any is meant.
Result<TpuTopology> parse_choice(std::string_view wanted) {
  if (wanted.find(':') != std::string_view::npos) {
    if (auto topology = parse_tpu_target(fmt::format("tpu:{}", wanted)); topology.ok()) return topology;
  }
  std::vector<std::string> known;
  for (const TpuTopology& row : tpu_topologies())
    known.push_back(fmt::format("{}:{}", row.generation->name, row.shape));
  return Status(StatusCode::kConfiguration,
                fmt::format("tpu.topology is '{}'; valid are auto, {}", printable(wanted, 64), join(known, ", ")),
                Vendor::kTpu);
}

Status no_slice(std::string_view what) {
  return {StatusCode::kDeviceNotAvailable,
          fmt::format("{}; name a target, such as tpu:v5e:2x2, or set tpu.topology", what), Vendor::kTpu};
}

}  // namespace

Result<TpuTopology> choose_tpu_topology(std::string_view wanted, const std::function<TpuReport()>& detect) {
  if (!wanted.empty()) return parse_choice(wanted);
  const TpuReport report = detect();
  if (report.generation.empty()) return no_slice("there is no TPU here to take the slice from");
  if (report.topology.empty()) return no_slice("this machine does not tell the shape of its TPU slice");
  return parse_tpu_target(fmt::format("tpu:{}:{}", report.generation, report.topology));
}

Result<TpuReport> apply_chosen_topology(std::string_view wanted, TpuReport report) {
  if (wanted.empty()) return report;
  KPT_ASSIGN_OR_RETURN(const TpuTopology chosen, parse_choice(wanted));
  const TpuGeneration& generation = *chosen.generation;
  const bool fits = (report.generation.empty() || report.generation == generation.name) &&
                    (report.topology.empty() || to_lower(trim(report.topology)) == chosen.shape);
  if (!fits) {
    const std::string told = report.topology.empty()     ? report.generation
                             : report.generation.empty() ? report.topology
                                                         : fmt::format("{}:{}", report.generation, report.topology);
    return Status(StatusCode::kInvalidArchitecture,
                  fmt::format("the TPUs of this machine are {}, and tpu.topology is {}:{}; set it to auto",
                              printable(told, 64), generation.name, chosen.shape),
                  Vendor::kTpu);
  }
  report.generation = generation.name;
  report.cores_per_chip = generation.cores_per_chip;
  report.hbm_bytes_per_chip = generation.hbm_bytes_per_chip;
  report.topology = chosen.shape;
  return report;
}

}  // namespace kpt
