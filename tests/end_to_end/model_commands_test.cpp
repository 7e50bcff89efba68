// kpt inspect and kpt run on files of the tree, as a user types them.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importer/model_forge.h"
#include "program.h"
#include "support/tree_paths.h"
#include "tensor_files/tensor_file.h"

namespace kpt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A file of this process that is removed in the end.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& ending)
      : path_((std::filesystem::temp_directory_path() / (std::to_string(std::random_device{}()) + ending)).string()) {}
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  void write(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }

 private:
  std::string path_;
};

// linear_state with one bit of a weight changed and all else, the checksum too, as it was.
void write_damaged(const ScratchFile& file) {
  ForgedZip zip = forge_model(golden("linear_state"));
  ForgedEntry& weight = find_entry(zip, "/weight_0");
  weight.crc32 = crc_of(weight.content);
  weight.content[5] = static_cast<char>(weight.content[5] ^ 1);
  file.write(zip.build());
}

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
  const std::string graph = run_kpt({"inspect", golden("sizes"), "--graph"}).out;
  EXPECT_THAT(graph, HasSubstr("aten."));
  EXPECT_EQ(run_kpt({"inspect", golden("sizes"), "--graph", "--json"}).json().at("graph"), graph);
  EXPECT_FALSE(json.contains("graph"));
}

TEST(InspectCommand, CountsWeightsOperatorsAndWork) {
  const auto plain = run_kpt({"inspect", golden("linear_state"), "--json"}).json();
  EXPECT_EQ(plain.at("parameters"), 4 * 3 + 3);
  using Counts = std::map<std::string, std::uint64_t>;
  EXPECT_EQ(plain.at("weight_bytes").get<Counts>(), (Counts{{"float32", 4 * (12 + 3 + 1 + 3)}}));
  EXPECT_EQ(plain.at("nodes"), 5);
  EXPECT_EQ(plain.at("operators").get<Counts>(), (Counts{{"aten.add.Tensor", 1},
                                                         {"aten.add_.Tensor", 1},
                                                         {"aten.linear.default", 1},
                                                         {"aten.mul.Tensor", 1},
                                                         {"aten.sym_size.int", 1}}));
  const std::string symbol = plain.at("symbols").at(0).at("name");
  const auto sized = run_kpt({"inspect", golden("linear_state"), "--size", symbol + "=8", "--json"}).json();
  const auto& classes = sized.at("flops_by_class");
  EXPECT_EQ(classes.at("matmul").at("nodes"), 1);
  EXPECT_EQ(classes.at("matmul").at("flops"), 2 * 8 * 4 * 3);
  EXPECT_EQ(classes.at("pointwise").at("nodes"), 3);
  EXPECT_EQ(classes.at("pointwise").at("flops"), 1 + 2 * 8 * 3) << "a counter, and two of the result's size";
  EXPECT_EQ(sized.at("flops"), 2 * 8 * 4 * 3 + 1 + 2 * 8 * 3);
  const std::string text = run_kpt({"inspect", golden("linear_state"), "--size", symbol + "=8"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("1 nodes, 192 FLOP"), HasSubstr("aten.linear.default"), HasSubstr("76 B")));
}

TEST(InspectCommand, BytesAreByElementTypeAndTiedWeightsCountOnce) {
  using Counts = std::map<std::string, std::uint64_t>;
  const auto narrow = run_kpt({"inspect", golden("bf16"), "--json"}).json();
  EXPECT_EQ(narrow.at("weight_bytes").get<Counts>(), (Counts{{"bfloat16", 2 * (12 + 3 + 1 + 3)}}));
  const auto tied = run_kpt({"inspect", golden("tied"), "--json"}).json();
  EXPECT_EQ(tied.at("parameters"), 7 * 4);
  // Embedding and output layer, and the turned buffer, which the exporter stored once more.
  EXPECT_EQ(tied.at("weight_bytes").get<Counts>(), (Counts{{"float32", 2 * 4 * 7 * 4}}));
}

TEST(InspectCommand, CheckFindsADamagedWeight) {
  const auto whole = run_kpt({"inspect", golden("linear_state"), "--check", "--json"}).json();
  EXPECT_EQ(whole.at("checked").at("entries"), forge_model(golden("linear_state")).entries.size());
  EXPECT_GT(whole.at("checked").at("bytes"), 0);
  EXPECT_THAT(run_kpt({"inspect", golden("linear_state"), "--check"}).out, HasSubstr("checksums"));
  const ScratchFile file(".pt2");
  write_damaged(file);
  EXPECT_FALSE(run_kpt({"inspect", file.path(), "--json"}).json().contains("error"));
  const ProgramRun damaged = run_kpt({"inspect", file.path(), "--check"});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("linear_state/data/weights/weight_0 in " + file.path() + " is damaged"));
  EXPECT_THAT(damaged.err, HasSubstr("48 bytes at ")) << "the place in the file";
  EXPECT_EQ(run_kpt({"inspect", file.path(), "--check", "--json"}).json().at("error").at("code"), "corrupt_data");
  EXPECT_THAT(run_kpt({"inspect", golden("linear_state"), "--check"}).err, HasSubstr("comparing checksums"));
}

TEST(InspectCommand, BadFilesAndSizesAreSentences) {
  const ProgramRun missing = run_kpt({"inspect", "/no/such/model.pt2"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/model.pt2"));
  const ProgramRun symbol = run_kpt({"inspect", golden("sizes"), "--size", "nobody=3"});
  EXPECT_EQ(symbol.exit_code, 1);
  EXPECT_THAT(symbol.err, HasSubstr("no symbol 'nobody'"));
  const std::string refused = source_dir() + "/tests/golden/refused/linear_state_2.8.0.pt2";
  EXPECT_THAT(run_kpt({"inspect", refused}).err, HasSubstr("re-export with PyTorch 2.9 or newer"));
}

#if defined(KPT_HAS_TORCH)
TEST(InspectCommand, OperatorsThatCannotRunAreListedWithTheirSource) {
  ForgedZip zip = forge_model(golden("linear_state"));
  change_nodes(zip, [](nlohmann::json& nodes) {
    find_node(nodes, "aten.linear.default")["target"] = "torch.ops.aten.nothing.default";
  });
  const ScratchFile file(".pt2");
  file.write(zip.build());
  const ProgramRun run = run_kpt({"inspect", file.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("cannot run 'linear' aten.nothing.default: this libtorch has no such operator"));
  const auto json = run_kpt({"inspect", file.path(), "--json"}).json();
  ASSERT_EQ(json.at("unsupported").size(), 1U);
  EXPECT_EQ(json.at("unsupported")[0].at("node"), "linear");
  EXPECT_EQ(json.at("unsupported")[0].at("target"), "aten.nothing.default");
  EXPECT_THAT(json.at("unsupported")[0].at("source").get<std::string>(), HasSubstr("make_golden.py:"));
}

TEST(ValidateCommand, ADamagedWeightIsFoundBeforeAnythingRuns) {
  const ScratchFile file(".pt2");
  write_damaged(file);
  const ProgramRun run = run_kpt({"validate", file.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("linear_state/data/weights/weight_0 in " + file.path() + " is damaged"));
  EXPECT_EQ(run.out, "");
}

// Else it would lie in the artifact with a checksum that fits it, and no later check would find it.
TEST(DamagedWeight, ReachesNoArtifact) {
  const ScratchFile file(".pt2");
  const ScratchFile artifact(".kpt");
  write_damaged(file);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"optimize", file.path()},
                                                  {"compile", file.path(), "--target", "tpu:v5e", "--size", "s0=2"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"-o", artifact.path()});
    const ProgramRun run = run_kpt(arguments);
    EXPECT_EQ(run.exit_code, 1) << command[0];
    EXPECT_THAT(run.err, HasSubstr("linear_state/data/weights/weight_0 in " + file.path() + " is damaged"));
    EXPECT_FALSE(std::filesystem::exists(artifact.path())) << command[0];
  }
}

std::vector<NamedTensor> outputs_of(const std::vector<std::string>& arguments, const std::string& ending) {
  const ScratchFile file(ending);
  std::vector<std::string> command = {"run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--outputs", file.path()});
  const ProgramRun run = run_kpt(command);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  auto tensors = read_tensors(file.path());
  if (!tensors.ok()) {
    ADD_FAILURE() << tensors.status().message();
    return {};
  }
  return std::move(tensors).value();
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dims() == b.dims() && a.dtype() == b.dtype() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(RunCommand, OneSeedGivesOneAnswerAndAnotherAnother) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const std::string number = std::to_string(seed);
  const auto first = outputs_of({golden("conv_norm"), "--seed", number}, ".safetensors");
  const auto again = outputs_of({golden("conv_norm"), "--seed", number, "--repeat", "3"}, ".npz");
  const auto other = outputs_of({golden("conv_norm"), "--seed", std::to_string(seed + 1U)}, ".npz");
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(again.size(), 1U);
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(first[0].name, again[0].name);
  EXPECT_TRUE(same_bytes(first[0].tensor, again[0].tensor));
  EXPECT_FALSE(same_bytes(first[0].tensor, other[0].tensor));
}

// What PyTorch recorded for this input, through every format in and out.
TEST(RunCommand, EveryFormatOfTensorsGoesInAndOut) {
  std::string cases = golden("conv_norm");
  cases.replace(cases.size() - 4, 4, ".cases.safetensors");
  Tensor image;
  Tensor wanted;
  for (const NamedTensor& named : read_tensors(cases).value()) {
    if (named.name == "case0/input/image") image = named.tensor;
    if (named.name == "case0/eager/output") wanted = named.tensor;
  }
  ASSERT_TRUE(image.defined() && wanted.defined());
  const NamedTensor given[] = {{"image", image}};
  for (const std::string in : {".npy", ".npz", ".safetensors"}) {
    const ScratchFile input(in);
    ASSERT_TRUE(write_tensors(input.path(), given).ok());
    const std::string argument = in == ".npy" ? "image=" + input.path() : input.path();
    for (const std::string out : {".npy", ".npz", ".safetensors"}) {
      SCOPED_TRACE(::testing::Message() << in << " to " << out);
      const auto outputs = outputs_of({golden("conv_norm"), "--inputs", argument}, out);
      ASSERT_EQ(outputs.size(), 1U);
      if (out != ".npy") {  // which has no names
        EXPECT_EQ(outputs[0].name, "output");
      }
      ASSERT_EQ(outputs[0].tensor.dims(), wanted.dims());
      for (std::size_t index = 0; index < wanted.elements<const float>().size(); ++index) {
        EXPECT_NEAR(outputs[0].tensor.elements<const float>()[index], wanted.elements<const float>()[index], 1e-5);
      }
    }
  }
}

TEST(RunCommand, WeightsWithNamesThatTheModelLacksAreNotSilent) {
  const Tensor bias = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : bias.elements<float>()) value = 0.5F;
  const ScratchFile file(".safetensors");
  const auto run_with = [&](const std::vector<NamedTensor>& tensors) {
    EXPECT_TRUE(write_tensors(file.path(), tensors).ok());
    return run_kpt({"run", golden("linear_state"), "--weights", file.path(), "--json"});
  };
  const ProgramRun some = run_with({{"linear.bias", bias}, {"head.bias", bias}});
  EXPECT_EQ(some.exit_code, 0);
  EXPECT_THAT(some.err, HasSubstr("kpt: note: " + file.path() + ": the model has no weight 'head.bias'"));
  EXPECT_EQ(some.json().at("notes").size(), 1U);
  const ProgramRun none = run_with({{"linear.bais", bias}});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.json().at("error").at("code"), "invalid_argument");
  EXPECT_THAT(none.json().at("error").at("message").get<std::string>(), HasSubstr("did you mean 'linear.bias'?"));
  const ProgramRun right = run_with({{"linear.bias", bias}});
  EXPECT_EQ(right.err, "");
  EXPECT_TRUE(right.json().at("notes").empty());
}

TEST(RunCommand, InputsComeFromFilesByName) {
  const ScratchFile file(".npz");
  const std::string& inputs = file.path();
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
}

TEST(RunCommand, DevicesThatCannotRunModelsSaySo) {
  const ProgramRun run = run_kpt({"run", golden("split"), "--device", "tpu:0"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("no TPU can be used: "));
}
#endif

}  // namespace
}  // namespace kpt::testing
