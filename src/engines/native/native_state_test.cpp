// Models that write buffers: in place, and by outputs of the graph.
#include "engines/native/native_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/native/host_machine.h"
#include "engines/native/native_executable.h"
#include "ir/text.h"

namespace kpt::native {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostMachine;

// A cache of four rows: row `i` becomes x, a view of it is read behind, a copy was taken before; a counter counts runs.
constexpr const char* kInPlace = R"(kpt_graph 1
buffer cache: float32[4, 2] "cache"
buffer count: int64[] "count"
input i: int64[1]
input x: float32[1, 2]
old: float32[4, 2] = aten.clone.default(self=%cache)
turned: float32[2, 4]{strides=[1, 2]} = aten.t.default(self=%cache)
dense: float32[2, 4] = aten.contiguous.default(self=%turned)
written: float32[4, 2] = aten.index_copy_.default(self=%cache, dim=0, index=%i, source=%x)
more: int64[] = aten.add_.Tensor(self=%count, other=1)
sums: float32[4] = aten.sum.dim_IntList(self=%written, dim=[1])
seen: float32[4] = aten.sum.dim_IntList(self=%turned, dim=[0])
before: float32[4] = aten.sum.dim_IntList(self=%old, dim=[1])
first: float32[4] = aten.sum.dim_IntList(self=%dense, dim=[0])
output %sums "sums"
output %seen "seen"
output %before "before"
output %first "first"
output %more "more"
)";

constexpr const char* kByOutputs = R"(kpt_graph 1
buffer cache: float32[4, 2] "cache"
buffer count: int64[] "count"
input i: int64[1]
input x: float32[1, 2]
written: float32[4, 2] = aten.index_put.default(self=%cache, indices=[%i], values=%x)
more: int64[] = aten.add.Tensor(self=%count, other=1)
sums: float32[4] = aten.sum.dim_IntList(self=%written, dim=[1])
before: float32[4] = aten.sum.dim_IntList(self=%cache, dim=[1])
buffer_mutation %written "cache"
buffer_mutation %more "count"
output %sums "sums"
output %sums "seen"
output %before "before"
output %before "first"
output %more "more"
)";

class NativeStateTest : public ::testing::TestWithParam<const char*> {
 protected:
  static Tensor floats(const Dims& dims, const std::vector<float>& values) {
    return Tensor::from_bytes(DType::kFloat32, dims, std::as_bytes(std::span(values))).value();
  }
  static Tensor whole(const Dims& dims, const std::vector<std::int64_t>& values) {
    return Tensor::from_bytes(DType::kInt64, dims, std::as_bytes(std::span(values))).value();
  }
  void SetUp() override {
    const std::shared_ptr<Machine> machine(std::shared_ptr<void>(), &machine_);
    const Weights weights = {{"cache", floats({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}, {"count", whole({}, {10})}};
    auto graph = std::make_shared<const ir::Graph>(ir::read_graph(GetParam()).value());
    auto loaded = NativeExecutable::load(std::move(graph), weights, machine);
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    executable_ = std::move(loaded).value();
    ASSERT_TRUE(executable_->is_stateful());
  }
  Status run(State* state, std::int64_t row, float value) {
    RunContext context;
    context.state = state;
    return executable_->run(context, std::vector<Tensor>{whole({1}, {row}), floats({1, 2}, {value, value})}, outputs_,
                            nullptr);
  }
  std::vector<float> output(std::size_t index) const {
    const auto elements = outputs_[index].elements<float>();
    return {elements.begin(), elements.end()};
  }

  HostMachine machine_{32};
  std::unique_ptr<Executable> executable_;
  std::vector<Tensor> outputs_;
};

TEST_P(NativeStateTest, RunsBuildOnEachOther) {
  const auto first = executable_->make_state().value();
  const auto second = executable_->make_state().value();
  EXPECT_THAT(first->names(), ElementsAre("cache", "count"));
  Status status = run(first.get(), 1, 10);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(output(0), ElementsAre(1, 20, 9, 13));
  EXPECT_THAT(output(1), ElementsAre(1, 20, 9, 13)) << "a view sees what is written";
  EXPECT_THAT(output(2), ElementsAre(1, 5, 9, 13)) << "a copy does not";
  EXPECT_THAT(output(3), ElementsAre(1, 5, 9, 13)) << "nor what was put into another order before";
  EXPECT_EQ(outputs_[4].elements<std::int64_t>()[0], 11);
  ASSERT_TRUE(run(first.get(), 3, 0).ok());
  EXPECT_THAT(output(0), ElementsAre(1, 20, 9, 0));
  EXPECT_THAT(output(2), ElementsAre(1, 20, 9, 13));
  EXPECT_EQ(outputs_[4].elements<std::int64_t>()[0], 12);
  ASSERT_TRUE(run(second.get(), 0, 0).ok());
  EXPECT_THAT(output(0), ElementsAre(0, 5, 9, 13)) << "states know nothing of each other";
  EXPECT_THAT(first->read("cache").value().elements<float>(), ElementsAre(0, 1, 10, 10, 4, 5, 0, 0));

  ASSERT_TRUE(first->write("cache", floats({4, 2}, {1, 1, 1, 1, 1, 1, 1, 1})).ok());
  ASSERT_TRUE(run(first.get(), 0, 3).ok());
  EXPECT_THAT(output(0), ElementsAre(6, 2, 2, 2));
  ASSERT_TRUE(first->reset().ok());
  ASSERT_TRUE(run(first.get(), 1, 10).ok());
  EXPECT_THAT(output(0), ElementsAre(1, 20, 9, 13));
  EXPECT_EQ(outputs_[4].elements<std::int64_t>()[0], 11);
}

TEST_P(NativeStateTest, ARunThatFailedChangesNothing) {
  const auto state = executable_->make_state().value();
  ASSERT_TRUE(run(state.get(), 1, 10).ok());
  const Status outside = run(state.get(), 4, 7);
  EXPECT_EQ(outside.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(outside.message(), HasSubstr("node 'written'"));
  machine_.fail_launch = machine_.launches + 2;
  EXPECT_EQ(run(state.get(), 2, 7).code(), StatusCode::kKernelLaunch);
  machine_.fail_launch = 0;
  EXPECT_THAT(state->read("cache").value().elements<float>(), ElementsAre(0, 1, 10, 10, 4, 5, 6, 7));
  EXPECT_THAT(state->read("count").value().elements<std::int64_t>(), ElementsAre(11));
  machine_.hangs = true;
  EXPECT_EQ(run(state.get(), 2, 7).code(), StatusCode::kDeadlineExceeded);
  machine_.hangs = false;
  ASSERT_TRUE(run(state.get(), 3, 0).ok());
  EXPECT_THAT(output(0), ElementsAre(1, 20, 9, 0));
}

// The device may still write what a run without end was given: with no memory for another the session waits.
TEST_P(NativeStateTest, MemoryThatARunWithoutEndMayWriteIsNotUsedAgain) {
  const auto state = executable_->make_state().value();
  ASSERT_TRUE(run(state.get(), 1, 10).ok());
  machine_.limit_memory(0);
  machine_.hangs = true;
  EXPECT_EQ(run(state.get(), 2, 7).code(), StatusCode::kDeadlineExceeded);
  machine_.hangs = false;
  EXPECT_EQ(run(state.get(), 2, 7).code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(state->read("count").value().elements<std::int64_t>(), ElementsAre(11));
  machine_.limit_memory(~std::size_t{0});
  ASSERT_TRUE(run(state.get(), 3, 0).ok());
  EXPECT_THAT(output(0), ElementsAre(1, 20, 9, 0));
}

TEST_P(NativeStateTest, AResetOrWriteThatFailedChangesNothing) {
  const auto state = executable_->make_state().value();
  ASSERT_TRUE(run(state.get(), 1, 10).ok());
  machine_.hangs = true;
  EXPECT_EQ(state->reset().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(state->write("count", whole({}, {5})).code(), StatusCode::kDeadlineExceeded);
  machine_.hangs = false;
  EXPECT_THAT(state->read("cache").value().elements<float>(), ElementsAre(0, 1, 10, 10, 4, 5, 6, 7));
  EXPECT_THAT(state->read("count").value().elements<std::int64_t>(), ElementsAre(11));
  ASSERT_TRUE(state->write("count", whole({}, {5})).ok());
  ASSERT_TRUE(run(state.get(), 3, 0).ok());
  EXPECT_THAT(output(0), ElementsAre(1, 20, 9, 0));
  EXPECT_EQ(outputs_[4].elements<std::int64_t>()[0], 6);
}

TEST_P(NativeStateTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(run(nullptr, 0, 0).message(), "the model writes buffers: a run needs a state made by this model");
  const auto state = executable_->make_state().value();
  EXPECT_EQ(state->read("nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(state->write("nothing", floats({1}, {1})).code(), StatusCode::kNotFound);
  EXPECT_EQ(state->write("cache", floats({1}, {1})).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(state->write("cache", Tensor()).code(), StatusCode::kInvalidArgument);
  const Tensor elsewhere = Tensor::unchecked(machine_.allocate(32).value(), DType::kFloat32, {4, 2}, {2, 1}, 0);
  EXPECT_THAT(state->write("cache", elsewhere).message(), HasSubstr("must be on the host"));
}

INSTANTIATE_TEST_SUITE_P(Forms, NativeStateTest, ::testing::Values(kInPlace, kByOutputs),
                         [](const auto& form) { return form.index == 0 ? "in_place" : "by_outputs"; });

TEST(NativeWrites, OnlyBuffersAndWhatNobodySees) {
  HostMachine machine(32);
  const auto load = [&](const std::string& nodes) {
    const std::string text = "kpt_graph 1\ninput x: float32[4]\nparameter p: float32[4] \"p\"\n" + nodes;
    const auto graph = std::make_shared<const ir::Graph>(ir::read_graph(text).value());
    const Weights weights = {{"p", Tensor::empty(DType::kFloat32, Dims{4}).value()}};
    return NativeExecutable::load(graph, weights, std::shared_ptr<Machine>(std::shared_ptr<void>(), &machine)).status();
  };
  EXPECT_TRUE(load("a: float32[4] = aten.add.Tensor(self=%x, other=1)\nb: float32[4] = aten.relu_.default(self=%a)\n"
                   "output %b \"output\"\n")
                  .ok());
  const std::string chain =
      "a: float32[4] = aten.add.Tensor(self=%x, other=1)\nb: float32[4] = aten.add_.Tensor(self=%a, other=%x)\n"
      "c: float32[4] = aten.relu_.default(self=%b)\noutput %c \"output\"\n";
  EXPECT_TRUE(load(chain).ok()) << load(chain).to_string();
  for (const char* seen : {"a", "b"}) {
    EXPECT_THAT(load(chain + "output %" + seen + " \"seen\"\n").message(),
                HasSubstr("it writes memory that other values may share"));
  }
  EXPECT_THAT(load("b: float32[4] = aten.relu_.default(self=%x)\noutput %b \"output\"\n").message(),
              HasSubstr("the model writes 'x'"));
  EXPECT_THAT(load("b: float32[4] = aten.relu_.default(self=%p)\noutput %b \"output\"\n").message(),
              HasSubstr("the model writes 'p'"));
  EXPECT_THAT(load("a: float32[4] = aten.add.Tensor(self=%x, other=1)\nv: float32[4] = aten.view.default(self=%a, "
                   "size=[4])\nb: float32[4] = aten.relu_.default(self=%a)\noutput %b \"output\"\noutput %v \"v\"\n")
                  .message(),
              HasSubstr("it writes memory that other values may share"));
}

TEST(NativeWrites, WhatSharesMemoryWithAWrittenBufferIsRefused) {
  HostMachine machine(32);
  const Tensor storage = Tensor::empty(DType::kFloat32, Dims{12}).value();
  const auto view = [&](std::int64_t offset) {
    return Tensor::from_buffer(storage.buffer(), DType::kFloat32, Dims{4}, Dims{1}, offset).value();
  };
  const auto load = [&](const std::string& node, std::int64_t offset) {
    const std::string text =
        "kpt_graph 1\ninput x: float32[4]\nparameter p: float32[4] \"p\"\nbuffer b: float32[4] \"b\"\n" + node +
        "\nt: float32[4] = aten.add.Tensor(self=%p, other=%s)\noutput %t \"output\"\n";
    const auto graph = std::make_shared<const ir::Graph>(ir::read_graph(text).value());
    const Weights weights = {{"b", view(4)}, {"p", view(offset)}};
    return NativeExecutable::load(graph, weights, std::shared_ptr<Machine>(std::shared_ptr<void>(), &machine)).status();
  };
  const std::string in_place = "s: float32[4] = aten.add_.Tensor(self=%b, other=%x)";
  for (const std::int64_t offset : {1, 4, 7}) {
    const Status status = load(in_place, offset);
    EXPECT_EQ(status.code(), StatusCode::kModelPreparation) << offset;
    EXPECT_THAT(status.message(), HasSubstr("buffer 'b' is written and shares memory with 'p'"));
  }
  for (const std::int64_t offset : {0, 8}) EXPECT_TRUE(load(in_place, offset).ok()) << "beside it, at " << offset;
  EXPECT_TRUE(load("s: float32[4] = aten.add.Tensor(self=%b, other=%x)", 4).ok()) << "nobody writes it";
}

// What contiguous() gives is the buffer itself where PyTorch finds it to lie so, and else a copy of what it held.
TEST(NativeWrites, WhatPyTorchCopiesSeesNoLaterWrite) {
  HostMachine machine(32);
  const auto run = [&](std::int64_t channels, const std::string& format) {
    const std::string type = fmt::format("float32[1, {}, 2, 2]", channels);
    const std::string text = fmt::format(R"(kpt_graph 1
buffer b: {0} "b"
input x: float32[]
c: {0} = aten.contiguous.default(self=%b{1})
w: {0} = aten.add_.Tensor(self=%b, other=%x)
output %c "c"
)",
                                         type, format);
    const auto graph = std::make_shared<const ir::Graph>(ir::read_graph(text).value());
    const Tensor held = Tensor::empty(DType::kFloat32, Dims{1, channels, 2, 2}).value();
    for (float& value : held.elements<float>()) value = 1;
    const auto executable =
        NativeExecutable::load(graph, {{"b", held}}, std::shared_ptr<Machine>(std::shared_ptr<void>(), &machine))
            .value();
    const auto state = executable->make_state().value();
    const Tensor x = Tensor::empty(DType::kFloat32, Dims{}).value();
    x.elements<float>()[0] = 4;
    RunContext context;
    context.state = state.get();
    std::vector<Tensor> outputs;
    const Status status = executable->run(context, std::vector{x}, outputs, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return outputs.empty() ? 0.0F : outputs[0].elements<float>()[0];
  };
  const std::string last = ", memory_format=memory_format(channels_last)";
  EXPECT_EQ(run(2, ""), 5.0F);
  EXPECT_EQ(run(2, ", memory_format=memory_format(contiguous)"), 5.0F);
  EXPECT_EQ(run(2, last), 1.0F);
  EXPECT_EQ(run(1, last), 5.0F) << "with one channel both orders are the same";
}

TEST(NativeWrites, ABufferWithStridesOfItsOwnIsNotWrittenInPlace) {
  HostMachine machine(32);
  const auto load = [&](const std::string& nodes) {
    const auto graph = std::make_shared<const ir::Graph>(
        ir::read_graph("kpt_graph 1\nbuffer b: float32[2, 3]{strides=[1, 2]} \"b\"\ninput x: float32[2, 3]\n" + nodes)
            .value());
    const Tensor storage = Tensor::empty(DType::kFloat32, Dims{6}).value();
    const Tensor turned = Tensor::from_buffer(storage.buffer(), DType::kFloat32, Dims{2, 3}, Dims{1, 2}, 0).value();
    return NativeExecutable::load(graph, {{"b", turned}}, std::shared_ptr<Machine>(std::shared_ptr<void>(), &machine))
        .status();
  };
  const Status in_place =
      load("w: float32[2, 3]{strides=[1, 2]} = aten.add_.Tensor(self=%b, other=%x)\noutput %w \"w\"\n");
  EXPECT_EQ(in_place.code(), StatusCode::kModelPreparation);
  EXPECT_THAT(in_place.message(), HasSubstr("buffer 'b' is written and has strides of its own"));
  const Status replaced =
      load("w: float32[2, 3] = aten.add.Tensor(self=%b, other=%x)\nbuffer_mutation %w \"b\"\noutput %w \"w\"\n");
  EXPECT_TRUE(replaced.ok()) << replaced.to_string();
}

}  // namespace
}  // namespace kpt::native
