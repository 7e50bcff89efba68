#include "engines/aten/cuda/nvtx_ranges.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "engines/aten/cuda/fake_nvtx.h"
#include "support/tree_paths.h"

namespace kpt::aten {
namespace {

std::string heard() {
  std::string text;
  fake_nvtx_take(&text);
  return text;
}

// NVTX looks for a profiler at the first call of a process.
class NvtxRanges : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string fake = build_dir() + "/lib/libkpt_fake_nvtx.so";
    setenv("NVTX_INJECTION64_PATH", fake.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread is there yet
  }
  void SetUp() override { heard(); }
};

TEST_F(NvtxRanges, NestAndEndWithTheirScope) {
  ASSERT_TRUE(has_nvtx());
  const std::string outer = "run";
  const std::string inner = "part";
  {
    const NvtxRange first(&outer);
    const NvtxRange second(&inner);
    const NvtxRange none(nullptr);
  }
  EXPECT_EQ(heard(), "kpt>run kpt>part < < ");
}

class Counting final : public NodeObserver {
 public:
  void begin_node(std::size_t node) override { begun += node + 1; }
  void end_node(std::size_t node) override { ended += node + 1; }
  std::size_t begun = 0;
  std::size_t ended = 0;
};

TEST_F(NvtxRanges, NodesHaveTheirNamesAndTheObserverInsideHearsOfThem) {
  const std::vector<std::string> names = {"a", "b"};
  Counting counting;
  {
    NvtxNodes nodes(names, &counting);
    for (const std::size_t node : {0U, 1U}) {
      nodes.begin_node(node);
      nodes.end_node(node);
    }
  }
  EXPECT_EQ(heard(), "kpt>a < kpt>b < ");
  EXPECT_EQ(counting.begun, 3U);
  EXPECT_EQ(counting.ended, 3U);
}

TEST_F(NvtxRanges, ANodeThatFailedIsClosed) {
  const std::vector<std::string> names = {"a"};
  {
    NvtxNodes nodes(names, nullptr);
    nodes.begin_node(0);
  }
  EXPECT_EQ(heard(), "kpt>a < ");
}

}  // namespace
}  // namespace kpt::aten
