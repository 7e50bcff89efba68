#include "base/shared_work.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

using namespace std::chrono_literals;

TEST(SharedWork, OneDoesItAndAllGetWhatItGives) {
  SharedWork<std::string, int> work;
  std::atomic<int> made = 0;
  std::atomic<int> sum = 0;
  std::vector<std::thread> threads;
  std::promise<void> started;
  std::promise<void> go_on;
  std::shared_future<void> permission = go_on.get_future().share();
  threads.emplace_back([&] {
    sum += work.run("a",
                    [&]() -> Result<int> {
                      ++made;
                      started.set_value();
                      permission.wait();
                      return 7;
                    })
               .value();
  });
  started.get_future().wait();
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      sum += work.run("a",
                      [&]() -> Result<int> {
                        ++made;
                        return 7;
                      })
                 .value();
    });
  }
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(made, 1);
  go_on.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 28);
}

TEST(SharedWork, OtherKeysDoNotWait) {
  SharedWork<std::string, int> work;
  const auto outer = work.run("a", [&]() -> Result<int> { return work.run("b", []() -> Result<int> { return 3; }); });
  EXPECT_EQ(outer.value(), 3);
}

TEST(SharedWork, AFailureIsForgottenAndWhatIsThrownIsOne) {
  SharedWork<std::string, int> work;
  EXPECT_EQ(work.run("a", []() -> Result<int> { return Status(StatusCode::kIo, "no"); }).status().code(),
            StatusCode::kIo);
  EXPECT_EQ(work.run("a", []() -> Result<int> { throw std::bad_alloc(); }).status().code(), StatusCode::kOutOfMemory);
  EXPECT_THROW(static_cast<void>(work.run("a", []() -> Result<int> { throw std::logic_error("broken"); })),
               std::logic_error);
  EXPECT_EQ(work.run("a", []() -> Result<int> { return 1; }).value(), 1);
}

}  // namespace
}  // namespace kpt
