#include "kpt/status.h"

#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/reword.h"
#include "kpt/errors.h"

namespace kpt {
namespace {

std::vector<StatusCode> all_codes() {
  return {
#define KPT_LIST_CODE(enumerator, text, exception, parent, meaning) StatusCode::enumerator,
      KPT_STATUS_CODES(KPT_LIST_CODE)
#undef KPT_LIST_CODE
  };
}

TEST(StatusCode, TextsAreDistinctLowerCaseNames) {
  std::set<std::string_view> texts = {to_string(StatusCode::kOk)};
  for (const StatusCode code : all_codes()) {
    const std::string_view text = to_string(code);
    EXPECT_TRUE(texts.insert(text).second) << text;
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos) << text;
  }
  EXPECT_TRUE(texts.contains("out_of_memory"));
  EXPECT_EQ(to_string(StatusCode::kOk), "ok");
}

TEST(StatusCode, ValueOutsideTheEnumHasATextToo) {
  EXPECT_EQ(to_string(static_cast<StatusCode>(250)), "unknown");
  EXPECT_EQ(to_string(static_cast<Vendor>(250)), "unknown");
}

TEST(Vendor, TextsAreStable) {
  EXPECT_EQ(to_string(Vendor::kNone), "");
  EXPECT_EQ(to_string(Vendor::kNvidia), "nvidia");
  EXPECT_EQ(to_string(Vendor::kAmd), "amd");
  EXPECT_EQ(to_string(Vendor::kTpu), "tpu");
}

TEST(Status, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.to_string(), "ok");
}

TEST(Status, EveryCodeIsKept) {
  for (const StatusCode code : all_codes()) {
    const Status status(code, "it broke", Vendor::kAmd);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.vendor(), Vendor::kAmd);
    EXPECT_EQ(status.to_string(), "it broke");
  }
}

TEST(Status, FailureWithTheCodeOkIsABrokenInvariant) {
  const Status status(StatusCode::kOk, "what happened");
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("what happened"), std::string::npos);
}

TEST(Status, DetailsKeepTheirOrderInBothForms) {
  Status status(StatusCode::kOutOfMemory, "no room");
  status.with("requested_bytes", "4096").with("free_bytes", "12");
  EXPECT_EQ(status.to_string(), "no room (requested_bytes=4096, free_bytes=12)");
  const Status built = Status(StatusCode::kOutOfMemory, "no room").with("requested_bytes", "4096");
  EXPECT_EQ(built.details(), (std::vector<StatusDetail>{{"requested_bytes", "4096"}}));
}

TEST(Status, RewordedItKeepsItsVendorAndItsDetails) {
  const Status first = Status(StatusCode::kUnsupported, "no", Vendor::kAmd).with("node", "mm").with("file", "a.hip");
  const Status told = reword(first, StatusCode::kModelOptimization, "cannot be optimized: no");
  EXPECT_EQ(told.code(), StatusCode::kModelOptimization);
  EXPECT_EQ(told.message(), "cannot be optimized: no");
  EXPECT_EQ(told.vendor(), Vendor::kAmd);
  EXPECT_EQ(told.details(), first.details());
}

TEST(Status, MessageOfATemporaryOutlivesIt) {
  const Result<int> result = Status(StatusCode::kIo, "a message that is too long for the small buffer of a string");
  const std::string& message = result.status().message();
  EXPECT_TRUE(message.ends_with("of a string"));
  static_assert(!std::is_reference_v<decltype(result.status().message())>);
}

TEST(Status, MovedFromFailureDoesNotTurnIntoSuccess) {
  Status source(StatusCode::kIo, "disk on fire");
  const Status target = std::move(source);
  EXPECT_EQ(target.message(), "disk on fire");
  EXPECT_FALSE(source.ok());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the point of the test
}

TEST(Result, HoldsAValue) {
  Result<int> result = 7;
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_TRUE(result.status().ok());
  EXPECT_EQ(*result, 7);
  *result = 8;
  EXPECT_EQ(result.value(), 8);
  EXPECT_EQ(result.value_or(1), 8);
}

TEST(Result, HoldsAFailureAndThrowsItsExceptionWhenAskedForTheValue) {
  const Result<int> result = Status(StatusCode::kOutOfMemory, "full", Vendor::kTpu);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(result.value_or(1), 1);
  EXPECT_THROW(static_cast<void>(result.value()), TpuOutOfMemoryError);
  EXPECT_THROW(static_cast<void>(*result), TpuOutOfMemoryError);
  const Result<std::string> text = Status(StatusCode::kIo, "gone");
  EXPECT_THROW(static_cast<void>(text->size()), IoError);
}

TEST(Result, FromAnOkStatusIsAFailure) {
  const Result<int> result = Status();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
}

TEST(Result, OfBoolTellsSuccessFromTruth) {
  const Result<bool> no = false;
  ASSERT_TRUE(no.ok());
  EXPECT_FALSE(*no);
  EXPECT_FALSE(no.value_or(true));
  const Result<bool> failed = Status(StatusCode::kIo, "unknown");
  EXPECT_FALSE(failed.ok());
  // `if (result)` would be read as the value, and a text or number would silently become true.
  static_assert(!std::is_constructible_v<bool, const Result<bool>&>);
  static_assert(std::is_constructible_v<bool, const Result<int>&>);
  static_assert(!std::is_constructible_v<Result<bool>, const char*>);
  static_assert(!std::is_constructible_v<Result<bool>, const char (&)[3]>);
  static_assert(!std::is_constructible_v<Result<bool>, int>);
  static_assert(std::is_constructible_v<Result<bool>, bool>);
  static_assert(std::is_constructible_v<Result<bool>, Status>);
}

TEST(Result, OfStringTakesAPlainText) {
  const Result<std::string> result("text");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, "text");
  const auto from_braces = []() -> Result<std::string> { return {"braced"}; };
  EXPECT_EQ(from_braces().value(), "braced");
}

TEST(Result, OfAMoveOnlyTypeGivesItsValueAway) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
  EXPECT_TRUE(
      result.ok());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): still a value, an empty one
  EXPECT_EQ(*result, nullptr);
}

TEST(Result, LoopOverATemporaryDoesNotDangle) {
  const auto make = []() -> Result<std::vector<std::string>> {
    return std::vector<std::string>{"one text that is too long for the small buffer", "another text of the same kind"};
  };
  std::size_t total = 0;
  for (const std::string& text : *make()) total += text.size();  // under ASan a dead reference would be seen
  EXPECT_EQ(total, (*make())[0].size() + (*make())[1].size());
  static_assert(!std::is_reference_v<decltype(*make())>);
  static_assert(!std::is_reference_v<decltype(make().value())>);
}

Status stop_at(int limit, int& reached) {
  for (int i = 0; i < 10; ++i) {
    reached = i;
    KPT_RETURN_IF_ERROR(i == limit ? Status(StatusCode::kCancelled, "far enough") : Status());
  }
  return {};
}

Result<std::string> text_if(bool there) {
  if (!there) return Status(StatusCode::kNotFound, "no text");
  return std::string("abc");
}

Result<std::size_t> doubled_length(bool there) {
  KPT_ASSIGN_OR_RETURN(const std::string value, text_if(there));
  KPT_ASSIGN_OR_RETURN(const auto again, Result<std::string>(value + value));
  return again.size();
}

TEST(StatusMacros, FailureEndsTheFunctionAndSuccessGoesOn) {
  int reached = 0;
  EXPECT_EQ(stop_at(4, reached).code(), StatusCode::kCancelled);
  EXPECT_EQ(reached, 4);
  EXPECT_TRUE(stop_at(100, reached).ok());
  EXPECT_EQ(reached, 9);
  EXPECT_EQ(*doubled_length(true), 6u);
  EXPECT_EQ(doubled_length(false).status().message(), "no text");
}

}  // namespace
}  // namespace kpt
