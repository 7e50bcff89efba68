#include "runtime/input_roles.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "runtime/generate_inputs.h"

namespace kpt {
namespace {

const ir::GraphInput& input_named(const ir::Graph& graph, const std::string& name) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.name == name) return input;
  }
  return graph.inputs.front();
}

InputUse use_of(const std::string& text, const std::string& name) {
  const auto graph = ir::read_graph("kpt_graph 1\n" + text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return find_input_use(*graph, input_named(*graph, name));
}

TEST(InputRoles, IndicesAreFollowedThroughViewsCastsAndSums) {
  const std::string text =
      "input ids: int32[2, 8]\nparameter table: float32[100, 4]\n"
      "flat: int32[16] = aten.view.default(self=%ids, size=[16])\n"
      "wide: int64[16] = aten.to.dtype(self=%flat, dtype=dtype(int64))\n"
      "moved: int64[16] = aten.add.Tensor(self=%wide, other=2)\n"
      "rows: float32[16, 4] = aten.embedding.default(weight=%table, indices=%moved)\noutput %rows \"rows\"\n";
  const InputUse use = use_of(text, "ids");
  EXPECT_EQ(use.role, InputRole::kIndex);
  EXPECT_EQ(use.below, 98) << "two rows of 100 are out of reach after the addition";
}

TEST(InputRoles, AnInputThatIsComparedIsAMaskUnlessItIsAnIndex) {
  const std::string compared =
      "input keep: int64[2, 8]\nzero: bool[2, 8] = aten.eq.Scalar(self=%keep, other=0)\noutput %zero \"zero\"\n";
  EXPECT_EQ(use_of(compared, "keep").role, InputRole::kMask);
  const std::string tokens =
      "input ids: int64[2, 8]\nparameter table: float32[50, 4]\n"
      "padding: bool[2, 8] = aten.ne.Scalar(self=%ids, other=1)\n"
      "rows: float32[2, 8, 4] = aten.embedding.default(weight=%table, indices=%ids)\n"
      "output %rows \"rows\"\noutput %padding \"padding\"\n";
  EXPECT_EQ(use_of(tokens, "ids").role, InputRole::kIndex);
  EXPECT_EQ(use_of(tokens, "ids").below, 50);
}

TEST(InputRoles, FloatingAttentionMasksAreAddedAndPositionsCount) {
  const std::string text =
      "input q: float32[1, 2, 4, 8]\ninput bias: float32[1, 1, 4, 4]\ninput position_ids: int64[1, 4]\n"
      "parameter table: float32[3, 8]\n"
      "a: float32[1, 2, 4, 8] = aten.scaled_dot_product_attention.default(query=%q, key=%q, value=%q, "
      "attn_mask=%bias)\n"
      "p: float32[1, 4, 8] = aten.embedding.default(weight=%table, indices=%position_ids)\n"
      "output %a \"a\"\noutput %p \"p\"\n";
  EXPECT_EQ(use_of(text, "bias").role, InputRole::kAdditiveMask);
  EXPECT_EQ(use_of(text, "q").role, InputRole::kPlain);
  EXPECT_EQ(use_of(text, "position_ids").role, InputRole::kPosition);
  const auto inputs = generate_inputs(*ir::read_graph("kpt_graph 1\n" + text), {3, {}, {}});
  ASSERT_TRUE(inputs.ok());
  const auto positions = (*inputs)[2].tensor.elements<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(positions.begin(), positions.end()), (std::vector<std::int64_t>{0, 1, 2, 0}))
      << "the table has three rows";
}

}  // namespace
}  // namespace kpt
