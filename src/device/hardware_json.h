// JSON forms of hardware.h: what kpt-probe prints and reads back, and what doctor and fixtures show.
//
// Keys are the field names, enums their lower-case names, absent optionals null. Reading accepts missing keys
// (defaults) and throws nlohmann::json::exception on a wrong type, an unknown name or a number out of range: callers
// that read foreign text go through parse_report().
#pragma once

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

std::string_view to_string(Precision precision);                 // "fp8"
std::string names_of(const std::vector<Precision>& precisions);  // "tf32 bf16 fp8", or ""

void to_json(nlohmann::ordered_json& json, const Finding& value);
void from_json(const nlohmann::ordered_json& json, Finding& value);
void to_json(nlohmann::ordered_json& json, const NvidiaReport& value);
void from_json(const nlohmann::ordered_json& json, NvidiaReport& value);
void to_json(nlohmann::ordered_json& json, const AmdReport& value);
void from_json(const nlohmann::ordered_json& json, AmdReport& value);
void to_json(nlohmann::ordered_json& json, const TpuReport& value);
void from_json(const nlohmann::ordered_json& json, TpuReport& value);
void to_json(nlohmann::ordered_json& json, const PjrtPlugin& value);
void from_json(const nlohmann::ordered_json& json, PjrtPlugin& value);
void to_json(nlohmann::ordered_json& json, const CpuReport& value);
void from_json(const nlohmann::ordered_json& json, CpuReport& value);

// How much of a foreign message is repeated in one of ours.
inline constexpr std::size_t kMaxComplaintBytes = 400;

// The text of any JSON value; bytes that are no UTF-8 (device names, paths) become U+FFFD instead of an exception.
std::string dump_json(const nlohmann::ordered_json& json, int indent = -1);

// Parses what a probe printed. Fails with kCorruptData; `what` names the probe in the message.
template <typename Report>
Result<Report> parse_report(const std::string& text, const std::string& what) {
  try {
    return nlohmann::ordered_json::parse(text).template get<Report>();
  } catch (const nlohmann::json::exception& error) {
    // The library quotes the text it stumbled over, which may be long and need not be UTF-8.
    return Status(StatusCode::kCorruptData,
                  what + " gave an answer that cannot be read: " + printable(error.what(), kMaxComplaintBytes));
  }
}

}  // namespace kpt
