#include "archive/json_reader.h"

#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kpt {
namespace {

using ::testing::HasSubstr;
using Kind = JsonReader::Kind;

JsonReader over(std::string_view text) { return {text, "t.json"}; }

std::string message_of(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kCorruptData) << status.message();
  return status.message();
}

TEST(JsonReader, ReadsObjectsArraysAndScalars) {
  JsonReader reader = over(R"( {"a" : [1, -2 ,3], "b":{"c":true,"d":null}, "e":2.5e3, "f":"x", "g":[], "h":{}} )");
  std::vector<std::int64_t> integers;
  bool truth = false;
  double number = 0;
  std::string text;
  std::vector<std::string> keys;
  ASSERT_TRUE(reader
                  .object([&](std::string_view key) -> Status {
                    keys.emplace_back(key);
                    if (key == "a") return reader.array([&] { return reader.integer(&integers.emplace_back()); });
                    if (key == "b") {
                      return reader.object([&](std::string_view inner) -> Status {
                        return inner == "c" ? reader.boolean(&truth) : reader.null();
                      });
                    }
                    if (key == "e") return reader.number(&number);
                    if (key == "f") return reader.string(&text);
                    if (key == "g") return reader.array([&] { return reader.error("not empty"); });
                    return reader.object([&](std::string_view) { return reader.error("not empty"); });
                  })
                  .ok());
  EXPECT_TRUE(reader.finish().ok());
  EXPECT_EQ(integers, (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_TRUE(truth);
  EXPECT_EQ(number, 2500);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(keys.size(), 6U);
}

TEST(JsonReader, UnescapesStringsAndKeys) {
  JsonReader reader = over(R"({"\u0061b\n": "q\"\\\/\b\f\r\t\u20ac\ud83d\ude00 é"})");
  std::string key_text;
  std::string text;
  ASSERT_TRUE(reader
                  .object([&](std::string_view key) -> Status {
                    key_text = key;
                    return reader.string(&text);
                  })
                  .ok());
  EXPECT_EQ(key_text, "ab\n");
  EXPECT_EQ(text, "q\"\\/\b\f\r\t\xe2\x82\xac\xf0\x9f\x98\x80 \xc3\xa9");
}

TEST(JsonReader, RefusesStringsThatAreNotText) {
  for (const std::string_view bad : {R"("\ud800")", R"("\udc00\ud800")", R"("\ud800\u0041")", R"("\x")", R"("\u12g4")",
                                     R"("\u12)", "\"a\nb\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
                                     "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"", "\"open", "\"open\\", "\"", "x", ""}) {
    SCOPED_TRACE(bad);
    JsonReader reader = over(bad);
    std::string text;
    EXPECT_FALSE(reader.string(&text).ok());
  }
}

TEST(JsonReader, ReadsNumbersOfJsonsFormOnly) {
  for (const std::string_view bad : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x10", "NaN", "Infinity", "nan",
                                     "1e999", "--1", "1-", "\"inf\"", "\"1\"", "true"}) {
    SCOPED_TRACE(bad);
    double number = 0;
    EXPECT_FALSE(over(bad).number(&number).ok());
  }
  for (const std::string_view bad : {"1.0", "1e3", "9223372036854775808", "-9223372036854775809", "\"NaN\"", "1x"}) {
    SCOPED_TRACE(bad);
    std::int64_t number = 0;
    EXPECT_FALSE(over(bad).integer(&number).ok());
  }
  double number = 0;
  ASSERT_TRUE(over("-0.125E+1").number(&number).ok());
  EXPECT_EQ(number, -1.25);
  ASSERT_TRUE(over(R"("Infinity")").number(&number).ok());
  EXPECT_TRUE(std::isinf(number) && number > 0);
  ASSERT_TRUE(over(R"("-Infinity")").number(&number).ok());
  EXPECT_TRUE(std::isinf(number) && number < 0);
  ASSERT_TRUE(over(R"("NaN")").number(&number).ok());
  EXPECT_TRUE(std::isnan(number));
  std::int64_t integer = 0;
  ASSERT_TRUE(over(" -9223372036854775808").integer(&integer).ok());
  EXPECT_EQ(integer, std::numeric_limits<std::int64_t>::min());
}

TEST(JsonReader, ErrorsNameLineColumnAndPath) {
  JsonReader reader = over("{\"a\": 1,\n \"list\": [{}, {\"x\": [5, \"no\"]}]}");
  const Status status = reader.object([&](std::string_view key) -> Status {
    if (key != "list") return reader.skip();
    return reader.array([&]() -> Status {
      return reader.object([&](std::string_view) -> Status {
        return reader.array([&]() -> Status {
          std::int64_t number = 0;
          return reader.integer(&number);
        });
      });
    });
  });
  EXPECT_EQ(message_of(status), "t.json:2:25: expected an integer at list[1].x[1]");
}

TEST(JsonReader, KeysThatOccurTwiceAreRefused) {
  JsonReader reader = over(R"({"a": 1, "\u0061": 2})");
  EXPECT_THAT(message_of(reader.object([&](std::string_view) { return reader.skip(); })),
              HasSubstr("the key 'a' occurs twice"));
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  JsonReader distinct(many, "t");
  const std::string complete = many + "\"last\":0}";
  distinct = JsonReader(complete, "t");
  EXPECT_TRUE(distinct.object([&](std::string_view) { return distinct.skip(); }).ok());
  const std::string repeated = many + "\"k500\":0}";
  JsonReader twice(repeated, "t");
  EXPECT_THAT(message_of(twice.object([&](std::string_view) { return twice.skip(); })),
              HasSubstr("'k500' occurs twice"));
}

TEST(JsonReader, SkipLeavesTheReaderBehindTheValue) {
  JsonReader reader = over(R"([{"a":"]}\"\\","b":[1,[2,{"c":null}]]}, "s\\", -1.5e3, true, null, [], 7])");
  int skipped = 0;
  std::int64_t last = 0;
  ASSERT_TRUE(reader
                  .array([&]() -> Status {
                    if (skipped == 6) return reader.integer(&last);
                    ++skipped;
                    return reader.skip();
                  })
                  .ok());
  EXPECT_EQ(last, 7);
  EXPECT_TRUE(reader.finish().ok());
}

TEST(JsonReader, SkipChecksBracketsAndStrings) {
  for (const std::string_view bad :
       {"[", "[1", "{\"a\":[}", "[}", "{]", "[\"abc]", "[\"\\\"]", "", "]", ",", "[#]", "[1,"}) {
    SCOPED_TRACE(bad);
    EXPECT_FALSE(over(bad).skip().ok());
  }
}

TEST(JsonReader, DepthIsBoundedWithoutRecursion) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(message_of(over(deep).skip()), HasSubstr("nested too deeply"));
  const std::string allowed = std::string(JsonReader::kMaxDepth, '[') + std::string(JsonReader::kMaxDepth, ']');
  EXPECT_TRUE(over(allowed).skip().ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(message_of(over(objects).skip()), HasSubstr("nested too deeply"));
  JsonReader reader = over(deep);
  const auto descend = [&](const auto& self) -> Status { return reader.array([&] { return self(self); }); };
  EXPECT_THAT(message_of(descend(descend)), HasSubstr("nested too deeply"));
}

TEST(JsonReader, FinishRefusesWhatFollows) {
  JsonReader reader = over("1 2");
  std::int64_t number = 0;
  ASSERT_TRUE(reader.integer(&number).ok());
  EXPECT_FALSE(reader.finish().ok());
}

TEST(JsonReader, APlaceCanBeReadAgain) {
  JsonReader reader = over(R"({"a": {"x": 3}, "b": 1})");
  std::size_t place = 0;
  ASSERT_TRUE(reader
                  .object([&](std::string_view key) -> Status {
                    if (key == "a") place = reader.offset();
                    return reader.skip();
                  })
                  .ok());
  reader.seek(place);
  std::int64_t number = 0;
  ASSERT_TRUE(reader.object([&](std::string_view) { return reader.integer(&number); }).ok());
  EXPECT_EQ(number, 3);
}

// Reads any value into the tree of another library.
Status read_tree(JsonReader* reader, nlohmann::json* tree) {
  switch (reader->peek()) {
    case Kind::kObject:
      *tree = nlohmann::json::object();
      return reader->object([&](std::string_view key) {
        const std::string name(key);
        return read_tree(reader, &(*tree)[name]);
      });
    case Kind::kArray:
      *tree = nlohmann::json::array();
      return reader->array([&] { return read_tree(reader, &tree->emplace_back()); });
    case Kind::kString: {
      std::string text;
      KPT_RETURN_IF_ERROR(reader->string(&text));
      *tree = text;
      return {};
    }
    case Kind::kNumber: {
      double number = 0;
      KPT_RETURN_IF_ERROR(reader->number(&number));
      *tree = number;
      return {};
    }
    case Kind::kNull: return reader->null();
    default: {
      bool truth = false;
      KPT_RETURN_IF_ERROR(reader->boolean(&truth));
      *tree = truth;
      return {};
    }
  }
}

nlohmann::json random_tree(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 5 ? 4 : 6)) {
    case 0: return random() % 2 == 0;
    case 1: return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 100) - 50);
    case 2: return nullptr;
    case 3: {
      static const std::vector<std::string> kPieces = {"a", "\"", "\\", "\n", "\x01",
                                                       "é", "😀", "[",  "}",  "longer text"};
      std::string text;
      for (std::uint64_t i = random() % 12; i > 0; --i) text += kPieces[random() % kPieces.size()];
      return text;
    }
    case 4: {
      nlohmann::json list = nlohmann::json::array();
      for (std::uint64_t i = random() % 6; i > 0; --i) list.push_back(random_tree(random, depth + 1));
      return list;
    }
    default: {
      nlohmann::json members = nlohmann::json::object();
      for (std::uint64_t i = random() % 6; i > 0; --i) {
        members["k" + std::to_string(random() % 100) + "\""] = random_tree(random, depth + 1);
      }
      return members;
    }
  }
}

TEST(JsonReader, ReadsRandomDocumentsLikeAnotherLibrary) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const nlohmann::json tree = random_tree(random, 0);
    const std::string text = tree.dump(round % 2 == 0 ? -1 : 2, ' ', round % 3 == 0);
    SCOPED_TRACE(text);
    JsonReader reader(text, "t");
    nlohmann::json read;
    ASSERT_TRUE(read_tree(&reader, &read).ok());
    ASSERT_TRUE(reader.finish().ok());
    ASSERT_EQ(read, tree);
    JsonReader skipping(text, "t");
    ASSERT_TRUE(skipping.skip().ok());
    ASSERT_TRUE(skipping.finish().ok());
    // A document that ends early is never accepted (a number may end anywhere).
    if (!tree.is_number()) {
      const std::string cut = text.substr(0, random() % text.size());
      JsonReader shortened(cut, "t");
      nlohmann::json ignored;
      ASSERT_FALSE(read_tree(&shortened, &ignored).ok() && shortened.finish().ok()) << cut;
    }
  }
}

}  // namespace
}  // namespace kpt
