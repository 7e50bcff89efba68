#include "cli/model_arguments.h"

#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "tensor_files/tensor_file.h"

namespace kpt::cli {
namespace {

TEST(DrawArguments, GeneratedDrawsAreAWishUntilTheUserSpeaksOfThem) {
  const ScratchFolder folder = ScratchFolder::make("kpt-draws-").value();
  const std::string file = (folder.path() / "in.npz").string();
  const std::vector<NamedTensor> tensors = {{"x", Tensor::empty(DType::kBool, Dims{2}).value()}};
  ASSERT_TRUE(write_tensors(file, tensors).ok());
  const auto options_for = [](const DrawArguments& arguments) { return make_draw_options(arguments).value(); };
  EXPECT_FALSE(options_for({}).fill_up) << "there is nothing but generated ones";
  DrawArguments arguments;
  arguments.inputs = {file};
  EXPECT_EQ(options_for(arguments).count, 3U);
  EXPECT_TRUE(options_for(arguments).fill_up);
  arguments.sizes = {"s0=4"};
  EXPECT_FALSE(options_for(arguments).fill_up);
  arguments.sizes.clear();
  arguments.draws = 3;
  EXPECT_FALSE(options_for(arguments).fill_up);
}

TEST(Amounts, AreFiniteAndNotNegative) {
  for (const char* fine : {"0", "2", "0.5", "1e3"}) EXPECT_EQ(check_amount(fine), "") << fine;
  for (const char* wrong : {"nan", "inf", "-1", "", "2ms", "-nan"}) EXPECT_NE(check_amount(wrong), "") << wrong;
  for (const char* fine : {"0", "7", "18446744073709551615"}) EXPECT_EQ(check_count(fine), "") << fine;
  for (const char* wrong : {"-1", "-3", "1.5", "", "x", "18446744073709551616"})
    EXPECT_NE(check_count(wrong), "") << wrong;
  EXPECT_EQ(check_positive("1"), "");
  for (const char* wrong : {"0", "-3"}) EXPECT_NE(check_positive(wrong), "") << wrong;
}

}  // namespace
}  // namespace kpt::cli
