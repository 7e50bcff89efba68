#include "engines/aten/two_kinds.h"

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kpt::aten {
namespace {

TEST(TwoKinds, TheSettingHoldsForTheSpecialKindAlone) {
  std::atomic<bool> setting = false;
  TwoKinds kinds([&] { setting = true; }, [&] { setting = false; });
  std::atomic<int> wrong = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 500; ++round) {
        const bool special = (thread + round) % 3 == 0;
        const TwoKinds::Work work(kinds, special);
        if (setting != special) ++wrong;
        std::this_thread::yield();
        if (setting != special) ++wrong;
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(done, 8 * 500);
  EXPECT_FALSE(setting);
}

TEST(TwoKinds, OfOneKindAnyNumberMayBeUnderWay) {
  int sets = 0;
  int resets = 0;
  TwoKinds kinds([&] { ++sets; }, [&] { ++resets; });
  {
    const TwoKinds::Work first(kinds, true);
    const TwoKinds::Work second(kinds, true);
    EXPECT_EQ(sets, 1);
    EXPECT_EQ(resets, 0);
  }
  EXPECT_EQ(resets, 1);
  const TwoKinds::Work plain(kinds, false);
  const TwoKinds::Work another(kinds, false);
  EXPECT_EQ(sets, 1);
}

// Newcomers of the kind that is under way wait behind those of the other.
TEST(TwoKinds, NeitherKindWaitsForEver) {
  TwoKinds kinds([] {}, [] {});
  std::atomic<bool> stop = false;
  std::vector<std::thread> plain;
  for (int thread = 0; thread < 4; ++thread) {
    plain.emplace_back([&] {
      while (!stop) {
        const TwoKinds::Work work(kinds, false);
        std::this_thread::yield();
      }
    });
  }
  for (int round = 0; round < 50; ++round) const TwoKinds::Work work(kinds, true);
  stop = true;
  for (std::thread& thread : plain) thread.join();
}

TEST(TwoKinds, ASettingThatFailsLeavesTheWayFree) {
  bool fails = true;
  TwoKinds kinds(
      [&] {
        if (fails) throw std::runtime_error("no");
      },
      [] {});
  EXPECT_THROW(TwoKinds::Work(kinds, true), std::runtime_error);
  fails = false;
  {
    const TwoKinds::Work work(kinds, false);
  }
  const TwoKinds::Work work(kinds, true);
}

}  // namespace
}  // namespace kpt::aten
