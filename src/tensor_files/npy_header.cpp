#include "tensor_files/npy_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/little_endian.h"
#include "base/text.h"

namespace kpt {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxDictionaryBytes = 1U << 16U;  // 16 extents need less than 1 KiB

constexpr std::array<std::pair<std::string_view, DType>, 14> kTypes{{
    {"b1", DType::kBool},
    {"u1", DType::kUInt8},
    {"i1", DType::kInt8},
    {"u2", DType::kUInt16},
    {"i2", DType::kInt16},
    {"u4", DType::kUInt32},
    {"i4", DType::kInt32},
    {"u8", DType::kUInt64},
    {"i8", DType::kInt64},
    {"f2", DType::kFloat16},
    {"f4", DType::kFloat32},
    {"f8", DType::kFloat64},
    {"c8", DType::kComplex64},
    {"c16", DType::kComplex128},
}};

// Reads the one form of dictionary that NumPy writes, and what its rules allow besides: any order of the keys, either
// quote, white space, a comma at the end.
class DictionaryReader {
 public:
  DictionaryReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<NpyHeader> read();

 private:
  Status corrupt(std::string_view what) const {
    return {StatusCode::kCorruptData, fmt::format("{} has a damaged .npy header: {}", file_, what)};
  }
  Status unsupported(std::string_view what) const {
    return {StatusCode::kUnsupported, fmt::format("{} holds {}", file_, what)};
  }

  void skip_space() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n\f"), text_.size())); }
  bool take(char wanted) {
    skip_space();
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> take_string();
  std::optional<std::int64_t> take_extent();

  Status read_type(DType& dtype);
  Status read_dims(Dims& dims);
  Status read_member(std::string_view key, NpyHeader& header);

  std::string_view text_;
  std::string_view file_;
  bool has_type_ = false;
  bool has_order_ = false;
  bool has_dims_ = false;
};

// No escapes: none of the strings that matter has one.
std::optional<std::string_view> DictionaryReader::take_string() {
  const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
  if (quote == '\0') return std::nullopt;
  const std::size_t end = text_.find_first_of(std::string{quote, '\\', '\n'});
  if (end == std::string_view::npos || text_[end] != quote) return std::nullopt;
  const std::string_view found = text_.substr(0, end);
  text_.remove_prefix(end + 1);
  return found;
}

std::optional<std::int64_t> DictionaryReader::take_extent() {
  skip_space();
  const std::size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
  const auto value = parse_int(text_.substr(0, digits));
  if (digits == 0 || !value) return std::nullopt;
  text_.remove_prefix(digits);
  if (!text_.empty() && text_.front() == 'L') text_.remove_prefix(1);  // written by Python 2
  return value;
}

Status DictionaryReader::read_type(DType& dtype) {
  skip_space();
  if (!text_.empty() && text_.front() == '[') return unsupported("an array of structures, which is not supported");
  const std::optional<std::string_view> found = take_string();
  if (!found || found->size() < 2) return corrupt("its descr is no type");
  const char order = found->front();
  const std::string_view kind = found->substr(1);
  if (kind.front() == 'O' || found->front() == 'O') {
    return unsupported("an object array, which is a pickle and is never opened");
  }
  const auto* known = std::ranges::find(kTypes, kind, &std::pair<std::string_view, DType>::first);
  if (known == kTypes.end() || std::string_view("<>=|").find(order) == std::string_view::npos) {
    return unsupported(fmt::format("elements of the type '{}', which is not supported", printable(*found, 40)));
  }
  if (order != '<' && order != '=' && element_bytes(known->second) > 1) {
    return unsupported(fmt::format("elements of the type '{}'; only little endian is supported", *found));
  }
  dtype = known->second;
  return {};
}

Status DictionaryReader::read_dims(Dims& dims) {
  if (!take('(')) return corrupt("its shape is no tuple");
  bool comma = true;
  while (!take(')')) {
    if (!comma) return corrupt("its shape has no comma between two extents");
    const std::optional<std::int64_t> extent = take_extent();
    if (!extent) return corrupt("its shape has an extent that is no number of 64 bits");
    if (dims.size() == kMaxRank) return unsupported(fmt::format("an array of a rank above {}", kMaxRank));
    dims.push_back(*extent);
    comma = take(',');
    if (!comma && dims.size() == 1) return corrupt("its shape is no tuple");  // (3) is a number in Python
  }
  return {};
}

Status DictionaryReader::read_member(std::string_view key, NpyHeader& header) {
  bool* seen = key == "descr"           ? &has_type_
               : key == "fortran_order" ? &has_order_
               : key == "shape"         ? &has_dims_
                                        : nullptr;
  if (seen == nullptr) return corrupt(fmt::format("it has the unknown key '{}'", printable(key, 40)));
  if (std::exchange(*seen, true)) return corrupt(fmt::format("it has the key '{}' twice", key));
  if (seen == &has_type_) return read_type(header.dtype);
  if (seen == &has_dims_) return read_dims(header.dims);
  header.fortran_order = take_word("True");
  if (!header.fortran_order && !take_word("False")) return corrupt("its fortran_order is neither True nor False");
  return {};
}

Result<NpyHeader> DictionaryReader::read() {
  NpyHeader header;
  if (!take('{')) return corrupt("it is no dictionary");
  bool comma = true;
  while (!take('}')) {
    if (!comma) return corrupt("it has no comma between two members");
    const std::optional<std::string_view> key = take_string();
    if (!key || !take(':')) return corrupt("it has a member without a key");
    KPT_RETURN_IF_ERROR(read_member(*key, header));
    comma = take(',');
  }
  skip_space();
  if (!text_.empty()) return corrupt("something follows its dictionary");
  if (!has_type_ || !has_order_ || !has_dims_) return corrupt("it lacks descr, fortran_order or shape");
  return header;
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const auto corrupt = [&](std::string_view what) {
    return Status(StatusCode::kCorruptData, fmt::format("{} {}", name, what));
  };
  if (!text.starts_with(kMagic)) return corrupt("is not a .npy file: it does not begin with \\x93NUMPY");
  constexpr std::size_t kVersionAt = kMagic.size();
  constexpr std::size_t kLengthAt = kVersionAt + 2;
  if (text.size() < kLengthAt) return corrupt("is cut short in its .npy header");
  const auto major = static_cast<unsigned>(file[kVersionAt]);
  const auto minor = static_cast<unsigned>(file[kVersionAt + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{} has version {}.{} of the .npy format; 1.0 to 3.0 are known", name, major, minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() < kLengthAt + length_bytes) return corrupt("is cut short in its .npy header");
  const std::size_t length = major == 1 ? load_little_endian<std::uint16_t>(&file[kLengthAt])
                                        : load_little_endian<std::uint32_t>(&file[kLengthAt]);
  const std::size_t begin = kLengthAt + length_bytes;
  if (length > text.size() - begin) return corrupt("is cut short in its .npy header");
  if (length > kMaxDictionaryBytes) return corrupt(fmt::format("has a .npy header of {} bytes", length));
  KPT_ASSIGN_OR_RETURN(NpyHeader header, DictionaryReader(text.substr(begin, length), name).read());
  header.bytes = begin + length;
  return header;
}

Result<std::string> make_npy_header(DType dtype, const Dims& dims, bool fortran_order) {
  const auto* known = std::ranges::find(kTypes, dtype, &std::pair<std::string_view, DType>::second);
  if (known == kTypes.end()) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("NumPy has no element type for {}; write a .safetensors file instead", to_string(dtype)));
  }
  std::string shape;
  for (const std::int64_t extent : dims) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
  if (dims.size() == 1) shape += ',';
  std::string dictionary =
      fmt::format("{{'descr': '{}{}', 'fortran_order': {}, 'shape': ({}), }}", element_bytes(dtype) == 1 ? '|' : '<',
                  known->first, fortran_order ? "True" : "False", shape);
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kPrefixBytes = kMagic.size() + 4;
  dictionary.append((kAlignment - (kPrefixBytes + dictionary.size() + 1) % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  append_little_endian(header, static_cast<std::uint16_t>(dictionary.size()));
  return header + dictionary;
}

}  // namespace kpt
