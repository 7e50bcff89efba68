#include "engines/xla/stablehlo/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt::xla {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Graph graph_with(std::size_t count) {
  ir::Graph graph;
  for (std::size_t index = 0; index < count; ++index) {
    ir::Value value;
    value.name = "v" + std::to_string(index);
    graph.add_value(std::move(value));
  }
  return graph;
}

constexpr ir::ValueId kBase{0};
constexpr ir::ValueId kView{1};
constexpr ir::ValueId kOther{2};

const ViewStep kRow{ViewKind::kSlice, {1, 0}, {2, 3}, {1, 1}};
const ViewStep kFlat{ViewKind::kReshape, {3}, {}, {}};

TEST(Environment, AWriteThroughAViewReachesItsBaseAndOtherViews) {
  const ir::Graph graph = graph_with(3);
  Builder builder;
  Environment environment(graph, builder);
  environment.define(kBase, {"%base", DType::kFloat32, {2, 3}});
  const ViewStep steps[] = {kRow, kFlat};
  environment.define_view(kView, kBase, steps);
  const ViewStep turned{ViewKind::kPermute, {1, 0}, {}, {}};
  environment.define_view(kOther, kBase, {&turned, 1});
  const Value before = environment.read(kOther);
  EXPECT_THAT(before.dims, ElementsAre(3, 2));
  environment.write(kView, {"%fresh", DType::kFloat32, {3}});
  EXPECT_EQ(environment.read(kView).name, "%fresh");
  EXPECT_NE(environment.read(kBase).name, "%base");
  EXPECT_NE(environment.read(kOther).name, before.name);
  EXPECT_THAT(builder.text(), HasSubstr("stablehlo.dynamic_update_slice"));
}

TEST(Environment, ReadingAgainWritesNothing) {
  const ir::Graph graph = graph_with(2);
  Builder builder;
  Environment environment(graph, builder);
  environment.define(kBase, {"%base", DType::kFloat32, {2, 3}});
  environment.define_view(kView, kBase, {&kRow, 1});
  const std::string text = builder.text();
  environment.read(kView);
  environment.read(kBase);
  EXPECT_EQ(builder.text(), text);
}

TEST(Environment, AnInputIsAnArgumentOnlyWhenRead) {
  const ir::Graph graph = graph_with(2);
  Builder builder;
  Environment environment(graph, builder);
  environment.define_input(kBase, 4, {"%arg4", DType::kFloat32, {3}});
  EXPECT_FALSE(environment.is_argument(4));
  environment.write(kBase, {"%fresh", DType::kFloat32, {3}});
  EXPECT_FALSE(environment.is_argument(4));
  EXPECT_EQ(environment.written_input(4)->name, "%fresh");
  EXPECT_FALSE(environment.written_input(5).has_value());
  environment.define_input(kView, 5, {"%arg5", DType::kFloat32, {3}});
  EXPECT_EQ(environment.read(kView).name, "%arg5");
  EXPECT_TRUE(environment.is_argument(5));
}

TEST(Environment, StridedWritesGoThroughAMask) {
  Builder builder;
  const Value base{"%base", DType::kFloat32, {5}};
  const ViewStep even{ViewKind::kSlice, {0}, {5}, {2}};
  const Value changed = undo_step(builder, even, base, {"%fresh", DType::kFloat32, {3}});
  EXPECT_THAT(changed.dims, ElementsAre(5));
  EXPECT_THAT(builder.text(), HasSubstr("interior_padding = array<i64: 1>"));
  EXPECT_THAT(builder.text(), HasSubstr("stablehlo.select"));
}

TEST(Environment, WhatWasNeverDefinedIsRefused) {
  const ir::Graph graph = graph_with(1);
  Builder builder;
  Environment environment(graph, builder);
  EXPECT_THROW(environment.read(kBase), Refusal);
  EXPECT_THROW(environment.write(kBase, {}), Refusal);
  const ViewStep wide{ViewKind::kExpand, {3}, {}, {}};
  EXPECT_THROW(undo_step(builder, wide, {"%x", DType::kFloat32, {1}}, {"%y", DType::kFloat32, {3}}), Refusal);
}

}  // namespace
}  // namespace kpt::xla
