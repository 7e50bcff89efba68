#include "engines/aten/shortage_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kpt::aten {
namespace {

// Before the number, as libtorch's allocators write it; the CPU's begins in small letters.
constexpr std::string_view kBeforeSize[] = {"ried to allocate ", "Requested size: "};

constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {{"bytes", 1},
                                                                 {"KiB", std::uint64_t{1} << 10U},
                                                                 {"MiB", std::uint64_t{1} << 20U},
                                                                 {"GiB", std::uint64_t{1} << 30U},
                                                                 {"TiB", std::uint64_t{1} << 40U}};

constexpr std::string_view kAllocationFailed[] = {"CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
                                                  "CUDA error: out of memory", "HIPBLAS_STATUS_ALLOC_FAILED",
                                                  "miopenStatusAllocFailed",   "HIP error: out of memory"};
constexpr std::string_view kMayBeAllocation[] = {"CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_NOT_INITIALIZED",
                                                 "CUBLAS_STATUS_NOT_INITIALIZED", "HIPBLAS_STATUS_NOT_INITIALIZED"};

// More digits of a fraction are less than a byte; so many times a TiB still fit into 64 bits.
constexpr std::size_t kFractionDigits = 6;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The digits that `text` begins with; they are taken off it.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

std::optional<std::uint64_t> to_number(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char digit : digits) {
    if (__builtin_mul_overflow(number, std::uint64_t{10}, &number)) return std::nullopt;
    if (__builtin_add_overflow(number, static_cast<std::uint64_t>(digit - '0'), &number)) return std::nullopt;
  }
  return number;
}

std::optional<std::uint64_t> take_unit(std::string_view text) {
  for (const auto& [name, bytes] : kUnits) {
    if (!text.starts_with(name)) continue;
    const std::string_view rest = text.substr(name.size());
    if (rest.empty() || !is_letter(rest.front())) return bytes;
  }
  return std::nullopt;
}

// "20.00 MiB", "512 bytes".
std::optional<std::uint64_t> read_size(std::string_view text) {
  const std::string_view digits = take_digits(text);
  if (digits.empty()) return std::nullopt;
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text).substr(0, kFractionDigits);
  }
  if (!text.starts_with(' ')) return std::nullopt;
  const auto unit = take_unit(text.substr(1));
  const auto whole = to_number(digits);
  if (!unit || !whole) return std::nullopt;
  std::uint64_t scale = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) scale *= 10;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(*whole, *unit, &bytes)) return std::nullopt;
  if (__builtin_add_overflow(bytes, *to_number(fraction) * *unit / scale, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<std::uint64_t> find_requested_bytes(std::string_view text) {
  for (const std::string_view marker : kBeforeSize) {
    // The last: names of nodes stand before what libtorch says.
    const std::size_t at = text.rfind(marker);
    if (at != std::string_view::npos) return read_size(text.substr(at + marker.size()));
  }
  return std::nullopt;
}

ShortageSign find_shortage(std::string_view text) {
  const auto is_in = [text](const auto& names) {
    return std::any_of(std::begin(names), std::end(names),
                       [text](std::string_view name) { return text.find(name) != std::string_view::npos; });
  };
  if (is_in(kAllocationFailed)) return ShortageSign::kCertain;
  return is_in(kMayBeAllocation) ? ShortageSign::kPossible : ShortageSign::kNone;
}

}  // namespace kpt::aten
