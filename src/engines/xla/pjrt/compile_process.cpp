#include "engines/xla/pjrt/compile_process.h"

#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/build_paths.h"
#include "base/child_process.h"
#include "base/files.h"
#include "base/text.h"
#include "engines/xla/pjrt/exchange_folder.h"

namespace kpt::pjrt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 32U;
constexpr std::size_t kMaxExecutableBytes = std::size_t{1} << 34U;
constexpr std::size_t kMaxComplaintBytes = 400;

Json to_json(const ClientOption& option) {
  Json json = {{"name", option.name}};
  std::visit([&json](const auto& value) { json["value"] = value; }, option.value);
  if (std::holds_alternative<float>(option.value)) json["float"] = true;
  return json;
}

ClientOption read_option(const Json& json) {
  ClientOption option{json.at("name").get<std::string>(), false};
  const Json& value = json.at("value");
  if (value.is_string()) option.value = value.get<std::string>();
  if (value.is_boolean()) option.value = value.get<bool>();
  if (value.is_array()) option.value = value.get<std::vector<std::int64_t>>();
  if (value.is_number()) {
    if (json.value("float", false)) {
      option.value = value.get<float>();
    } else {
      option.value = value.get<std::int64_t>();
    }
  }
  return option;
}

std::string to_text(const CompileRequest& request) {
  Json json = {{"plugin_path", request.plugin_path},
               {"plugin_name", request.plugin_name},
               {"client_options", Json::array()},
               {"module_text", request.module_text},
               {"compile_options", Json::binary(std::vector<std::uint8_t>(request.compile_options.begin(),
                                                                          request.compile_options.end()))}};
  for (const ClientOption& option : request.client_options) json["client_options"].push_back(to_json(option));
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

Result<CompileRequest> read_request(const std::string& path) {
  KPT_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxRequestBytes));
  try {
    const Json json = Json::from_cbor(text);
    CompileRequest request;
    request.plugin_path = json.at("plugin_path").get<std::string>();
    request.plugin_name = json.at("plugin_name").get<std::string>();
    for (const Json& option : json.at("client_options")) request.client_options.push_back(read_option(option));
    request.module_text = json.at("module_text").get<std::string>();
    const Json::binary_t& options = json.at("compile_options").get_binary();
    request.compile_options.assign(options.begin(), options.end());
    return request;
  } catch (const Json::exception& error) {
    return Status(StatusCode::kCorruptData, fmt::format("the request {} cannot be read: {}", path, error.what()));
  }
}

StatusCode read_code(const std::string& text) {
#define KPT_COMPARE_CODE(enumerator, name, exception, parent, meaning) \
  if (text == (name)) return StatusCode::enumerator;
  KPT_STATUS_CODES(KPT_COMPARE_CODE)
#undef KPT_COMPARE_CODE
  return StatusCode::kCompilation;
}

// The last line of the child's output that is an answer; plugins print lines of their own.
std::optional<Status> find_answer(const std::string& output) {
  for (std::string_view line : split(output, '\n')) {
    constexpr std::string_view kMark = "kpt-pjrt-compile: ";
    if (!line.starts_with(kMark)) continue;
    const Json json = Json::parse(line.substr(kMark.size()), nullptr, false);
    if (!json.is_object() || !json.contains("code") || !json.contains("message")) continue;
    return Status(read_code(json["code"].get<std::string>()), json["message"].get<std::string>());
  }
  return std::nullopt;
}

std::string last_line(std::string_view text) {
  text = trim(text);
  const auto start = text.rfind('\n');
  return printable(start == std::string_view::npos ? text : text.substr(start + 1), kMaxComplaintBytes);
}

}  // namespace

Result<std::string> compile_in_child(const CompileRequest& request, std::chrono::milliseconds time_limit,
                                     const Environment& environment) {
  KPT_ASSIGN_OR_RETURN(const fs::path helper, find_helper(environment, "kpt-pjrt-compile"));
  KPT_ASSIGN_OR_RETURN(const ExchangeFolder folder, ExchangeFolder::make());
  KPT_RETURN_IF_ERROR(write_file_atomically(folder.request(), to_text(request)));
  ChildCommand command;
  command.arguments = {helper.string(), folder.request().string(), folder.result().string()};
  command.time_limit = time_limit;
  KPT_ASSIGN_OR_RETURN(const ChildOutcome outcome, run_child(command));
  if (outcome.succeeded()) return read_text_file(folder.result(), kMaxExecutableBytes);
  if (outcome.timed_out) {
    return Status(StatusCode::kCompilationTimeout,
                  fmt::format("compiling with PJRT plugin {} was stopped after {:.1f} s; raise the option "
                              "pjrt.compile_timeout_ms, or make the model or its sizes smaller",
                              request.plugin_name, static_cast<double>(time_limit.count()) / 1000.0));
  }
  if (auto answer = find_answer(outcome.standard_output)) return *answer;
  const std::string complaint = last_line(outcome.standard_error);
  return Status(
      StatusCode::kCompilation,
      fmt::format("the compiler of PJRT plugin {} ended: {}{}{}; install another release of the plugin",
                  request.plugin_name, outcome.describe(time_limit), complaint.empty() ? "" : ": ", complaint));
}

Status serve_compile_request(const std::string& request_path, const std::string& result_path) {
  KPT_ASSIGN_OR_RETURN(const CompileRequest request, read_request(request_path));
  KPT_ASSIGN_OR_RETURN(auto plugin, Plugin::open(request.plugin_path, request.plugin_name));
  KPT_ASSIGN_OR_RETURN(const auto client, Client::create(std::move(plugin), request.client_options));
  KPT_ASSIGN_OR_RETURN(const auto executable, client->compile(request.module_text, request.compile_options));
  KPT_ASSIGN_OR_RETURN(const std::string bytes, executable->serialize());
  return write_file_atomically(result_path, bytes);
}

std::string describe_failure(const Status& failure) {
  const Json json = {{"code", std::string(to_string(failure.code()))}, {"message", failure.message()}};
  return "kpt-pjrt-compile: " + json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kpt::pjrt
