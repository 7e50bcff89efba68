// Element types of tensors. Names are PyTorch's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kpt/export.h"

namespace kpt {

// X(enumerator, name, bytes per element). Files and text forms carry the name, never the number.
#define KPT_DTYPES(X)                      \
  X(kBool, "bool", 1)                      \
  X(kUInt8, "uint8", 1)                    \
  X(kInt8, "int8", 1)                      \
  X(kUInt16, "uint16", 2)                  \
  X(kInt16, "int16", 2)                    \
  X(kUInt32, "uint32", 4)                  \
  X(kInt32, "int32", 4)                    \
  X(kUInt64, "uint64", 8)                  \
  X(kInt64, "int64", 8)                    \
  X(kFloat8E4M3FN, "float8_e4m3fn", 1)     \
  X(kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1) \
  X(kFloat8E5M2, "float8_e5m2", 1)         \
  X(kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1) \
  X(kFloat8E8M0FNU, "float8_e8m0fnu", 1)   \
  X(kFloat16, "float16", 2)                \
  X(kBFloat16, "bfloat16", 2)              \
  X(kFloat32, "float32", 4)                \
  X(kFloat64, "float64", 8)                \
  X(kComplex32, "complex32", 4)            \
  X(kComplex64, "complex64", 8)            \
  X(kComplex128, "complex128", 16)

enum class DType : std::uint8_t {
#define KPT_DECLARE_DTYPE(enumerator, name, bytes) enumerator,
  KPT_DTYPES(KPT_DECLARE_DTYPE)
#undef KPT_DECLARE_DTYPE
};

// "float32", "bool", …
KPT_API std::string_view to_string(DType dtype);
KPT_API std::optional<DType> find_dtype(std::string_view name);
KPT_API std::size_t element_bytes(DType dtype);
// Real floating point of any width; complex types are not among them.
KPT_API bool is_floating(DType dtype);
KPT_API bool is_complex(DType dtype);
// Integers; bool is not among them.
KPT_API bool is_integral(DType dtype);

}  // namespace kpt
