#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/automatic.h"
#include "config/options.h"
#include "device/hardware_json.h"
#include "device/python_environments.h"
#include "engines/aten/torch_installation.h"
#include "kpt/errors.h"

namespace kpt::cli {
namespace {

// A broken file or variable must not keep the version from being printed; flags that were given for it must be right.
Config version_config(CommandContext& context) {
  Result<Config> config = context.load_config();
  if (config.ok()) return *std::move(config);
  const GlobalFlags& flags = context.flags();
  if (flags.config_file || flags.preset || !flags.settings.empty()) throw_status(config.status());
  return {};
}

std::string version_text(CommandContext& context) {
  const BuildInfo& info = build_info();
  const Environment& environment = context.environment();
  const Config config = version_config(context);
  const TorchSearch search{environment, torch_folder(config, environment).string(),
                           find_site_packages(environment, info.torch_dir)};
  const Result<TorchInstallation> torch = find_torch_installation(search);
  if (context.flags().json) {
    return dump_json({{"version", info.version},
                      {"commit", info.commit},
                      {"compiler", info.compiler},
                      {"build_type", info.build_type},
                      {"architecture", info.architecture},
                      {"libtorch",
                       {{"built_for", info.torch_version},
                        {"here", torch.ok() ? torch->version_text : ""},
                        {"dir", torch.ok() ? torch->dir.string() : ""}}}},
                     2);
  }
  const std::string built_for =
      info.torch_version.empty() ? "built without" : fmt::format("built for {}", info.torch_version);
  return fmt::format("kpt {}\ncommit    {}\ncompiler  {}, {}, {}\nlibtorch  {}, {} here", info.version, info.commit,
                     info.compiler, info.build_type, info.architecture, built_for,
                     torch.ok() ? torch->version_text : "none found");
}

void add_global_flags(CLI::App& app, CommandContext& context) {
  GlobalFlags& flags = context.flags();
  app.add_option("--config", flags.config_file, "configuration file (YAML or JSON)")->type_name("FILE");
  app.add_option("--preset", flags.preset, "start from: inference, training or development")->type_name("NAME");
  app.add_option("--set", flags.settings, "set one option, e.g. --set log.level=debug (repeatable)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  app.add_flag("--json", flags.json, "machine-readable output");
}

std::string suggest(const std::string& word, const std::vector<std::string>& known) {
  const auto nearest = find_nearest(word, known);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : "";
}

// One sentence about a command line that cannot be taken. What has no place is told before what is missing: CLI11 asks
// for a command where one is misspelled, and for the model where a flag is.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> strangers = app.remaining(true);
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  const std::string help = fmt::format(" ({} --help tells what there is)", name);
  if (strangers.empty()) return error.what() + help;
  const std::string word = printable(strangers.front().substr(0, strangers.front().find('=')), 128);
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    for (const CLI::App* owner : {&app, command}) {
      for (const CLI::Option* option : owner->get_options()) {
        for (const std::string& flag : option->get_lnames()) known.push_back("--" + flag);
      }
    }
    return fmt::format("{} is no flag of {}{}{}", word, name, suggest(word, known), help);
  }
  for (const CLI::App* one : command->get_subcommands(nullptr)) known.push_back(one->get_name());
  if (known.empty()) return fmt::format("'{}' is one argument too many for {}{}", word, name, help);
  return fmt::format("'{}' is no command of {}{}{}", word, name, suggest(word, known), help);
}

}  // namespace

Result<Config> CommandContext::load_config() {
  ConfigSources sources;
  if (flags_.config_file) sources.file = *flags_.config_file;
  sources.preset = flags_.preset;
  sources.settings = flags_.settings;
  KPT_ASSIGN_OR_RETURN(Config config, kpt::load_config(sources, environment_));
  const auto root = environment_.find("KPT_SYSTEM_ROOT");
  apply_automatic(config, SystemFiles(root.value_or("/")), environment_);
  apply_logging(config);
  log_unknown_variables(environment_);
  return config;
}

bool CommandContext::use_color(const Config& config) const {
  switch (config.get(options::kCliColor)) {
    case ColorMode::kAlways: return true;
    case ColorMode::kNever: return false;
    case ColorMode::kAuto: break;
  }
  return out_is_terminal_ && !environment_.find("NO_COLOR");
}

void CommandContext::tell(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) err_ << "kpt: note: " << note << "\n";
}

void CommandContext::fail(const Status& status, int exit_code) {
  if (flags_.json) {
    nlohmann::ordered_json error = {{"code", to_string(status.code())}, {"message", status.message()}};
    if (status.vendor() != Vendor::kNone) error["vendor"] = to_string(status.vendor());
    for (const StatusDetail& detail : status.details()) error["details"][detail.key] = detail.value;
    out_ << dump_json({{"error", error}}, 2) << "\n";
  } else {
    err_ << "kpt: " << status.to_string() << "\n";
  }
  finish(exit_code);
}

int run_command_line(const std::vector<std::string>& arguments, CommandContext& context) {
  CLI::App app("KernelPyTorch: a PyTorch model, fast, on the hardware you have, with the same answers.", "kpt");
  app.footer(
      "Example: kpt doctor --json\nDocumentation: docs/ in the source tree, or share/doc/kpt where it is installed.");
  app.require_subcommand(1);
  app.fallthrough();  // global flags may follow the verb
  add_global_flags(app, context);
  // CLI11 hands flags over in the order of their declaration: this one, which ends the parsing, sees all others.
  app.set_version_flag(
      "--version", [&context] { return version_text(context); }, "print version, commit, compiler and libtorch");
  for (const AddCommand add : command_table()) add(app, context);

  // CLI11 takes the arguments from the back.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& asked) {  // for help or the version
    return app.exit(asked, context.out(), context.err());
  } catch (const CLI::ParseError& error) {
    if (std::ranges::find(arguments, "--json") != arguments.end()) context.flags().json = true;
    context.fail(Status(StatusCode::kInvalidArgument, usage_text(app, error)), kExitUsage);
  } catch (const Error& error) {
    context.fail(error.status());
  } catch (const std::exception& error) {
    context.fail(Status(StatusCode::kInternal, fmt::format("unexpected failure, please report it: {}", error.what())));
  }
  return context.exit_code();
}

}  // namespace kpt::cli
