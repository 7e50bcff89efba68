// while_loop: how often it turns, what it carries, whose memory its results are, and how it is stopped.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bert_graph.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "kpt/model.h"

namespace kpt {
namespace {

using execution_test::load_here;

std::shared_ptr<const detail::LoadedModel> load_text(const char* text, Weights weights = {}) {
  ImportedModel model;
  model.graph = ir::read_graph(text).value();
  const Status status = ir::verify(model.graph);
  EXPECT_TRUE(status.ok()) << status.message();
  model.weights = std::move(weights);
  return load_here(std::move(model));
}

Tensor make_vector(std::mt19937_64& random) {
  const Tensor tensor = Tensor::empty(DType::kFloat32, Dims{3}).value();
  std::normal_distribution<float> normal;
  for (float& value : tensor.elements<float>()) value = normal(random);
  return tensor;
}

Tensor make_count(std::int64_t value) {
  const Tensor tensor = Tensor::empty(DType::kInt64, Dims{}).value();
  tensor.elements<std::int64_t>()[0] = value;
  return tensor;
}

std::vector<float> loop_values(const Tensor& tensor) {
  const Tensor copy = tensor.contiguous_copy().value();
  return {copy.elements<float>().begin(), copy.elements<float>().end()};
}

constexpr const char* kDoubling = R"(kpt_graph 1
input x: float32[3]
input count: int64[]
zero: int64[] = aten.zeros_like.default(self=%count)
step: int64[], y: float32[3] = higher_order.while_loop(graph "cond" {
  input i: int64[]
  input v: float32[3]
  input n: int64[]
  lt: bool[] = aten.lt.Tensor(self=%i, other=%n)
  output %lt
}, graph "body" {
  input i: int64[]
  input v: float32[3]
  input n: int64[]
  next: int64[] = aten.add.Tensor(self=%i, other=1)
  w: float32[3] = aten.mul.Tensor(self=%v, other=2.0)
  output %next
  output %w
}, [%zero, %x], [%count])
output %step "step"
output %y "y"
)";

TEST(Loop, TurnsAsOftenAsItsConditionSays) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Session session = detail::start_session(load_text(kDoubling)).value();
  std::vector<Tensor> outputs;
  for (const std::int64_t count : {3, 0, 1, 7, -2, 20}) {
    const Tensor inputs[] = {make_vector(random), make_count(count)};
    const Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::int64_t turns = std::max<std::int64_t>(count, 0);
    EXPECT_EQ(outputs[0].elements<std::int64_t>()[0], turns);
    for (std::size_t index = 0; index < 3; ++index) {
      EXPECT_EQ(outputs[1].elements<float>()[index],
                std::ldexp(inputs[0].elements<float>()[index], static_cast<int>(turns)));
    }
  }
}

TEST(Loop, OneInsideAnotherTurnsAnewEachTime) {
  const auto model = load_text(R"(kpt_graph 1
input x: float32[3]
input count: int64[]
zero: int64[] = aten.zeros_like.default(self=%count)
outer: int64[], total: int64[], y: float32[3] = higher_order.while_loop(graph "cond" {
  input i: int64[]
  input sum: int64[]
  input v: float32[3]
  input n: int64[]
  lt: bool[] = aten.lt.Tensor(self=%i, other=%n)
  output %lt
}, graph "body" {
  input i: int64[]
  input sum: int64[]
  input v: float32[3]
  input n: int64[]
  zero: int64[] = aten.zeros_like.default(self=%i)
  inner: int64[], w: float32[3] = higher_order.while_loop(graph "cond" {
    input j: int64[]
    input u: float32[3]
    input limit: int64[]
    lt: bool[] = aten.lt.Tensor(self=%j, other=%limit)
    output %lt
  }, graph "body" {
    input j: int64[]
    input u: float32[3]
    input limit: int64[]
    next: int64[] = aten.add.Tensor(self=%j, other=1)
    up: float32[3] = aten.add.Tensor(self=%u, other=1.0)
    output %next
    output %up
  }, [%zero, %v], [%i])
  next: int64[] = aten.add.Tensor(self=%i, other=1)
  more: int64[] = aten.add.Tensor(self=%sum, other=%inner)
  output %next
  output %more
  output %w
}, [%zero, %zero, %x], [%count])
output %outer "outer"
output %total "total"
output %y "y"
)");
  Session session = detail::start_session(model).value();
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (std::size_t index = 0; index < 3; ++index) x.elements<float>()[index] = static_cast<float>(index) - 1;
  std::vector<Tensor> outputs;
  for (const std::int64_t count : {4, 0, 1, 6}) {
    const Tensor inputs[] = {x, make_count(count)};
    const Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::int64_t turns = count * (count - 1) / 2;  // of the inner loop: 0 + 1 + … + (count - 1)
    EXPECT_EQ(outputs[0].elements<std::int64_t>()[0], count);
    EXPECT_EQ(outputs[1].elements<std::int64_t>()[0], turns);
    for (std::size_t index = 0; index < 3; ++index) {
      EXPECT_EQ(outputs[2].elements<float>()[index], x.elements<float>()[index] + static_cast<float>(turns));
    }
  }
}

// The exporter writes numbers and tensors that a sub-graph takes as one list of tensors.
TEST(Loop, CarriesNumbersBesideTensors) {
  const auto model = load_text(R"(kpt_graph 1
symbol s0 in 1..64
symbol u0 in ..
input x: float32[s0]
rows: int(s0) = aten.sym_size.int(self=%x, dim=0)
left: int(u0), y: float32[s0] = higher_order.while_loop(graph "cond" {
  input i: int(u0)
  input v: float32[s0]
  gt: bool(0) = _operator.gt(%i, 0)
  output %gt
}, graph "body" {
  input i: int(u0)
  input v: float32[s0]
  next: int(u0) = _operator.sub(%i, 2)
  w: float32[s0] = aten.add.Scalar(self=%v, other=%i)
  output %next
  output %w
}, [%rows, %x], [])
output %left "left"
output %y "y"
)");
  Session session = detail::start_session(model).value();
  for (const std::int64_t rows : {1, 5, 8}) {
    const Tensor x = Tensor::empty(DType::kFloat32, Dims{rows}).value();
    for (float& value : x.elements<float>()) value = 0.5F;
    std::vector<Tensor> outputs;
    const Status status = session.run(std::span(&x, 1), outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    float sum = 0.5F;
    std::int64_t left = rows;
    for (; left > 0; left -= 2) sum += static_cast<float>(left);
    EXPECT_EQ(outputs[0].elements<std::int64_t>()[0], left);
    for (const float value : outputs[1].elements<float>()) EXPECT_EQ(value, sum);
  }
}

// PyTorch gives copies then; a write into one must reach neither the caller's memory nor a weight.
TEST(Loop, ResultsOfOneThatNeverTurnedAreItsOwn) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Tensor weight = make_vector(random);
  const std::vector<float> stored = loop_values(weight);
  const auto model = load_text(R"(kpt_graph 1
input x: float32[3]
input count: int64[]
parameter weight: float32[3] "weight"
y: float32[3], z: float32[3] = higher_order.while_loop(graph "cond" {
  input v: float32[3]
  input w: float32[3]
  input n: int64[]
  gt: bool[] = aten.gt.Scalar(self=%n, other=0)
  output %gt
}, graph "body" {
  input v: float32[3]
  input w: float32[3]
  input n: int64[]
  a: float32[3] = aten.mul.Tensor(self=%v, other=2.0)
  b: float32[3] = aten.mul.Tensor(self=%w, other=2.0)
  output %a
  output %b
}, [%x, %weight], [%count])
up: float32[3] = aten.add_.Tensor(self=%y, other=1.0)
down: float32[3] = aten.sub_.Tensor(self=%z, other=1.0)
output %up "up"
output %down "down"
)",
                               {{"weight", weight}});
  Session session = detail::start_session(model).value();
  for (int round = 0; round < 2; ++round) {
    const Tensor x = make_vector(random);
    const std::vector<float> given = loop_values(x);
    const Tensor inputs[] = {x, make_count(0)};
    std::vector<Tensor> outputs;
    const Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(loop_values(x), given) << "round " << round;
    for (std::size_t index = 0; index < 3; ++index) {
      EXPECT_EQ(outputs[0].elements<float>()[index], given[index] + 1) << "round " << round;
      EXPECT_EQ(outputs[1].elements<float>()[index], stored[index] - 1) << "round " << round;
    }
  }
  EXPECT_EQ(loop_values(weight), stored);
}

TEST(Loop, OneThatWouldNotEndIsStopped) {
  const auto model = load_text(kDoubling);
  Session session = detail::start_session(model).value();
  std::mt19937_64 random(1);
  const Tensor inputs[] = {make_vector(random), make_count(std::int64_t{1} << 62)};
  std::vector<Tensor> outputs;
  RunOptions late;
  late.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  EXPECT_EQ(session.run(inputs, outputs, late).code(), StatusCode::kDeadlineExceeded);
  std::atomic<bool> cancelled = false;
  RunOptions stopped;
  stopped.cancelled = &cancelled;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled = true;
  });
  EXPECT_EQ(session.run(inputs, outputs, stopped).code(), StatusCode::kCancelled);
  canceller.join();
  const Tensor few[] = {inputs[0], make_count(2)};
  ASSERT_TRUE(session.run(few, outputs).ok()) << "the session is fine afterwards";
  EXPECT_EQ(outputs[0].elements<std::int64_t>()[0], 2);
}

}  // namespace
}  // namespace kpt
