#include "importer/model_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "importer/check_progress.h"
#include "importer/import_archive.h"
#include "importer/model_forge.h"
#include "support/tree_paths.h"
#include "tensor_files/safetensors.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ForgedEntry;
using testing::ForgedZip;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(source_dir()) / "tests/golden/pt2/2.15.0" / (name + ".pt2");
}

ForgedZip forge(const std::string& name) { return testing::forge_model(golden(name)); }

class ModelFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kpt_model_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  // linear_state without the data of its weights.
  std::filesystem::path write_stripped() const {
    ForgedZip zip = forge("linear_state");
    for (ForgedEntry& entry : zip.entries) {
      if (entry.name.find("/weight_") != std::string::npos) entry.content.clear();
    }
    return write("stripped.pt2", zip.build());
  }
  static Tensor filled(std::initializer_list<std::int64_t> dims, float value) {
    Tensor tensor = Tensor::empty(DType::kFloat32, Dims(dims)).value();
    for (float& element : tensor.elements<float>()) element = value;
    return tensor;
  }

  std::filesystem::path folder_;
};

TEST_F(ModelFile, StrippedWeightsComeFromSafetensors) {
  const std::filesystem::path stripped = write_stripped();
  const Result<ImportedModel> alone = import_model(stripped);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(alone.status().message(), HasSubstr("linear.weight, linear.bias, count"));

  const std::vector<NamedTensor> tensors = {{"linear.weight", filled({3, 4}, 1)},
                                            {"linear.bias", filled({3}, 2)},
                                            {"count", filled({1}, 3)},
                                            {"other", filled({1}, 4)}};
  ASSERT_TRUE(write_safetensors(folder_ / "w.safetensors", tensors).ok());
  const Result<ImportedModel> model =
      import_model(stripped, {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->weights.at("count").elements<const float>()[0], 3);
  EXPECT_EQ(model->weights.at("shift").elements<const float>()[0], 0.5F);
  EXPECT_FALSE(model->weights.contains("other"));
  EXPECT_THAT(model->notes, Contains(HasSubstr("'other'")));
}

TEST_F(ModelFile, ReplacementsMustHaveTheModelsTypesAndShapes) {
  const auto import_with = [&](const Tensor& tensor) {
    EXPECT_TRUE(write_safetensors(folder_ / "w.safetensors", {{{"linear.bias", tensor}}}).ok());
    return import_model(golden("linear_state"),
                        {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  };
  EXPECT_TRUE(import_with(filled({3}, 1)).ok());
  for (const Tensor& bad : {filled({4}, 1), filled({3, 1}, 1), Tensor::empty(DType::kFloat64, Dims({3})).value()}) {
    const Result<ImportedModel> model = import_with(bad);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(model.status().message(), HasSubstr("'linear.bias'"));
    EXPECT_THAT(model.status().message(), HasSubstr("float32[3]"));
  }
}

TEST_F(ModelFile, AFileThatReplacesNothingIsAMistakeAndTheNearestNameIsTold) {
  const auto import_with = [&](const std::vector<NamedTensor>& tensors) {
    EXPECT_TRUE(write_safetensors(folder_ / "w.safetensors", tensors).ok());
    return import_model(golden("linear_state"),
                        {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  };
  const auto refused = [&](const std::vector<NamedTensor>& tensors, const std::string& part) {
    const Result<ImportedModel> model = import_with(tensors);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(model.status().message(), HasSubstr((folder_ / "w.safetensors").string() + ": "));
    EXPECT_THAT(model.status().message(), HasSubstr(part));
  };
  refused({{"linear.wieght", filled({3, 4}, 1)}}, "no 'linear.wieght' (did you mean 'linear.weight'?)");
  refused({{"model.module.linear.bias", filled({3}, 1)}}, "'model.module.linear.bias' (did you mean 'linear.bias'?)");
  refused({{"quite_another", filled({3}, 1)}}, "no 'quite_another'; it has weights such as 'linear.weight'");
  refused({}, "it holds no tensor");
  std::vector<NamedTensor> many;
  for (int index = 0; index < 9; ++index) many.push_back({"layer_" + std::to_string(index), filled({1}, 1)});
  refused(many, "'layer_4' and 4 more");
  many.push_back({"linear.bias", filled({3}, 7)});
  const Result<ImportedModel> some = import_with(many);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_THAT(some->notes, ElementsAre(HasSubstr("the model has no weight 'layer_0', 'layer_1'")));
  EXPECT_EQ(some->weights.at("linear.bias").elements<const float>()[0], 7);
}

// The message about stripped weights would lead away from the mistake.
TEST_F(ModelFile, WrongNamesAreToldBeforeMissingData) {
  ASSERT_TRUE(write_safetensors(folder_ / "w.safetensors", {{{"linear.wieght", filled({3, 4}, 1)}}}).ok());
  const Result<ImportedModel> model = import_model(
      write_stripped(), {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  EXPECT_THAT(model.status().message(), HasSubstr("did you mean 'linear.weight'?"));
}

TEST_F(ModelFile, EveryEntryIsComparedWithItsChecksumWhenAskedFor) {
  const Result<CheckedFile> checked = check_model_file(golden("linear_state"));
  ASSERT_TRUE(checked.ok()) << checked.status().message();
  ForgedZip zip = forge("linear_state");
  EXPECT_EQ(checked->entries, zip.entries.size());
  for (std::size_t index = 0; index < zip.entries.size(); ++index) {
    ForgedZip damaged = zip;
    ForgedEntry& entry = damaged.entries[index];
    entry.crc32 = testing::crc_of(entry.content);
    entry.content.back() = static_cast<char>(entry.content.back() ^ 4);
    const std::string bytes = damaged.build();
    const std::filesystem::path path = write("damaged.pt2", bytes);
    const Result<CheckedFile> result = check_model_file(path);
    ASSERT_FALSE(result.ok()) << entry.name;
    EXPECT_EQ(result.status().code(), StatusCode::kCorruptData);
    EXPECT_THAT(result.status().message(), HasSubstr(entry.name + " in " + path.string() + " is damaged"));
    const std::size_t at = bytes.find(entry.content, bytes.find(entry.name) + entry.name.size());
    EXPECT_THAT(result.status().message(), HasSubstr(fmt::format("({} bytes at {})", entry.content.size(), at)));
  }
  EXPECT_EQ(check_model_file(write("none.pt2", "no archive")).status().code(), StatusCode::kCorruptData);
}

// A weight is mapped and not read: that is what the check is for.
TEST_F(ModelFile, WhatIsReadIsComparedWithItsChecksumWhenItIsRead) {
  const ForgedZip zip = forge("linear_state");
  std::size_t refused = 0;
  for (std::size_t index = 0; index < zip.entries.size(); ++index) {
    ForgedZip damaged = zip;
    ForgedEntry& entry = damaged.entries[index];
    entry.crc32 = testing::crc_of(entry.content) ^ 1;  // the content is right: nothing else can find it
    const std::filesystem::path path = write("damaged.pt2", damaged.build());
    const auto model = import_model(path, {.model_name = "", .weights = {}, .read_sample_inputs = true});
    SCOPED_TRACE(entry.name);
    if (entry.name.ends_with(".json") || entry.name.ends_with("archive_format") || entry.name.ends_with("byteorder")) {
      ASSERT_FALSE(model.ok());
      EXPECT_EQ(model.status().code(), StatusCode::kCorruptData);
      EXPECT_THAT(model.status().message(), HasSubstr(entry.name + " in " + path.string() + " is damaged"));
      ++refused;
      continue;
    }
    ASSERT_TRUE(model.ok()) << model.status().message();
    const bool samples = entry.name.find("/sample_inputs/") != std::string::npos;
    EXPECT_EQ(model->sample_inputs.empty(), samples);
    if (samples) {
      EXPECT_THAT(model->notes, Contains(HasSubstr("is damaged")));
    }
  }
  EXPECT_EQ(refused, 5U);
}

TEST_F(ModelFile, WhoeverWaitsForTheChecksumsSeesThemProceed) {
  std::vector<double> told;
  ASSERT_TRUE(check_model_file(golden("linear_state"), [&](double done) { told.push_back(done); }).ok());
  EXPECT_THAT(told, SizeIs(forge("linear_state").entries.size()));
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_GT(told.front(), 0);
  EXPECT_LT(told.front(), 0.1);
  EXPECT_EQ(told.back(), 1);
}

// linear_state with buffers that are views of linear.weight's entry, [3, 4] with the elements 0 to 11.
struct View {
  std::string name;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

nlohmann::json as_ints(const std::vector<std::int64_t>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::int64_t value : values) list.push_back({{"as_int", value}});
  return list;
}

ForgedZip forge_views(const std::vector<View>& views, bool stripped = false) {
  ForgedZip zip = forge("linear_state");
  ForgedEntry& config_entry = testing::find_entry(zip, "weights_config.json");
  ForgedEntry& model_entry = testing::find_entry(zip, "models/model.json");
  nlohmann::json config = nlohmann::json::parse(config_entry.content);
  nlohmann::json model = nlohmann::json::parse(model_entry.content);
  const nlohmann::json weight = config["config"]["linear.weight"];
  nlohmann::json& graph = model["graph_module"]["graph"];
  nlohmann::json& specs = model["graph_module"]["signature"]["input_specs"];
  for (const View& view : views) {
    nlohmann::json payload = weight;
    nlohmann::json& meta = payload["tensor_meta"];
    meta["sizes"] = as_ints(view.dims);
    meta["strides"] = as_ints(view.strides);
    meta["storage_offset"] = {{"as_int", view.offset}};
    meta["requires_grad"] = false;
    config["config"][view.name] = payload;
    const nlohmann::json argument = {{"name", "b_" + view.name}};
    const nlohmann::json input = {{"as_tensor", argument}};
    const nlohmann::json spec = {{"buffer", {{"arg", argument}, {"buffer_name", view.name}, {"persistent", true}}}};
    graph["inputs"].insert(graph["inputs"].begin(), input);
    graph["tensor_values"]["b_" + view.name] = meta;
    specs.insert(specs.begin(), spec);
  }
  config_entry.content = config.dump();
  model_entry.content = model.dump();
  std::vector<float> elements(12);
  std::iota(elements.begin(), elements.end(), 0.0F);
  std::string& data = testing::find_entry(zip, "weights/" + weight["path_name"].get<std::string>()).content;
  data.assign(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float));
  if (stripped) data.clear();
  return zip;
}

std::vector<float> elements_of(const ImportedModel& model, const std::string& name) {
  const Tensor tensor = model.weights.at(name).contiguous_copy().value();
  const auto elements = tensor.elements<const float>();
  return {elements.begin(), elements.end()};
}

const View kSame = {"same", {3, 4}, {4, 1}, 0};
const View kTurned = {"turned", {4, 3}, {1, 4}, 0};
const View kLastRow = {"last_row", {4}, {1}, 8};

TEST_F(ModelFile, TiedNamesFollowAReplacement) {
  ASSERT_TRUE(write_safetensors(folder_ / "w.safetensors", {{{"linear.weight", filled({3, 4}, 5)}}}).ok());
  const Result<ImportedModel> model =
      import_model(write("m.pt2", forge_views({kSame}).build()),
                   {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(elements_of(*model, "same"), std::vector<float>(12, 5));
  // Nothing is copied where the views are the same.
  EXPECT_EQ(model->weights.at("same").data(), model->weights.at("linear.weight").data());
  EXPECT_FALSE(model->weights.at("same").buffer()->writable());
}

TEST_F(ModelFile, OtherViewsOfReplacedMemoryFollowToo) {
  const auto import_with = [&](const ForgedZip& zip, const std::vector<NamedTensor>& tensors) {
    EXPECT_TRUE(write_safetensors(folder_ / "w.safetensors", tensors).ok());
    return import_model(write("m.pt2", zip.build()),
                        {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  };
  Tensor counted = filled({3, 4}, 0);
  for (std::size_t i = 0; i < 12; ++i) counted.elements<float>()[i] = 100 + static_cast<float>(i);
  const std::vector<float> turned = {100, 104, 108, 101, 105, 109, 102, 106, 110, 103, 107, 111};
  for (const bool stripped : {false, true}) {
    const auto model = import_with(forge_views({kSame, kTurned, kLastRow}, stripped),
                                   {{"linear.weight", counted}, {"linear.bias", filled({3}, 0)}});
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(elements_of(*model, "turned"), turned);
    EXPECT_THAT(elements_of(*model, "last_row"), ElementsAre(108, 109, 110, 111));
    EXPECT_EQ(elements_of(*model, "same").back(), 111);
    for (const char* name : {"same", "turned", "last_row"}) {
      EXPECT_EQ(model->weights.at(name).buffer(), model->weights.at("linear.weight").buffer()) << name;
    }
  }
  // A part: what it does not cover stays.
  const auto part = import_with(forge_views({kTurned, kLastRow}), {{"last_row", filled({4}, 7)}});
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_THAT(elements_of(*part, "linear.weight"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7));
  EXPECT_THAT(elements_of(*part, "turned"), ElementsAre(0, 4, 7, 1, 5, 7, 2, 6, 7, 3, 7, 7));
  const auto stripped = import_with(forge_views({kLastRow}, true), {{"last_row", filled({4}, 7)}});
  EXPECT_THAT(stripped.status().message(), HasSubstr("no data for linear.weight"));
}

TEST_F(ModelFile, WeightsBesideAReplacedOneInTheSameEntryStayAsTheyAre) {
  ASSERT_TRUE(write_safetensors(folder_ / "w.safetensors", {{{"last_row", filled({4}, 7)}}}).ok());
  ForgedZip zip = forge_views({{"first_row", {4}, {1}, 0}, kLastRow});
  ForgedEntry& config = testing::find_entry(zip, "weights_config.json");
  nlohmann::json tree = nlohmann::json::parse(config.content);
  tree["config"]["linear.weight"]["path_name"] = "weight_own";
  config.content = tree.dump();
  ForgedEntry own = zip.entries[0];
  own.name.replace(own.name.rfind('/'), std::string::npos, "/weight_own");
  own.content.assign(48, '\0');
  zip.entries.push_back(own);
  const Result<ImportedModel> model =
      import_model(write("m.pt2", zip.build()),
                   {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(elements_of(*model, "first_row"), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(model->weights.at("first_row").buffer()->writable());
  EXPECT_THAT(elements_of(*model, "last_row"), ElementsAre(7, 7, 7, 7));
}

TEST_F(ModelFile, ReplacementsOfOneMemoryThatDifferAreRefused) {
  const auto message = [&](const std::vector<View>& views, const std::vector<NamedTensor>& tensors) {
    EXPECT_TRUE(write_safetensors(folder_ / "w.safetensors", tensors).ok());
    const auto model =
        import_model(write("m.pt2", forge_views(views).build()),
                     {.model_name = "", .weights = folder_ / "w.safetensors", .read_sample_inputs = false});
    EXPECT_TRUE(model.ok() || model.status().code() == StatusCode::kInvalidArgument);
    return model.ok() ? "" : model.status().message();
  };
  const std::vector<View> views = {kTurned, kLastRow};
  EXPECT_THAT(message(views, {{"linear.weight", filled({3, 4}, 5)}, {"last_row", filled({4}, 6)}}),
              HasSubstr("shares memory with '"));
  EXPECT_EQ(message(views, {{"linear.weight", filled({3, 4}, 5)}, {"last_row", filled({4}, 5)}}), "");
  Tensor counted = filled({2, 4}, 0);
  counted.elements<float>()[0] = 1;
  const View twice = {"twice", {2, 4}, {0, 1}, 0};
  EXPECT_THAT(message({twice}, {{"twice", counted}}),
              HasSubstr("'twice': elements that are one in the model's memory"));
  EXPECT_EQ(message({twice}, {{"twice", filled({2, 4}, 3)}}), "");
}

// x of linear_state is [s77, 4], s77 is 1 to 64.
TEST_F(ModelFile, TheRangeOfAnExpressionIsOneOfItsSymbol) {
  const auto import_with = [&](const char* size, const std::vector<std::array<std::string, 3>>& ranges) {
    ForgedZip zip = forge("linear_state");
    ForgedEntry& entry = testing::find_entry(zip, "models/model.json");
    nlohmann::json tree = nlohmann::json::parse(entry.content);
    if (size != nullptr) {
      const nlohmann::json expression = {{"as_expr", {{"expr_str", size}, {"hint", nullptr}}}};
      tree["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0] = expression;
    }
    for (const auto& [name, min, max] : ranges) {
      tree["range_constraints"][name] = {{"min_val", nlohmann::json::parse(min)},
                                         {"max_val", nlohmann::json::parse(max)}};
    }
    entry.content = tree.dump();
    return import_model(write("m.pt2", zip.build()));
  };
  constexpr const char* kTwice = "Mul(Integer(2), Symbol('s77', positive=True, integer=True))";
  const auto symbols = [&](const char* size, const std::vector<std::array<std::string, 3>>& ranges) {
    const Result<ImportedModel> model = import_with(size, ranges);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? model->graph.symbols : std::vector<ir::SymbolRange>();
  };
  // What the exporter wrote of s77 is its own assumption.
  EXPECT_THAT(symbols(kTwice, {{"s77", "2", "16"}, {"2*s77", "2", "32"}}), ElementsAre(ir::SymbolRange{"s77", 1, 16}));
  EXPECT_THAT(symbols(kTwice, {{"2*s77", "3", "33"}}), ElementsAre(ir::SymbolRange{"s77", 2, 16}));
  EXPECT_THAT(symbols(kTwice, {{"2*s77", "2", "null"}}), ElementsAre(ir::SymbolRange{"s77", 1, {}}));
  // An input has s77 by itself: both ranges hold.
  EXPECT_THAT(symbols(nullptr, {{"s77 + 1", "5", "100"}}), ElementsAre(ir::SymbolRange{"s77", 4, 64}));
  for (const char* unknown : {"s77*s77", "Max(1, s77)"}) {
    const Result<ImportedModel> model = import_with(nullptr, {{unknown, "1", "9"}});
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT(model->graph.symbols, ElementsAre(ir::SymbolRange{"s77", 1, 64}));
    EXPECT_THAT(model->notes, Contains(HasSubstr("the range of '" + std::string(unknown) + "' is not checked")));
  }
  const Result<ImportedModel> empty = import_with(kTwice, {{"2*s77", "3", "3"}});
  EXPECT_EQ(empty.status().code(), StatusCode::kCorruptData);
  EXPECT_THAT(empty.status().message(), HasSubstr("the range of '2*s77' is empty"));
}

TEST_F(ModelFile, SampleInputsAreGivenByName) {
  const ImportOptions options{.model_name = "", .weights = {}, .read_sample_inputs = true};
  const Result<ImportedModel> model = import_model(golden("linear_state"), options);
  ASSERT_TRUE(model.ok());
  ASSERT_THAT(model->sample_inputs, SizeIs(1));
  EXPECT_EQ(model->sample_inputs[0].name, "x");
  EXPECT_EQ(model->sample_inputs[0].tensor.dims(), Dims({2, 4}));
  const Result<ImportedModel> nested = import_model(golden("kwargs"), options);
  ASSERT_TRUE(nested.ok());
  std::vector<std::string> names;
  for (const NamedTensor& input : nested->sample_inputs) names.push_back(input.name);
  EXPECT_THAT(names, ElementsAre("x", "pair.k.0", "pair.l.0", "pair.l.1"));
  EXPECT_THAT(import_model(golden("kwargs"))->sample_inputs, IsEmpty());
}

TEST_F(ModelFile, SampleInputsThatCannotBeReadAreANote) {
  ForgedZip zip = forge("linear_state");
  for (ForgedEntry& entry : zip.entries) {
    if (entry.name.find("sample_inputs") != std::string::npos) entry.content = "no pickle";
  }
  const Result<ImportedModel> model =
      import_model(write("m.pt2", zip.build()), {.model_name = "", .weights = {}, .read_sample_inputs = true});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->sample_inputs, IsEmpty());
  EXPECT_THAT(model->notes, Contains(HasSubstr("sample inputs are ignored")));
}

TEST_F(ModelFile, OfSeveralModelsOneIsNamed) {
  ForgedZip zip = forge("linear_state");
  const std::vector<ForgedEntry> entries = zip.entries;
  for (const ForgedEntry& entry : entries) {
    ForgedEntry second = entry;
    const std::size_t found = second.name.rfind("/model");
    if (found == std::string::npos) continue;
    second.name.replace(found, 6, "/second");
    if (second.name != entry.name) zip.entries.push_back(second);
  }
  const std::filesystem::path path = write("two.pt2", zip.build());
  EXPECT_EQ(import_model(path).status().code(), StatusCode::kInvalidArgument);
  ImportOptions options;
  options.model_name = "third";
  EXPECT_EQ(import_model(path, options).status().code(), StatusCode::kNotFound);
  options.model_name = "second";
  EXPECT_TRUE(import_model(path, options).ok()) << import_model(path, options).status().message();
}

TEST_F(ModelFile, MisalignedWeightsAreCopiedWithANote) {
  ForgedZip zip = forge("linear_state");
  const auto place_of = [&](const ForgedZip& forged) { return forged.build().find(forged.entries[0].content); };
  ASSERT_NE(zip.entries[0].name.find("/weight_0"), std::string::npos);
  while (place_of(zip) % 4 != 1) zip.prefix += "x";
  const Result<ImportedModel> model = import_model(write("m.pt2", zip.build()));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->notes, ElementsAre(HasSubstr("data/weights/weight_0: not aligned")));
  const Result<ImportedModel> plain = import_model(golden("linear_state"));
  const auto copied = model->weights.at("linear.weight").elements<const float>();
  const auto mapped = plain->weights.at("linear.weight").elements<const float>();
  EXPECT_TRUE(std::equal(copied.begin(), copied.end(), mapped.begin(), mapped.end()));
  EXPECT_TRUE(model->weights.at("linear.weight").buffer()->writable());
}

TEST_F(ModelFile, ARepackedArchiveMayCompressItsTexts) {
  ForgedZip zip = forge("linear_state");
  for (ForgedEntry& entry : zip.entries) entry.deflate = entry.name.ends_with(".json");
  const Result<ImportedModel> model = import_model(write("m.pt2", zip.build()));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(find_source_line(*model, model->graph.nodes[1]), HasSubstr("make_golden.py"));
}

TEST_F(ModelFile, MissingFilesAndFoldersAreTypedFailures) {
  EXPECT_EQ(import_model(folder_ / "absent.pt2").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(import_model(folder_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(import_model(write("empty.pt2", "")).status().code(), StatusCode::kCorruptData);
}

TEST(StackTrace, TheLastFrameOutsidePyTorchIsShown) {
  EXPECT_EQ(
      describe_stack_trace("File \"/home/u/model.py\", line 12, in forward\n    return self.l(x)\n"
                           "  File \"/x/site-packages/torch/nn/modules/linear.py\", line 3, in forward\n    F.linear"),
      "model.py:12 in forward: return self.l(x)");
  EXPECT_EQ(
      describe_stack_trace("File \"/home/u/model.py\", line 7, in forward\n    torch.while_loop(more, turn, start)\n"
                           "  File \"<eval_with_key>.2\", line 9, in forward\n    while_loop = torch.ops…"),
      "model.py:7 in forward: torch.while_loop(more, turn, start)");
  EXPECT_EQ(describe_stack_trace("File \"torch/fx/x.py\", line 24, in insert"), "x.py:24 in insert");
  EXPECT_EQ(describe_stack_trace(""), "");
  EXPECT_EQ(describe_stack_trace("nothing of the kind"), "");
}

}  // namespace
}  // namespace kpt
