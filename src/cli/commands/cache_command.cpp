#include "cli/commands/cache_command.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/model_arguments.h"
#include "cli/terminal.h"
#include "compile_cache/configured_cache.h"
#include "config/options.h"
#include "device/hardware_json.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;

// What a subcommand prints; with --json the object alone.
struct Answer {
  Json json;
  std::string text;
  int exit_code = kExitOk;
};

std::string time_text(std::int64_t seconds) { return fmt::format("{:%Y-%m-%d %H:%M:%SZ}", fmt::gmtime(seconds)); }

Json to_json(const CacheEntry& entry) {
  return {{"digest", entry.digest},
          {"kind", entry.kind},
          {"bytes", entry.bytes},
          {"last_used", time_text(entry.last_used)},
          {"sound", entry.sound}};
}

Json to_json(const std::vector<CacheEntry>& entries) {
  Json list = Json::array();
  for (const CacheEntry& entry : entries) list.push_back(to_json(entry));
  return list;
}

std::string entry_table(const std::vector<CacheEntry>& entries, bool color) {
  if (entries.empty()) return "the cache is empty\n";
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string>& heading = rows.emplace_back();
  for (const char* word : {"key", "kind", "size", "last used", ""}) heading.push_back(paint(word, Color::kBold, color));
  for (const CacheEntry& entry : entries) {
    rows.push_back({entry.digest.substr(0, 16), entry.kind.empty() ? "?" : entry.kind, format_bytes(entry.bytes),
                    time_text(entry.last_used), entry.sound ? "" : paint("damaged", Color::kRed, color)});
  }
  return format_table(rows);
}

Result<Answer> list(CompileCache& cache, bool color) {
  KPT_ASSIGN_OR_RETURN(std::vector<CacheEntry> entries, cache.list());
  std::ranges::reverse(entries);  // the last used first
  Answer answer;
  answer.json["folder"] = cache.folder().string();
  answer.json["entries"] = to_json(entries);
  answer.text = entry_table(entries, color);
  return answer;
}

Result<Answer> statistics(CompileCache& cache) {
  KPT_ASSIGN_OR_RETURN(const CacheStatistics counts, cache.statistics());
  const std::uint64_t asked = counts.hits + counts.misses;
  const double rate = static_cast<double>(counts.hits) / static_cast<double>(std::max<std::uint64_t>(asked, 1));
  Json json = {{"folder", cache.folder().string()},
               {"hits", counts.hits},
               {"misses", counts.misses},
               {"hit_rate", asked > 0 ? Json(rate) : Json()},
               {"writes", counts.writes},
               {"evictions", counts.evictions},
               {"corrupt", counts.corrupt},
               {"entries", counts.entries},
               {"bytes", counts.bytes},
               {"budget_bytes", counts.budget_bytes}};
  const std::vector<std::vector<std::string>> rows = {
      {"folder", cache.folder().string()},
      {"entries", fmt::format("{}", counts.entries)},
      {"size", fmt::format("{} of {}", format_bytes(counts.bytes), format_bytes(counts.budget_bytes))},
      {"hits", fmt::format("{}", counts.hits)},
      {"misses", fmt::format("{}", counts.misses)},
      {"hit rate", asked > 0 ? fmt::format("{:.1f} %", rate * 100) : "nothing asked yet"},
      {"writes", fmt::format("{}", counts.writes)},
      {"evictions", fmt::format("{}", counts.evictions)},
      {"damaged", fmt::format("{}", counts.corrupt)}};
  return Answer{std::move(json), format_table(rows)};
}

Result<Answer> collect(CompileCache& cache, std::uint64_t budget_bytes) {
  KPT_ASSIGN_OR_RETURN(const std::uint64_t freed, cache.collect(budget_bytes));
  Answer answer;
  answer.json["freed_bytes"] = freed;
  answer.json["budget_bytes"] = budget_bytes;
  answer.text = fmt::format("freed {}; at most {} are kept\n", format_bytes(freed), format_bytes(budget_bytes));
  return answer;
}

Result<Answer> verify(CompileCache& cache, bool color) {
  KPT_ASSIGN_OR_RETURN(const std::vector<CacheEntry> entries, cache.verify());
  std::vector<CacheEntry> dropped;
  std::ranges::copy_if(entries, std::back_inserter(dropped), [](const CacheEntry& entry) { return !entry.sound; });
  Answer answer;
  answer.json["checked"] = entries.size();
  answer.json["dropped"] = to_json(dropped);
  answer.text = dropped.empty() ? "" : entry_table(dropped, color);
  answer.text += fmt::format("{} entries checked, {} damaged and dropped\n", entries.size(), dropped.size());
  answer.exit_code = dropped.empty() ? kExitOk : kExitFailed;
  return answer;
}

Result<Answer> clear(CompileCache& cache) {
  KPT_ASSIGN_OR_RETURN(const std::vector<CacheEntry> entries, cache.list());
  KPT_RETURN_IF_ERROR(cache.clear());
  Answer answer;
  answer.json["removed"] = entries.size();
  answer.text = fmt::format("{} entries removed\n", entries.size());
  return answer;
}

using Work = std::function<Result<Answer>(CompileCache& cache, const Config& config, bool color)>;

void run(CommandContext& context, const Work& work) {
  const Result<Config> config = context.load_config();
  if (!config.ok()) return context.fail(config.status());
  Result<CompileCache> cache = open_compile_cache(*config, context.environment());
  if (!cache.ok()) return context.fail(cache.status());
  const Result<Answer> answer = work(*cache, *config, context.use_color(*config));
  if (!answer.ok()) return context.fail(answer.status());
  if (context.flags().json) {
    context.out() << dump_json(answer->json, 2) << "\n";
  } else {
    context.out() << answer->text;
  }
  context.finish(answer->exit_code);
}

}  // namespace

void add_cache_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("cache", "what the compile cache holds, and tidying it");
  command->footer("Example: kpt cache stats\n         kpt cache gc --budget-bytes 1000000000");
  command->require_subcommand(1);
  command->fallthrough();
  const auto add = [&](const char* name, const char* meaning, Work work) {
    CLI::App* child = command->add_subcommand(name, meaning);
    child->fallthrough();
    child->callback([&context, work = std::move(work)] { run(context, work); });
    return child;
  };
  add("ls", "the entries, last used first",
      [](CompileCache& cache, const Config&, bool color) { return list(cache, color); });
  add("stats", "hits, misses, evictions and size, over all processes",
      [](CompileCache& cache, const Config&, bool) { return statistics(cache); });
  const auto budget = std::make_shared<std::optional<std::int64_t>>();
  add("gc", "remove leftovers of killed processes, and the least recently used entries beyond the budget",
      [budget](CompileCache& cache, const Config& config, bool) {
        return collect(cache, static_cast<std::uint64_t>(budget->value_or(config.get(options::kCacheBudgetBytes))));
      })
      ->add_option("--budget-bytes", *budget, "how much may stay; otherwise option cache.budget_bytes")
      ->check(check_count);
  add("verify", "read every entry and drop those that are damaged; exit code 1 when there was one",
      [](CompileCache& cache, const Config&, bool color) { return verify(cache, color); });
  add("clear", "remove all entries and start the counts anew",
      [](CompileCache& cache, const Config&, bool) { return clear(cache); });
}

}  // namespace kpt::cli
