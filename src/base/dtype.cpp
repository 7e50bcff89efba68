#include "kpt/dtype.h"

#include <array>

namespace kpt {

std::string_view to_string(DType dtype) {
  switch (dtype) {
#define KPT_DTYPE_NAME(enumerator, name, bytes) \
  case DType::enumerator: return name;
    KPT_DTYPES(KPT_DTYPE_NAME)
#undef KPT_DTYPE_NAME
  }
  return "unknown";
}

std::optional<DType> find_dtype(std::string_view name) {
#define KPT_DTYPE_BY_NAME(enumerator, text, bytes) \
  if (name == text) return DType::enumerator;
  KPT_DTYPES(KPT_DTYPE_BY_NAME)
#undef KPT_DTYPE_BY_NAME
  return std::nullopt;
}

std::size_t element_bytes(DType dtype) {
#define KPT_DTYPE_BYTES(enumerator, name, bytes) bytes,
  constexpr std::array<std::uint8_t, 21> kBytes = {KPT_DTYPES(KPT_DTYPE_BYTES)};
#undef KPT_DTYPE_BYTES
  const auto index = static_cast<std::size_t>(dtype);
  return index < kBytes.size() ? kBytes[index] : 1;
}

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0FNU:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64: return true;
    default: return false;
  }
}

bool is_complex(DType dtype) {
  return dtype == DType::kComplex32 || dtype == DType::kComplex64 || dtype == DType::kComplex128;
}

bool is_integral(DType dtype) { return dtype != DType::kBool && !is_floating(dtype) && !is_complex(dtype); }

}  // namespace kpt
