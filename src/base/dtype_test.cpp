#include "kpt/dtype.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(DTypeNames, ComeBackAsTheSameType) {
  std::set<std::string> names;
#define KPT_CHECK_DTYPE(enumerator, name, bytes)         \
  EXPECT_EQ(to_string(DType::enumerator), name);         \
  EXPECT_EQ(find_dtype(name), DType::enumerator);        \
  EXPECT_EQ(element_bytes(DType::enumerator), bytes##U); \
  names.insert(name);
  KPT_DTYPES(KPT_CHECK_DTYPE)
#undef KPT_CHECK_DTYPE
  EXPECT_EQ(names.size(), 21U);
}

TEST(DTypeNames, OthersAreNotFound) {
  for (const char* name : {"", "float", "Float32", "float32 ", "float8", "unknown"})
    EXPECT_FALSE(find_dtype(name)) << name;
}

TEST(DTypeClasses, EveryTypeButBoolIsInExactlyOne) {
#define KPT_COUNT_CLASSES(enumerator, name, bytes)                                                                    \
  EXPECT_EQ(                                                                                                          \
      int{is_floating(DType::enumerator)} + int{is_complex(DType::enumerator)} + int{is_integral(DType::enumerator)}, \
      DType::enumerator == DType::kBool ? 0 : 1)                                                                      \
      << name;                                                                                                        \
  EXPECT_EQ(is_floating(DType::enumerator), std::string(name).find("float") != std::string::npos) << name;            \
  EXPECT_EQ(is_complex(DType::enumerator), std::string(name).starts_with("complex")) << name;
  KPT_DTYPES(KPT_COUNT_CLASSES)
#undef KPT_COUNT_CLASSES
}

}  // namespace
}  // namespace kpt
