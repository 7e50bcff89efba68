#include "config/option_value.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/text_check.h"

namespace kpt {
namespace {

Status wrong(OptionId id, std::string_view found, std::string_view nearest = {}) {
  const OptionRow& row = get_row(id);
  std::string sentence = fmt::format("{} is {}, expected {}", row.name, found, describe_expected(row.domain));
  if (!nearest.empty()) sentence += fmt::format("; did you mean {}?", nearest);
  return {StatusCode::kConfiguration, std::move(sentence)};
}

Status wrong_word(OptionId id, std::string_view word) {
  const auto words = get_row(id).domain.words;
  const std::vector<std::string> candidates(words.begin(), words.end());
  return wrong(id, quoted_excerpt(word), find_nearest(to_lower(word), candidates).value_or(""));
}

// Text that could not be written back exactly, or handed to the system as a path, is refused wherever it comes from.
Status check_text(OptionId id, std::string_view text) {
  constexpr std::size_t kMaxBytes = 32768;
  if (text.find('\0') != std::string_view::npos) return wrong(id, "text that holds a NUL character");
  if (find_invalid_utf8(text)) return wrong(id, "text that is not UTF-8");
  if (text.size() > kMaxBytes) return wrong(id, fmt::format("text of {} bytes, more than {}", text.size(), kMaxBytes));
  return {};
}

Result<OptionValue> parse_bool(OptionId id, std::string_view text) {
  const std::string lower = to_lower(text);
  for (const std::string_view word : {"true", "yes", "on", "1"}) {
    if (lower == word) return OptionValue(true);
  }
  for (const std::string_view word : {"false", "no", "off", "0"}) {
    if (lower == word) return OptionValue(false);
  }
  return wrong(id, quoted_excerpt(text));
}

Status check_items(OptionId id, const std::vector<std::string>& items) {
  const OptionDomain& domain = get_row(id).domain;
  std::set<std::string_view> seen;
  for (const std::string& item : items) {
    KPT_RETURN_IF_ERROR(check_text(id, item));
    std::string_view name = item;
    if (domain.kind != OptionKind::kWordList) {
      const auto equals = item.find('=');
      if (equals == 0 || equals == std::string::npos || equals + 1 == item.size()) {
        return wrong(id, "a list with " + quoted_excerpt(item));
      }
      name = name.substr(0, equals);
      const auto price = domain.kind == OptionKind::kPrices ? parse_double(item.substr(equals + 1)) : 0.0;
      if (!price || !(*price >= 0 && std::isfinite(*price))) return wrong(id, "a list with " + quoted_excerpt(item));
    }
    if (domain.kind != OptionKind::kNamedPaths && std::ranges::find(domain.words, name) == domain.words.end()) {
      return wrong_word(id, name);
    }
    if (!seen.insert(name).second) return wrong(id, fmt::format("a list with {} twice", quoted_excerpt(name)));
  }
  return {};
}

bool is_name(std::string_view text) {
  constexpr std::size_t kMostCharacters = 64;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_' || c == ':';
  };
  return !text.empty() && text.size() <= kMostCharacters && std::ranges::all_of(text, fits);
}

// Words that need no quotes, in our parser or in any other. YAML 1.1 reads off, no and their like as truth values.
bool is_plain_word(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto inner = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '/' || c == '_' || c == '.' || c == '-' || c == '=';
  };
  if (text.empty() || !(letter(text.front()) || text.front() == '/')) return false;
  const std::string lower = to_lower(text);
  for (const std::string_view word : {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}) {
    if (lower == word) return false;
  }
  return std::ranges::all_of(text, inner);
}

std::string yaml_text(const std::string& text) { return is_plain_word(text) ? text : nlohmann::json(text).dump(); }

}  // namespace

bool is_list(OptionKind kind) {
  return kind == OptionKind::kWordList || kind == OptionKind::kNamedPaths || kind == OptionKind::kPrices;
}

Result<OptionValue> parse_option_scalar(OptionId id, std::string_view text) {
  const OptionDomain& domain = get_row(id).domain;
  switch (domain.kind) {
    case OptionKind::kBool: return parse_bool(id, text);
    case OptionKind::kInt: {
      const auto number = parse_int(text);
      if (!number || *number < domain.least || *number > domain.most) return wrong(id, quoted_excerpt(text));
      return OptionValue(*number);
    }
    case OptionKind::kChoice:
      if (std::ranges::find(domain.words, text) == domain.words.end()) return wrong_word(id, text);
      return OptionValue(std::string(text));
    case OptionKind::kName:
      if (!is_name(text)) return wrong(id, quoted_excerpt(text));
      return OptionValue(std::string(text));
    case OptionKind::kPath: KPT_RETURN_IF_ERROR(check_text(id, text)); return OptionValue(std::string(text));
    case OptionKind::kWordList:
    case OptionKind::kNamedPaths:
    case OptionKind::kPrices: break;
  }
  return wrong(id, quoted_excerpt(text));
}

Result<OptionValue> parse_option_list(OptionId id, std::vector<std::string> items) {
  if (!is_list(get_row(id).domain.kind)) return wrong(id, "a list");
  KPT_RETURN_IF_ERROR(check_items(id, items));
  return OptionValue(std::move(items));
}

Result<OptionValue> parse_option(OptionId id, std::string_view text) {
  if (!is_list(get_row(id).domain.kind)) return parse_option_scalar(id, text);
  std::vector<std::string> items;
  for (const std::string_view part : split(text, ',')) items.emplace_back(trim(part));
  return parse_option_list(id, std::move(items));
}

std::string describe_expected(const OptionDomain& domain) {
  const std::vector<std::string> words(domain.words.begin(), domain.words.end());
  switch (domain.kind) {
    case OptionKind::kBool: return "true or false";
    case OptionKind::kInt: return fmt::format("a whole number from {} to {}", domain.least, domain.most);
    case OptionKind::kChoice: return fmt::format("one of {}", join(words, ", "));
    case OptionKind::kName: return "a name of at most 64 letters, digits, '.', '-', '_' and ':'";
    case OptionKind::kPath: return "a path";
    case OptionKind::kWordList: return fmt::format("a list of {}, each at most once", join(words, ", "));
    case OptionKind::kNamedPaths: return "a list of name=path, each name at most once";
    case OptionKind::kPrices:
      return fmt::format("a list such as {}=1.20, each of {} at most once", words[0], join(words, ", "));
  }
  return {};
}

std::string to_yaml(const OptionValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return yaml_text(*text);
  std::vector<std::string> items;
  for (const std::string& item : std::get<std::vector<std::string>>(value)) items.push_back(yaml_text(item));
  return fmt::format("[{}]", join(items, ", "));
}

}  // namespace kpt
