#include "memory/process_memory.h"

#include <fstream>

#include "base/text.h"

namespace kpt {
namespace {

std::optional<std::uint64_t> parse_kilobytes(std::string_view text) {
  text = trim(text);
  if (!text.ends_with("kB")) return std::nullopt;
  const auto kilobytes = parse_uint(trim(text.substr(0, text.size() - 2)));
  std::uint64_t bytes = 0;
  if (!kilobytes || __builtin_mul_overflow(*kilobytes, std::uint64_t{1024}, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<ProcessMemory> parse_process_status(std::string_view text) {
  std::optional<std::uint64_t> anonymous;
  std::optional<std::uint64_t> resident;
  std::optional<std::uint64_t> peak;
  for (const std::string_view line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 1);
    if (name == "RssAnon") anonymous = parse_kilobytes(value);
    if (name == "VmRSS") resident = parse_kilobytes(value);
    if (name == "VmHWM") peak = parse_kilobytes(value);
  }
  if (!anonymous || !resident || !peak) return std::nullopt;
  return ProcessMemory{*anonymous, *resident, *peak};
}

Result<ProcessMemory> read_process_memory(const SystemFiles& files) {
  KPT_ASSIGN_OR_RETURN(const std::string text, files.read("/proc/self/status"));
  const auto memory = parse_process_status(text);
  if (!memory) return Status(StatusCode::kUnsupported, "/proc/self/status does not say how much memory is in use");
  return *memory;
}

std::vector<double> read_load_average(const SystemFiles& files) {
  std::vector<double> averages;
  const auto text = files.read("/proc/loadavg");
  if (!text.ok()) return averages;
  for (const std::string_view word : split(*text, ' ')) {
    const auto average = parse_double(word);
    if (!average || averages.size() == 3) break;
    averages.push_back(*average);
  }
  return averages;
}

Status reset_peak(const SystemFiles& files) {
  std::ofstream control(files.resolve("/proc/self/clear_refs"));
  if (!control) return {StatusCode::kPermissionDenied, "the peak of memory cannot be reset: /proc/self/clear_refs"};
  control << "5";
  control.flush();
  if (!control) return {StatusCode::kUnsupported, "the kernel does not reset the peak of memory"};
  return {};
}

}  // namespace kpt
