#include "importer/tree_spec.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt::pt2 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kLeaf = R"({"type": null, "context": null, "children_spec": []})";

std::string container(const std::string& type, const std::string& context, const std::vector<std::string>& children) {
  std::string text = R"({"type": ")" + type + R"(", "context": )" + context + R"(, "children_spec": [)";
  for (std::size_t i = 0; i < children.size(); ++i) text += (i == 0 ? "" : ", ") + children[i];
  return text + "]}";
}

std::vector<std::string> outputs(const std::string& tree, const NamedTupleFields& fields = {}) {
  const Result<TreeNode> root = parse_tree_spec("[1, " + tree + "]", fields, "t");
  EXPECT_TRUE(root.ok()) << root.status().message();
  return root.ok() ? name_outputs(*root).value() : std::vector<std::string>();
}

TEST(TreeSpec, ResultsAreNamedByTheirStructure) {
  EXPECT_THAT(outputs(kLeaf), ElementsAre("output"));
  EXPECT_THAT(outputs(container("builtins.tuple", R"("null")", {kLeaf, kLeaf})), ElementsAre("output_0", "output_1"));
  EXPECT_THAT(outputs(container("builtins.dict", R"("[\"a\", \"b\"]")", {kLeaf, kLeaf})), ElementsAre("a", "b"));
  EXPECT_THAT(outputs(container("builtins.dict", R"("[1, \"b\"]")", {kLeaf, kLeaf})), ElementsAre("1", "b"));
  EXPECT_THAT(outputs(container("transformers.modeling_outputs.ModelOutput", R"("[\"hidden\", \"past\"]")",
                                {kLeaf, container("builtins.tuple", R"("null")", {kLeaf, kLeaf})})),
              ElementsAre("hidden", "past.0", "past.1"));
  EXPECT_THAT(outputs(container("my.Data", R"("[[\"a\", \"b\"], [\"absent\"]]")", {kLeaf, kLeaf})),
              ElementsAre("a", "b"));
  EXPECT_THAT(
      outputs(container("collections.namedtuple", R"("my.Pair")", {kLeaf, kLeaf}), {{"my.Pair", {"first", "second"}}}),
      ElementsAre("first", "second"));
  EXPECT_THAT(outputs(container("collections.defaultdict", R"({"default_factory_name": "list", "dict_context": ["k"]})",
                                {kLeaf})),
              ElementsAre("k"));
}

TEST(TreeSpec, ContextsThatSayNothingGivePositions) {
  for (const char* context :
       {R"("null")", "null", R"("x")", R"("[1")", R"("[\"one\"]")", R"("{}")", "7", R"("[null, 1]")"}) {
    SCOPED_TRACE(context);
    EXPECT_THAT(outputs(container("some.Type", context, {kLeaf, kLeaf})), ElementsAre("output_0", "output_1"));
  }
  EXPECT_THAT(outputs(container("collections.namedtuple", R"("unknown")", {kLeaf})), ElementsAre("output_0"));
}

TEST(TreeSpec, EqualNamesBecomeDifferent) {
  const std::string inner = container("builtins.dict", R"("[\"b\"]")", {kLeaf});
  EXPECT_THAT(outputs(container("builtins.dict", R"("[\"a.b\", \"a\"]")", {kLeaf, inner})),
              ElementsAre("a.b", "a.b_2"));
  std::vector<std::string> names = {"a", "a_2", "a", "a", "b", "a_2", "a_3", "a"};
  make_unique(&names);
  EXPECT_THAT(names, ElementsAre("a", "a_2", "a_3", "a_4", "b", "a_2_2", "a_3_2", "a_5"));
}

TEST(TreeSpec, NamesThatTogetherAreTooLongAreRefused) {
  std::string leaves = kLeaf;
  for (int i = 1; i < 17; ++i) leaves += ", " + kLeaf;
  const std::string context = "\"[\\\"" + std::string(std::size_t{1} << 20U, 'k') + "\\\"]\"";
  const Result<TreeNode> root = parse_tree_spec(
      "[1, " + container("builtins.dict", context, {container("builtins.list", "null", {leaves})}) + "]", {}, "t");
  ASSERT_TRUE(root.ok()) << root.status().message();
  const auto names = name_outputs(*root);
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(names.status().message(), "the names of the outputs are longer than 16 MiB together");
}

TEST(TreeSpec, ArgumentsTakeTheNamesOfForward) {
  const std::string arguments =
      container("builtins.tuple", R"("null")", {kLeaf, container("builtins.list", R"("null")", {kLeaf, kLeaf})});
  const std::string keywords = container("builtins.dict", R"("[\"mask\"]")", {kLeaf});
  const std::string text = "[1, " + container("builtins.tuple", R"("null")", {arguments, keywords}) + "]";
  const Result<TreeNode> root = parse_tree_spec(text, {}, "t");
  ASSERT_TRUE(root.ok());
  EXPECT_THAT(*name_inputs(*root, {"x", "past", "mask"}), ElementsAre("x", "past.0", "past.1", "mask"));
  EXPECT_THAT(*name_inputs(*root, {}), ElementsAre("arg_0", "arg_1.0", "arg_1.1", "mask"));
}

TEST(TreeSpec, OtherFormsAreRefused) {
  for (const char* bad : {"", "{}", "[1]", "[1, {\"type\": 3}]", "[1, [", "[1, 2, 3]", "[\"1\", {}]"}) {
    SCOPED_TRACE(bad);
    EXPECT_EQ(parse_tree_spec(bad, {}, "t").status().code(), StatusCode::kCorruptData);
  }
  EXPECT_EQ(parse_tree_spec("[2, {}]", {}, "t").status().code(), StatusCode::kUnsupported);
  std::string deep = kLeaf;
  for (int i = 0; i < 100; ++i) deep = container("builtins.tuple", R"("null")", {deep});
  EXPECT_THAT(parse_tree_spec("[1, " + deep + "]", {}, "t").status().message(), HasSubstr("too deeply"));
}

}  // namespace
}  // namespace kpt::pt2
