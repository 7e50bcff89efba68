#include "backends/amd/amd_program.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/test_gpu.h"
#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

const AmdArchitecture& architecture(std::string_view gfx_target) { return *find_amd_architecture(gfx_target); }

ir::Graph small_graph() {
  return ir::read_graph(R"(kpt_graph 1
parameter w: float32[8, 8] "w"
input x: float32[3, 8]
soft: float32[3, 8] = aten.softmax.int(self=%x, dim=-1)
flat: float32[24] = aten.view.default(self=%soft, size=[24])
back: float32[3, 8] = aten.view.default(self=%flat, size=[3, 8])
out: float32[3, 8] = aten.linear.default(input=%back, weight=%w)
output %out "output"
)")
      .value();
}

std::string stored_program(std::string_view gfx_target = "gfx942") {
  return AmdProgram::make(architecture(gfx_target), small_graph(), testing::forge_family, 2)
      .value()
      ->serialize()
      .value();
}

TEST(AmdProgram, HoldsTheKernelsThatItsPlanLaunches) {
  std::atomic<int> asked = 0;
  const KernelSource counted = [&](std::string_view family, std::string_view target) {
    ++asked;
    return testing::forge_family(family, target);
  };
  const auto program = AmdProgram::make(architecture("gfx942"), small_graph(), counted, 2).value();
  EXPECT_EQ(asked, 2);
  EXPECT_NE(program->find_current("product"), nullptr);
  EXPECT_NE(program->find_current("softmax"), nullptr);
  EXPECT_EQ(program->find_current("norm"), nullptr);
  EXPECT_FALSE(program->is_stored());
  const std::vector<NodePlan> nodes = program->plan();
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_THAT(nodes[0].how, HasSubstr("own kernels: softmax_"));
  EXPECT_EQ(nodes[1].how, "no launch");
  const CompileFigures& figures = *program->figures();
  EXPECT_EQ(figures.device_kind, "gfx942 CDNA3");
  EXPECT_EQ(figures.kernels.size(), 2U);
  EXPECT_THAT(figures.kernels, Each(Field(&KernelFigures::most_waves, 8U)));
  EXPECT_EQ(*figures.peak_bytes, *figures.temporary_bytes + 8 * 8 * sizeof(float));
}

TEST(AmdProgram, FreeSizesNeedTheKernelsOfSmallAndLargeOnes) {
  const auto graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..65536
input x: float32[2, s0]
out: float32[2, s0] = aten.softmax.int(self=%x, dim=-1)
output %out "output"
)");
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  const auto program = AmdProgram::make(architecture("gfx942"), *graph, testing::forge_family, 1);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  EXPECT_GT((*program)->figures()->kernels.size(), 1U);
  EXPECT_EQ((*program)->figures()->peak_bytes, std::nullopt);
}

TEST(AmdProgram, ComesBackFromItsBytes) {
  const std::string bytes = stored_program();
  const auto program = AmdProgram::deserialize(architecture("gfx942"), bytes);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto& stored = static_cast<const AmdProgram&>(**program);
  EXPECT_TRUE(stored.is_stored());
  EXPECT_EQ(stored.graph(), small_graph());
  EXPECT_NE(stored.find_current("softmax"), nullptr);
  EXPECT_EQ(stored.figures()->kernels.size(), 2U);
  EXPECT_EQ(stored.serialize().value(), bytes);
  EXPECT_EQ(AmdProgram::deserialize(architecture("gfx90a"), bytes).status().code(), StatusCode::kVersionMismatch);
}

TEST(AmdProgram, RemembersTheCompileOptions) {
  const auto made = AmdProgram::make(architecture("gfx942"), small_graph(), testing::forge_family, 1).value();
  made->set_compiler("clang 22", {"-O1", "-ffp-contract=off"});
  const std::string bytes = made->serialize().value();
  const auto program = AmdProgram::deserialize(architecture("gfx942"), bytes);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto& stored = static_cast<const AmdProgram&>(**program);
  EXPECT_EQ(stored.figures()->compiler, "clang 22 -O1 -ffp-contract=off");
  EXPECT_TRUE(stored.has_options({"-O1", "-ffp-contract=off"}));
  EXPECT_TRUE(stored.has_options({})) << "nobody asked for others";
  EXPECT_FALSE(stored.has_options({"-O1"}));
  EXPECT_EQ(stored.serialize().value(), bytes);
  for (std::size_t size = 0; size < 120; ++size) {
    ASSERT_EQ(AmdProgram::deserialize(architecture("gfx942"), std::string_view(bytes).substr(0, size)).status().code(),
              StatusCode::kCorruptData)
        << size;
  }
  std::string newer = bytes;
  newer.replace(newer.find(" 2\n"), 3, " 3\n");
  EXPECT_EQ(AmdProgram::deserialize(architecture("gfx942"), newer).status().code(), StatusCode::kVersionMismatch);
}

// Code of another build may take other arguments: it is there and not used.
TEST(AmdProgram, CodeOfOtherSourceIsNotCurrent) {
  std::string bytes = stored_program();
  const std::string digest = source_digest(own_kernels("softmax").value());
  const auto at = bytes.find(digest);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = bytes[at] == '0' ? '1' : '0';
  const auto program = AmdProgram::deserialize(architecture("gfx942"), bytes);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  EXPECT_EQ(static_cast<const AmdProgram&>(**program).find_current("softmax"), nullptr);
  EXPECT_NE(static_cast<const AmdProgram&>(**program).find_current("product"), nullptr);
}

TEST(AmdProgram, EveryTruncationIsRefused) {
  const std::string bytes = stored_program();
  for (std::size_t size = 0; size < bytes.size(); size += size < 2000 ? 1 : 97) {
    ASSERT_EQ(AmdProgram::deserialize(architecture("gfx942"), std::string_view(bytes).substr(0, size)).status().code(),
              StatusCode::kCorruptData)
        << size;
  }
  EXPECT_EQ(AmdProgram::deserialize(architecture("gfx942"), bytes + "x").status().code(), StatusCode::kCorruptData);
}

TEST(AmdProgram, CodeForAnotherTargetIsRefused) {
  std::string bytes = stored_program("gfx90a");
  const auto at = bytes.find("amd:gfx90a");
  bytes.replace(at, 10, "amd:gfx942");
  const Status status = AmdProgram::deserialize(architecture("gfx942"), bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruptData);
  EXPECT_THAT(status.message(), HasSubstr("are for gfx90a"));
}

TEST(AmdProgram, AFamilyThatDoesNotCompileIsTheFailure) {
  const KernelSource broken = [](std::string_view family, std::string_view target) -> Result<std::string> {
    if (family != "softmax") return testing::forge_family(family, target);
    return Status(StatusCode::kKernelCompilation, "softmax.hip line 3 does not compile", Vendor::kAmd);
  };
  for (const int threads : {1, 4}) {
    const Status status = AmdProgram::make(architecture("gfx942"), small_graph(), broken, threads).status();
    EXPECT_EQ(status.code(), StatusCode::kKernelCompilation);
    EXPECT_THAT(status.message(), HasSubstr("line 3"));
  }
}

}  // namespace
}  // namespace kpt
