#include "cli/commands/config_command.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "config/config_file.h"
#include "config/config_text.h"
#include "device/hardware_json.h"

namespace kpt::cli {
namespace {

std::string config_table(const Config& config, bool color) {
  std::vector<std::vector<std::string>> rows = {{paint("option", Color::kBold, color),
                                                 paint("value", Color::kBold, color),
                                                 paint("origin", Color::kBold, color)}};
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const auto id = static_cast<OptionId>(i);
    // What the user did not choose stands back.
    const bool chosen = config.origin(id).kind > Origin::Kind::kAutomatic;
    rows.push_back({std::string(option_table()[i].name), to_yaml(config.value(id)),
                    paint(config.origin(id).to_string(), chosen ? Color::kNone : Color::kDim, color)});
  }
  return format_table(rows);
}

// For commands to which the sources of a configuration mean nothing: a flag without effect is a mistake.
bool refuse_sources(CommandContext& context, const std::string& command) {
  const GlobalFlags& flags = context.flags();
  if (!flags.config_file && !flags.preset && flags.settings.empty()) return false;
  context.fail(Status(StatusCode::kInvalidArgument,
                      fmt::format("`kpt {}` does not look at --config, --preset and --set", command)),
               kExitUsage);
  return true;
}

void show(CommandContext& context, const std::string& format) {
  if (context.flags().json && !format.empty() && format != "json") {
    return context.fail(
        Status(StatusCode::kInvalidArgument, fmt::format("--json and --format {} exclude each other", format)),
        kExitUsage);
  }
  const Result<Config> config = context.load_config();
  if (!config.ok()) return context.fail(config.status());
  if (format.empty() && context.flags().json) {
    nlohmann::ordered_json origins;
    for (std::size_t i = 0; i < option_table().size(); ++i) {
      origins[std::string(option_table()[i].name)] = config->origin(static_cast<OptionId>(i)).to_string();
    }
    context.out() << dump_json({{"values", nlohmann::ordered_json::parse(values_json(*config))}, {"origins", origins}},
                               2)
                  << "\n";
  } else if (format == "json") {
    context.out() << to_json(*config);
  } else if (format == "yaml") {
    context.out() << to_yaml(*config);
  } else {
    context.out() << config_table(*config, context.use_color(*config));
  }
  context.finish(kExitOk);
}

void check(CommandContext& context, const std::string& path) {
  if (refuse_sources(context, "config check")) return;
  const ConfigFile file = read_config_file(path);
  if (context.flags().json) {
    nlohmann::ordered_json problems = nlohmann::ordered_json::array();
    for (const ConfigProblem& problem : file.problems) {
      problems.push_back({{"place", problem.place}, {"problem", problem.sentence}});
    }
    context.out() << dump_json({{"problems", problems}}, 2) << "\n";
  } else {
    for (const ConfigProblem& problem : file.problems) context.out() << problem.to_string() << "\n";
    if (file.problems.empty()) context.out() << path << ": ok, " << file.settings.size() << " options set\n";
  }
  context.finish(file.problems.empty() ? kExitOk : kExitFailed);
}

}  // namespace

void add_config_command(CLI::App& app, CommandContext& context) {
  CLI::App* config = app.add_subcommand("config", "show, check and document the configuration");
  config->footer("Example: kpt config check kpt.yaml");
  config->require_subcommand(1);
  config->fallthrough();

  // The flags outlive this function: CLI11 writes them while parsing, just before the callback reads them.
  const auto format = std::make_shared<std::string>();
  CLI::App* show_command = config->add_subcommand("show", "every option, its value and where it came from");
  show_command->fallthrough();
  show_command->add_option("--format", *format, "table (default), or yaml or json, which can be loaded again")
      ->check(CLI::IsMember({"table", "yaml", "json"}));
  show_command->callback([&context, format] { show(context, *format); });

  const auto path = std::make_shared<std::string>();
  CLI::App* check_command = config->add_subcommand("check", "print every problem of a configuration file");
  check_command->fallthrough();
  check_command->add_option("file", *path, "the file to check (YAML or JSON)")->required()->type_name("FILE");
  check_command->callback([&context, path] { check(context, *path); });

  CLI::App* docs_command = config->add_subcommand("docs", "print docs/reference/options.md");
  docs_command->fallthrough();
  docs_command->callback([&context] {
    if (refuse_sources(context, "config docs")) return;
    context.out() << (context.flags().json ? options_json() : options_markdown());
    context.finish(kExitOk);
  });
}

}  // namespace kpt::cli
