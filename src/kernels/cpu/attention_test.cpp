#include "kernels/cpu/attention.h"

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/cpu/simd_kernels.h"
#include "support/rounds.h"

namespace kpt::kernels {
namespace {

struct Shape {
  std::int64_t batch, heads, groups, queries, keys, width;
};

struct Options {
  MaskKind mask = MaskKind::kNone;
  bool broadcast_mask = false;  // over heads and queries
  bool causal = false;
  bool strided = false;  // elements of a row two apart, heads inside positions
};

// Threads of the test's own, as many as asked.
void run_on_threads(void* pool, std::int64_t tasks, Parallel::Task task, void* context) {
  const int threads = *static_cast<int*>(pool);
  std::vector<std::thread> running;
  for (int worker = 0; worker < threads; ++worker) {
    running.emplace_back([=] {
      for (std::int64_t index = worker; index < tasks; index += threads) task(context, index, worker);
    });
  }
  for (std::thread& thread : running) thread.join();
}

struct Operand {
  std::vector<float> memory;
  AttentionOperand view;
  float at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t e) const {
    return memory[static_cast<std::size_t>(b * view.strides[0] + h * view.strides[1] + s * view.strides[2] +
                                           e * view.strides[3])];
  }
};

class AttentionCase {
 public:
  AttentionCase(const Shape& shape, const Options& options, std::uint64_t seed)
      : shape_(shape), options_(options), random_(seed) {
    query_ = draw(shape.heads, shape.queries);
    key_ = draw(shape.groups, shape.keys);
    value_ = draw(shape.groups, shape.keys);
    draw_mask();
    result.assign(static_cast<std::size_t>(shape.batch * shape.queries * shape.heads * shape.width), NAN);
  }

  Attention call() {
    Attention call;
    call.batch = shape_.batch;
    call.heads = shape_.heads;
    call.groups = shape_.groups;
    call.queries = shape_.queries;
    call.keys = shape_.keys;
    call.width = shape_.width;
    call.query = query_.view;
    call.key = key_.view;
    call.value = value_.view;
    call.scale = 0.3F;
    call.causal = options_.causal;
    call.mask_kind = options_.mask;
    call.mask = added_.view;
    if (options_.mask == MaskKind::kBool) call.mask.data = shown_.data();
    call.result = result.data();
    return call;
  }

  void run(int threads) {
    const Attention attention = call();
    const AttentionPlan plan = plan_attention(attention, threads);
    const std::size_t bytes = (attention_workspace(plan, threads) + 64) / 64 * 64;
    const std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(64, bytes), &std::free);
    Parallel parallel;
    parallel.threads = threads;
    if (threads > 1) {
      parallel.run = &run_on_threads;
      parallel.pool = &threads;
    }
    run_attention(attention, plan, parallel, workspace.get());
  }

  // What it means, in double; the greatest distance of the result from it.
  double error() const {
    double worst = 0;
    const std::int64_t share = shape_.heads / shape_.groups;
    std::size_t place = 0;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t s = 0; s < shape_.queries; ++s) {
        for (std::int64_t h = 0; h < shape_.heads; ++h) {
          const std::vector<double> weights = softmax(b, h, s);
          for (std::int64_t e = 0; e < shape_.width; ++e) {
            double sum = 0;
            for (std::int64_t t = 0; t < shape_.keys; ++t) {
              sum += weights[static_cast<std::size_t>(t)] * static_cast<double>(value_.at(b, h / share, t, e));
            }
            const double distance = std::abs(sum - static_cast<double>(result[place++]));
            worst = std::isnan(distance) ? HUGE_VAL : std::max(worst, distance);
          }
        }
      }
    }
    return worst;
  }

  std::vector<float> result;

 private:
  std::vector<double> softmax(std::int64_t b, std::int64_t h, std::int64_t s) const {
    std::vector<double> weights;
    double greatest = -HUGE_VAL;
    for (std::int64_t t = 0; t < shape_.keys; ++t) {
      double score = 0;
      for (std::int64_t e = 0; e < shape_.width; ++e) {
        score += static_cast<double>(query_.at(b, h, s, e)) *
                 static_cast<double>(key_.at(b, h / (shape_.heads / shape_.groups), t, e));
      }
      score *= static_cast<double>(0.3F);
      if (options_.causal && t > s) score = -HUGE_VAL;
      if (options_.mask != MaskKind::kNone) score += static_cast<double>(added_.at(b, h, s, t));
      greatest = std::max(greatest, score);
      weights.push_back(score);
    }
    double total = 0;
    for (double& weight : weights) {
      weight = weight == -HUGE_VAL ? 0 : std::exp(weight - greatest);
      total += weight;
    }
    for (double& weight : weights) weight = total == 0 ? 0 : weight / total;
    return weights;
  }

  Operand draw(std::int64_t heads, std::int64_t positions) {
    Operand operand;
    const std::int64_t step = options_.strided ? 2 : 1;
    const std::int64_t width = shape_.width * step;
    operand.memory.resize(static_cast<std::size_t>(shape_.batch * heads * positions * width));
    std::normal_distribution<float> normal;
    for (float& value : operand.memory) value = normal(random_);
    operand.view.data = operand.memory.data();
    const std::int64_t inner[4] = {heads * positions * width, positions * width, width, step};
    const std::int64_t merged[4] = {heads * positions * width, width, heads * width, step};
    for (int axis = 0; axis < 4; ++axis) operand.view.strides[axis] = options_.strided ? merged[axis] : inner[axis];
    return operand;
  }

  // A third of the keys is hidden, and every fifth row sees nothing at all.
  void draw_mask() {
    const std::int64_t heads = options_.broadcast_mask ? 1 : shape_.heads;
    const std::int64_t queries = options_.broadcast_mask ? 1 : shape_.queries;
    added_.memory.resize(static_cast<std::size_t>(shape_.batch * heads * queries * shape_.keys));
    shown_.resize(added_.memory.size());
    std::normal_distribution<float> normal;
    for (std::size_t index = 0; index < added_.memory.size(); ++index) {
      const bool hidden = random_() % 3 == 0 || index / static_cast<std::size_t>(shape_.keys) % 5 == 4;
      shown_[index] = hidden ? 0 : 1;
      added_.memory[index] = hidden ? -INFINITY : options_.mask == MaskKind::kAdded ? normal(random_) : 0;
    }
    added_.view.data = added_.memory.data();
    added_.view.strides[0] = heads * queries * shape_.keys;
    added_.view.strides[1] = options_.broadcast_mask ? 0 : queries * shape_.keys;
    added_.view.strides[2] = options_.broadcast_mask ? 0 : shape_.keys;
    added_.view.strides[3] = 1;
  }

  Shape shape_;
  Options options_;
  std::mt19937_64 random_;
  Operand query_;
  Operand key_;
  Operand value_;
  Operand added_;
  std::vector<unsigned char> shown_;
};

TEST(Attention, IsWhatItMeansForRandomShapes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  for (int round = 0; round < kpt::testing::rounds(100); ++round) {
    Shape shape{};
    shape.batch = draw(1, 2);
    shape.groups = draw(1, 3);
    shape.heads = shape.groups * draw(1, 4);
    shape.queries = round % 3 == 0 ? draw(1, 3) : draw(1, 150);
    shape.keys = draw(1, 600);
    shape.width = draw(1, 70);
    Options options;
    options.mask = static_cast<MaskKind>(random() % 3);
    options.broadcast_mask = random() % 2 == 0;
    options.causal = random() % 3 == 0;
    options.strided = random() % 2 == 0;
    SCOPED_TRACE(::testing::Message() << "round " << round << ": batch " << shape.batch << ", heads " << shape.heads
                                      << " of " << shape.groups << ", queries " << shape.queries << ", keys "
                                      << shape.keys << ", width " << shape.width << ", mask "
                                      << static_cast<int>(options.mask) << options.broadcast_mask << ", causal "
                                      << options.causal << ", strided " << options.strided);
    AttentionCase attention(shape, options, random());
    attention.run(1);
    ASSERT_LT(attention.error(), 1e-5);
    const std::vector<float> alone = attention.result;
    attention.run(static_cast<int>(draw(2, 5)));
    ASSERT_EQ(attention.result, alone) << "threads change nothing";
  }
}

TEST(Attention, RowsThatLookNowhereAreZero) {
  for (const std::int64_t queries : {1, 40}) {
    AttentionCase attention({1, 2, 2, queries, 0, 24}, {}, 1);
    attention.run(1);
    EXPECT_EQ(attention.error(), 0) << "no keys at all";
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionCase attention({1, 1, 1, 20, 30, 16}, {}, 3);
  Attention call = attention.call();
  call.scale = 3e4F;
  const AttentionPlan plan = plan_attention(call, 1);
  const std::size_t bytes = (attention_workspace(plan, 1) + 64) / 64 * 64;
  const std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(64, bytes), &std::free);
  run_attention(call, plan, {}, workspace.get());
  for (const float value : attention.result) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, ExponentialIsWithinTwoUnits) {
  double worst = 0;
  constexpr std::uint32_t kStep = 97;
  for (std::uint32_t start = 0; start < 0x42ae999aU; start += 16 * kStep) {  // to -87.3
    float values[16];
    float results[16];
    for (std::uint32_t lane = 0; lane < 16; ++lane) values[lane] = -std::bit_cast<float>(start + lane * kStep);
    simd_kernels().exp_of_nonpositive(values, 16, results);
    for (int lane = 0; lane < 16; ++lane) {
      if (values[lane] < -87.3F) continue;
      const double exact = std::exp(static_cast<double>(values[lane]));
      const auto nearest = static_cast<float>(exact);
      const double unit = static_cast<double>(std::nextafter(nearest, 2.0F)) - static_cast<double>(nearest);
      worst = std::max(worst, std::abs(static_cast<double>(results[lane]) - exact) / unit);
    }
  }
  EXPECT_LT(worst, 2);
  float limits[16] = {-INFINITY, -88, -1e30F, NAN};
  simd_kernels().exp_of_nonpositive(limits, 16, limits);
  EXPECT_EQ(limits[0], 0);
  EXPECT_EQ(limits[1], 0);
  EXPECT_EQ(limits[2], 0);
  EXPECT_TRUE(std::isnan(limits[3]));
}

}  // namespace
}  // namespace kpt::kernels
