#include "backends/amd/msgpack.h"

#include <fmt/format.h>

namespace kpt {
namespace {

enum class Kind : std::uint8_t { kNumber, kNegative, kOther, kBytes, kArray, kMap };

}  // namespace

// One value's first bytes. number: the value, the bytes of a string, or the elements of an array or map.
struct MsgpackReader::Head {
  Kind kind;
  bool is_text;
  std::uint64_t number;
};

Status MsgpackReader::broken(std::string_view what) const {
  return {StatusCode::kCorruptData, fmt::format("the code object's notes are damaged at byte {}: {}", at_, what)};
}

Result<MsgpackReader::Head> MsgpackReader::read_head() {
  if (remaining() == 0) return broken("they end too early");
  const auto first = std::to_integer<unsigned>(bytes_[at_++]);
  if (first < 0x80) return Head{Kind::kNumber, false, first};
  if (first < 0x90) return Head{Kind::kMap, false, first & 0xfU};
  if (first < 0xa0) return Head{Kind::kArray, false, first & 0xfU};
  if (first < 0xc0) return Head{Kind::kBytes, true, first & 0x1fU};
  if (first >= 0xe0) return Head{Kind::kNegative, false, 0};
  struct Form {
    Kind kind;
    bool is_text;
    unsigned number_bytes;  // of the number that follows
    unsigned more_bytes;    // after it that do not matter here
  };
  // 0xc0 … 0xdf in order. Types of extensions have one byte more than their length says.
  static constexpr Form kForms[32] = {
      {Kind::kOther, false, 0, 0},    {Kind::kOther, false, 99, 0},   {Kind::kOther, false, 0, 0},
      {Kind::kOther, false, 0, 0},    {Kind::kBytes, false, 1, 0},    {Kind::kBytes, false, 2, 0},
      {Kind::kBytes, false, 4, 0},    {Kind::kBytes, false, 1, 1},    {Kind::kBytes, false, 2, 1},
      {Kind::kBytes, false, 4, 1},    {Kind::kOther, false, 0, 4},    {Kind::kOther, false, 0, 8},
      {Kind::kNumber, false, 1, 0},   {Kind::kNumber, false, 2, 0},   {Kind::kNumber, false, 4, 0},
      {Kind::kNumber, false, 8, 0},   {Kind::kNegative, false, 0, 1}, {Kind::kNegative, false, 0, 2},
      {Kind::kNegative, false, 0, 4}, {Kind::kNegative, false, 0, 8}, {Kind::kOther, false, 0, 2},
      {Kind::kOther, false, 0, 3},    {Kind::kOther, false, 0, 5},    {Kind::kOther, false, 0, 9},
      {Kind::kOther, false, 0, 17},   {Kind::kBytes, true, 1, 0},     {Kind::kBytes, true, 2, 0},
      {Kind::kBytes, true, 4, 0},     {Kind::kArray, false, 2, 0},    {Kind::kArray, false, 4, 0},
      {Kind::kMap, false, 2, 0},      {Kind::kMap, false, 4, 0},
  };
  const Form& form = kForms[first - 0xc0U];
  if (form.number_bytes == 99) return broken("a byte that no value begins with");
  if (remaining() < form.number_bytes + form.more_bytes) return broken("they end too early");
  std::uint64_t number = 0;
  for (unsigned i = 0; i < form.number_bytes; ++i)
    number = (number << 8U) | std::to_integer<std::uint64_t>(bytes_[at_++]);
  at_ += form.more_bytes;
  return Head{form.kind, form.is_text, number};
}

Result<std::size_t> MsgpackReader::read_map() {
  KPT_ASSIGN_OR_RETURN(const Head head, read_head());
  if (head.kind != Kind::kMap) return broken("a map is expected");
  if (head.number > remaining() / 2) return broken("a map of more pairs than there are bytes");
  return static_cast<std::size_t>(head.number);
}

Result<std::size_t> MsgpackReader::read_array() {
  KPT_ASSIGN_OR_RETURN(const Head head, read_head());
  if (head.kind != Kind::kArray) return broken("an array is expected");
  if (head.number > remaining()) return broken("an array of more elements than there are bytes");
  return static_cast<std::size_t>(head.number);
}

Result<std::string_view> MsgpackReader::read_string() {
  KPT_ASSIGN_OR_RETURN(const Head head, read_head());
  if (head.kind != Kind::kBytes || !head.is_text) return broken("a string is expected");
  if (head.number > remaining()) return broken("a string that is longer than they are");
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_,
                              static_cast<std::size_t>(head.number));
  at_ += text.size();
  return text;
}

Result<std::uint64_t> MsgpackReader::read_unsigned() {
  KPT_ASSIGN_OR_RETURN(const Head head, read_head());
  if (head.kind != Kind::kNumber) return broken("a number that is not negative is expected");
  return head.number;
}

Status MsgpackReader::skip() {
  // Each value takes a byte at least, so a sound count is never above what is left; larger ones are refused at once.
  std::uint64_t pending = 1;
  while (pending > 0) {
    KPT_ASSIGN_OR_RETURN(const Head head, read_head());
    --pending;
    if (head.kind == Kind::kBytes) {
      if (head.number > remaining()) return broken("a string that is longer than they are");
      at_ += static_cast<std::size_t>(head.number);
    } else if (head.kind == Kind::kArray || head.kind == Kind::kMap) {
      pending += head.kind == Kind::kMap ? 2 * head.number : head.number;
      if (pending > remaining()) return broken("more elements than there are bytes");
    }
  }
  return {};
}

}  // namespace kpt
