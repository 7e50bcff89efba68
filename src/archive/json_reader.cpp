#include "archive/json_reader.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace kpt {
namespace {

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
// What a literal or a number may consist of, for skipping them unread.
constexpr bool is_scalar_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
}

constexpr std::uint64_t kOnes = 0x0101010101010101U;
constexpr std::uint64_t kHighs = 0x8080808080808080U;
constexpr std::uint64_t zero_bytes(std::uint64_t word) { return (word - kOnes) & ~word & kHighs; }

// The first quote or backslash from `position` on, eight bytes at a time; the end of the text if there is none.
std::size_t find_quote_or_backslash(std::string_view text, std::size_t position) {
  while (text.size() - position >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + position, sizeof(word));
    if ((zero_bytes(word ^ (kOnes * '"')) | zero_bytes(word ^ (kOnes * '\\'))) != 0) break;
    position += sizeof(word);
  }
  while (position < text.size() && text[position] != '"' && text[position] != '\\') ++position;
  return position;
}

// The end of a string that starts after the quote at `position - 1`: behind its closing quote. Nothing if it has none.
std::optional<std::size_t> skip_string(std::string_view text, std::size_t position) {
  for (;;) {
    position = find_quote_or_backslash(text, position);
    if (position >= text.size()) return std::nullopt;
    if (text[position] == '"') return position + 1;
    position += 2;  // a backslash and what it escapes
    if (position > text.size()) return std::nullopt;
  }
}

std::optional<std::uint32_t> read_hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (error != std::errc() || end != text.data() + 4) return std::nullopt;
  return value;
}

void append_utf8(std::uint32_t code_point, std::string* out) {
  const auto put = [out](std::uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3f));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

// One escape, whose backslash is at the start of `text`. Gives how long it is; 0: it is none.
std::size_t unescape(std::string_view text, std::string* out) {
  if (text.size() < 2) return 0;
  static constexpr std::string_view kLetters = "\"\\/bfnrt";
  static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t found = kLetters.find(text[1]); found != std::string_view::npos) {
    out->push_back(kMeanings[found]);
    return 2;
  }
  if (text[1] != 'u') return 0;
  const std::optional<std::uint32_t> first = read_hex4(text.substr(2));
  if (!first || (*first >= 0xdc00 && *first <= 0xdfff)) return 0;
  if (*first < 0xd800 || *first > 0xdbff) {
    append_utf8(*first, out);
    return 6;
  }
  if (text.size() < 12 || text[6] != '\\' || text[7] != 'u') return 0;
  const std::optional<std::uint32_t> second = read_hex4(text.substr(8));
  if (!second || *second < 0xdc00 || *second > 0xdfff) return 0;
  append_utf8(0x10000 + ((*first - 0xd800) << 10) + (*second - 0xdc00), out);
  return 12;
}

}  // namespace

bool JsonReader::SeenKeys::insert(std::string_view key, bool in_document) {
  if (std::find(few_.begin(), few_.end(), key) != few_.end() || many_.contains(key)) return false;
  if (!in_document) key = unescaped_.emplace_back(key);
  if (few_.size() < kFew) {
    few_.push_back(key);
  } else {
    many_.insert(key);
  }
  return true;
}

void JsonReader::skip_space() {
  while (position_ < text_.size() && is_space(text_[position_])) ++position_;
}

JsonReader::Kind JsonReader::peek() {
  skip_space();
  if (position_ >= text_.size()) return Kind::kEnd;
  switch (text_[position_]) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't': return Kind::kTrue;
    case 'f': return Kind::kFalse;
    case 'n': return Kind::kNull;
    case '-': return Kind::kNumber;
    default: return is_digit(text_[position_]) ? Kind::kNumber : Kind::kInvalid;
  }
}

Status JsonReader::open(char bracket, bool* empty) {
  skip_space();
  if (position_ >= text_.size() || text_[position_] != bracket) {
    return error(bracket == '{' ? "expected an object" : "expected an array");
  }
  if (depth_ >= kMaxDepth) return error("nested too deeply");
  ++position_;
  ++depth_;
  skip_space();
  const char closing = bracket == '{' ? '}' : ']';
  *empty = position_ < text_.size() && text_[position_] == closing;
  if (*empty) ++position_;
  return {};
}

Status JsonReader::next(char closing, bool* more) {
  skip_space();
  const char found = position_ < text_.size() ? text_[position_] : '\0';
  if (found != ',' && found != closing) {
    return error(closing == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
  }
  ++position_;
  *more = found == ',';
  return {};
}

Status JsonReader::key(SeenKeys* seen, std::string_view* value) {
  skip_space();
  const std::size_t start = position_;
  bool in_document = false;
  KPT_RETURN_IF_ERROR(string_view(value, &in_document));
  if (!seen->insert(*value, in_document)) {
    position_ = start;
    return error("the key '" + printable(*value, 64) + "' occurs twice");
  }
  skip_space();
  if (position_ >= text_.size() || text_[position_] != ':') return error("expected ':'");
  ++position_;
  return {};
}

Status JsonReader::string_view(std::string_view* value, bool* in_document) {
  skip_space();
  if (position_ >= text_.size() || text_[position_] != '"') return error("expected a string");
  std::size_t start = ++position_;
  *in_document = true;
  while (position_ < text_.size()) {
    const auto byte = static_cast<unsigned char>(text_[position_]);
    if (byte == '"') break;
    if (byte == '\\') {
      if (*in_document) scratch_.clear();
      *in_document = false;
      scratch_.append(text_, start, position_ - start);
      const std::size_t length = unescape(text_.substr(position_), &scratch_);
      if (length == 0) return error("a broken escape in a string");
      start = position_ += length;
      continue;
    }
    if (byte < 0x20) return error("a control character in a string");
    const std::size_t length = byte < 0x80 ? 1 : utf8_length(text_.substr(position_));
    if (length == 0) return error("a string that is not UTF-8");
    position_ += length;
  }
  if (position_ >= text_.size()) return error("a string without an end");
  if (*in_document) {
    *value = text_.substr(start, position_ - start);
  } else {
    scratch_.append(text_, start, position_ - start);
    *value = scratch_;
  }
  ++position_;
  return {};
}

Status JsonReader::string(std::string* value) {
  std::string_view view;
  bool in_document = false;
  KPT_RETURN_IF_ERROR(string_view(&view, &in_document));
  value->assign(view);
  return {};
}

std::string_view JsonReader::number_token() const {
  std::size_t end = position_;
  const auto digits = [&] {
    const std::size_t before = end;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    return end > before;
  };
  const auto accept = [&](std::string_view characters) {
    const bool found = end < text_.size() && characters.find(text_[end]) != std::string_view::npos;
    if (found) ++end;
    return found;
  };
  accept("-");
  if (!accept("0") && !digits()) return {};
  if (accept(".") && !digits()) return {};
  if (accept("eE")) {
    accept("+-");
    if (!digits()) return {};
  }
  // "01" and "1x" are no numbers
  if (end < text_.size() && is_scalar_character(text_[end])) return {};
  return text_.substr(position_, end - position_);
}

Status JsonReader::integer(std::int64_t* value) {
  skip_space();
  const std::string_view token = number_token();
  if (token.empty() || token.find_first_of(".eE") != std::string_view::npos) return error("expected an integer");
  const auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), *value);
  if (failure != std::errc() || end != token.data() + token.size()) return error("an integer that needs over 64 bits");
  position_ += token.size();
  return {};
}

Status JsonReader::number(double* value) {
  if (peek() == Kind::kString) {
    const std::size_t start = position_;
    std::string_view word;
    bool in_document = false;
    KPT_RETURN_IF_ERROR(string_view(&word, &in_document));
    if (word == "Infinity") {
      *value = std::numeric_limits<double>::infinity();
    } else if (word == "-Infinity") {
      *value = -std::numeric_limits<double>::infinity();
    } else if (word == "NaN") {
      *value = std::numeric_limits<double>::quiet_NaN();
    } else {
      position_ = start;
      return error("expected a number");
    }
    return {};
  }
  const std::string_view token = number_token();
  if (token.empty()) return error("expected a number");
  const auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), *value);
  if (failure != std::errc() || end != token.data() + token.size()) return error("a number beyond a double's range");
  position_ += token.size();
  return {};
}

Status JsonReader::literal(std::string_view word, std::string_view what) {
  skip_space();
  if (text_.substr(position_, word.size()) != word) return error(what);
  position_ += word.size();
  return {};
}

Status JsonReader::boolean(bool* value) {
  *value = peek() == Kind::kTrue;
  return literal(*value ? "true" : "false", "expected true or false");
}

Status JsonReader::null() { return literal("null", "expected null"); }

Status JsonReader::skip() {
  switch (peek()) {
    case Kind::kObject:
    case Kind::kArray: return skip_container();
    case Kind::kString: {
      const std::optional<std::size_t> end = skip_string(text_, position_ + 1);
      if (!end) return error("a string without an end");
      position_ = *end;
      return {};
    }
    case Kind::kEnd: return error("expected a value, found the end");
    case Kind::kInvalid: return error("expected a value");
    default:
      while (position_ < text_.size() && is_scalar_character(text_[position_])) ++position_;
      return {};
  }
}

// Which brackets are open is one bit each, so that depth costs no stack and no allocation.
Status JsonReader::skip_container() {
  std::bitset<kMaxDepth> is_object;
  std::size_t open = 0;
  std::size_t position = position_;
  const auto fail = [&](std::string_view what) {
    position_ = position;
    return error(what);
  };
  do {
    if (position >= text_.size()) return fail("the document ends inside a value");
    const char c = text_[position];
    if (c == '"') {
      const std::optional<std::size_t> end = skip_string(text_, position + 1);
      if (!end) return fail("a string without an end");
      position = *end;
      continue;
    }
    if (c == '{' || c == '[') {
      if (depth_ + open >= kMaxDepth) return fail("nested too deeply");
      is_object[open++] = c == '{';
    } else if (c == '}' || c == ']') {
      --open;
      if (is_object[open] != (c == '}')) return fail("brackets that do not match");
    } else if (c != ',' && c != ':' && !is_space(c) && !is_scalar_character(c)) {
      return fail("a character that does not belong here");
    }
    ++position;
  } while (open > 0);
  position_ = position;
  return {};
}

Status JsonReader::finish() {
  if (peek() != Kind::kEnd) return error("expected the end");
  return {};
}

std::string JsonReader::place() const {
  const std::string_view before = text_.substr(0, position_);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return name_ + ":" + std::to_string(line) + ":" + std::to_string(before.size() - line_start + 1);
}

std::string JsonReader::path() const {
  struct Level {
    bool is_object = false;
    std::size_t index = 0;
    std::string_view key;
  };
  std::vector<Level> levels;
  const std::size_t end = std::min(position_, text_.size());
  for (std::size_t position = 0; position < end && levels.size() <= kMaxDepth; ++position) {
    const char c = text_[position];
    if (c == '{' || c == '[') {
      levels.emplace_back().is_object = c == '{';
    } else if (levels.empty()) {
      continue;
    } else if (c == '}' || c == ']') {
      levels.pop_back();
    } else if (c == ',') {
      ++levels.back().index;
      levels.back().key = {};
    } else if (c == '"') {
      const std::size_t after = skip_string(text_, position + 1).value_or(end);
      if (after > end) break;
      if (levels.back().is_object && levels.back().key.data() == nullptr) {
        levels.back().key = text_.substr(position + 1, after - position - 2);
      }
      position = after - 1;
    }
  }
  std::string path;
  for (const Level& level : levels) {
    if (!level.is_object) {
      path += "[" + std::to_string(level.index) + "]";
    } else if (level.key.data() != nullptr) {
      path += (path.empty() ? "" : ".") + printable(level.key, 64);
    }
  }
  return path;
}

Status JsonReader::error(std::string_view what) const {
  constexpr std::size_t kShown = 512;  // of names and paths that a hostile document makes long
  std::string message = place() + ": " + printable(what, kShown);
  if (const std::string where = path(); !where.empty()) message += " at " + printable(where, kShown);
  return {StatusCode::kCorruptData, std::move(message)};
}

}  // namespace kpt
