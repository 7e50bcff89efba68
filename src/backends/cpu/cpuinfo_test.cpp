#include "backends/cpu/cpuinfo.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Cpuinfo, BigLittleHasOnlyWhatAllCoresHave) {
  const CpuInfo info = parse_cpuinfo(
      "processor\t: 0\nFeatures\t: fp asimd asimddp bf16\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
      "CPU part\t: 0xd0b\n\n"
      "processor\t: 1\nFeatures\t: fp asimd asimddp\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
      "CPU part\t: 0xd05\n");
  EXPECT_EQ(info.model, "Cortex-A76 + Cortex-A55");
  EXPECT_EQ(info.processors, 2);
  EXPECT_THAT(info.flags, ElementsAre("asimd", "asimddp", "fp"));
  EXPECT_THAT(info.notes, IsEmpty());
}

TEST(Cpuinfo, UnknownArmCoreIsShownByItsNumbers) {
  const CpuInfo info = parse_cpuinfo("processor : 0\nCPU implementer : 0x41\nCPU part : 0xfff\nFeatures : asimd\n");
  EXPECT_EQ(info.model, "Arm core 0x41:0xfff");
}

TEST(Cpuinfo, EmptyTextIsNoted) {
  const CpuInfo info = parse_cpuinfo("");
  EXPECT_EQ(info.processors, 0);
  EXPECT_THAT(info.notes, ElementsAre(HasSubstr("no processor")));
}

// Whatever the cut, reading ends, and no flag appears that the whole text does not have.
TEST(Cpuinfo, EveryTruncationIsReadWithoutInventingFlags) {
  const std::string whole =
      "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu lm sse4_2 avx2 avx512f\n"
      "power management:\n\n"
      "processor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu lm sse4_2 avx2 avx512f\n"
      "power management:\n";
  const auto all = parse_cpuinfo(whole).flags;
  // In the second entry a word cut in half drops out of the intersection. In the first there is nothing to compare.
  const std::size_t first_entry = whole.find("\n\n");
  for (std::size_t size = first_entry; size < whole.size(); ++size) {
    for (const std::string& flag : parse_cpuinfo(whole.substr(0, size)).flags) {
      EXPECT_NE(std::ranges::find(all, flag), all.end()) << flag << " after " << size << " bytes";
    }
  }
}

TEST(Cpuinfo, RandomBytesAreHarmless) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr std::string_view kAlphabet = "processor flagsFeatures:\n\t 0x41CPU part\xff";
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 400, '\0');
    for (char& c : text) c = kAlphabet[random() % kAlphabet.size()];
    EXPECT_LE(parse_cpuinfo(text).processors, 400);
  }
}

}  // namespace
}  // namespace kpt
