#include "base/call_threads.h"

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/stray_threads.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{60000};
constexpr std::chrono::milliseconds kShort{50};

// Work that comes back when it is told to.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
};

TEST(CallThreads, WorkRunsOnAnotherThreadThatIsUsedAgain) {
  CallThreads threads;
  std::thread::id first;
  std::thread::id second;
  EXPECT_EQ(threads.run([&first] { first = std::this_thread::get_id(); }, CallLimit::from_now(kLong)), CallEnd::kDone);
  EXPECT_EQ(threads.run([&second] { second = std::this_thread::get_id(); }, CallLimit::from_now(kLong)),
            CallEnd::kDone);
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(first, second);
}

TEST(CallThreads, WhatWorkOwnsIsGoneWhenItIsDone) {
  CallThreads threads;
  const auto owned = std::make_shared<int>(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(threads.run([owned] {}, CallLimit::from_now(kLong)), CallEnd::kDone);
    ASSERT_EQ(owned.use_count(), 1);
  }
}

TEST(CallThreads, AProcessKnowsOfThreadsThatNobodyWaitsFor) {
  const std::size_t before = count_stray_threads();
  CallThreads threads;
  Gate gate;
  EXPECT_EQ(threads.run([] {}, CallLimit::from_now(kLong)), CallEnd::kDone);
  EXPECT_EQ(count_stray_threads(), before);
  EXPECT_EQ(threads.run([opened = gate.opened] { opened.wait(); }, CallLimit::from_now(kShort)), CallEnd::kLate);
  EXPECT_EQ(count_stray_threads(), before + 1);
  gate.open.set_value();
  for (const auto end = std::chrono::steady_clock::now() + kLong;
       count_stray_threads() > before && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(count_stray_threads(), before);
}

TEST(CallThreads, WhoHasNoLimitWaitsUntilTheWorkIsBack) {
  CallThreads threads;
  Gate gate;
  EXPECT_EQ(threads.run([opened = gate.opened] { opened.wait(); }, CallLimit::from_now(kShort)), CallEnd::kLate);
  std::thread opener([&gate] {
    std::this_thread::sleep_for(kShort);
    gate.open.set_value();
  });
  EXPECT_EQ(threads.wait_for_given_up({CallLimit::kNever}), CallEnd::kDone);
  EXPECT_EQ(threads.given_up(), 0U);
  opener.join();
}

TEST(CallThreads, LateWorkGoesOnAndKeepsWhatItOwns) {
  CallThreads threads;
  Gate gate;
  const auto owned = std::make_shared<std::atomic<bool>>(false);
  const auto work = [owned, opened = gate.opened] {
    opened.wait();
    *owned = true;
  };
  EXPECT_EQ(threads.run(work, CallLimit::from_now(kShort)), CallEnd::kLate);
  EXPECT_FALSE(*owned);
  EXPECT_EQ(threads.given_up(), 1U);
  EXPECT_EQ(threads.wait_for_given_up(CallLimit::from_now(kShort)), CallEnd::kLate);
  // Others are not held up.
  EXPECT_EQ(threads.run([] {}, CallLimit::from_now(kLong)), CallEnd::kDone);
  gate.open.set_value();
  EXPECT_EQ(threads.wait_for_given_up(CallLimit::from_now(kLong)), CallEnd::kDone);
  EXPECT_EQ(threads.given_up(), 0U);
  EXPECT_TRUE(*owned);
}

TEST(CallThreads, ACancellationIsHeard) {
  CallThreads threads;
  Gate gate;
  std::atomic<bool> cancelled{false};
  std::thread other([&cancelled] {
    std::this_thread::sleep_for(kShort);
    cancelled = true;
  });
  CallLimit limit = CallLimit::from_now(kLong);
  limit.cancelled = &cancelled;
  EXPECT_EQ(threads.run([opened = gate.opened] { opened.wait(); }, limit), CallEnd::kCancelled);
  other.join();
  gate.open.set_value();
  EXPECT_EQ(threads.wait_for_given_up(CallLimit::from_now(kLong)), CallEnd::kDone);
}

TEST(CallThreads, WorkThatWasGivenUpMayOutliveThem) {
  Gate gate;
  std::promise<void> ended;
  {
    CallThreads threads;
    const auto shared_end = std::shared_ptr<void>(nullptr, [&ended](void*) { ended.set_value(); });
    EXPECT_EQ(threads.run([opened = gate.opened, shared_end] { opened.wait(); }, CallLimit::from_now(kShort)),
              CallEnd::kLate);
  }
  gate.open.set_value();
  EXPECT_EQ(ended.get_future().wait_for(kLong), std::future_status::ready);
}

// Takes its time to go.
class Slow {
 public:
  Slow(const Gate& gate, std::atomic<int>& gone) : opened_(gate.opened), gone_(gone) {}
  Slow(const Slow&) = delete;
  Slow& operator=(const Slow&) = delete;
  ~Slow() {
    opened_.wait();
    if (std::this_thread::get_id() != maker_) ++gone_;
  }

 private:
  std::shared_future<void> opened_;
  std::atomic<int>& gone_;  // of those that another thread destroyed
  std::thread::id maker_ = std::this_thread::get_id();
};

TEST(CallThreads, ThingsAreLetGoOnAnotherThread) {
  CallThreads threads;
  Gate gate;
  gate.open.set_value();
  std::atomic<int> gone{0};
  threads.let_go(std::make_shared<Slow>(gate, gone), kLong, "fake");
  EXPECT_EQ(gone, 1);
}

TEST(CallThreads, ThingsThatStayAreReportedAndFurtherOnesWaitForThem) {
  std::atomic<int> gone{0};
  Gate gate;
  std::string lines;
  CallThreads threads;
  {
    const auto capture = log::capture(&lines);
    threads.let_go(std::make_shared<Slow>(gate, gone), kShort, "fake");
  }
  EXPECT_THAT(lines, AllOf(HasSubstr("keeps what it was asked to let go"), HasSubstr("owner=fake")));
  EXPECT_EQ(threads.given_up(), 1U);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) threads.let_go(std::make_shared<Slow>(gate, gone), kLong, "fake");
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong);
  EXPECT_EQ(gone, 0);
  gate.open.set_value();
  EXPECT_EQ(threads.wait_for_given_up(CallLimit::from_now(kLong)), CallEnd::kDone);
  EXPECT_EQ(gone, 4);
}

TEST(CallThreads, ThingsOfTheirOwnThreadsAreLetGoThere) {
  CallThreads threads;
  Gate gate;
  gate.open.set_value();
  std::atomic<int> gone{0};
  EXPECT_FALSE(threads.is_own_thread());
  const auto work = [&] {
    EXPECT_TRUE(threads.is_own_thread());
    EXPECT_FALSE(CallThreads().is_own_thread());
    threads.let_go(std::make_shared<Slow>(gate, gone), kLong, "fake");
  };
  EXPECT_EQ(threads.run(work, CallLimit::from_now(kLong)), CallEnd::kDone);
  EXPECT_EQ(gone, 0) << "no other thread had a part in it";
}

// The first hangs in a call, the second in what the first holds; a third that calls often is neither.
TEST(CallThreads, ACallThatLastsTooLongIsToldToAllWhoWait) {
  const std::size_t before = count_stray_threads();
  CallThreads threads;
  const CallLimit limit{CallLimit::kNever, nullptr, 4 * kShort};
  const auto often = [] {
    for (const auto end = std::chrono::steady_clock::now() + 6 * kShort; std::chrono::steady_clock::now() < end;) {
      const CallInProgress call("short");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  EXPECT_EQ(threads.run(often, limit), CallEnd::kDone);
  EXPECT_FALSE(threads.find_oldest_call().has_value());
  Gate gate;
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] { EXPECT_EQ(threads.run([opened = gate.opened] { opened.wait(); }, limit), CallEnd::kStuck); });
  const auto hang = [opened = gate.opened] {
    const CallInProgress call("long");
    opened.wait();
  };
  EXPECT_EQ(threads.run(hang, limit), CallEnd::kStuck);
  other.join();
  const auto oldest = threads.find_oldest_call();
  ASSERT_TRUE(oldest.has_value());
  EXPECT_EQ(oldest->name, "long") << "also when nobody waits for it";
  EXPECT_GE(oldest->begin, begin);
  EXPECT_EQ(count_stray_threads(), before + 2);
  gate.open.set_value();
  EXPECT_EQ(threads.wait_for_given_up(CallLimit::from_now(kLong)), CallEnd::kDone);
  EXPECT_FALSE(threads.find_oldest_call().has_value());
}

TEST(CallThreads, WorkThatIsAskedToEndMayTakeTheTimeItIsGiven) {
  CallThreads threads;
  for (const auto& [time, expected] : {std::pair{kLong, CallEnd::kDone}, std::pair{kShort, CallEnd::kLate}}) {
    Gate gate;
    const auto rest = [&gate, time = time](CallEnd end) {
      EXPECT_EQ(end, CallEnd::kLate);
      if (time == kLong) gate.open.set_value();
      return CallLimit::from_now(time);
    };
    EXPECT_EQ(threads.run([opened = gate.opened] { opened.wait(); }, CallLimit::from_now(kShort), rest), expected);
    if (time == kShort) gate.open.set_value();
  }
  EXPECT_EQ(threads.wait_for_given_up(CallLimit::from_now(kLong)), CallEnd::kDone);
}

TEST(CallThreads, ManyAtOnce) {
  CallThreads threads;
  std::atomic<int> count{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&threads, &count] {
      for (int round = 0; round < 50; ++round) {
        EXPECT_EQ(threads.run([&count] { ++count; }, CallLimit::from_now(kLong)), CallEnd::kDone);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(count, 400);
}

TEST(CallThreads, WhatIsThrownReachesTheCaller) {
  CallThreads threads;
  EXPECT_THROW(threads.run([] { throw std::runtime_error("broken"); }, CallLimit::from_now(kLong)), std::runtime_error);
  EXPECT_EQ(threads.run([] {}, CallLimit::from_now(kLong)), CallEnd::kDone);
}

}  // namespace
}  // namespace kpt
