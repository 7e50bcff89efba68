#include "engines/xla/execution/ahead_program.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

constexpr AheadForm kForm = {"kpt-tpu-program", 2};

constexpr const char* kAheadGraph = R"(kpt_graph 1
input x: float32[4, 3]
sum: float32[4, 3] = aten.add.Tensor(self=%x, other=%x)
output %sum "y"
)";

class AheadProgramTest : public ::testing::Test {
 protected:
  AheadProgramTest() {
    compiled_.figures.compiler = "libtpu 0.0.51; PJRT 0.116";
    compiled_.figures.device_kind = "TPU v5 lite";
    compiled_.figures.code_bytes = random_();
    compiled_.figures.flops = 1e12;
    compiled_.executable.resize(1 + random_() % 5000);
    for (char& byte : compiled_.executable) byte = static_cast<char>(random_());
  }
  AheadProgram make() const {
    return {kForm, "tpu:v5e:2x2", ir::read_graph(kAheadGraph).value(), {"s0=4", "1f2e", "HIGH"}, compiled_};
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  pjrt::TopologyProgram compiled_;
};

TEST_F(AheadProgramTest, WhatIsStoredIsReadBack) {
  const AheadProgram written = make();
  const auto bytes = written.serialize().value();
  const auto read = AheadProgram::deserialize(kForm, "tpu:v5e:2x2", bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const auto& program = dynamic_cast<const AheadProgram&>(**read);
  EXPECT_EQ(program.target(), "tpu:v5e:2x2");
  EXPECT_EQ(program.facts().sizes, "s0=4");
  EXPECT_EQ(program.facts().module, "1f2e");
  EXPECT_EQ(program.facts().conditions, "HIGH");
  EXPECT_EQ(program.executable(), compiled_.executable);
  EXPECT_EQ(*program.figures(), compiled_.figures);
  EXPECT_EQ(program.graph(), written.graph());
}

TEST_F(AheadProgramTest, AnotherTargetOrVersionIsRefused) {
  std::string bytes = make().serialize().value();
  EXPECT_EQ(AheadProgram::deserialize(kForm, "tpu:v6e:2x2", bytes).status().code(), StatusCode::kVersionMismatch);
  EXPECT_FALSE(is_ahead_program({"kpt-xla-executable", 1}, bytes));
  EXPECT_EQ(AheadProgram::deserialize({"kpt-xla-executable", 1}, "tpu:v5e:2x2", bytes).status().code(),
            StatusCode::kCorruptData);
  for (const char* head : {"kpt-tpu-program 1", "kpt-tpu-program 3"}) {
    bytes.replace(0, bytes.find('\n'), head);
    EXPECT_EQ(AheadProgram::deserialize(kForm, "tpu:v5e:2x2", bytes).status().code(), StatusCode::kVersionMismatch)
        << head;
  }
}

TEST_F(AheadProgramTest, EveryTruncationOfTheHeadIsAnError) {
  const std::string bytes = make().serialize().value();
  const std::size_t head = bytes.size() - compiled_.executable.size();
  for (std::size_t length = 0; length <= head; ++length) {
    EXPECT_FALSE(AheadProgram::deserialize(kForm, "tpu:v5e:2x2", bytes.substr(0, length)).ok()) << length;
  }
}

TEST(AheadSizes, AreThoseOfTheInputsAlone) {
  const auto graph = ir::read_graph(
      "kpt_graph 1\nsymbol s0 in 2..8\nsymbol u0 in 0..8\ninput x: float32[s0]\ninput n: int64[]\n"
      "count: int(u0) = aten.item.default(self=%n)\ny: float32[s0] = aten.mul.Scalar(self=%x, other=%count)\n"
      "output %y \"y\"\n");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ir::Bindings sizes;
  EXPECT_THAT(check_sizes(*graph, sizes, "xla:cpu").message(), HasSubstr("leaves s0 free"));
  sizes.set("s0", 4);
  EXPECT_TRUE(check_sizes(*graph, sizes, "xla:cpu").ok());
  EXPECT_EQ(read_sizes(*graph, "s0=4")->find("s0"), 4);
  sizes.set("u0", 3);
  EXPECT_THAT(check_sizes(*graph, sizes, "xla:cpu").message(), HasSubstr("u0 is no size of the model's inputs"));
}

TEST_F(AheadProgramTest, NonsenseIsCorrupt) {
  for (const char* bytes : {"", "hello", "kpt-xla-program 1 cpu\n", "kpt-tpu-program 2\ntpu:v5e:2x2\n\n\n\n-1\n",
                            "kpt-tpu-program 2\ntpu:v5e:2x2\n\n\n\n99999999999999999999\nx",
                            "kpt-tpu-program 2\ntpu:v5e:2x2\n\n\n\n1000\nkpt_graph 1\n",
                            "kpt-tpu-program 2\ntpu:v5e:2x2\n\n\n\n3\nabckpt-tpu-module 1\n{}\nx"}) {
    EXPECT_EQ(AheadProgram::deserialize(kForm, "tpu:v5e:2x2", bytes).status().code(), StatusCode::kCorruptData)
        << bytes;
  }
  for (const char* bytes : {"", "kpt-tpu-module 1", "kpt-tpu-module 2\n{}\nx", "kpt-tpu-module 1\n{\nx",
                            "kpt-tpu-module 1\n{\"compiler\":\"a\",\"device_kind\":\"b\"}\n"}) {
    EXPECT_EQ(unpack_topology_program(bytes).status().code(), StatusCode::kCorruptData) << bytes;
  }
}

TEST_F(AheadProgramTest, SizesAreReadForEverySymbolOfTheGraph) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 2..100
symbol s1 in 1..8
input x: float32[s0, s1]
sum: float32[s0, s1] = aten.add.Tensor(self=%x, other=%x)
output %sum "y"
)")
                              .value();
  const auto sizes = read_sizes(graph, "s1=3,s0=40");
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(sizes->find("s0"), 40);
  EXPECT_EQ(sizes->find("s1"), 3);
  for (const char* text : {"", "s0=40", "s0=1,s1=3", "s0=40,s1=9", "s0=x,s1=3", "s0,s1"}) {
    EXPECT_EQ(read_sizes(graph, text).status().code(), StatusCode::kCorruptData) << text;
  }
}

TEST_F(AheadProgramTest, SizesAreWrittenAsTheyAreRead) {
  ir::Bindings sizes;
  sizes.set("s0", 40);
  sizes.set("s1", 3);
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 2..100
symbol s1 in 1..8
input x: float32[s0, s1]
output %x "y"
)")
                              .value();
  EXPECT_TRUE(check_sizes(graph, sizes, "a TPU").ok());
  const auto read = read_sizes(graph, write_sizes(sizes));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->find("s0"), 40);
  EXPECT_EQ(read->find("s1"), 3);
  sizes.set("s1", 9);
  EXPECT_THAT(check_sizes(graph, sizes, "a TPU").message(), HasSubstr("s1=9 is out of its range"));
  EXPECT_THAT(check_sizes(graph, {}, "a TPU").message(), HasSubstr("a program for a TPU has fixed sizes"));
  EXPECT_EQ(write_sizes({}), "");
}

TEST_F(AheadProgramTest, TextsThatAreNoUtf8AreStoredAnyway) {
  compiled_.figures.device_kind = "TPU \xff";
  const auto read = unpack_topology_program(pack_topology_program(compiled_));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_THAT(read->figures.device_kind, HasSubstr("TPU "));
}

}  // namespace
}  // namespace kpt
