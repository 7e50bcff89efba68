// Runs on the CPU backend: many threads on one session, limits, states, programs stored and read back.
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
#include "engines/aten/graph_engine.h"
#include "ir/text.h"
#include "kpt/model.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using execution_test::load_here;
using execution_test::make_bert;
using execution_test::make_inputs;
using execution_test::same_bytes;
using testing::HasSubstr;

std::string golden(const std::string& name) { return source_dir() + "/tests/golden/pt2/2.15.0/" + name + ".pt2"; }

TEST(Execution, EightThreadsOnOneSessionGiveTheSameBitsAsOne) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = load_here(make_bert(seed));
  Session session = detail::start_session(model).value();
  constexpr int kThreads = 8;
  constexpr int kRounds = 12;
  std::vector<std::vector<Tensor>> inputs;
  std::vector<std::vector<Tensor>> expected(kThreads);
  for (int index = 0; index < kThreads; ++index) {
    inputs.push_back(make_inputs(model->graph(), seed + static_cast<std::uint64_t>(index)));
    ASSERT_TRUE(session.run(inputs.back(), expected[static_cast<std::size_t>(index)]).ok());
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      std::vector<Tensor> outputs;
      for (int round = 0; round < kRounds; ++round) {
        if (!session.run(inputs[index], outputs).ok()) ++wrong;
        for (std::size_t output = 0; output < outputs.size(); ++output) {
          if (!same_bytes(outputs[output], expected[index][output])) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Execution, RunsThatAreWaitedForLaterGiveTheBitsOfOthers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = load_here(make_bert(seed));
  Session session = detail::start_session(model).value();
  std::vector<std::vector<Tensor>> expected(12);
  std::vector<Pending> pending;
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const std::vector<Tensor> inputs = make_inputs(model->graph(), seed + index);
    pending.push_back(session.run_async(inputs).value());
    ASSERT_TRUE(session.run(inputs, expected[index]).ok());  // beside those that are in flight
  }
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const auto outputs = pending[index].take_outputs();
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    ASSERT_EQ(outputs->size(), expected[index].size());
    for (std::size_t output = 0; output < outputs->size(); ++output) {
      EXPECT_TRUE(same_bytes((*outputs)[output].tensor, expected[index][output])) << index;
    }
  }
}

TEST(Execution, OutputsOfOneRunSurviveTheNext) {
  const auto model = load_here(make_bert(1));
  Session session = detail::start_session(model).value();
  std::vector<Tensor> first;
  ASSERT_TRUE(session.run(make_inputs(model->graph(), 1), first).ok());
  const Tensor kept = first[0];
  const Tensor copy = kept.contiguous_copy().value();
  std::vector<Tensor> second;
  ASSERT_TRUE(session.run(make_inputs(model->graph(), 2), second).ok());
  ASSERT_TRUE(session.run(make_inputs(model->graph(), 3), first).ok());  // the same vector, `kept` still looks at it
  EXPECT_TRUE(same_bytes(kept, copy));
  EXPECT_FALSE(same_bytes(kept, second[0]));
}

TEST(Execution, DeadlineAndCancellationEndARun) {
  const auto model = load_here(make_bert(1));
  Session session = detail::start_session(model).value();
  const std::vector<Tensor> inputs = make_inputs(model->graph(), 1);
  std::vector<Tensor> outputs;
  RunOptions late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::milliseconds(1);
  EXPECT_EQ(session.run(inputs, outputs, late).code(), StatusCode::kDeadlineExceeded);
  const std::atomic<bool> cancelled = true;
  RunOptions stopped;
  stopped.cancelled = &cancelled;
  EXPECT_EQ(session.run(inputs, outputs, stopped).code(), StatusCode::kCancelled);
  EXPECT_TRUE(session.run(inputs, outputs).ok()) << "the session is fine afterwards";
}

TEST(Execution, BadInputsAreRefusedBeforeAnythingRuns) {
  const Model model = load_model(golden("linear_state")).value();
  Session session = model.start_session().value();
  const Tensor wrong = Tensor::empty(DType::kInt32, Dims{1}).value();
  const auto unknown = session.run({{"y", wrong}});
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), HasSubstr("no input 'y'"));
  const auto other = session.run({{model.inputs()[0].name, wrong}});
  EXPECT_THAT(other.status().message(), HasSubstr("input '" + model.inputs()[0].name + "': expected"));
}

TEST(Execution, StateBelongsToTheSessionAndResets) {
  const Model model = load_model(golden("linear_state")).value();
  ASSERT_TRUE(model.is_stateful());
  Session one = model.start_session().value();
  Session other = model.start_session().value();
  Dims dims;
  for (const std::string& dim : model.inputs()[0].dims) {
    dims.push_back(dim[0] >= '0' && dim[0] <= '9' ? std::stoll(dim) : 2);
  }
  const Tensor x = Tensor::empty(model.inputs()[0].dtype, dims).value();
  for (float& value : x.elements<float>()) value = 0.5F;
  const NamedTensor input{model.inputs()[0].name, x};
  const auto outputs_of = [&](Session& session) { return session.run({input}).value(); };
  const auto first = outputs_of(one);
  const auto second = outputs_of(one);
  const auto fresh = outputs_of(other);
  bool changed = false;
  for (std::size_t index = 0; index < first.size(); ++index) {
    changed = changed || !same_bytes(first[index].tensor, second[index].tensor);
    EXPECT_TRUE(same_bytes(first[index].tensor, fresh[index].tensor)) << "another session starts from the file";
  }
  EXPECT_TRUE(changed) << "the second call sees what the first wrote";
  Pending beside = other.run_async({input}).value();
  const auto waited = beside.take_outputs().value();
  for (std::size_t index = 0; index < second.size(); ++index) {
    EXPECT_TRUE(same_bytes(second[index].tensor, waited[index].tensor)) << "waited for later";
  }
  ASSERT_TRUE(one.reset().ok());
  const auto again = outputs_of(one);
  for (std::size_t index = 0; index < first.size(); ++index) {
    EXPECT_TRUE(same_bytes(first[index].tensor, again[index].tensor));
  }
}

TEST(Execution, StoredProgramComputesTheSame) {
  const ImportedModel bert = make_bert(5);
  const GraphProgram program("cpu", bert.graph);
  const std::string bytes = program.serialize().value();
  const auto read = GraphProgram::deserialize("cpu", bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ((*read)->graph(), bert.graph);
  EXPECT_EQ(GraphProgram::deserialize("nvidia", bytes).status().code(), StatusCode::kVersionMismatch);
  EXPECT_EQ(GraphProgram::deserialize("cpu", "rubbish").status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(GraphProgram::deserialize("cpu", bytes.substr(0, bytes.size() / 2)).status().code(),
            StatusCode::kCorruptData);
}

TEST(Execution, EveryUnsupportedNodeIsListed) {
  ImportedModel bert = make_bert(1);
  bert.graph.nodes[2].target = "aten.no_such_thing.default";
  bert.graph.nodes[3].target = "mylib.custom.default";
  bert.graph.nodes[4].arguments.clear();
  const auto placed = find_runnable_device("cpu", BackendContext()).value();
  const auto loaded = detail::LoadedModel::load(std::move(bert), *placed.backend, *placed.device);
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(loaded.status().message(), HasSubstr("3 of "));
  EXPECT_THAT(loaded.status().message(), HasSubstr("aten.no_such_thing.default: this libtorch has no such operator"));
  EXPECT_THAT(loaded.status().message(), HasSubstr("mylib.custom.default: it is a custom operator"));
  EXPECT_THAT(loaded.status().message(), HasSubstr("is missing"));
}

// A model file is foreign: what it may not do.
TEST(Execution, OperatorsThatReachBeyondTheModelAreRefused) {
  for (const std::string target : {"aten.from_file.default", "aten.set_.source_Tensor", "aten.resize_.default",
                                   "inductor._reinterpret_tensor.default", "prims.set_item.default"}) {
    ImportedModel bert = make_bert(1);
    bert.graph.nodes[5].target = target;
    const auto placed = find_runnable_device("cpu", BackendContext()).value();
    const auto loaded = detail::LoadedModel::load(std::move(bert), *placed.backend, *placed.device);
    EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported) << target;
  }
}

TEST(Execution, RecordedShapesThatLieAreFailuresNotWrites) {
  for (const std::vector<ir::Expr>& lie : {std::vector<ir::Expr>{1, 1}, {4, 48, 48}, {2, 9}, {}}) {
    ImportedModel bert = make_bert(1);
    for (const ir::Node& node : bert.graph.nodes) {
      if (node.target != "aten.linear.default" && node.target != "aten.gelu.default") continue;
      ir::TensorType& type = bert.graph.at(node.outputs[0].values[0]).tensor;
      type.dims = lie;
      type.strides.assign(lie.size(), 1);
      std::int64_t stride = 1;
      for (std::size_t axis = lie.size(); axis-- > 0;) {
        type.strides[axis] = stride;
        stride *= *lie[axis].constant();
      }
    }
    const auto model = load_here(std::move(bert));
    std::vector<Tensor> outputs;
    RunContext context;
    const Status status = model->executable().run(context, make_inputs(model->graph(), 1), outputs);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("node '"));
  }
}

// The exporter records channels-last strides for these; an axis of one element may have any stride.
TEST(Execution, BatchesOfTrianglesInAnyLayout) {
  ImportedModel model;
  model.graph = ir::read_graph(R"(kpt_graph 1
values x, abs, triu, tril, above, below
input x: float32[3, 1, 1, 1]{strides=[1, 3, 3, 3]}
abs: float32[3, 1, 1, 1]{strides=[1, 3, 3, 3]} = aten.abs.default(self=%x)
triu: float32[3, 1, 1, 1]{strides=[1, 3, 3, 3]} = aten.triu.default(self=%abs, diagonal=1)
tril: float32[3, 1, 1, 1]{strides=[1, 3, 3, 3]} = aten.tril.default(self=%abs)
above: float32[3, 1, 1, 1]{strides=[1, 3, 3, 3]} = aten.neg.default(self=%triu)
below: float32[3, 1, 1, 1]{strides=[1, 3, 3, 3]} = aten.neg.default(self=%tril)
output %above "above"
output %below "below"
)")
                    .value();
  const auto loaded = load_here(std::move(model));
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{3, 1, 1, 1}).value();
  for (std::size_t index = 0; index < 3; ++index) x.elements<float>()[index] = -static_cast<float>(index + 1);
  std::vector<Tensor> outputs;
  RunContext context;
  ASSERT_TRUE(loaded->executable().run(context, std::span(&x, 1), outputs).ok());
  for (std::size_t index = 0; index < 3; ++index) {
    EXPECT_EQ(outputs[0].elements<float>()[index], 0.0F) << index;
    EXPECT_EQ(outputs[1].elements<float>()[index], -static_cast<float>(index + 1)) << index;
  }
}

// pow gives row-major memory here, whatever the exporter recorded, and oneDNN's gelu follows its input.
TEST(Execution, GeluInALayoutThatItsInputHasNot) {
  ImportedModel model;
  model.graph = ir::read_graph(R"(kpt_graph 1
values x, pow, gelu, out
input x: float32[4, 7]{strides=[1, 4]}
pow: float32[4, 7]{strides=[1, 4]} = aten.pow.Scalar(self=1.5, exponent=%x)
gelu: float32[4, 7]{strides=[1, 4]} = aten.gelu.default(self=%pow)
out: float32[4, 7]{strides=[1, 4]} = aten.neg.default(self=%gelu)
output %out "out"
)")
                    .value();
  const auto loaded = load_here(std::move(model));
  Tensor memory = Tensor::empty(DType::kFloat32, Dims{7, 4}).value();
  for (std::size_t index = 0; index < 28; ++index) memory.elements<float>()[index] = static_cast<float>(index) / 8;
  const Tensor x = Tensor::unchecked(memory.buffer(), DType::kFloat32, {4, 7}, {1, 4}, 0);
  std::vector<Tensor> outputs;
  for (int round = 0; round < 2; ++round) {
    RunContext context;
    const Status status = loaded->executable().run(context, std::span(&x, 1), outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const Tensor out = outputs[0].contiguous_copy().value();
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t column = 0; column < 7; ++column) {
        const double power = std::pow(1.5, static_cast<double>(4 * column + row) / 8);
        const double expected = -power * 0.5 * (1 + std::erf(power / std::sqrt(2.0)));
        EXPECT_NEAR(out.elements<float>()[row * 7 + column], expected, 1e-3) << row << ", " << column;
      }
    }
  }
}

TEST(Execution, WhatARunLeavesBehindBelongsToNobody) {
  const Model model = load_model(golden("conv_norm")).value();
  Session session = model.start_session().value();
  bool released = false;
  std::vector<float> memory(60, 1.0F);
  {
    const Tensor x =
        Tensor::from_memory(DType::kFloat32, Dims{1, 2, 5, 6}, memory.data(), memory.size() * sizeof(float), [&] {
          released = true;
        }).value();
    ASSERT_TRUE(session.run({{model.inputs()[0].name, x}}).ok());
  }
  EXPECT_TRUE(released) << "the session still holds the caller's memory";
}

TEST(Execution, OneRecordingAtATimeTellsOfOperators) {
  const PlacedDevice placed = execution_test::find_device_under_test();
  Device& device = *placed.device;
  const auto model = load_here(make_bert(2));
  const std::vector<Tensor> inputs = make_inputs(model->graph(), 2);
  Status inner;
  const auto recorded = device.record([&]() -> Status {
    inner = device.record([] { return Status(); }).status();
    RunContext context;
    std::vector<Tensor> outputs;
    return model->executable().run(context, inputs, outputs);
  });
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  EXPECT_THAT(inner.message(), HasSubstr("another recording is under way"));
  EXPECT_TRUE(std::ranges::any_of(*recorded, [](const Activity& activity) {
    return activity.kind == Activity::Kind::kOperator && activity.name.starts_with("aten::");
  }));
  const auto failed = device.record([]() -> Status { return {StatusCode::kCancelled, "not today"}; });
  EXPECT_EQ(failed.status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(device.record([] { return Status(); }).ok()) << "a failure ends the recording";
}

TEST(Execution, ModelsThatWriteNothingHaveNoState) {
  for (const char* name : {"linear_forms", "conv_norm", "tied", "split", "reshapes"}) {
    EXPECT_FALSE(load_model(golden(name))->is_stateful()) << name;
  }
  for (const char* name : {"linear_state", "training", "cond_writes", "writes", "writes_plain"}) {
    EXPECT_TRUE(load_model(golden(name))->is_stateful()) << name;
  }
}

TEST(Execution, WeightsThatDoNotFitAreNamed) {
  ImportedModel bert = make_bert(1);
  const std::string name = bert.weights.begin()->first;
  const auto placed = find_runnable_device("cpu", BackendContext()).value();
  ImportedModel missing = bert;
  missing.weights.erase(name);
  EXPECT_THAT(detail::LoadedModel::load(missing, *placed.backend, *placed.device).status().message(),
              HasSubstr("weight '" + name + "' is missing"));
  bert.weights[name] = Tensor::empty(DType::kFloat32, Dims{3}).value();
  EXPECT_THAT(detail::LoadedModel::load(bert, *placed.backend, *placed.device).status().message(),
              HasSubstr("weight '" + name + "' is float32[3], but the graph takes"));
}

TEST(Execution, UnknownAndUnusableDevicesAreSentences) {
  EXPECT_EQ(load_model(golden("tied"), {.device = "abacus", .weights = {}, .model_name = ""}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(load_model(golden("no_such_file")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace kpt
