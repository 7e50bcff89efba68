// The number of threads inside an operator holds on every thread that runs a model.
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "bert_graph.h"
#include "ir/text.h"

namespace kpt {
namespace {

// The product is the first node: nothing before it asks libtorch for its threads.
constexpr const char* kLinear = R"(kpt_graph 1
input x: float32[384, 512]
input w: float32[512, 512]
y: float32[384, 512] = aten.linear.default(input=%x, weight=%w)
output %y "y"
)";
constexpr const char* kConvolution = R"(kpt_graph 1
input x: float32[4, 32, 32, 32]
input w: float32[64, 32, 3, 3]
y: float32[4, 64, 30, 30] = aten.conv2d.default(input=%x, weight=%w)
output %y "y"
)";

// With OpenMP and MKL each thread has helpers of its own. Libraries for other processors may keep a pool for all.
#ifdef __x86_64__
constexpr bool kOwnHelpers = true;
#else
constexpr bool kOwnHelpers = false;
#endif

// 0: as the configuration says.
std::shared_ptr<const detail::LoadedModel> load_with_threads(const char* text, int threads) {
  const Environment environment = Environment::from_process();
  auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  if (threads > 0) context.threads = threads;
  PlacedDevice placed = find_runnable_device("cpu", context).value();
  ImportedModel model;
  model.graph = ir::read_graph(text).value();
  Backend& backend = *placed.backend;
  return detail::LoadedModel::load(std::move(model), backend, *placed.device, std::move(placed.backend)).value();
}

std::set<std::string> list_threads() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path().filename().string());
  }
  return threads;
}

// Threads that are there now and were not before.
std::size_t count_beyond(const std::set<std::string>& before) {
  std::size_t count = 0;
  for (const std::string& thread : list_threads()) count += before.contains(thread) ? 0U : 1U;
  return count;
}

class ThreadCount : public ::testing::TestWithParam<const char*> {
 protected:
  // Other tests of this process had the number of the configuration.
  void TearDown() override { load_with_threads(kLinear, 0); }
};

// How many threads began while a thread that never ran anything runs the model.
std::size_t count_helpers(const detail::LoadedModel& model) {
  const std::vector<Tensor> inputs = execution_test::make_inputs(model.graph(), 1);
  std::size_t begun = 0;
  std::thread([&] {
    const auto before = list_threads();
    RunContext context;
    std::vector<Tensor> outputs;
    EXPECT_TRUE(model.executable().run(context, inputs, outputs).ok());
    begun = count_beyond(before);
  }).join();
  return begun;
}

TEST_P(ThreadCount, HoldsForTheFirstNodeOfAThreadThatNeverRanAnything) {
  EXPECT_EQ(count_helpers(*load_with_threads(GetParam(), 1)), 0U);
  if (!kOwnHelpers) return;
  EXPECT_EQ(count_helpers(*load_with_threads(GetParam(), 3)), 2U);
}

TEST_P(ThreadCount, FollowsALaterLoad) {
  if (!kOwnHelpers) GTEST_SKIP() << "the helpers of one thread cannot be told from others here";
  const auto model = load_with_threads(GetParam(), 3);
  const std::vector<Tensor> inputs = execution_test::make_inputs(model->graph(), 1);
  RunContext context;
  std::vector<Tensor> outputs;
  std::size_t begun = 0;
  std::thread([&] {
    std::thread([&] { load_with_threads(kLinear, 1); }).join();
    ASSERT_TRUE(model->executable().run(context, inputs, outputs).ok());
    std::thread([&] { load_with_threads(kLinear, 3); }).join();
    const auto before = list_threads();  // now: libtorch has threads of its own for other work
    ASSERT_TRUE(model->executable().run(context, inputs, outputs).ok());
    begun = count_beyond(before);
  }).join();
  EXPECT_EQ(begun, 2U);
}

INSTANTIATE_TEST_SUITE_P(Models, ThreadCount, ::testing::Values(kLinear, kConvolution),
                         [](const auto& given) { return given.param == kLinear ? "Linear" : "Convolution"; });

}  // namespace
}  // namespace kpt
