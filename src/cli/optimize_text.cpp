#include "cli/optimize_text.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/terminal.h"
#include "validation/gate_report.h"

namespace kpt::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string speed_text(const OptimizeReport& report) {
  const PairedTimes& speed = *report.speed;
  return fmt::format("{:.3f} ms before, {:.3f} ms after: {:.2f} times as fast ({:.2f} to {:.2f}, {} pairs, {})",
                     speed.first_ms, speed.second_ms, speed.ratio, speed.low, speed.high, speed.pairs,
                     report.measured_on);
}

std::string gate_text(const GateReport& gate) {
  std::string text =
      fmt::format("{}, {} draws ({})", level_name(gate.level), gate.draws.size(), join(gate.draws, "; "));
  if (gate.tolerance) text += fmt::format(", tolerance {} set by the user", *gate.tolerance);
  if (gate.last_position) text += ", outputs of one position against the last of the model's";
  if (!gate.bf16_run.empty()) text += fmt::format("; bf16 run: {}", gate.bf16_run);
  return text;
}

}  // namespace

std::string applied_passes(const std::vector<PassRecord>& passes) {
  std::vector<std::string> applied;
  for (const PassRecord& record : passes) {
    if (record.changes > 0 && record.skipped.empty()) {
      applied.push_back(fmt::format("{} ({})", record.pass, record.changes));
    }
  }
  return applied.empty() ? "none" : join(applied, ", ");
}

std::string render_report(const OptimizeReport& report, bool color) {
  const auto heading = [&](std::string_view text) { return paint(text, Color::kBold, color); };
  Rows rows;
  rows.push_back({heading("level"), fmt::format("{} on {}", level_name(report.level), report.device)});
  rows.push_back({heading("applied"), applied_passes(report.passes)});
  std::string title = heading("left out");
  for (const PassRecord& record : report.passes) {
    if (!record.skipped.empty()) {
      rows.push_back({std::exchange(title, ""), fmt::format("{}: {}", record.pass, record.skipped)});
    }
  }
  for (const DroppedPass& dropped : report.dropped) {
    rows.push_back({std::exchange(title, ""), fmt::format("{}: {}", dropped.pass, dropped.reason)});
  }
  std::string wide = heading("not quantized");
  if (!report.not_quantized.empty()) {
    rows.push_back({std::exchange(wide, ""), fmt::format("{}: for accuracy", join(report.not_quantized, ", "))});
  }
  for (const KernelChoice& choice : report.kernels) {
    if (choice.taken != Taken::kUnquantized) continue;
    rows.push_back({std::exchange(wide, ""), fmt::format("{}: {}", join(choice.nodes, ", "), choice.reason)});
  }
  if (!report.kept_precise.empty()) rows.push_back({heading("kept precise"), join(report.kept_precise, ", ")});
  std::string kernels = heading("kernels");
  for (const KernelChoice& choice : report.kernels) {
    if (choice.taken != Taken::kLibrary) continue;
    rows.push_back({std::exchange(kernels, ""),
                    fmt::format("{} ({}): {}", choice.operator_target, join(choice.nodes, ", "), choice.reason)});
  }
  if (report.speed) rows.push_back({heading("speed"), speed_text(report)});
  rows.push_back({heading("gate"), gate_text(report.gate)});
  for (const std::string& note : report.notes) rows.push_back({heading("note"), note});
  for (const std::string& note : report.gate.notes) rows.push_back({heading("note"), note});
  std::string text = format_table(rows) + "\n" + format_table(table_rows(report.gate)) + "\n";
  if (report.passed()) {
    text += paint("the gate passed", Color::kGreen, color) + "\n";
  } else {
    text += paint("the accuracy gate refused", Color::kRed, color) + ": nothing is written\n";
  }
  if (report.culprit) text += report.culprit->sentence() + "\n";
  return text;
}

}  // namespace kpt::cli
