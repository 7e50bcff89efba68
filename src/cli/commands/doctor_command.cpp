#include "cli/commands/doctor_command.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/terminal.h"
#include "config/options.h"
#include "device/hardware_json.h"
#include "doctor/doctor.h"

namespace kpt::cli {
namespace {

constexpr std::size_t kLineWidth = 120;

std::string mark_of(const doctor::Check& check, bool color) {
  switch (check.state) {
    case doctor::State::kPass:
      return check.present ? paint("pass", Color::kGreen, color) : paint("  – ", Color::kDim, color);
    case doctor::State::kWarn: return paint("warn", Color::kYellow, color);
    case doctor::State::kFail: return paint("FAIL", Color::kRed, color);
  }
  return "";
}

std::string render(const doctor::Report& report, bool strict, bool color) {
  std::vector<std::vector<std::string>> rows;
  std::string category;
  for (const doctor::Check& check : report.checks) {
    const std::string heading = check.category == category ? "" : paint(check.category, Color::kBold, color);
    category = check.category;
    rows.push_back({heading, mark_of(check, color), check.name, check.message});
    if (!check.recommendation.empty())
      rows.push_back({"", "", "", paint("→ " + check.recommendation, Color::kDim, color)});
  }
  const bool healthy = doctor::is_healthy(report, strict);
  const std::string verdict = healthy ? paint("ready", Color::kGreen, color) : paint("not ready", Color::kRed, color);
  const int absent = report.absent();  // the dashes
  return format_table(rows, kLineWidth) + fmt::format("\n{}: {} pass, {} absent, {} warn, {} fail in {:.2f} s{}\n",
                                                      verdict, report.count(doctor::State::kPass) - absent, absent,
                                                      report.count(doctor::State::kWarn),
                                                      report.count(doctor::State::kFail), report.seconds,
                                                      strict ? " (strict: warnings count as failures)" : "");
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("doctor", "what this machine can do, what is missing, and how to mend it");
  command->footer(
      "Exit code 0 when nothing that is needed is broken, 1 otherwise.\nExample: kpt doctor --category "
      "nvidia,libtorch");
  auto only = std::make_shared<std::vector<std::string>>();
  command->add_option("--category", *only, "only these sections: " + join(doctor::categories(), ", "))
      ->delimiter(',')
      ->type_name("NAMES")
      ->check(CLI::IsMember(doctor::categories()));
  command->callback([&context, only] {
    const Result<Config> config = context.load_config();
    if (!config.ok()) return context.fail(config.status());
    const auto root = context.environment().find("KPT_SYSTEM_ROOT");
    const doctor::Report report = doctor::run({*config, context.environment(), SystemFiles(root.value_or("/")), *only});
    const bool strict = config->get(options::kStrict);
    if (context.flags().json) {
      context.out() << dump_json(doctor::to_json(report, strict), 2) << "\n";
    } else {
      context.out() << render(report, strict, context.use_color(*config));
    }
    context.finish(doctor::is_healthy(report, strict) ? kExitOk : kExitFailed);
  });
}

}  // namespace kpt::cli
