// Who gives memory up for whom: no GPU is needed for that.
#include "engines/aten/module/kept_memory.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kpt::aten {
namespace {

// A model with captured runs, as far as others see it.
class Model final : public MemoryKeeper {
 public:
  Model(MemoryKeepers& keepers, std::uint64_t bytes) : keepers_(keepers), bytes_(bytes) { keepers_.add(*this); }
  ~Model() override { keepers_.remove(*this); }
  std::uint64_t kept_bytes() const noexcept override { return bytes_; }
  std::uint64_t give_up() noexcept override {
    const std::unique_lock lock(at_work, std::try_to_lock);
    return lock.owns_lock() ? bytes_.exchange(0) : 0;
  }
  void keep(std::uint64_t bytes) { bytes_ = bytes; }

  std::mutex at_work;

 private:
  MemoryKeepers& keepers_;
  std::atomic<std::uint64_t> bytes_;
};

TEST(KeptMemory, TheOneUsedLongestAgoGivesUpFirstAndNeverTheOneThatAsks) {
  MemoryKeepers keepers;
  Model asking(keepers, 1);
  Model first(keepers, 10);
  Model second(keepers, 100);
  Model empty(keepers, 0);
  asking.use();
  second.use();
  first.use();
  EXPECT_EQ(keepers.count_others(&asking), 110U);
  EXPECT_EQ(keepers.count_others(nullptr), 111U);
  EXPECT_EQ(keepers.give_up_one(&asking), 100U);
  EXPECT_EQ(first.kept_bytes(), 10U) << "one at a time";
  EXPECT_EQ(keepers.give_up_one(&asking), 10U);
  EXPECT_EQ(keepers.give_up_one(&asking), 0U);
  EXPECT_EQ(asking.kept_bytes(), 1U);
  EXPECT_EQ(keepers.give_up_one(nullptr), 1U) << "a model that is not loaded yet asks all";
}

TEST(KeptMemory, WhatIsAtWorkIsLeftAloneAndTheNextOneAsked) {
  MemoryKeepers keepers;
  Model busy(keepers, 10);
  Model idle(keepers, 100);
  idle.use();  // later than the other
  std::unique_lock work(busy.at_work);
  std::uint64_t given = 0;
  std::thread([&] { given = keepers.give_up_one(nullptr); }).join();
  EXPECT_EQ(given, 100U);
  EXPECT_EQ(busy.kept_bytes(), 10U);
  std::thread([&] { given = keepers.give_up_one(nullptr); }).join();
  EXPECT_EQ(given, 0U);
  work.unlock();
  EXPECT_EQ(keepers.give_up_one(nullptr), 10U);
}

// Two models that lack memory ask each other while both are at work: neither waits for the other. Others come and go.
TEST(KeptMemory, ModelsThatAskEachOtherAtWorkDoNotWaitForEver) {
  MemoryKeepers keepers;
  std::atomic<std::uint64_t> given = 0;
  std::vector<std::unique_ptr<Model>> models;
  for (int index = 0; index < 4; ++index) models.push_back(std::make_unique<Model>(keepers, 1));
  std::vector<std::thread> threads;
  for (const auto& model : models) {
    threads.emplace_back([&, own = model.get()] {
      for (int round = 0; round < 500; ++round) {
        const std::lock_guard work(own->at_work);
        own->use();
        own->keep(1);
        given += keepers.give_up_one(own);
      }
    });
  }
  threads.emplace_back([&] {
    for (int round = 0; round < 500; ++round) {
      const Model passing(keepers, 1);
      given += keepers.count_others(&passing) > 5 ? 1 : 0;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(keepers.count_others(nullptr), 4U);
}

TEST(KeptMemory, DevicesHaveTheirOwn) {
  Model here(keepers_of(1001), 5);
  EXPECT_EQ(keepers_of(1001).count_others(nullptr), 5U);
  EXPECT_EQ(keepers_of(1002).count_others(nullptr), 0U);
  EXPECT_EQ(keepers_of(1002).give_up_one(nullptr), 0U);
  EXPECT_EQ(here.kept_bytes(), 5U);
}

}  // namespace
}  // namespace kpt::aten
