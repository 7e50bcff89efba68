#include "doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "api/detection.h"
#include "base/build_info.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "doctor/sections.h"

namespace kpt::doctor {
namespace {

struct SectionRow {
  std::string_view category;
  Section run;
};

constexpr std::array kSections = {
    SectionRow{"system", &check_system},         SectionRow{"cpu", &check_cpu},
    SectionRow{"nvidia", &check_nvidia},         SectionRow{"amd", &check_amd},
    SectionRow{"tpu", &check_tpu_and_pjrt},      SectionRow{"libtorch", &check_libtorch},
    SectionRow{"toolchains", &check_toolchains}, SectionRow{"cache", &check_cache},
    SectionRow{"serving", &check_serving},
};

// A section that throws has a defect; the rest of the report must still come out.
std::vector<Check> run_guarded(const SectionRow& row, const SectionInput& input) {
  try {
    return row.run(input);
  } catch (const std::exception& error) {
    return {Check{.category = std::string(row.category),
                  .name = "section",
                  .state = State::kFail,
                  .message = fmt::format("this section broke: {}", error.what()),
                  .recommendation = "report it with what `kpt doctor --json` prints"}};
  }
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

}  // namespace

std::string_view to_string(State state) {
  switch (state) {
    case State::kPass: return "pass";
    case State::kWarn: return "warn";
    case State::kFail: return "fail";
  }
  return "fail";
}

const std::vector<std::string>& categories() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const SectionRow& row : kSections) names.emplace_back(row.category);
    return names;
  }();
  return kNames;
}

Report run(const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  const SectionInput input{request, make_detection_context(request.config, request.environment, request.files)};
  std::vector<const SectionRow*> chosen;
  for (const SectionRow& row : kSections) {
    const auto& only = request.only_categories;
    if (only.empty() || std::ranges::find(only, row.category) != only.end()) chosen.push_back(&row);
  }
  Report report;
  report.timestamp = utc_now();
  {
    // One thread for each section, however few cores there are: they wait for child processes most of the time, and one
    // that waits for a hanging library must not hold up the others.
    ThreadPool pool(std::max(1, static_cast<int>(chosen.size())));
    std::vector<std::future<std::vector<Check>>> pending;
    for (const SectionRow* row : chosen) {
      pending.push_back(pool.submit([row, &input] { return run_guarded(*row, input); }));
    }
    for (auto& section : pending) {
      std::vector<Check> checks = section.get();
      std::ranges::move(checks, std::back_inserter(report.checks));
    }
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log::info("doctor ran",
            {{"checks", std::to_string(report.checks.size())}, {"seconds", fmt::format("{:.2f}", report.seconds)}});
  return report;
}

int Report::count(State state) const { return static_cast<int>(std::ranges::count(checks, state, &Check::state)); }

int Report::absent() const {
  return static_cast<int>(
      std::ranges::count_if(checks, [](const Check& check) { return check.state == State::kPass && !check.present; }));
}

bool is_healthy(const Report& report, bool strict) {
  return report.count(State::kFail) == 0 && (!strict || report.count(State::kWarn) == 0);
}

nlohmann::ordered_json to_json(const Report& report, bool strict) {
  nlohmann::ordered_json diagnostics = nlohmann::ordered_json::array();
  for (const Check& check : report.checks) {
    diagnostics.push_back({{"category", check.category},
                           {"name", check.name},
                           {"status", to_string(check.state)},
                           {"present", check.present},
                           {"message", check.message},
                           {"recommendation", check.recommendation},
                           {"details", check.details}});
  }
  const BuildInfo& info = build_info();
  return {{"schema_version", 1},
          {"timestamp", report.timestamp},
          {"kpt",
           {{"version", info.version},
            {"commit", info.commit},
            {"compiler", info.compiler},
            {"build_type", info.build_type},
            {"architecture", info.architecture},
            {"torch_version", info.torch_version}}},
          {"healthy", is_healthy(report, strict)},
          {"strict", strict},
          {"seconds", report.seconds},
          {"summary",
           {{"pass", report.count(State::kPass)},
            {"warn", report.count(State::kWarn)},
            {"fail", report.count(State::kFail)},
            {"absent", report.absent()}}},
          {"diagnostics", diagnostics}};
}

}  // namespace kpt::doctor
