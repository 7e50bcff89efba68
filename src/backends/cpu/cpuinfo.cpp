#include "backends/cpu/cpuinfo.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "backends/cpu/arm_cores.h"
#include "base/text.h"
#include "device/machine_architecture.h"

namespace kpt {
namespace {

// One "processor : n" entry.
struct Entry {
  std::size_t lines = 0;
  std::string_view model_name;
  std::optional<std::string_view> flags;  // nothing: the line is missing
  std::optional<std::uint64_t> implementer;
  std::optional<std::uint64_t> part;
};

void read_line(Entry& entry, std::string_view key, std::string_view value) {
  ++entry.lines;
  if (key == "model name") entry.model_name = value;
  if (key == "flags" || key == "Features") entry.flags = value;
  if (key == "CPU implementer") entry.implementer = parse_uint(value, 16);
  if (key == "CPU part") entry.part = parse_uint(value, 16);
}

std::vector<Entry> read_entries(std::string_view text) {
  std::vector<Entry> entries;
  for (const std::string_view line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon));
    if (key == "processor") entries.emplace_back();
    // Lines before the first entry and after a blank line ("Hardware", "Serial") belong to the machine.
    if (!entries.empty()) read_line(entries.back(), key, trim(line.substr(colon + 1)));
  }
  return entries;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) words.emplace_back(word);
  }
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

// Usually all lines are equal, so only a line that differs from the one before it is taken apart.
std::vector<std::string> shared_flags(const std::vector<Entry>& entries) {
  std::optional<std::vector<std::string>> shared;
  std::string_view previous;
  for (const Entry& entry : entries) {
    if (!entry.flags || (shared && *entry.flags == previous)) continue;
    previous = *entry.flags;
    std::vector<std::string> own = words_of(*entry.flags);
    if (!shared) {
      shared = std::move(own);
      continue;
    }
    std::vector<std::string> both;
    std::ranges::set_intersection(*shared, own, std::back_inserter(both));
    shared = std::move(both);
  }
  return shared.value_or(std::vector<std::string>());
}

std::string core_name(const Entry& entry) {
  if (!entry.implementer || !entry.part) return std::string(entry.model_name);
  const std::string_view known = find_arm_core(*entry.implementer, *entry.part);
  if (!known.empty()) return std::string(known);
  if (!entry.model_name.empty()) return std::string(entry.model_name);
  return fmt::format("Arm core {:#x}:{:#x}", *entry.implementer, *entry.part);
}

// The distinct cores in the order of their first processor; big.LITTLE machines have two or three.
std::string model_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    std::string name = core_name(entry);
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return join(names, " + ");
}

}  // namespace

CpuInfo parse_cpuinfo(std::string_view text) {
  const std::vector<Entry> entries = read_entries(text);
  CpuInfo info;
  info.architecture = find_cpuinfo_architecture(text);
  info.model = model_of(entries);
  info.processors = static_cast<int>(entries.size());
  info.flags = shared_flags(entries);
  if (entries.empty()) {
    info.notes.emplace_back("/proc/cpuinfo lists no processor");
    return info;
  }
  const auto without_flags = std::ranges::count_if(entries, [](const Entry& entry) { return !entry.flags; });
  if (without_flags > 0) {
    info.notes.push_back(
        fmt::format("/proc/cpuinfo has no feature line for {} of {} processors", without_flags, entries.size()));
  } else if (entries.back().lines < entries.front().lines) {
    info.notes.emplace_back("/proc/cpuinfo seems cut off: its last processor has fewer lines than its first");
  }
  return info;
}

}  // namespace kpt
