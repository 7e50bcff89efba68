#include "benchmark/startup.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;

// A program of a few lines: a shell script, removed with the object.
class Script {
 public:
  explicit Script(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("kpt-script-" + std::to_string(std::random_device{}()))) {
    std::ofstream(path_) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  ~Script() {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  StartupOptions options() const {
    StartupOptions options;
    options.program = path_;
    options.runs = 3;
    options.time_limit = std::chrono::seconds(20);
    return options;
  }

 private:
  std::filesystem::path path_;
};

// /proc/uptime counts from the steady clock's zero on Linux, in hundredths of a second, rounded down: the pause keeps
// the answer behind the start.
constexpr const char* kAnswer =
    "sleep 0.05\n"
    "read up rest < /proc/uptime; s=${up%.*}; c=${up#*.}\n"
    "echo \"{\\\"answered_ns\\\": ${s}${c}0000000, \\\"load_ms\\\": 4, \\\"run_ms\\\": 2, \\\"cpu_ms\\\": 3, "
    "\\\"peak_bytes\\\": 77}\"\n";

TEST(Startup, FirstAnswersGoRoundTripAndBadOnesAreRefused) {
  const FirstAnswer answer{123456789012345, 1.5, 0.25, 2.5, 1U << 30U};
  const FirstAnswer back = parse_first_answer(encode_first_answer(answer)).value();
  EXPECT_EQ(back.answered_ns, answer.answered_ns);
  EXPECT_EQ(back.load_ms, answer.load_ms);
  EXPECT_EQ(back.run_ms, answer.run_ms);
  EXPECT_EQ(back.cpu_ms, answer.cpu_ms);
  EXPECT_EQ(back.peak_bytes, answer.peak_bytes);
  for (const char* bad : {"", "{}", "[]", "12", "{\"answered_ns\": \"x\"}", "{\"answered_ns\": 1, \"load_ms\": 2}"}) {
    EXPECT_EQ(parse_first_answer(bad).status().code(), StatusCode::kCorruptData) << bad;
  }
}

TEST(Startup, TimesTheAnswerAndNotWhatComesAfterIt) {
  const Script script("sleep 0.1\n" + std::string(kAnswer) + "sleep 1\n");
  const auto reports = measure_startup(script.options());
  ASSERT_TRUE(reports.ok()) << reports.status().to_string();
  ASSERT_EQ(reports->size(), 1U);
  EXPECT_EQ(reports->at(0).kind, "no cache");
  EXPECT_EQ(reports->at(0).samples_ms.size(), 3U);
  EXPECT_GE(reports->at(0).summary.least, 130);  // the shell's clock has steps of 10 ms
  EXPECT_LT(reports->at(0).summary.least, 900);
  EXPECT_EQ(reports->at(0).peak_bytes, 77U);
}

TEST(Startup, ColdAndWarmAreTwoWhenTheProgramUsesTheCache) {
  // $2 is cache.dir=FOLDER: slow when the folder is empty.
  const Script script(
      "folder=${2#cache.dir=}\nif [ ! -e \"$folder/entry\" ]; then sleep 0.2; echo x > \"$folder/entry\"; fi\n" +
      std::string(kAnswer));
  const auto reports = measure_startup(script.options());
  ASSERT_TRUE(reports.ok()) << reports.status().to_string();
  ASSERT_EQ(reports->size(), 2U);
  EXPECT_EQ(reports->at(0).kind, "cold cache");
  EXPECT_EQ(reports->at(1).kind, "warm cache");
  EXPECT_GE(reports->at(0).summary.least, 230);
  EXPECT_LT(reports->at(1).summary.least, reports->at(0).summary.least);
}

TEST(Startup, ProgramsThatFailAreSentences) {
  const Script failing("echo 'no such model' >&2; exit 1\n");
  EXPECT_THAT(measure_startup(failing.options()).status().message(), HasSubstr("no such model"));
  const Script silent("exit 0\n");
  EXPECT_EQ(measure_startup(silent.options()).status().code(), StatusCode::kCorruptData);
  StartupOptions missing;
  missing.program = "/no/such/program";
  EXPECT_EQ(measure_startup(missing).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace kpt
