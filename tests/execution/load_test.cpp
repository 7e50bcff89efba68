// What loading says about model files: operators that cannot run, weights that fit nothing.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "archive/mapped_file.h"
#include "artifact/artifact.h"
#include "base/log.h"
#include "importer/model_forge.h"
#include "ir/text.h"
#include "kpt/errors.h"
#include "kpt/model.h"
#include "numerics/accuracy.h"
#include "support/tree_paths.h"
#include "tensor_files/safetensors.h"

namespace kpt {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::find_node;
using testing::ForgedZip;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Load : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kpt_load_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::filesystem::path golden(const std::string& name) {
    return std::filesystem::path(source_dir()) / "tests/golden/pt2/2.15.0" / (name + ".pt2");
  }
  std::string path() const { return (folder_ / "forged.pt2").string(); }
  // Loads a golden model with other nodes.
  Result<Model> load(const std::string& name, const std::function<void(json&)>& change) const {
    ForgedZip zip = testing::forge_model(golden(name));
    testing::change_nodes(zip, change);
    std::ofstream(path(), std::ios::binary) << zip.build();
    return load_model(path());
  }
  // Loads an optimized model of this graph.
  Result<Model> load_optimized(const std::string& text, Weights weights, const std::string& target = "cpu") const {
    Artifact made;
    made.producer = "kpt test";
    made.targets.push_back({target, {}, ir::read_graph(text).value(), std::move(weights), "{}"});
    const std::filesystem::path file = folder_ / "model.kpt";
    KPT_RETURN_IF_ERROR(write_artifact(file, made));
    return load_model(file);
  }
  // What is said about linear_state when its linear node is another.
  std::string refusal(const std::function<void(json&)>& change) const {
    const auto model = load("linear_state", [&](json& nodes) { change(find_node(nodes, "aten.linear.default")); });
    EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
    return model.status().message();
  }

  std::filesystem::path folder_;
};

// All of a message about the linear node of linear_state but the reason.
auto names_the_node(const std::string& path, const std::string& target) {
  return AllOf(StartsWith(path + ": 1 of 5 nodes cannot run on cpu: 'linear' " + target + ": "),
               HasSubstr("(make_golden.py:"), HasSubstr(" in forward: y = self.linear(x) + self.shift)"));
}

TEST_F(Load, OperatorsThatDoNotExistAreNamedWithFileAndSourceLine) {
  const std::string unknown = refusal([](json& node) { node["target"] = "torch.ops.aten.nothing.default"; });
  EXPECT_THAT(unknown, names_the_node(path(), "aten.nothing.default"));
  EXPECT_THAT(unknown, HasSubstr("this libtorch has no such operator"));
  const std::string custom = refusal([](json& node) { node["target"] = "torch.ops.mylib.custom.default"; });
  EXPECT_THAT(custom, names_the_node(path(), "mylib.custom.default"));
  EXPECT_THAT(custom, HasSubstr("it is a custom operator"));
}

TEST_F(Load, ArgumentsThatDoNotFitTheOperatorAreNamedWithFileAndSourceLine) {
  const std::string missing = refusal([](json& node) { node["inputs"].erase(1); });
  EXPECT_THAT(missing, names_the_node(path(), "aten.linear.default"));
  EXPECT_THAT(missing, HasSubstr("its argument 'weight' is missing"));
  const std::string extra = refusal(
      [](json& node) { node["inputs"].push_back({{"name", "surplus"}, {"arg", {{"as_int", 1}}}, {"kind", 1}}); });
  EXPECT_THAT(extra, names_the_node(path(), "aten.linear.default"));
  EXPECT_THAT(extra, HasSubstr("it has no argument 'surplus'"));
  const std::string many = refusal([](json& node) {
    for (json& input : node["inputs"]) input["name"] = "";
    for (int count = 0; count < 2; ++count) {
      node["inputs"].push_back({{"name", ""}, {"arg", {{"as_int", 1}}}, {"kind", 1}});
    }
  });
  EXPECT_THAT(many, HasSubstr("it is given 5 arguments and takes 3"));
}

TEST_F(Load, AnOperatorThatOccursOftenIsToldOnce) {
  const auto model = load("linear_state", [](json& nodes) {
    for (json& node : nodes) {
      if (node["target"] == "torch.ops.aten.add.Tensor" || node["target"] == "torch.ops.aten.mul.Tensor") {
        node["target"] = "torch.ops.aten.nothing.default";
      }
    }
  });
  EXPECT_THAT(model.status().message(),
              HasSubstr("2 of 5 nodes cannot run on cpu: 'add' aten.nothing.default (first of 2): "));
}

TEST_F(Load, AllNodesInsideSubGraphsAreNamedWithSourceLine) {
  const auto model = load("cond", [](json& nodes) {
    json& inputs = find_node(nodes, "higher_order.cond")["inputs"];
    json& branch = inputs[1]["arg"]["as_graph"]["graph"];
    branch["nodes"][0]["target"] = "torch.ops.aten.nothing.default";
    branch["nodes"][1]["target"] = "torch.ops.mylib.custom.default";
    inputs[2]["arg"]["as_graph"]["graph"]["nodes"][0]["target"] = "torch.ops.mylib.other.default";
  });
  EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(model.status().message(), StartsWith(path() + ": 1 of "));
  // Of a node inside, the exporter tells the line of the call.
  const std::string place = ", negative, (x,)))";
  const std::string custom = "it is a custom operator; only libtorch's own (aten) can run (make_golden.py:";
  EXPECT_THAT(model.status().message(),
              AllOf(HasSubstr("higher_order.cond: inside it, 2 of 2 nodes cannot run: 'sin' aten.nothing.default: this "
                              "libtorch has no such operator (make_golden.py:"),
                    HasSubstr(place + "; 'add' mylib.custom.default: " + custom),
                    HasSubstr(place + ", and 1 of 2 nodes cannot run: 'cos' mylib.other.default: " + custom),
                    HasSubstr(place + " (make_golden.py:")));
}

// {"type": "cpu", …} wherever it stands.
void move_devices(json& tree) {
  if (tree.is_object() && tree.contains("type") && tree.contains("index") && tree["type"] == "cpu") {
    tree = {{"type", "cuda"}, {"index", 0}};
  }
  for (json& item : tree) {
    if (item.is_structured()) move_devices(item);
  }
}

// The file names the device that it was exported on: in constants of nodes, in checks, in types, in weights.
TEST_F(Load, AModelExportedOnAGpuRunsOnTheCpu) {
  ForgedZip zip = testing::forge_model(golden("numbers"));
  for (auto& entry : zip.entries) {
    if (!entry.name.ends_with(".json")) continue;
    json tree = json::parse(entry.content);
    move_devices(tree);
    entry.content = tree.dump();
  }
  EXPECT_THAT(testing::find_entry(zip, "models/model.json").content,
              HasSubstr(R"("as_device":{"index":0,"type":"cuda"})"));
  std::ofstream(path(), std::ios::binary) << zip.build();
  std::vector<NamedTensor> inputs;
  const auto cases = golden("numbers").replace_extension(".cases.safetensors");
  for (const auto& [name, tensor] : read_safetensors(MappedFile::open(cases).value()).value()) {
    if (name.starts_with("case0/input/")) inputs.push_back({name.substr(12), tensor});
  }
  ASSERT_EQ(inputs.size(), 3U);
  const auto run = [&](const std::filesystem::path& file) {
    auto model = load_model(file);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model->start_session()->run(inputs).value();
  };
  const auto expected = run(golden("numbers"));
  const auto actual = run(path());
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].name, expected[i].name);
    const auto verdict = compare_equal(actual[i].tensor, expected[i].tensor);
    EXPECT_TRUE(verdict.ok() && verdict->passed) << actual[i].name;
  }
}

TEST_F(Load, WeightsThatReplaceNothingFailAndSomeThatDoNotAreLogged) {
  const auto load_with = [&](const std::vector<NamedTensor>& tensors) {
    EXPECT_TRUE(write_safetensors(folder_ / "w.safetensors", tensors).ok());
    return load_model(golden("linear_state"),
                      {.device = "cpu", .weights = folder_ / "w.safetensors", .model_name = ""});
  };
  const Tensor bias = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : bias.elements<float>()) value = 0.25F;
  const auto wrong = load_with({{"linear.bais", bias}});
  EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.status().message(), HasSubstr("did you mean 'linear.bias'?"));
  std::string logged;
  ::setenv("KPT_LOG", "warn", 1);  // NOLINT(concurrency-mt-unsafe): no other thread runs; a library is silent otherwise
  {
    const auto capture = log::capture(&logged);
    ASSERT_TRUE(load_with({{"linear.bias", bias}, {"head.bias", bias}}).ok());
    EXPECT_THAT(logged, AllOf(HasSubstr(" warn "), HasSubstr("the model has no weight 'head.bias'")));
    logged.clear();
    ASSERT_TRUE(load_with({{"linear.bias", bias}}).ok());
  }
  ::unsetenv("KPT_LOG");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(logged, Not(HasSubstr("weight")));
}

TEST_F(Load, AnOptimizedModelForOtherDevicesIsATypedException) {
  const std::string text =
      "kpt_graph 1\ninput x: float32[2]\ny: float32[2] = aten.relu.default(self=%x)\noutput %y \"y\"\n";
  EXPECT_TRUE(load_optimized(text, {}).ok());
  const auto other = load_optimized(text, {}, "nvidia:sm_90");
  EXPECT_THROW((void)other.value(), ModelPreparationError) << other.status().to_string();
  EXPECT_THROW((void)other.value(), OptimizationError) << "its root catches it";
}

// Three scales for four rows.
TEST_F(Load, WeightsOfFewBitsThatCannotBeUsedAreATypedException) {
  const auto model = load_optimized(
      R"(kpt_graph 1
parameter w: int8[4, 8]
parameter s: float32[3]
input x: float32[2, 8]
y: float32[2, 4] = kpt.linear_int8.default(input=%x, weight=%w, scale=%s, bias=none, residual=none, activation="none")
output %y "y"
)",
      {{"w", Tensor::empty(DType::kInt8, Dims{4, 8}).value()}, {"s", Tensor::empty(DType::kFloat32, Dims{3}).value()}});
  EXPECT_THROW((void)model.value(), PrecisionCompilationError) << model.status().to_string();
}

// Six heads of queries cannot share four of keys.
TEST_F(Load, AttentionThatNoKernelServesIsATypedException) {
  const auto model = load_optimized(R"(kpt_graph 1
input q: float32[2, 6, 5, 8]
input k: float32[2, 4, 9, 8]
y: float32[2, 5, 6, 8] = kpt.attention.default(query=%q, key=%k, value=%k, mask=none, scale=0.5, causal=false)
output %y "y"
)",
                                    {});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  Session session = model->start_session().value();
  const std::vector<NamedTensor> inputs = {{"q", Tensor::empty(DType::kFloat32, Dims{2, 6, 5, 8}).value()},
                                           {"k", Tensor::empty(DType::kFloat32, Dims{2, 4, 9, 8}).value()}};
  EXPECT_THROW((void)session.run(inputs).value(), AttentionError);
}

}  // namespace
}  // namespace kpt
