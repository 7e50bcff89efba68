#include "device/hardware_json.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Fills reports with anything that their types can hold.
class RandomReport {
 public:
  explicit RandomReport(std::uint32_t seed) : random_(seed) {}

  std::string text() {
    const std::vector<std::string> pieces = {"a", "NVIDIA", " ", "\n", "\"", "\\", "ü", "世", "🙂", "{}", "\x01", "0"};
    std::string made;
    for (auto n = below(8); n > 0; --n) made += pieces[below(pieces.size())];
    return made;
  }
  int number() {
    return below(4) == 0 ? (coin() ? std::numeric_limits<int>::max() : std::numeric_limits<int>::min())
                         : static_cast<int>(below(1000)) - 500;
  }
  std::uint64_t bytes() { return below(4) == 0 ? std::numeric_limits<std::uint64_t>::max() : random_(); }
  bool coin() { return below(2) == 0; }
  template <typename Make>
  auto maybe(Make make) {
    return coin() ? std::optional(make()) : std::nullopt;
  }
  template <typename Make>
  auto list(Make make) {
    std::vector<decltype(make())> made(below(4));
    for (auto&& element : made) element = make();
    return made;
  }
  std::vector<std::string> texts() {
    return list([this] { return text(); });
  }
  std::vector<Precision> precisions() {
    return list([this] { return static_cast<Precision>(below(10)); });
  }
  Finding finding() { return {static_cast<Presence>(below(4)), text(), text()}; }

  void fill(NvidiaReport& report) {
    report = {finding(), text(), text(), list([this] {
                return NvidiaGpu{number(),
                                 text(),
                                 text(),
                                 text(),
                                 number(),
                                 number(),
                                 text(),
                                 number(),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 bytes(),
                                 maybe([this] { return bytes(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return coin(); }),
                                 maybe([this] { return coin(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 maybe([this] { return number(); }),
                                 precisions()};
              }),
              texts()};
  }
  void fill(AmdReport& report) {
    report = {finding(),
              text(),
              text(),
              text(),
              list([this] {
                return AmdGpu{number(),    text(),   text(),  text(), text(),
                              number(),    number(), bytes(), coin(), static_cast<Fp8Flavour>(below(3)),
                              precisions()};
              }),
              texts()};
  }
  void fill(TpuReport& report) {
    report = {finding(), text(), number(), number(), text(), text(), bytes(), text(), text(), texts()};
  }
  void fill(PjrtPlugin& report) { report = {text(), text(), text(), finding(), number(), number()}; }
  void fill(CpuReport& report) {
    report = {text(),
              text(),
              number(),
              number(),
              number(),
              texts(),
              texts(),
              precisions(),
              list([this] { return CpuCache{number(), text(), bytes()}; }),
              bytes(),
              maybe([this] { return bytes(); }),
              texts()};
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  std::mt19937_64 random_;
};

template <typename Report>
class HardwareJson : public ::testing::Test {};
using Reports = ::testing::Types<NvidiaReport, AmdReport, TpuReport, PjrtPlugin, CpuReport>;
TYPED_TEST_SUITE(HardwareJson, Reports);

TYPED_TEST(HardwareJson, RoundTripKeepsEveryField) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomReport random(seed);
  for (int round = 0; round < 300; ++round) {
    TypeParam report;
    random.fill(report);
    const std::string text = Json(report).dump();
    const auto read = parse_report<TypeParam>(text, "the test");
    ASSERT_TRUE(read.ok()) << read.status().to_string() << "\n" << text;
    ASSERT_EQ(*read, report) << text;
    ASSERT_EQ(Json(*read).dump(), text);
  }
}

TYPED_TEST(HardwareJson, EmptyObjectIsTheDefaultAndUnknownKeysAreIgnored) {
  EXPECT_EQ(*parse_report<TypeParam>("{}", "the test"), TypeParam());
  EXPECT_EQ(*parse_report<TypeParam>(R"({"a_key_of_a_later_version": [1]})", "the test"), TypeParam());
}

TYPED_TEST(HardwareJson, GarbageIsCorruptDataInOneLine) {
  const std::vector<std::string> inputs = {"",
                                           " ",
                                           "{",
                                           "[]",
                                           "null",
                                           "1",
                                           "\"text\"",
                                           "{}{}",
                                           "not json\nat all",
                                           "{\"finding\": \xff\xfe}",
                                           std::string(1 << 16, '['),
                                           std::string(5000, 'x'),
                                           "\"" + std::string(100000, 'x'),
                                           R"({"notes": 1, "name": 1, "isa": 1})"};
  for (const std::string& input : inputs) {
    const auto read = parse_report<TypeParam>(input, "the probe for nvidia");
    ASSERT_FALSE(read.ok()) << input.substr(0, 50);
    EXPECT_EQ(read.status().code(), StatusCode::kCorruptData);
    const std::string message = read.status().message();
    EXPECT_TRUE(message.starts_with("the probe for nvidia gave an answer that cannot be read: ")) << message;
    EXPECT_LT(message.size(), 600u);
    EXPECT_EQ(printable(message), message);
  }
}

TYPED_TEST(HardwareJson, DamagedTextNeverCrashes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomReport random(seed);
  std::mt19937 damage(seed);
  for (int round = 0; round < 500; ++round) {
    TypeParam report;
    random.fill(report);
    std::string text = Json(report).dump();
    for (int i = 0; i < 3; ++i) text[damage() % text.size()] = static_cast<char>(damage() % 256);
    text.resize(text.size() - damage() % std::min<std::size_t>(text.size(), 4));
    const auto read = parse_report<TypeParam>(text, "the test");
    if (!read.ok()) {
      ASSERT_EQ(read.status().code(), StatusCode::kCorruptData);
    }
  }
}

template <typename Report>
StatusCode code_of(const std::string& text) {
  return parse_report<Report>(text, "the test").status().code();
}

TEST(HardwareJsonValues, UnknownNamesAreRejectedInsteadOfBecomingTheFirst) {
  EXPECT_EQ(code_of<TpuReport>(R"({"finding": {"presence": "maybe"}})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<TpuReport>(R"({"finding": {"presence": 1}})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<CpuReport>(R"({"matrix_precisions": ["fp128"]})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<AmdReport>(R"({"gpus": [{"fp8_flavour": ""}]})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<CpuReport>(R"({"matrix_precisions": ["bf16"]})"), StatusCode::kOk);
}

TEST(HardwareJsonValues, NumbersOutsideTheFieldAreRejectedInsteadOfWrapped) {
  for (const char* value : {"-1", "1.5", "1e3", "18446744073709551616", "true", "\"1\"", "null", "[1]"}) {
    EXPECT_EQ(code_of<CpuReport>(std::string(R"({"memory_total_bytes": )") + value + "}"), StatusCode::kCorruptData)
        << value;
  }
  for (const char* value : {"2147483648", "-2147483649", "18446744073709551615", "0.0", "false"}) {
    EXPECT_EQ(code_of<CpuReport>(std::string(R"({"logical_cpus": )") + value + "}"), StatusCode::kCorruptData) << value;
  }
  EXPECT_EQ(parse_report<CpuReport>(R"({"memory_total_bytes": 18446744073709551615})", "")->memory_total_bytes,
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_report<CpuReport>(R"({"logical_cpus": -2147483648})", "")->logical_cpus,
            std::numeric_limits<int>::min());
}

TEST(HardwareJsonValues, WrongTypesOfOtherFieldsAreRejected) {
  EXPECT_EQ(code_of<NvidiaReport>(R"({"gpus": {}})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<NvidiaReport>(R"({"gpus": [1]})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<NvidiaReport>(R"({"driver_version": 580})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<NvidiaReport>(R"({"gpus": [{"ecc_enabled": 1}]})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<NvidiaReport>(R"({"gpus": [{"clock_sm_mhz": "fast"}]})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<AmdReport>(R"({"gpus": [{"has_matrix_cores": "yes"}]})"), StatusCode::kCorruptData);
  EXPECT_EQ(code_of<PjrtPlugin>(R"({"finding": []})"), StatusCode::kCorruptData);
}

TEST(HardwareJsonValues, FormIsTheDocumentedOne) {
  NvidiaReport report;
  report.finding = {Presence::kBroken, "why", "do this"};
  report.gpus.resize(1);
  report.gpus[0].memory_free_bytes = 7;
  report.gpus[0].matrix_precisions = {Precision::kTf32, Precision::kFp8};
  const Json json = report;
  EXPECT_EQ(json["finding"].dump(), R"({"presence":"broken","reason":"why","remedy":"do this"})");
  EXPECT_EQ(json["gpus"][0]["memory_free_bytes"], 7);
  EXPECT_TRUE(json["gpus"][0]["ecc_enabled"].is_null());
  EXPECT_EQ(json["gpus"][0]["matrix_precisions"].dump(), R"(["tf32","fp8"])");
}

TEST(HardwareJsonValues, NameThatIsNotUtf8IsShownInsteadOfThrown) {
  AmdReport report;
  report.source = "bad \xff byte";
  EXPECT_THAT(dump_json(report), HasSubstr("bad \ufffd byte"));
  EXPECT_TRUE(parse_report<AmdReport>(dump_json(report, 2), "the test").ok());
}

TEST(HardwareJsonValues, EveryPrecisionHasItsName) {
  std::string names;
  for (int i = 0; i < 10; ++i) names += std::string(to_string(static_cast<Precision>(i))) + " ";
  EXPECT_EQ(names, "fp64 fp32 tf32 fp16 bf16 fp8 fp6 fp4 int8 int4 ");
  EXPECT_EQ(to_string(static_cast<Precision>(99)), "unknown");
}

}  // namespace
}  // namespace kpt
