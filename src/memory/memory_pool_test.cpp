#include "memory/memory_pool.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;

// A device with little memory, on the host.
struct FakeDevice {
  std::atomic<std::size_t> total = std::size_t{1} << 20U;
  std::atomic<std::size_t> used = 0;
  std::atomic<std::size_t> calls = 0;
  std::atomic<bool> refuses = false;

  class Memory final : public Buffer {
   public:
    Memory(FakeDevice& device, std::size_t bytes) : device_(device), data_(new std::byte[bytes]), bytes_(bytes) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() override {
      std::this_thread::yield();  // a driver takes its time
      device_.used -= bytes_;
    }
    void* data() const override { return data_.get(); }
    std::size_t bytes() const override { return bytes_; }
    std::string_view device() const override { return "fake:0"; }

   private:
    FakeDevice& device_;
    std::unique_ptr<std::byte[]> data_;
    std::size_t bytes_;
  };

  MemorySource source() {
    return {[this](std::size_t bytes) -> Result<std::unique_ptr<Buffer>> {
              ++calls;
              std::size_t before = used.load();
              do {
                if (refuses || before + bytes > total) return Status(StatusCode::kOutOfMemory, "fakeMalloc failed");
              } while (!used.compare_exchange_weak(before, before + bytes));
              return std::unique_ptr<Buffer>(std::make_unique<Memory>(*this, bytes));
            },
            [this]() -> Result<DeviceMemory> { return DeviceMemory{total - used, total}; }};
  }
};

class MemoryPoolTest : public ::testing::Test {
 protected:
  std::shared_ptr<MemoryPool> make(MemoryLimits limits = {}) {
    return MemoryPool::make("fake:0", Vendor::kAmd, device_.source(), limits);
  }
  void TearDown() override { EXPECT_EQ(device_.used, 0U) << "memory was not given back"; }

  FakeDevice device_;
};

TEST_F(MemoryPoolTest, MemoryThatComesBackServesTheNext) {
  const auto pool = make();
  void* address = nullptr;
  {
    const auto first = pool->allocate(5000).value();
    EXPECT_EQ(first->bytes(), 5000U);
    EXPECT_EQ(first->device(), "fake:0");
    address = first->data();
  }
  EXPECT_EQ(device_.calls, 1U);
  const auto again = pool->allocate(4900).value();  // nearly the same
  EXPECT_EQ(again->data(), address);
  const auto other = pool->allocate(100).value();  // not wasted on so little
  EXPECT_NE(other->data(), address);
  EXPECT_EQ(device_.calls, 2U);
  EXPECT_EQ(pool->allocate(0).value()->bytes(), 1U);
}

TEST_F(MemoryPoolTest, CountsWhatItDoes) {
  const auto pool = make();
  {
    const auto a = pool->allocate(1000).value();
    const auto b = pool->allocate(3000).value();
    const MemoryStatistics now = pool->statistics();
    EXPECT_EQ(now.total_bytes, device_.total.load());
    EXPECT_EQ(now.free_bytes, device_.total - device_.used);
    EXPECT_EQ(now.limit_bytes, std::nullopt);
    EXPECT_EQ(now.allocated_bytes, 4000U);
    EXPECT_EQ(now.reserved_bytes, device_.used.load());
    EXPECT_EQ(now.split_bytes, device_.used - 4000U);
    EXPECT_EQ(now.allocations, 2U);
    EXPECT_EQ(now.frees, 0U);
  }
  MemoryStatistics after = pool->statistics();
  EXPECT_EQ(after.allocated_bytes, 0U);
  EXPECT_EQ(after.peak_bytes, 4000U);
  EXPECT_EQ(after.frees, 2U) << "what the pool keeps has no user either";
  EXPECT_EQ(after.split_bytes, 0U);
  EXPECT_EQ(after.reserved_bytes, device_.used.load());
  EXPECT_EQ(after.reserved_peak_bytes, after.reserved_bytes);
  EXPECT_TRUE(pool->release_kept());
  EXPECT_FALSE(pool->release_kept());
  pool->reset_peak();
  after = pool->statistics();
  EXPECT_EQ(after.reserved_bytes, 0U);
  EXPECT_EQ(after.reserved_peak_bytes, 0U);
  EXPECT_EQ(after.peak_bytes, 0U);
  EXPECT_EQ(after.out_of_memory_count, 0U);
}

TEST_F(MemoryPoolTest, WhatIsKeptGoesBackBeforeARequestFails) {
  const auto pool = make();
  pool->allocate(700000).value().reset();  // two thirds of the device are kept
  const auto other = pool->allocate(900000);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_EQ(pool->statistics().retries, 1U);
  const auto more = pool->allocate(900000);
  EXPECT_EQ(more.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(more.status().vendor(), Vendor::kAmd);
  EXPECT_THAT(more.status().to_string(), HasSubstr("fakeMalloc failed"));
  EXPECT_THAT(more.status().to_string(), HasSubstr("bytes are free"));
  EXPECT_THAT(more.status().to_string(), HasSubstr("needed_bytes="));
  EXPECT_THAT(more.status().to_string(), HasSubstr("advice="));
  EXPECT_EQ(pool->statistics().out_of_memory_count, 1U);
  EXPECT_TRUE(pool->allocate(1000).ok()) << "less is still there";
}

TEST_F(MemoryPoolTest, HoldersLetGoWhenMemoryEnds) {
  for (const std::uint64_t kept : {std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()}) {
    MemoryLimits limits;
    limits.kept_bytes = kept;
    const auto pool = make(limits);
    std::shared_ptr<Buffer> held = pool->allocate(600000).value();
    int asked = 0;
    auto holder = pool->add_holder([&] {
      ++asked;
      held.reset();
    });
    EXPECT_TRUE(pool->allocate(300000).ok());
    EXPECT_EQ(asked, 0) << "nothing had ended";
    const auto large = pool->allocate(800000);
    EXPECT_TRUE(large.ok()) << large.status().to_string();
    EXPECT_EQ(asked, 1);
    holder.reset();
    EXPECT_FALSE(pool->allocate(800000).ok());
    EXPECT_EQ(asked, 1) << "one that went is not asked";
  }
}

TEST_F(MemoryPoolTest, TakesNoMoreThanItMayAndLeavesAMargin) {
  MemoryLimits limits;
  limits.most_bytes = 10000;
  {
    const auto pool = make(limits);
    const auto half = pool->allocate(5000).value();
    const auto more = pool->allocate(6000);
    EXPECT_EQ(more.status().code(), StatusCode::kMemoryPool);
    EXPECT_EQ(more.status().vendor(), Vendor::kAmd);
    EXPECT_THAT(more.status().message(), HasSubstr("this process may take"));
    EXPECT_THAT(more.status().to_string(), HasSubstr("let this process take more of the device"));
    EXPECT_EQ(pool->statistics().out_of_memory_count, 1U);
    EXPECT_EQ(pool->statistics().limit_bytes, 10000U);
    EXPECT_TRUE(pool->allocate(4000).ok());
    EXPECT_FALSE(pool->allocate(std::numeric_limits<std::size_t>::max()).ok());
  }
  limits = {};
  limits.margin_bytes = device_.total - 10000;
  const auto pool = make(limits);
  EXPECT_TRUE(pool->allocate(5000).ok());
  const auto more = pool->allocate(20000);
  EXPECT_EQ(more.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(more.status().message(), HasSubstr("would leave less than"));
}

// What is kept counts too, and goes back before the request fails.
TEST_F(MemoryPoolTest, APoolThatIsFullGivesBackWhatItKeeps) {
  MemoryLimits limits;
  limits.most_bytes = 10000;
  const auto pool = make(limits);
  pool->allocate(6000).value().reset();
  const auto other = pool->allocate(9000);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_EQ(pool->statistics().retries, 1U);
}

TEST_F(MemoryPoolTest, ADeviceThatRefusesThoughItHasEnoughIsNotShortOfMemory) {
  device_.refuses = true;
  const auto pool = make();
  const Status refused = pool->allocate(5000).status();
  EXPECT_EQ(refused.code(), StatusCode::kMemoryAllocation);
  EXPECT_THAT(refused.message(), HasSubstr("fakeMalloc failed; 1048576 of 1048576 bytes are free"));
  EXPECT_EQ(refused.vendor(), Vendor::kAmd);
  EXPECT_EQ(pool->allocate(2 * device_.total).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(pool->statistics().out_of_memory_count, 2U);
  device_.refuses = false;
  EXPECT_TRUE(pool->allocate(5000).ok());
}

TEST_F(MemoryPoolTest, LimitsOnlyBecomeTighter) {
  MemoryLimits limits;
  limits.most_bytes = 20000;
  limits.kept_bytes = 15000;
  const auto pool = make(limits);
  pool->allocate(10000).value().reset();
  EXPECT_GT(device_.used, 0U) << "kept";
  limits.most_bytes = 12000;
  limits.margin_bytes = device_.total - 7000;
  limits.kept_bytes = 5000;
  pool->tighten(limits);
  EXPECT_EQ(device_.used, 0U) << "more than it shall keep";
  pool->tighten({});
  EXPECT_EQ(pool->statistics().limit_bytes, 12000U);
  EXPECT_THAT(pool->allocate(10000).status().message(), HasSubstr("would leave less than"));
  pool->allocate(6000).value().reset();
  EXPECT_EQ(device_.used, 0U) << "nothing of it is kept";
}

TEST_F(MemoryPoolTest, KeepsNoMoreThanItShall) {
  MemoryLimits limits;
  limits.kept_bytes = 10000;
  const auto pool = make(limits);
  pool->allocate(20000).value().reset();
  EXPECT_EQ(device_.used, 0U);
  pool->allocate(8000).value().reset();
  EXPECT_GT(device_.used, 0U);
  const std::size_t kept = device_.used;
  pool->allocate(4000).value().reset();
  EXPECT_EQ(device_.used, kept) << "both would be too much";
}

TEST_F(MemoryPoolTest, BuffersOutliveThePool) {
  std::shared_ptr<Buffer> buffer = make()->allocate(100).value();
  std::memset(buffer->data(), 1, buffer->bytes());
}

// Numbers of bytes at random, from several threads, with a holder that lets go: all is given back, nothing is given to
// two, and what the pool counts is what there is. Memory ends again and again, but what the threads have in hand always
// fits, so that no request may fail.
TEST_F(MemoryPoolTest, ManyThreads) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  constexpr unsigned kThreads = 8;
  constexpr int kRounds = 300;
  constexpr std::size_t kMost = 60000;
  constexpr std::size_t kRounded = 61440;  // the same, as the pool takes it
  // The one that asks needs one, and each other may have one in hand and one held.
  device_.total = (2 * kThreads - 1) * kRounded;
  const auto pool = make();
  pool->allocate(device_.total - kRounded).value().reset();  // kept, and too large for all that follow
  std::mutex mutex;
  std::vector<std::shared_ptr<Buffer>> held(kThreads);
  const auto holder = pool->add_holder([&] {
    std::vector<std::shared_ptr<Buffer>> gone(kThreads);
    const std::lock_guard lock(mutex);
    gone.swap(held);
  });
  std::atomic<int> served = 0;
  const auto work = [&](unsigned number) {
    std::mt19937 random(seed + number);
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? std::size_t{5000} : kMost);
      const auto buffer = pool->allocate(bytes);
      if (!buffer.ok()) {
        ADD_FAILURE() << buffer.status().to_string();
        continue;
      }
      ++served;
      const auto mark = static_cast<unsigned char>(random());
      auto* data = static_cast<unsigned char*>((*buffer)->data());
      data[0] = data[bytes - 1] = mark;
      std::this_thread::yield();
      EXPECT_EQ(data[0], mark);
      EXPECT_EQ(data[bytes - 1], mark);
      if (random() % 2 == 0) {
        std::shared_ptr<Buffer> gone = *buffer;
        const std::lock_guard lock(mutex);
        gone.swap(held[number]);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < kThreads; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, static_cast<int>(kThreads) * kRounds);
  held.clear();
  const MemoryStatistics after = pool->statistics();
  EXPECT_GT(*after.retries, 0U) << "memory never ended";
  EXPECT_EQ(after.out_of_memory_count, 0U);
  EXPECT_EQ(after.allocated_bytes, 0U);
  EXPECT_EQ(after.split_bytes, 0U);
  EXPECT_EQ(after.reserved_bytes, device_.used.load());
  EXPECT_EQ(after.allocations, static_cast<std::uint64_t>(served) + 1);
  EXPECT_EQ(after.frees, after.allocations);
}

}  // namespace
}  // namespace kpt
