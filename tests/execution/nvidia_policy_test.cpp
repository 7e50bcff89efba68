// Options of NVIDIA GPUs that change how runs compute or what they tell.
#include <random>

#include <gmock/gmock.h>

#include "nvidia_runs.h"

namespace kpt::execution_test {
namespace {

TEST(Nvidia, RangesForProfilersLeaveResultsAlone) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto plain = load_here(make_bert(seed));
  const Setting ranges("KPT_NVIDIA_NVTX", "true");
  const auto ranged = load_here(make_bert(seed));
  const std::vector<Tensor> inputs = make_inputs(plain->graph(), seed);
  for (int round = 0; round < 3; ++round) {  // node by node, captured, replayed
    const std::vector<Tensor> wanted = run_once(plain->executable(), inputs);
    const std::vector<Tensor> found = run_once(ranged->executable(), inputs);
    ASSERT_EQ(wanted.size(), found.size());
    for (std::size_t index = 0; index < wanted.size(); ++index) {
      EXPECT_TRUE(same_bytes(wanted[index], found[index])) << index;
    }
  }
}

}  // namespace
}  // namespace kpt::execution_test
