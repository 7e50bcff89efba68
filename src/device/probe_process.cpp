#include "device/probe_process.h"

#include <fmt/format.h>

#include "base/build_paths.h"
#include "base/child_process.h"
#include "base/log.h"
#include "base/text.h"

namespace kpt {
namespace {

// A crashing library may print anything; what is repeated in our message stays short and harmless.
std::string last_line(std::string_view text) {
  constexpr std::size_t kMaxBytes = 400;
  text = trim(text);
  const auto start = text.rfind('\n');
  return printable(start == std::string_view::npos ? text : text.substr(start + 1), kMaxBytes);
}

}  // namespace

Result<std::string> run_probe(const ProbeOptions& options, const std::vector<std::string>& arguments) {
  KPT_ASSIGN_OR_RETURN(const std::filesystem::path helper, find_helper(options.environment, "kpt-probe"));
  ChildCommand command;
  command.arguments.push_back(helper.string());
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.time_limit = options.time_limit;
  KPT_ASSIGN_OR_RETURN(ChildOutcome outcome, run_child(command));
  if (outcome.succeeded()) return std::move(outcome.standard_output);

  const std::string what = fmt::format("the probe for {}", join(arguments, " "));
  const std::string complaint = last_line(outcome.standard_error);
  log::debug("probe failed", {{"arguments", join(arguments, " ")}, {"standard_error", outcome.standard_error}});
  if (outcome.timed_out) {
    return Status(StatusCode::kDeadlineExceeded,
                  fmt::format("{} was killed: {}", what, outcome.describe(options.time_limit)));
  }
  return Status(StatusCode::kVendorLibrary, fmt::format("{} failed: {}{}{}", what, outcome.describe(options.time_limit),
                                                        complaint.empty() ? "" : ": ", complaint));
}

Finding explain_probe_failure(const Status& failure, const std::string& crash_remedy) {
  switch (failure.code()) {
    case StatusCode::kNotFound:
      return {Presence::kBroken, failure.message(), "reinstall KernelPyTorch, or set KPT_HELPER_DIR"};
    case StatusCode::kDeadlineExceeded:
      return {Presence::kBroken, failure.message(),
              "if the machine is only slow, raise KPT_PROBE_TIMEOUT_MS; else " + crash_remedy};
    default: return {Presence::kBroken, failure.message(), crash_remedy};
  }
}

}  // namespace kpt
