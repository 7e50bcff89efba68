// A steady run of a static-shape transformer allocates nothing of its own; what libtorch allocates inside an operator
// is counted per operator.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "own_node_graph.h"

namespace {

thread_local bool counting = false;
thread_local bool inside_node = false;
thread_local std::size_t own_count = 0;
thread_local std::size_t node_count = 0;

void count_allocation() {
  if (counting) ++(inside_node ? node_count : own_count);
}

void* allocate(std::size_t size) {
  count_allocation();
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Seen by every library of the process, libtorch included.
void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace kpt {
namespace {

class AllocationObserver final : public NodeObserver {
 public:
  explicit AllocationObserver(std::size_t nodes) : counts(nodes) {}
  void begin_node(std::size_t) override {
    inside_node = true;
    node_count = 0;
  }
  void end_node(std::size_t node) override {
    inside_node = false;
    counts[node] = node_count;
  }
  std::vector<std::size_t> counts;
};

TEST(Allocations, SteadyRunAllocatesNothingOfItsOwn) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = execution_test::load_here(execution_test::make_bert(seed));
  const std::vector<Tensor> inputs = execution_test::make_inputs(model->graph(), seed);
  std::vector<Tensor> outputs;
  AllocationObserver observer(model->graph().nodes.size());
  RunContext context;
  context.observer = &observer;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(model->executable().run(context, inputs, outputs).ok());
  }
  own_count = 0;
  counting = true;
  const Status check = model->input_check().check(inputs);
  const Status status = model->executable().run(context, inputs, outputs);
  counting = false;
  ASSERT_TRUE(check.ok());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(own_count, 0U) << "allocations by the executor itself";
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
  std::vector<Tensor> outputs;
  AllocationObserver observer(model->graph().nodes.size());
  RunContext context;
  context.observer = &observer;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(model->executable().run(context, inputs, outputs).ok());
  }
  own_count = 0;
  counting = true;
  const Status status = model->executable().run(context, inputs, outputs);
  counting = false;
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(own_count, 0U) << "allocations by the executor itself";
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
