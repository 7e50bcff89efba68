// Options of NVIDIA GPUs that change how runs compute or what they tell.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "nvidia_runs.h"
#include "passes/weight_values.h"

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

// A product by libtorch's operator and one of ours, side by side, large enough for matrix units.
constexpr std::int64_t kSide = 256;

ImportedModel make_products(std::uint64_t seed) {
  GraphBuilder builder(seed);
  const auto input = builder.input("input", DType::kFloat32, {kSide, kSide});
  const auto weight = builder.weight("weight", DType::kFloat32, {kSide, kSide});
  builder.output(
      builder.node("aten.mm.default", {{"self", input}, {"mat2", weight}}, {{DType::kFloat32, {kSide, kSide}}})[0]);
  builder.output(builder.node(
      "kpt.linear.default",
      {{"input", input}, {"weight", weight}, {"bias", {}}, {"residual", {}}, {"activation", {std::string("none")}}},
      {{DType::kFloat32, {kSide, kSide}}})[0]);
  return std::move(builder.model);
}

// The greatest error of both products, relative to the sum of magnitudes.
double greatest_error(const ImportedModel& model, const Tensor& input, const std::vector<Tensor>& outputs) {
  const auto x = input.elements<float>();
  const auto w = model.weights.at("weight").elements<float>();
  double greatest = 0;
  for (std::int64_t row = 0; row < kSide; ++row) {
    for (std::int64_t column = 0; column < kSide; ++column) {
      const auto place = static_cast<std::size_t>(row * kSide + column);
      for (const bool transposed : {false, true}) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < kSide; ++k) {
          const double product =
              double{x[static_cast<std::size_t>(row * kSide + k)]} *
              double{w[static_cast<std::size_t>(transposed ? column * kSide + k : k * kSide + column)]};
          sum += product;
          magnitude += std::abs(product);
        }
        const double found = outputs[transposed ? 1 : 0].elements<float>()[place];
        greatest = std::max(greatest, std::abs(found - sum) / magnitude);
      }
    }
  }
  return greatest;
}

// Rounding to 10 bits of mantissa shows: 2^-11 of each operand, of which most cancels in a sum.
constexpr double kTf32Least = 2e-6;
constexpr double kTf32Most = 1e-3;
constexpr double kFloat32Most = 1e-6;

TEST(Nvidia, Tf32IsForTheModelThatMayAndForNoOther) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel products = make_products(seed);
  const auto plain = load_here(products);
  std::shared_ptr<const detail::LoadedModel> rounded;
  {
    const Setting tf32("KPT_NVIDIA_TF32", "true");
    rounded = load_here(products);
  }
  EXPECT_THAT(rounded->executable().describe_runs(), testing::HasSubstr("TF32"));
  EXPECT_THAT(plain->executable().describe_runs(), testing::Not(testing::HasSubstr("TF32")));
  GraphBuilder drawing(seed + 1);
  const Tensor input = drawing.draw(DType::kFloat32, {kSide, kSide});
  for (int round = 0; round < 3; ++round) {  // node by node, captured, replayed
    const double with = greatest_error(products, input, run_once(rounded->executable(), {input}));
    EXPECT_GT(with, kTf32Least) << round;
    EXPECT_LT(with, kTf32Most) << round;
    EXPECT_LT(greatest_error(products, input, run_once(plain->executable(), {input})), kFloat32Most) << round;
    RunContext as_written;
    as_written.as_written = true;
    std::vector<Tensor> outputs;
    ASSERT_TRUE(rounded->executable().run(as_written, std::vector<Tensor>{input}, outputs).ok());
    EXPECT_LT(greatest_error(products, input, outputs), kFloat32Most) << round;
  }
}

// libtorch's setting is the process's: runs with and without TF32 must not meet.
TEST(Nvidia, Tf32AndFullPrecisionSideBySideKeepApart) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel products = make_products(seed);
  GraphBuilder drawing(seed + 1);
  const Tensor input = drawing.draw(DType::kFloat32, {kSide, kSide});
  std::vector<std::shared_ptr<const detail::LoadedModel>> models;
  for (int thread = 0; thread < 4; ++thread) {
    const Setting tf32("KPT_NVIDIA_TF32", thread % 2 == 1 ? "true" : "false");
    models.push_back(load_here(products));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < models.size(); ++thread) {
    threads.emplace_back([&, thread] {
      Executable& executable = models[thread]->executable();
      const std::vector<Tensor> first = run_once(executable, {input});
      if ((greatest_error(products, input, first) > kTf32Least) != (thread % 2 == 1)) ++wrong;
      for (int round = 0; round < 20; ++round) {
        const std::vector<Tensor> again = run_once(executable, {input});
        if (!same_bytes(first[0], again[0]) || !same_bytes(first[1], again[1])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Products with every end that has an algorithm of its own, and with others.
TEST(Nvidia, MeasuredAlgorithmsGiveTheSameNumbers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const auto& [rows, outer, inner] : {std::array<std::int64_t, 3>{1, 64, 32}, {7, 41, 73}, {130, 256, 512}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const std::string activation : {"none", "relu", "gelu", "gelu_tanh", "silu"}) {
        for (const bool adds : {false, true}) {
          GraphBuilder builder(seed);
          const auto x = builder.input("x", dtype, {rows, inner});
          const auto added = builder.input("added", dtype, {rows, outer});
          builder.output(builder.node("kpt.linear.default",
                                      {{"input", x},
                                       {"weight", builder.weight("w", dtype, {outer, inner})},
                                       {"bias", adds ? builder.weight("b", dtype, {outer}) : ir::Argument{}},
                                       {"residual", adds ? ir::Argument(added) : ir::Argument{}},
                                       {"activation", {activation}}},
                                      {{dtype, {rows, outer}}})[0]);
          const std::vector<Tensor> inputs = builder.draw_inputs();
          const auto plain = load_here(builder.model);
          std::shared_ptr<const detail::LoadedModel> tuned;
          {
            const Setting tune("KPT_NVIDIA_TUNE", "products");
            tuned = load_here(builder.model);
          }
          EXPECT_THAT(tuned->executable().describe_runs(), testing::HasSubstr("nvidia.tune"));
          EXPECT_THAT(tuned->executable().plan().at(0).how, testing::HasSubstr("cuBLASLt"));
          const auto wanted = read_as_double(run_once(plain->executable(), inputs)[0]).value();
          const std::vector<Tensor> first = run_once(tuned->executable(), inputs);
          const auto found = read_as_double(first[0]).value();
          const double rounding = dtype == DType::kFloat32 ? 1e-4 : 0.05;
          for (std::size_t index = 0; index < wanted.size(); ++index) {
            ASSERT_NEAR(found[index], wanted[index], rounding * (1 + std::abs(wanted[index])))
                << activation << ' ' << to_string(dtype) << ' ' << rows << " rows: " << index;
          }
          for (int round = 0; round < 2; ++round) {  // captured, replayed
            EXPECT_TRUE(same_bytes(first[0], run_once(tuned->executable(), inputs)[0])) << round;
          }
        }
      }
    }
  }
}

TEST(Nvidia, MeasuredConvolutionsGiveTheSameNumbers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ir::Argument one = {ir::List{ir::ElementKind::kInt, {{std::int64_t{1}}, {std::int64_t{1}}}}};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const std::int64_t groups : {std::int64_t{1}, std::int64_t{8}}) {
      GraphBuilder builder(seed);
      builder.output(builder.node("kpt.conv2d.default",
                                  {{"input", builder.input("image", dtype, {2, 8, 15, 13})},
                                   {"weight", builder.weight("filters", dtype, {16, 8 / groups, 3, 3})},
                                   {"bias", builder.weight("offset", dtype, {16})},
                                   {"residual", {}},
                                   {"stride", one},
                                   {"padding", one},
                                   {"dilation", one},
                                   {"groups", {groups}},
                                   {"activation", {std::string("relu")}}},
                                  {{dtype, {2, 16, 15, 13}}})[0]);
      const std::vector<Tensor> inputs = builder.draw_inputs();
      const auto plain = load_here(builder.model);
      const Setting tune("KPT_NVIDIA_TUNE", "all");
      const auto tuned = load_here(builder.model);
      std::vector<Tensor> first;
      // libtorch keeps what it chose for each thread: this one has nothing to choose from yet.
      std::thread([&] { first = run_once(tuned->executable(), inputs); }).join();
      const auto wanted = read_as_double(run_once(plain->executable(), inputs)[0]).value();
      const auto found = read_as_double(first[0]).value();
      const double rounding = dtype == DType::kFloat32 ? 1e-4 : 0.05;
      for (std::size_t index = 0; index < wanted.size(); ++index) {
        ASSERT_NEAR(found[index], wanted[index], rounding * (1 + std::abs(wanted[index])))
            << to_string(dtype) << ", " << groups << " groups: " << index;
      }
      // Captured on this thread, where another algorithm may be taken; replayed.
      for (int round = 0; round < 2; ++round) {
        const auto again = read_as_double(run_once(tuned->executable(), inputs)[0]).value();
        for (std::size_t index = 0; index < wanted.size(); ++index) {
          ASSERT_NEAR(again[index], wanted[index], rounding * (1 + std::abs(wanted[index]))) << round << ": " << index;
        }
      }
      EXPECT_THAT(tuned->executable().describe_runs(), testing::Not(testing::HasSubstr("capturing failed")));
    }
  }
}

// x · identity, with the numbers of x in FP8 on the way: what comes out is what they were rounded to.
constexpr std::int64_t kFp8Width = 16;

ImportedModel make_fp8_identity(std::int64_t rows, const char* target = "kpt.linear_fp8.default") {
  GraphBuilder builder(1);
  const auto input = builder.input("input", DType::kFloat32, {rows, kFp8Width});
  const auto weight = builder.weight("weight", DType::kFloat8E4M3FN, {kFp8Width, kFp8Width});
  const auto scale = builder.weight("scale", DType::kFloat32, {kFp8Width});
  builder.output(builder.node(target,
                              {{"input", input},
                               {"weight", weight},
                               {"scale", scale},
                               {"bias", {}},
                               {"residual", {}},
                               {"activation", {std::string("none")}}},
                              {{DType::kFloat32, {rows, kFp8Width}}})[0]);
  const auto codes = builder.model.weights.at("weight").elements<std::uint8_t>();
  constexpr std::uint8_t kOne = 0x38;
  for (std::size_t index = 0; index < codes.size(); ++index) codes[index] = index % (kFp8Width + 1) == 0 ? kOne : 0;
  for (float& element : builder.model.weights.at("scale").elements<float>()) element = 1;
  return std::move(builder.model);
}

// The first element of each row after one run with rows of one number each.
std::vector<float> round_trip(Executable& executable, const std::vector<float>& numbers) {
  Tensor input = Tensor::empty(DType::kFloat32, std::vector<std::int64_t>{std::ssize(numbers), kFp8Width}).value();
  for (std::size_t index = 0; index < input.elements<float>().size(); ++index) {
    input.elements<float>()[index] = numbers[index / static_cast<std::size_t>(kFp8Width)];
  }
  const std::vector<Tensor> outputs = run_once(executable, {input});
  std::vector<float> firsts;
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    firsts.push_back(outputs[0].elements<float>()[row * static_cast<std::size_t>(kFp8Width)]);
  }
  return firsts;
}

using Numbers = std::vector<float>;

// Two rows whose sizes are further apart than FP8 reaches.
TEST(Nvidia, Fp8ScalesAreOfRowsOrOfTheTensor) {
  const Numbers apart = {448, 0x1p-12F};
  const auto by_row = load_here(make_fp8_identity(2));
  const Setting tensor("KPT_NVIDIA_FP8_SCALING", "tensor");
  const auto by_tensor = load_here(make_fp8_identity(2));
  for (int round = 0; round < 3; ++round) {  // node by node, captured, replayed
    EXPECT_EQ(round_trip(by_row->executable(), apart), apart) << round;
    EXPECT_EQ(round_trip(by_tensor->executable(), apart), (Numbers{448, 0})) << round;
    EXPECT_EQ(round_trip(by_tensor->executable(), {0, 0}), (Numbers{0, 0})) << round;
    EXPECT_EQ(round_trip(by_tensor->executable(), {28, 7}), (Numbers{28, 7})) << round;
  }
  EXPECT_THAT(by_tensor->executable().plan().at(0).how, testing::HasSubstr("one scale"));
}

// The same two rows: E5M2 reaches that far with one scale, by tensor and delayed.
TEST(Nvidia, InputsInE5m2ReachFurtherWithOneScale) {
  constexpr const char* kWide = "kpt.linear_fp8_e5m2.default";
  const Numbers apart = {448, 0x1p-12F};
  for (const char* scaling : {"row", "tensor", "delayed"}) {
    SCOPED_TRACE(scaling);
    const Setting setting("KPT_NVIDIA_FP8_SCALING", scaling);
    const auto model = load_here(make_fp8_identity(2, kWide));
    EXPECT_THAT(model->executable().plan().at(0).how, testing::HasSubstr("float8_e5m2"));
    for (int round = 0; round < 3; ++round) {  // node by node, captured, replayed
      EXPECT_EQ(round_trip(model->executable(), apart), apart) << round;
    }
  }
  const auto by_row = load_here(make_fp8_identity(1, kWide));
  EXPECT_EQ(round_trip(by_row->executable(), {7}), Numbers{7}) << "a number that is mapped to the greatest stays";
}

TEST(Nvidia, DelayedFp8ScalesFollowEarlierRunsAlsoWhenCaptured) {
  const Setting delayed("KPT_NVIDIA_FP8_SCALING", "delayed");
  const Setting history("KPT_NVIDIA_FP8_HISTORY", "2");
  const auto model = load_here(make_fp8_identity(1));
  Executable& executable = model->executable();
  EXPECT_EQ(round_trip(executable, {448}), Numbers{448}) << "the first run has only itself";
  EXPECT_EQ(round_trip(executable, {896}), Numbers{448}) << "saturates";
  EXPECT_THAT(executable.describe_runs(), testing::HasSubstr("1 captured"));
  EXPECT_EQ(round_trip(executable, {7}), Numbers{7});
  EXPECT_EQ(round_trip(executable, {7}), Numbers{7});
  EXPECT_EQ(round_trip(executable, {896}), Numbers{7}) << "896 of the second run is forgotten";
  EXPECT_EQ(round_trip(executable, {896}), Numbers{896});
  EXPECT_THAT(model->executable().plan().at(0).how, testing::HasSubstr("the last 2 runs"));
}

}  // namespace
}  // namespace kpt::execution_test
