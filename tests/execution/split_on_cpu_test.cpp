// Parts of a model on the test backend and the rest on the real CPU engine, against the CPU engine alone.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "bert_graph.h"
#include "ir/text.h"
#include "runtime/split_backend.h"
#include "runtime/split_plan.h"
#include "test_backend.h"

namespace kpt::execution_test {
namespace {

using ::testing::StartsWith;

Result<DevicePlace> find_cpu() {
  KPT_ASSIGN_OR_RETURN(PlacedDevice cpu, find_runnable_device("cpu", BackendContext()));
  return DevicePlace{std::move(cpu.backend), cpu.device};
}

Result<std::shared_ptr<const detail::LoadedModel>> load_split(ImportedModel model) {
  std::shared_ptr<Backend> own = make_test_backend();
  Device* const device = own->devices().value()[0];
  auto backend = make_split_backend({std::move(own), device}, find_cpu, true);
  return detail::LoadedModel::load(std::move(model), *backend, *backend->devices().value()[0], backend);
}

std::vector<Tensor> run_model(const detail::LoadedModel& model, const std::vector<Tensor>& inputs) {
  RunContext context;
  std::vector<Tensor> outputs;
  const Status status = model.run(context, inputs, outputs, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

// Sums and products on the device; views, sizes, an unbacked size and all else on the CPU.
constexpr const char* kModel = R"(kpt_graph 1
symbol s0 in 0..64
symbol u0 in 0..192
input x: float32[s0, 3]
a: float32[s0, 3] = aten.mul.Tensor(self=%x, other=%x)
t: float32[3, s0]{strides=[1, 3]} = aten.permute.default(self=%a, dims=[1, 0])
n: int(s0) = aten.sym_size.int(self=%a, dim=0)
e: float32[3, s0]{strides=[1, 3]} = aten.tanh.default(self=%t)
f: float32[3, s0]{strides=[1, 3]} = aten.add.Tensor(self=%e, other=%t)
back: float32[s0, 3] = aten.permute.default(self=%f, dims=[1, 0])
flat: float32[3 * s0] = aten.view.default(self=%back, size=[-1])
shaped: float32[s0, 3] = aten.view.default(self=%flat, size=[%n, 3])
g: float32[s0, 3] = aten.add.Tensor(self=%shaped, other=%a)
positive: int64[u0, 2] = aten.nonzero.default(self=%g)
output %g "sum"
output %a "square"
output %x "same"
output %positive "positive"
output %n "rows"
)";

TEST(SplitOnCpu, GivesTheBitsOfTheCpuAlone) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  ImportedModel model;
  model.graph = ir::read_graph(kModel).value();
  const auto split = load_split(model);
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_THAT(describe_parts(*(*split)->program().placement()), StartsWith("6 parts: 3 nodes on test:0, "));
  const auto cpu = find_cpu().value();
  const auto whole = detail::LoadedModel::load(model, *cpu.backend, *cpu.device, cpu.backend).value();
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (const std::int64_t rows : {4, 1, 0, 64}) {
    Tensor x = Tensor::empty(DType::kFloat32, Dims{rows, 3}).value();
    for (float& value : x.elements<float>()) value = normal(random);
    const auto given = run_model(**split, {x});
    const auto wanted = run_model(*whole, {x});
    ASSERT_EQ(given.size(), wanted.size());
    for (std::size_t index = 0; index < given.size(); ++index) {
      EXPECT_EQ(given[index].dims(), wanted[index].dims()) << index;
      EXPECT_TRUE(same_bytes(given[index], wanted[index])) << "output " << index << ", " << rows << " rows";
    }
  }
}

TEST(SplitOnCpu, BertGivesTheBitsOfTheCpuAlone) {
  const std::vector<Tensor> inputs = make_inputs(make_bert(3).graph, 5);
  const auto split = load_split(make_bert(3));
  ASSERT_TRUE(split.ok()) << split.status().message();
  ASSERT_NE((*split)->program().placement(), nullptr);
  const auto given = run_model(**split, inputs);
  const auto wanted = run_model(*load_here(make_bert(3)), inputs);
  ASSERT_EQ(given.size(), wanted.size());
  for (std::size_t index = 0; index < given.size(); ++index) EXPECT_TRUE(same_bytes(given[index], wanted[index]));
}

}  // namespace
}  // namespace kpt::execution_test
