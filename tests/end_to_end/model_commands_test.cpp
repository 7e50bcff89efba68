// kpt inspect and kpt run on files of the tree, as a user types them.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"
#include "tensor_files/tensor_file.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;

TEST(InspectCommand, ShowsWhatAModelTakesGivesAndCosts) {
  const ProgramRun run = run_kpt({"inspect", golden("sizes"), "--json"});
  const auto json = run.json();
  EXPECT_THAT(json.at("producer").get<std::string>(), HasSubstr("2.15.0"));
  EXPECT_EQ(json.at("inputs").size(), 2U);
  EXPECT_FALSE(json.at("symbols").empty());
  EXPECT_GT(json.at("flops").get<double>(), 0);
  EXPECT_EQ(json.at("unsupported").size(), 0U);
  const std::string text = run_kpt({"inspect", golden("sizes")}).out;
  for (const char* word : {"inputs", "outputs", "sizes", "work", "operators"}) EXPECT_THAT(text, HasSubstr(word));
  EXPECT_THAT(run_kpt({"inspect", golden("sizes"), "--graph"}).out, HasSubstr("aten."));
}

TEST(InspectCommand, BadFilesAndSizesAreSentences) {
  const ProgramRun missing = run_kpt({"inspect", "/no/such/model.pt2"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/model.pt2"));
  const ProgramRun symbol = run_kpt({"inspect", golden("sizes"), "--size", "nobody=3"});
  EXPECT_EQ(symbol.exit_code, 1);
  EXPECT_THAT(symbol.err, HasSubstr("no symbol 'nobody'"));
  const std::string refused = std::string(KPT_SOURCE_DIR) + "/tests/golden/refused/linear_state_2.8.0.pt2";
  EXPECT_THAT(run_kpt({"inspect", refused}).err, HasSubstr("re-export with PyTorch 2.9 or newer"));
}

#if defined(KPT_HAS_TORCH)
std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / (std::to_string(std::random_device{}()) + name)).string();
}

TEST(RunCommand, SameSeedSameOutputsAndFilesGoRoundTrip) {
  const std::string first = scratch("a.safetensors");
  const std::string second = scratch("b.npz");
  ASSERT_EQ(run_kpt({"run", golden("conv_norm"), "--seed", "5", "--outputs", first}).exit_code, 0);
  ASSERT_EQ(run_kpt({"run", golden("conv_norm"), "--seed", "5", "--outputs", second, "--repeat", "3"}).exit_code, 0);
  const auto a = read_tensors(first).value();
  const auto b = read_tensors(second).value();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t index = 0; index < a.size(); ++index) {
    EXPECT_EQ(a[index].name, b[index].name);
    EXPECT_EQ(std::memcmp(a[index].tensor.data(), b[index].tensor.data(), a[index].tensor.bytes()), 0);
  }
  std::filesystem::remove(first);
  std::filesystem::remove(second);
}

TEST(RunCommand, InputsComeFromFilesByName) {
  const std::string inputs = scratch("in.npz");
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{2, 6}).value();
  for (std::size_t index = 0; index < 12; ++index) x.elements<float>()[index] = static_cast<float>(index);
  const NamedTensor named[] = {{"x", x}};
  ASSERT_TRUE(write_tensors(inputs, named).ok());
  const auto json = run_kpt({"run", golden("split"), "--inputs", inputs, "--json"}).json();
  EXPECT_TRUE(json.at("generated").empty());
  EXPECT_EQ(json.at("device"), "cpu");
  const NamedTensor wrong[] = {{"y", x}};
  ASSERT_TRUE(write_tensors(inputs, wrong).ok());
  const ProgramRun unknown = run_kpt({"run", golden("split"), "--inputs", inputs});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no input 'y'"));
  std::filesystem::remove(inputs);
}

TEST(RunCommand, DevicesThatCannotRunModelsSaySo) {
  const ProgramRun run = run_kpt({"run", golden("split"), "--device", "tpu:0"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("tpu:0"));
}
#endif

}  // namespace
}  // namespace kpt::testing
