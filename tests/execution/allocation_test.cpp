// A steady run of a static-shape transformer allocates nothing of its own, on no thread and by no way; what libtorch
// allocates inside an operator is counted per operator.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <string>
#include <thread>

#include <malloc.h>

#include <gtest/gtest.h>

#include "kpt/model.h"
#include "own_node_graph.h"

namespace {

// Of all threads: workers inside an operator allocate too.
std::atomic<bool> counting = false;
std::atomic<bool> inside_node = false;
std::atomic<std::size_t> own_count = 0;
std::atomic<std::size_t> node_count = 0;

void count_allocation() noexcept {
  if (counting.load(std::memory_order_relaxed))
    ++(inside_node.load(std::memory_order_relaxed) ? node_count : own_count);
}

}  // namespace

// Every library of the process, libtorch included, calls these in place of glibc's; all forms of operator new end here.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void* __libc_realloc(void* memory, std::size_t bytes) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;

__attribute__((visibility("default"))) void* malloc(std::size_t bytes) noexcept {
  count_allocation();
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(std::size_t count, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* memory, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_realloc(memory, bytes);
}
__attribute__((visibility("default"))) void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int posix_memalign(void** memory, std::size_t alignment,
                                                          std::size_t bytes) noexcept {
  count_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace kpt {
namespace {

// Allocations outside and inside operators while `work` runs.
struct Counts {
  std::size_t own = 0;
  std::size_t in_nodes = 0;
};

Counts count_during(const std::function<void()>& work) {
  own_count = 0;
  node_count = 0;
  counting = true;
  work();
  counting = false;
  return {own_count, node_count};
}

class AllocationObserver final : public NodeObserver {
 public:
  explicit AllocationObserver(std::size_t nodes) : counts(nodes) {}
  void begin_node(std::size_t) override {
    before_ = node_count;
    inside_node = true;
  }
  void end_node(std::size_t node) override {
    inside_node = false;
    counts[node] = node_count - before_;
  }
  std::vector<std::size_t> counts;  // of the last run

 private:
  std::size_t before_ = 0;
};

constexpr int kRounds = 5;

// Runs until nothing new is set up, then counts: of the executable with the observer, and of a session, which callers
// have and which lets nobody look. A session may allocate what its operators do, and nothing beside it.
void expect_no_own_allocations(const std::shared_ptr<const detail::LoadedModel>& model,
                               const std::vector<Tensor>& inputs, AllocationObserver& observer) {
  RunContext context;
  context.observer = &observer;
  std::vector<Tensor> outputs;
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(model->executable().run(context, inputs, outputs).ok());
  std::size_t most_in_nodes = 0;
  for (int round = 0; round < kRounds; ++round) {
    Status status;
    const Counts counts = count_during([&] { status = model->executable().run(context, inputs, outputs); });
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(counts.own, 0U) << "allocations by the executor itself";
    most_in_nodes = std::max(most_in_nodes, counts.in_nodes);
  }
  auto session = detail::start_session(model);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<Tensor> reused;
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(session->run(inputs, reused).ok());
  std::size_t least = SIZE_MAX;  // libtorch may set up something in one run that it needs in no other
  for (int round = 0; round < kRounds; ++round) {
    Status status;
    const Counts counts = count_during([&] { status = session->run(inputs, reused); });
    ASSERT_TRUE(status.ok()) << status.message();
    least = std::min(least, counts.own);
  }
  EXPECT_LE(least, most_in_nodes) << "a session allocates beside its operators";
}

// The compiler may not leave out an allocation whose result is looked at.
void* seen(void* memory) {
  asm volatile("" : : "r"(memory) : "memory");
  return memory;
}

TEST(Allocations, NoWayOfAllocatingIsMissed) {
  struct Aligned {
    alignas(128) char bytes[128];
  };
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"malloc", [] { std::free(seen(std::malloc(10))); }},
      {"calloc", [] { std::free(seen(std::calloc(2, 10))); }},
      {"realloc", [] { std::free(seen(std::realloc(nullptr, 10))); }},
      {"aligned_alloc", [] { std::free(seen(std::aligned_alloc(64, 128))); }},
      {"memalign", [] { std::free(seen(::memalign(64, 128))); }},
      {"posix_memalign",
       [] {
         void* memory = nullptr;
         if (::posix_memalign(&memory, 64, 128) == 0) std::free(seen(memory));
       }},
      {"new", [] { ::operator delete(seen(::operator new(10))); }},
      {"new[]", [] { ::operator delete[](seen(::operator new[](10))); }},
      {"new without exceptions", [] { ::operator delete(seen(::operator new(10, std::nothrow))); }},
      {"aligned new",
       [] {
         auto* object = new Aligned;
         seen(object);
         delete object;
       }},
  };
  for (const auto& [name, way] : ways) {
    EXPECT_EQ(count_during(way).own, 1U) << name;
    const std::function<void()>& call = way;
    std::atomic<int> stage = 0;
    std::thread other([&] {
      while (stage != 1) std::this_thread::yield();
      call();
      stage = 2;
    });
    const Counts counts = count_during([&] {
      stage = 1;
      while (stage != 2) std::this_thread::yield();
    });
    other.join();
    EXPECT_EQ(counts.own, 1U) << name << " on another thread";
  }
}

TEST(Allocations, SteadyRunAllocatesNothingOfItsOwn) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = execution_test::load_here(execution_test::make_bert(seed));
  const std::vector<Tensor> inputs = execution_test::make_inputs(model->graph(), seed);
  AllocationObserver observer(model->graph().nodes.size());
  ASSERT_NO_FATAL_FAILURE(expect_no_own_allocations(model, inputs, observer));
  std::map<std::string, std::pair<std::size_t, std::size_t>> by_target;  // nodes, allocations
  for (std::size_t node = 0; node < observer.counts.size(); ++node) {
    auto& [nodes, allocations] = by_target[model->graph().nodes[node].target];
    ++nodes;
    allocations += observer.counts[node];
  }
  for (const auto& [target, counts] : by_target) {
    std::printf("%-45s %3zu nodes, %.1f allocations each\n", target.c_str(), counts.first,
                static_cast<double>(counts.second) / static_cast<double>(counts.first));
  }
}

// Nodes of ours allocate nothing at all, except through libtorch for what callers receive.
TEST(Allocations, SteadyOwnNodesAllocateNothing) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  execution_test::GraphBuilder builder(seed);
  execution_test::add_block(builder);
  const std::vector<Tensor> inputs = builder.draw_inputs();
  const auto model = execution_test::load_here(std::move(builder.model));
  AllocationObserver observer(model->graph().nodes.size());
  ASSERT_NO_FATAL_FAILURE(expect_no_own_allocations(model, inputs, observer));
  const std::vector<NodePlan> plan = model->executable().plan();
  for (std::size_t node = 0; node < plan.size(); ++node) {
    const std::string& target = plan[node].target;
    const bool for_callers = target == "kpt.glu.default" || node + 2 == plan.size();
    if (!target.starts_with("kpt.") || for_callers) continue;
    EXPECT_EQ(observer.counts[node], 0U) << target << ": " << plan[node].how;
  }
}

}  // namespace
}  // namespace kpt
