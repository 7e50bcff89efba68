// Files of a few hundred KiB to a few MiB that ask for far more time or memory: each must be read or refused within
// bounds.
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "archive/zip.h"
#include "base/sanitizers.h"
#include "importer/import_archive.h"
#include "importer/model_forge.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using nlohmann::json;
using testing::as_bytes;
using ::testing::Contains;
using testing::ForgedZip;
using ::testing::HasSubstr;

ForgedZip original() {
  return testing::forge_model(std::filesystem::path(source_dir()) / "tests/golden/pt2/2.15.0/linear_state.pt2");
}

// Without optimization and with AddressSanitizer, files take twenty times as long to make and to read: smaller ones
// show what a sanitizer is for, and time is judged in the other builds.
#if defined(KPT_ADDRESS_SANITIZER) || defined(KPT_THREAD_SANITIZER)
constexpr int kPart = 10;
#else
constexpr int kPart = 1;
#endif

// Of processor time, of which each takes less than half a second.
constexpr double kMostSeconds = 8;

Result<ImportedModel> import_within_bounds(const ForgedZip& zip) {
  const std::string bytes = zip.build();
  const long before = testing::peak_memory_kib();
  const std::clock_t start = std::clock();
  Result<ImportedModel> model = [&]() -> Result<ImportedModel> {
    KPT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::from_bytes(as_bytes(bytes), "greedy.pt2"));
    return import_archive(archive, {.model_name = "", .weights = {}, .read_sample_inputs = true});
  }();
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kMostSeconds);
  EXPECT_LT(testing::peak_memory_kib() - before, 256 * 1024);
  return model;
}

ForgedZip changed(const std::function<void(json&)>& change) {
  ForgedZip zip = original();
  std::string& content = testing::find_entry(zip, "models/model.json").content;
  json tree = json::parse(content);
  change(tree);
  content = tree.dump();
  return zip;
}

json& graph_of(json& tree) { return tree["graph_module"]["graph"]; }

json leaves(std::size_t count) {
  return json(count, json{{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}});
}

json container(const char* type, const json& context, const json& children) {
  return {{"type", type}, {"context", context.dump()}, {"children_spec", children}};
}

ForgedZip with_spec(const char* key, const json& tree) {
  return changed([&](json& program) {
    program["graph_module"]["module_call_graph"][0]["signature"][key] = json::array({1, tree}).dump();
  });
}

// One row of a float tensor.
json tensor_type(int dtype) {
  const json one = {{"as_int", 1}};
  return {{"dtype", dtype},
          {"sizes", {one}},
          {"strides", {one}},
          {"storage_offset", {{"as_int", 0}}},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"layout", 7}};
}
constexpr int kFloat32 = 7;
constexpr int kBFloat16 = 13;

json tensor_argument(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

json subgraph(const json& inner) { return {{"name", ""}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", inner}}}}}}; }

json empty_graph() { return {{"inputs", json::array()}, {"outputs", json::array()}, {"nodes", json::array()}}; }

json positional(const json& argument) { return {{"name", ""}, {"arg", argument}}; }

TEST(GreedyFiles, ManyEqualNames) {
  constexpr std::size_t kCount = 40'000 / kPart;
  const json context(kCount, "a");
  for (const char* key : {"in_spec", "out_spec"}) {
    const auto model = import_within_bounds(with_spec(key, container("builtins.dict", context, leaves(kCount))));
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_THAT(model->notes, Contains(HasSubstr("does not fit the graph")));
  }
}

TEST(GreedyFiles, ALongKeyAboveManyLeaves) {
  const json context = json::array({std::string(100'000, 'k')});
  const json tree = container("builtins.dict", context, json::array({container("builtins.list", {}, leaves(10'000))}));
  const auto model = import_within_bounds(with_spec("out_spec", tree));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->notes, Contains(HasSubstr("longer than 16 MiB")));
}

TEST(GreedyFiles, ALongKeyAboveManyEmptyLists) {
  const json context = json::array({std::string(1'000'000, 'k')});
  const json lists(200'000 / kPart, json{{"type", "l"}});
  const json tree = container("builtins.dict", context, json::array({container("builtins.list", {}, lists)}));
  EXPECT_TRUE(import_within_bounds(with_spec("out_spec", tree)).ok());
}

TEST(GreedyFiles, ALongNodeNameBeforeManyInlinedValues) {
  constexpr int kCount = 10'000 / kPart;
  const auto model = import_within_bounds(changed([](json& tree) {
    json inner = empty_graph();
    for (int i = 0; i < kCount; ++i) {
      const std::string name = "v" + std::to_string(i);
      const json node = {{"target", "torch.ops.aten.clone.default"},
                         {"name", name},
                         {"inputs", json::array()},
                         {"outputs", {tensor_argument(name)}}};
      inner["nodes"].push_back(node);
      inner["tensor_values"][name] = tensor_type(kFloat32);
    }
    for (const char* name : {"first", "second"}) {  // the values of the second meet those of the first
      const json node = {{"target", "torch.ops.higher_order.wrap_with_set_grad_enabled"},
                         {"name", name + std::string(100'000, 'n')},
                         {"inputs", {positional({{"as_bool", false}}), subgraph(inner)}},
                         {"outputs", json::array()}};
      graph_of(tree)["nodes"].push_back(node);
    }
  }));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->graph.values.back().name, HasSubstr("n.v"));
}

// Each place in the list is a conversion of its own.
TEST(GreedyFiles, OneTensorCastManyTimes) {
  constexpr std::size_t kCount = 20'000 / kPart;
  const auto forge = [](const std::string& outer) {
    return changed([&](json& tree) {
      json inner = empty_graph();
      inner["inputs"] = json::array({tensor_argument("a")});
      const json list = {{"as_tensors", json(kCount, json{{"name", "a"}})}};
      inner["nodes"] = {{{"target", "torch.ops.aten.baddbmm.default"},
                         {"name", "b"},
                         {"inputs", {positional(list)}},
                         {"outputs", {tensor_argument("b")}}}};
      inner["tensor_values"] = {{"a", tensor_type(kFloat32)}, {"b", tensor_type(kBFloat16)}};
      json& graph = graph_of(tree);
      const json make = {{"target", "torch.ops.aten.zeros.default"},
                         {"name", "z"},
                         {"inputs", json::array()},
                         {"outputs", {tensor_argument(outer)}}};
      const json wrap = {{"target", "torch.ops.higher_order.wrap_with_autocast"},
                         {"name", "w"},
                         {"inputs",
                          {positional({{"as_string", "cpu"}}), positional({{"as_scalar_type", kBFloat16}}),
                           positional({{"as_bool", true}}), positional({{"as_bool", true}}), subgraph(inner),
                           positional(tensor_argument(outer))}},
                         {"outputs", json::array()}};
      graph["nodes"].push_back(make);
      graph["nodes"].push_back(wrap);
      graph["tensor_values"][outer] = tensor_type(kFloat32);
    });
  };
  for (const std::size_t length : {std::size_t{1}, std::size_t{100'000}}) {
    const auto model = import_within_bounds(forge(std::string(length, 'x') + "y"));
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_GT(model->graph.nodes.size(), kCount);
  }
}

TEST(GreedyFiles, ManySymbolsAndManySubgraphs) {
  constexpr int kCount = 20'000 / kPart;
  const auto model = import_within_bounds(changed([](json& tree) {
    const json node = {{"target", "torch.ops.higher_order.cond"},
                       {"name", "c"},
                       {"inputs", {subgraph(empty_graph())}},
                       {"outputs", json::array()}};
    for (int i = 0; i < kCount; ++i) {
      tree["range_constraints"]["q" + std::to_string(i)] = {{"min_val", 0}, {"max_val", 9}};
      graph_of(tree)["nodes"].push_back(node);
    }
  }));
  EXPECT_TRUE(model.ok()) << model.status().message();
}

// The graph of `count` inputs, each of which it changes once, or the first of them each time.
ForgedZip with_mutations(int count, bool all_of_the_first) {
  return changed([&](json& tree) {
    json& graph = graph_of(tree);
    json& signature = tree["graph_module"]["signature"];
    json outputs = json::array();
    json specs = json::array();
    json inputs = json::array();
    json input_specs = json::array();
    for (int i = 0; i < count; ++i) {
      const std::string name = "i" + std::to_string(i);
      inputs.push_back(tensor_argument(name));
      input_specs.push_back({{"user_input", {{"arg", tensor_argument(name)}}}});
      outputs.push_back(tensor_argument(name));
      const std::string changed_name = all_of_the_first ? "i0" : name;
      specs.push_back({{"user_input_mutation", {{"arg", {{"name", name}}}, {"user_input_name", changed_name}}}});
      graph["tensor_values"][name] = tensor_type(kFloat32);
    }
    graph["nodes"] = json::array();
    graph["inputs"] = inputs;
    graph["outputs"] = outputs;
    signature["input_specs"] = input_specs;
    signature["output_specs"] = specs;
    // The first is called by a key that is long.
    json call = {{"args", container("builtins.tuple", {}, leaves(static_cast<std::size_t>(count)))}};
    tree["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] =
        json::array(
            {1, container("builtins.tuple", {},
                          json::array({call["args"], container("builtins.dict", json::array(), json::array())}))})
            .dump();
    tree["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] =
        json::array({std::string(100'000, 'x')});
  });
}

TEST(GreedyFiles, ManyMutationsOfManyInputs) {
  const auto model = import_within_bounds(with_mutations(30'000 / kPart, false));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph.outputs.front().name.size(), 100'000U);
}

TEST(GreedyFiles, ManyMutationsOfOneInputOfALongName) {
  const auto model = import_within_bounds(with_mutations(10'000 / kPart, true));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kCorruptData);
  EXPECT_THAT(model.status().message(), HasSubstr("a mutation of 'i0', which is no input of that kind, or a second"));
}

// A pickle of ((), {<100,000 letters>: [None, None, …]}).
TEST(GreedyFiles, ALongKeyAboveManySampleInputs) {
  constexpr std::uint32_t kLetters = 100'000;
  std::string pickle = "\x80\x02)}X";
  for (unsigned shift = 0; shift < 32; shift += 8) pickle += static_cast<char>((kLetters >> shift) & 0xffU);
  pickle += std::string(kLetters, 'k') + "](" + std::string(10'000, 'N') + "es\x86.";
  ForgedZip samples;
  samples.entries.resize(2);
  samples.entries[0].name = "a/data.pkl";
  samples.entries[0].content = pickle;
  samples.entries[1].name = "a/byteorder";
  samples.entries[1].content = "little";
  ForgedZip zip = original();
  testing::find_entry(zip, "sample_inputs/model.pt").content = samples.build();
  const auto model = import_within_bounds(zip);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->notes, Contains(HasSubstr("not as many as the model's inputs")));
}

}  // namespace
}  // namespace kpt
