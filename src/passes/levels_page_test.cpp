#include "passes/levels_page.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/files.h"
#include "passes/pipeline.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

TEST(LevelsPage, CommittedPageIsCurrent) {
  const auto page = read_text_file(source_dir() + "/docs/reference/levels.md", 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(*page, levels_page()) << "write it anew: cmake --build " << build_dir() << " --target reference";
}

TEST(Pipeline, EachLevelAddsToTheOneBelowIt) {
  const auto names = [](Level level) {
    std::set<std::string_view> set;
    for (const Pass* pass : level_passes(level)) set.insert(pass->name);
    return set;
  };
  const auto low = names(Level::kConservative);
  const auto middle = names(Level::kBalanced);
  const auto high = names(Level::kAggressive);
  EXPECT_TRUE(std::includes(middle.begin(), middle.end(), low.begin(), low.end()));
  EXPECT_TRUE(std::includes(high.begin(), high.end(), middle.begin(), middle.end()));
  EXPECT_FALSE(low.contains("assign_bf16"));
  EXPECT_FALSE(middle.contains("quantize_int8"));
  for (const char* opt_in : {"quantize_int4", "quantize_weights_int8", "last_token_logits"}) {
    EXPECT_FALSE(high.contains(opt_in));
    EXPECT_NE(find_pass(opt_in), nullptr);
  }
}

TEST(Pipeline, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const Pass* pass : all_passes()) {
    EXPECT_TRUE(names.insert(pass->name).second) << pass->name;
    EXPECT_EQ(find_pass(pass->name), pass);
    EXPECT_FALSE(pass->summary.empty());
  }
  EXPECT_EQ(find_pass("nothing"), nullptr);
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    EXPECT_EQ(find_level(level_name(level)), level);
  }
  EXPECT_FALSE(find_level("fast").has_value());
}

TEST(Pipeline, PassesThatNeedOurOperatorsSayWhichTheyLack) {
  const Capabilities none;
  for (const char* name : {"fuse_linear", "fuse_attention", "fuse_norm", "fuse_rotary", "fuse_conv", "merge_linear"}) {
    const Support support = find_pass(name)->applies(none);
    EXPECT_FALSE(support.supported) << name;
    EXPECT_NE(support.reason.find("kpt."), std::string::npos) << support.reason;
  }
}

}  // namespace
}  // namespace kpt
