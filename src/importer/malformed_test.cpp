// Hundreds of broken archives made from a golden file: each must give a typed error that names the file, within bounds.
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "archive/zip.h"
#include "importer/import_archive.h"
#include "importer/model_forge.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using nlohmann::json;
using testing::as_bytes;
using testing::ForgedEntry;
using testing::ForgedZip;
using ::testing::HasSubstr;

constexpr const char* kName = "bad.pt2";
const std::string kModel = "linear_state/models/model.json";
const std::string kWeights = "linear_state/data/weights/model_weights_config.json";
const std::string kConstants = "linear_state/data/constants/model_constants_config.json";

std::vector<ForgedEntry> golden_entries() {
  const auto path = std::filesystem::path(source_dir()) / "tests/golden/pt2/2.15.0/linear_state.pt2";
  return testing::forge_model(path).entries;
}

Result<ImportedModel> import_bytes(const std::string& bytes) {
  KPT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::from_bytes(as_bytes(bytes), kName));
  return import_archive(archive, {.model_name = "", .weights = {}, .read_sample_inputs = true});
}

struct BadFile {
  std::string what;
  std::string bytes;
  StatusCode code = StatusCode::kCorruptData;
  std::string place;  // a part of the message
};

class BadFiles {
 public:
  BadFiles() : entries_(golden_entries()) {
    add_truncated();
    add_lying_entries();
    add_lying_ends();
    add_bad_names();
    add_missing_entries();
    add_wrong_texts();
    add_bad_model_json();
    add_bad_graphs();
    add_bad_signatures();
    add_bad_weights();
  }
  const std::vector<BadFile>& all() const { return files_; }

 private:
  void add(std::string what, const ForgedZip& zip, StatusCode code = StatusCode::kCorruptData, std::string place = "") {
    files_.push_back({std::move(what), zip.build(), code, std::move(place)});
  }
  ForgedEntry& find(ForgedZip* zip, const std::string& name) const {
    for (ForgedEntry& entry : zip->entries) {
      if (entry.name == name) return entry;
    }
    ADD_FAILURE() << "no entry " << name;
    return zip->entries[0];
  }
  void add_text(std::string what, const std::string& entry, std::string content,
                StatusCode code = StatusCode::kCorruptData, std::string place = "") {
    ForgedZip zip(entries_);
    find(&zip, entry).content = std::move(content);
    add(std::move(what), zip, code, place.empty() ? entry.substr(entry.find('/') + 1) : std::move(place));
  }
  std::string text(const std::string& entry) const {
    ForgedZip zip(entries_);
    return find(&zip, entry).content;
  }
  // Changes the JSON of an entry.
  void add_json(const std::string& what, const std::string& entry, const std::function<void(json&)>& change,
                StatusCode code = StatusCode::kCorruptData, const std::string& place = "") {
    json tree = json::parse(text(entry));
    change(tree);
    add_text(what, entry, tree.dump(), code, place);
  }

  void add_truncated();
  void add_lying_entries();
  void add_lying_ends();
  void add_bad_names();
  void add_missing_entries();
  void add_wrong_texts();
  void add_bad_model_json();
  void add_bad_graphs();
  void add_bad_signatures();
  void add_bad_weights();

  std::vector<ForgedEntry> entries_;
  std::vector<BadFile> files_;
};

void BadFiles::add_truncated() {
  const std::string whole = ForgedZip(entries_).build();
  constexpr std::size_t kCuts = 60;
  for (std::size_t i = 0; i < kCuts; ++i) {
    const std::size_t length = whole.size() * i / kCuts;
    files_.push_back({"cut at " + std::to_string(length), whole.substr(0, length), StatusCode::kCorruptData, ""});
  }
  for (std::size_t i = 1; i <= 22; ++i) {
    files_.push_back(
        {"short of " + std::to_string(i), whole.substr(0, whole.size() - i), StatusCode::kCorruptData, ""});
  }
  files_.push_back({"no zip", std::string(5000, 'x'), StatusCode::kCorruptData, ""});
}

void BadFiles::add_lying_entries() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string& name = entries_[i].name;
    const auto forge = [&](const std::string& what, const std::function<void(ForgedEntry&)>& change,
                           const std::string& place = "") {
      ForgedZip zip(entries_);
      change(zip.entries[i]);
      add(name + ": " + what, zip, StatusCode::kCorruptData, place.empty() ? name : place);
    };
    const std::uint64_t size = entries_[i].content.size();
    forge("size of one more", [&](ForgedEntry& entry) { entry.size = size + 1; });
    forge(
        "both sizes of one more", [&](ForgedEntry& entry) { entry.size = entry.compressed_size = size + 1; },
        "overlaps another entry");
    forge("sizes beyond the file", [](ForgedEntry& entry) { entry.size = entry.compressed_size = 0x7fffffff; });
    forge("64-bit sizes beyond the file", [](ForgedEntry& entry) {
      entry.zip64 = true;
      entry.size = entry.compressed_size = ~std::uint64_t{0} - 1;
    });
    forge("header beyond the file", [](ForgedEntry& entry) { entry.local_header = 0x7ffffff0; });
    forge("header on another entry", [&](ForgedEntry& entry) { entry.local_header = i == 0 ? 200 : 0; });
  }
}

void BadFiles::add_lying_ends() {
  const auto forge = [&](const std::string& what, const std::function<void(ForgedZip&)>& change,
                         const std::string& place = "directory") {
    for (const bool zip64 : {false, true}) {
      ForgedZip zip(entries_);
      zip.zip64 = zip64;
      change(zip);
      add((zip64 ? "ZIP64: " : "") + what, zip, StatusCode::kCorruptData, place);
    }
  };
  forge("one entry more than there are", [&](ForgedZip& zip) { zip.count = entries_.size() + 1; });
  forge("one entry fewer than there are", [&](ForgedZip& zip) { zip.count = entries_.size() - 1; });
  forge("60000 entries", [](ForgedZip& zip) { zip.count = 60000; });
  forge("a directory of size 0", [](ForgedZip& zip) { zip.directory_size = 0; });
  forge("a directory larger than the file", [](ForgedZip& zip) { zip.directory_size = 0x7fffffff; });
  forge("a directory beyond the file", [](ForgedZip& zip) { zip.directory_offset = 0x7fffffff; });
  forge("a directory at 0", [](ForgedZip& zip) { zip.directory_offset = 0; });
  forge("several disks", [](ForgedZip& zip) { zip.disk = 1; }, "several disks");
  const auto forge64 = [&](const std::string& what, const std::function<void(ForgedZip&)>& change,
                           const std::string& place) {
    ForgedZip zip(entries_);
    zip.zip64 = true;
    change(zip);
    add("ZIP64: " + what, zip, StatusCode::kCorruptData, place);
  };
  forge64("2^63 entries", [](ForgedZip& zip) { zip.count = std::uint64_t{1} << 63; }, "entries");
  forge64(
      "a directory of 2^63 bytes", [](ForgedZip& zip) { zip.directory_size = std::uint64_t{1} << 63; }, "directory");
  forge64("a directory at 2^64 - 1", [](ForgedZip& zip) { zip.directory_offset = ~std::uint64_t{0}; }, "directory");
  forge64("a record at 2^63", [](ForgedZip& zip) { zip.zip64_offset = std::uint64_t{1} << 63; }, "ZIP64");
  forge64("a record at 0", [](ForgedZip& zip) { zip.zip64_offset = 0; }, "ZIP64");
  forge64("a record of 2^63 bytes", [](ForgedZip& zip) { zip.zip64_record_bytes = std::uint64_t{1} << 63; }, "ZIP64");
  forge64("two disks", [](ForgedZip& zip) { zip.zip64_disks = 2; }, "several disks");
}

void BadFiles::add_bad_names() {
  const std::vector<std::string> names = {
      "../evil", "/etc/passwd", "linear_state/../../x", "a\\b", std::string("a\0b", 3), "..", "linear_state/..", ""};
  for (const std::string& name : names) {
    for (const std::size_t i : {std::size_t{0}, entries_.size() - 1}) {
      ForgedZip zip(entries_);
      zip.entries[i].name = name;
      add("an entry called '" + name + "'", zip, StatusCode::kCorruptData, "entry");
    }
  }
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    ForgedZip zip(entries_);
    zip.entries[i].name = entries_[0].name;
    add("two entries of one name", zip, StatusCode::kCorruptData, entries_[0].name);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    ForgedZip zip(entries_);
    zip.entries[i].flags = 1;
    add("an encrypted entry", zip, StatusCode::kUnsupported, entries_[i].name);
    zip = ForgedZip(entries_);
    zip.entries[i].method = 12;
    add("an entry compressed by bzip2", zip, StatusCode::kUnsupported, entries_[i].name);
  }
}

void BadFiles::add_missing_entries() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string& name = entries_[i].name;
    const bool needed = name.find("/data/w") != std::string::npos || name.find("/data/c") != std::string::npos ||
                        name.ends_with("model.json") || name.ends_with("archive_format");
    if (!needed) continue;
    ForgedZip zip(entries_);
    zip.entries.erase(zip.entries.begin() + static_cast<std::ptrdiff_t>(i));
    const bool lists = name.ends_with("config.json");  // each weight of it is missing then
    const std::string place = lists ? "weight '" : name.substr(name.find('/') + 1);
    add("without " + name, zip, StatusCode::kCorruptData, name == kModel ? "models/" : place);
    if (name.find("/weight_") != std::string::npos || name.find("/tensor_") != std::string::npos) {
      zip = ForgedZip(entries_);
      zip.entries[i].content.pop_back();
      add("a byte short: " + name, zip, StatusCode::kCorruptData, "does not hold it");
      zip.entries[i].content.clear();
      add("stripped: " + name, zip, StatusCode::kInvalidArgument, "no data");
      zip = ForgedZip(entries_);
      zip.entries[i].deflate = true;
      add("compressed: " + name, zip, StatusCode::kUnsupported, "compressed");
    } else {
      zip = ForgedZip(entries_);
      zip.entries[i].crc32 = 0x12345678;
      add("a wrong CRC: " + name, zip, StatusCode::kCorruptData, name);
      zip.entries[i].deflate = true;
      add("a wrong CRC, deflated: " + name, zip, StatusCode::kCorruptData, name);
    }
  }
  add("an empty archive", ForgedZip());
}

void BadFiles::add_wrong_texts() {
  add_text("another format", "linear_state/archive_format", "pt3", StatusCode::kCorruptData, "pt3");
  add_text("a long format", "linear_state/archive_format", std::string(1000, 'p'), StatusCode::kUnsupported);
  add_text("big endian", "linear_state/byteorder", "big", StatusCode::kUnsupported, "byte order");
  const auto with = [&](const std::string& name, const std::string& content) {
    ForgedZip zip(entries_);
    ForgedEntry entry;
    entry.name = name;
    entry.content = content;
    zip.entries.push_back(entry);
    return zip;
  };
  add("of PyTorch 2.7", with("serialized_exported_program.json", "{}"), StatusCode::kVersionMismatch, "2.9 or newer");
  add("of PyTorch 2.8", with("linear_state/data/weights/model.pt", "x"), StatusCode::kVersionMismatch, "2.9 or newer");
  add("two roots", with("other/archive_format", "pt2"), StatusCode::kCorruptData, "two folders");
  add("two models", with("linear_state/models/second.json", "{}"), StatusCode::kInvalidArgument, "second");
  ForgedZip compiled = with("linear_state/data/aotinductor/model/x.so", "x");
  std::erase_if(compiled.entries, [](const ForgedEntry& entry) { return entry.name == kModel; });
  add("compiled code only", compiled, StatusCode::kUnsupported, "AOTInductor");
}

void BadFiles::add_bad_model_json() {
  const std::string whole = text(kModel);
  for (std::size_t i = 0; i < 40; ++i) {
    add_text("JSON cut", kModel, whole.substr(0, whole.size() * i / 40));
  }
  const auto replace = [&](const std::string& what, const std::string& old, const std::string& with,
                           StatusCode code = StatusCode::kCorruptData) {
    std::string changed = whole;
    const std::size_t found = changed.find(old);
    ASSERT_NE(found, std::string::npos) << old;
    add_text(what, kModel, changed.replace(found, old.size(), with), code);
  };
  const std::string deep_list(100'000, '[');
  std::string deep_object;
  for (int i = 0; i < 100'000; ++i) deep_object += "{\"a\":";
  replace("depth of 10^5 instead of nodes", "\"nodes\": [", "\"nodes\": " + deep_list + "[");
  replace("depth of 10^5 in a dim", "\"sizes\": [", "\"sizes\": " + deep_list);
  replace("depth of 10^5 in metadata", "\"stack_trace\": ", "\"stack_trace\": " + deep_list);
  replace("depth of 10^5 in an argument", "\"arg\": {", "\"arg\": " + deep_object + "{");
  replace("depth of 10^5 at the top", "{", deep_object);
  for (const char* number :
       {"NaN", "Infinity", "-", "1e400", "0x7", "07", "7.0", "\"7\"", "99999999999999999999", "-1"}) {
    replace(std::string("dtype ") + number, "\"dtype\": 7", std::string("\"dtype\": ") + number);
    if (std::string(number) != "-1") {
      replace(std::string("index ") + number, "\"as_int\": 1", std::string("\"as_int\": ") + number);
    }
  }
  replace("unknown dtype", "\"dtype\": 7", "\"dtype\": 14");
  replace("dtype of c10", "\"dtype\": 7", "\"dtype\": 0");
  replace("unknown layout", "\"layout\": 7", "\"layout\": 8");
  replace("sparse", "\"layout\": 7", "\"layout\": 2", StatusCode::kUnsupported);
  replace("schema 7", "\"major\": 8", "\"major\": 7", StatusCode::kVersionMismatch);
  replace("schema 9", "\"major\": 8", "\"major\": 9", StatusCode::kVersionMismatch);
  replace("a key twice", "\"target\": ", "\"target\": \"a\", \"target\": ");
  replace("two members", "{\"as_int\": 1}", "{\"as_int\": 1, \"as_bool\": true}");
  replace("no member", "{\"as_int\": 1}", "{}");
  replace("unknown member", "{\"as_int\": 1}", "{\"as_secret\": 1}", StatusCode::kUnsupported);
  replace("custom object", "{\"as_int\": 1}", R"({"as_custom_obj": {"name": "o", "class_fqn": "c"}})",
          StatusCode::kUnsupported);
  replace("dictionary", "{\"as_int\": 1}", R"({"as_string_to_argument": {"k": {"as_int": 1}}})",
          StatusCode::kUnsupported);
  replace("no UTF-8", "\"target\": \"", "\"target\": \"\xff");
  replace("a lone surrogate", "\"target\": \"", "\"target\": \"\\ud800");
  replace("no expression", "Symbol('", "Symbol(");
  replace("a huge expression", "\"expr_str\": \"", "\"expr_str\": \"" + std::string(100'000, '('));
  replace(
      "an expression of depth 10^4", "\"expr_str\": \"", "\"expr_str\": \"" + [] {
        std::string text;
        for (int i = 0; i < 10'000; ++i) text += "Add(";
        return text;
      }());
}

// Changes to the graph itself: paths are below graph_module.graph.
void BadFiles::add_bad_graphs() {
  const auto change = [&](const std::string& what, const std::function<void(json&)>& edit,
                          StatusCode code = StatusCode::kCorruptData, const std::string& place = "") {
    add_json(what, kModel, [&](json& tree) { edit(tree["graph_module"]["graph"]); }, code, place);
  };
  for (const char* key : {"inputs", "outputs", "nodes", "tensor_values", "sym_int_values"}) {
    change(std::string("no ") + key, [&](json& graph) { graph.erase(key); });
    change(std::string("text as ") + key, [&](json& graph) { graph[key] = "x"; });
    change(std::string("null as ") + key, [&](json& graph) { graph[key] = nullptr; });
    change(std::string("empty ") + key, [&](json& graph) { graph[key].clear(); });
  }
  const json golden = json::parse(text(kModel))["graph_module"]["graph"];
  for (const auto& item : golden["tensor_values"].items()) {
    const std::string& name = item.key();
    change(
        "no type of " + name, [&](json& graph) { graph["tensor_values"].erase(name); }, StatusCode::kCorruptData, name);
    if (golden["nodes"][1]["outputs"][0]["as_tensor"]["name"] == name) continue;
    change("a value called as " + name,
           [&](json& graph) { graph["nodes"][1]["outputs"] = {{{"as_tensor", {{"name", name}}}}}; });
  }
  const std::size_t count = golden["nodes"].size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = [i](json& graph) -> json& { return graph["nodes"][i]; };
    change("no target", [&](json& graph) { at(graph).erase("target"); });
    change("no results", [&](json& graph) { at(graph)["outputs"] = json::array(); });
    change(
        "an undefined value",
        [&](json& graph) { at(graph)["inputs"][0]["arg"] = {{"as_tensor", {{"name", "nowhere"}}}}; },
        StatusCode::kCorruptData, "nowhere");
    change(
        "a cycle of one node",
        [&](json& graph) { at(graph)["inputs"].push_back({{"name", "extra"}, {"arg", at(graph)["outputs"][0]}}); },
        StatusCode::kCorruptData, "before it is defined");
    change(
        "a constant as result", [&](json& graph) { at(graph)["outputs"][0] = {{"as_int", 1}}; },
        StatusCode::kUnsupported);
    change("an argument twice", [&](json& graph) { at(graph)["inputs"].push_back(at(graph)["inputs"][0]); });
  }
  change("nodes backwards", [](json& graph) { std::reverse(graph["nodes"].begin(), graph["nodes"].end()); });
  change("a node twice", [](json& graph) { graph["nodes"].push_back(graph["nodes"][1]); });
  // Some are found when the graph is read, some when it is held against the weights; both name the file.
  const auto dims = [&](const std::string& what, const json& sizes, const json& strides) {
    change(
        "dims: " + what,
        [&](json& graph) {
          json& type = graph["tensor_values"]["p_linear_bias"];
          type["sizes"] = sizes;
          type["strides"] = strides;
        },
        StatusCode::kCorruptData, "bias");
  };
  const json one = {{"as_int", 1}};
  const json huge = {{"as_int", std::int64_t{1} << 62}};
  dims("negative", json::array({json{{"as_int", -3}}}), json::array({one}));
  dims("rank 17", json(17, one), json(17, one));
  dims("more strides", json::array({one}), json::array({one, one}));
  dims("product overflows", json::array({huge, huge, huge}), json::array({one, one, one}));
  dims("other than the weight's", json::array({json{{"as_int", 4}}}), json::array({one}));
  json nested = {{"inputs", json::array()}, {"outputs", json::array()}, {"nodes", json::array()}};
  for (int depth = 0; depth < 40; ++depth) {
    const json argument = {{"name", ""}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", nested}}}}}};
    nested["nodes"] = {{{"target", "torch.ops.higher_order.cond"}, {"inputs", {argument}}, {"outputs", json::array()}}};
  }
  change("sub-graphs of depth 40", [&](json& graph) { graph["nodes"].push_back(nested["nodes"][0]); });
  change(
      "a name of our own operators", [&](json& graph) { graph["nodes"][1]["target"] = "torch.ops.kpt.glu.default"; },
      StatusCode::kUnsupported);
  for (const char* target :
       {"torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_autocast"}) {
    change("a wrapper without arguments", [&](json& graph) { graph["nodes"][1]["target"] = target; });
  }
}

void BadFiles::add_bad_signatures() {
  const auto change = [&](const std::string& what, const std::function<void(json&)>& edit,
                          StatusCode code = StatusCode::kCorruptData, const std::string& place = "") {
    add_json(what, kModel, [&](json& tree) { edit(tree["graph_module"]); }, code, place);
  };
  for (const char* key : {"graph", "signature"}) {
    change(std::string("no ") + key, [&](json& module) { module.erase(key); });
  }
  for (const char* key : {"input_specs", "output_specs"}) {
    change(std::string("no ") + key, [&](json& module) { module["signature"].erase(key); });
    change(std::string("no item of ") + key, [&](json& module) { module["signature"][key].clear(); });
    change(std::string("one more of ") + key,
           [&](json& module) { module["signature"][key].push_back(module["signature"][key][0]); });
    change(std::string("other order of ") + key,
           [&](json& module) { std::reverse(module["signature"][key].begin(), module["signature"][key].end()); });
  }
  const auto input = [&](const std::string& what, const json& spec, StatusCode code, const std::string& place = "") {
    change(what, [&](json& module) { module["signature"]["input_specs"][0] = spec; }, code, place);
  };
  const json argument = {{"name", "p_linear_weight"}};
  input("a token", {{"token", {{"arg", argument}}}}, StatusCode::kUnsupported);
  input("a custom object", {{"custom_obj", {{"arg", argument}, {"custom_obj_name", "o"}}}}, StatusCode::kUnsupported);
  input("another value", {{"parameter", {{"arg", {{"name", "x"}}}, {"parameter_name", "w"}}}},
        StatusCode::kCorruptData);
  input("no name", {{"parameter", {{"arg", argument}}}}, StatusCode::kCorruptData);
  input("an unknown weight", {{"parameter", {{"arg", argument}, {"parameter_name", "w"}}}}, StatusCode::kCorruptData,
        "weight 'w'");
  input("a constant", {{"constant_input", {{"name", "x"}, {"value", {{"as_int", 1}}}}}}, StatusCode::kCorruptData);
  const auto output = [&](const std::string& tag, const json& fields, StatusCode code) {
    change(
        "output " + tag,
        [&](json& module) {
          json& spec = module["signature"]["output_specs"][0];
          json changed = fields;
          changed["arg"] = spec["user_output"]["arg"]["as_tensor"];
          spec = {{tag, changed}};
        },
        code);
  };
  output("loss_output", {}, StatusCode::kUnsupported);
  output("gradient_to_parameter", {{"parameter_name", "linear.weight"}}, StatusCode::kUnsupported);
  output("buffer_mutation", {{"buffer_name", "absent"}}, StatusCode::kCorruptData);
  output("parameter_mutation", {{"parameter_name", "count"}}, StatusCode::kCorruptData);
  output("user_input_mutation", {{"user_input_name", "b_count"}}, StatusCode::kCorruptData);
  for (const char* spec : {"", "[1]", "[1, {}]x", "[1, [", "{}", "[1, {\"type\": 3}]"}) {
    if (std::string(spec).empty()) continue;
    for (const char* key : {"in_spec", "out_spec"}) {
      change(std::string(key) + " " + spec,
             [&](json& module) { module["module_call_graph"][0]["signature"][key] = spec; });
    }
  }
  add_json("an empty range", kModel, [](json& tree) {
    for (auto& [name, range] : tree["range_constraints"].items()) range["min_val"] = 1000;
  });
}

void BadFiles::add_bad_weights() {
  for (const auto& [config, name] : {std::pair(kWeights, "linear.weight"), std::pair(kConstants, "shift")}) {
    const auto change = [&, entry = config, key = std::string(name)](const std::string& what,
                                                                     const std::function<void(json&)>& edit,
                                                                     StatusCode code = StatusCode::kCorruptData) {
      add_json(what, entry, [&](json& tree) { edit(tree["config"][key]); }, code, key);
    };
    const auto meta = [&](const std::string& what, const std::string& key, const json& value,
                          StatusCode code = StatusCode::kCorruptData) {
      change(what, [&](json& payload) { payload["tensor_meta"][key] = value; }, code);
    };
    const json huge = {{"as_int", std::int64_t{1} << 62}};
    add_json("no config", config, [](json& tree) { tree.erase("config"); });
    add_json("list as config", config, [](json& tree) { tree["config"] = json::array(); });
    add_json(
        "empty config", config, [](json& tree) { tree["config"] = json::object(); }, StatusCode::kCorruptData, name);
    change("no path", [](json& payload) { payload.erase("path_name"); });
    change("a path out", [](json& payload) { payload["path_name"] = "../../models/model.json"; });
    change("a missing path", [](json& payload) { payload["path_name"] = "weight_99"; });
    change("pickled", [](json& payload) { payload["use_pickle"] = true; }, StatusCode::kUnsupported);
    change("object", [](json& payload) { payload["tensor_meta"] = nullptr; }, StatusCode::kUnsupported);
    meta("other type", "dtype", 8);
    meta("unknown type", "dtype", 99);
    meta("sparse", "layout", 1, StatusCode::kUnsupported);
    meta("offset beyond", "storage_offset", {{"as_int", 1}});
    meta("offset negative", "storage_offset", {{"as_int", -1}});
    meta("offset overflows", "storage_offset", huge);
    meta("no dims", "sizes", json::array());
    meta("huge dims", "sizes", json::array({huge, huge}));
    meta("symbolic offset", "storage_offset",
         {{"as_expr", {{"expr_str", "Symbol('s0', integer=True)"}, {"hint", nullptr}}}});
    change("huge strides", [&](json& payload) {
      for (json& stride : payload["tensor_meta"]["strides"]) stride = huge;
    });
    change("negative strides", [&](json& payload) {
      for (json& stride : payload["tensor_meta"]["strides"]) stride = {{"as_int", -1}};
    });
    const std::string whole = text(config);
    for (std::size_t i = 0; i < 8; ++i) add_text("config cut", config, whole.substr(0, whole.size() * i / 8));
    add_text("NaN in the config", config, [&] {
      std::string changed = whole;
      const std::size_t found = changed.find("\"as_int\": ");
      return changed.insert(found + 10, "NaN");
    }());
  }
}

TEST(MalformedArchives, TheOriginalIsFine) {
  const Result<ImportedModel> model = import_bytes(ForgedZip(golden_entries()).build());
  EXPECT_TRUE(model.ok()) << model.status().message();
}

TEST(MalformedArchives, EachGivesATypedErrorThatNamesTheFile) {
  const BadFiles files;
  EXPECT_GE(files.all().size(), 300U);
  const long before = testing::peak_memory_kib();
  for (const BadFile& file : files.all()) {
    SCOPED_TRACE(file.what);
    const auto start = std::chrono::steady_clock::now();
    const Result<ImportedModel> model = import_bytes(file.bytes);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_FALSE(model.ok());
    if (model.ok()) continue;
    EXPECT_EQ(model.status().code(), file.code) << model.status().message();
    EXPECT_THAT(model.status().message(), HasSubstr(kName));
    EXPECT_THAT(model.status().message(), HasSubstr(file.place));
    EXPECT_LT(model.status().message().size(), 2000U);
  }
  EXPECT_LT(testing::peak_memory_kib() - before, 256 * 1024);
  RecordProperty("files", static_cast<int>(files.all().size()));
}

TEST(MalformedArchives, UnknownOperatorsAreTheEnginesBusiness) {
  ForgedZip zip(golden_entries());
  for (ForgedEntry& entry : zip.entries) {
    const std::size_t found = entry.content.find("torch.ops.aten.linear.default");
    if (entry.name == kModel) entry.content.replace(found, 29, "torch.ops.mine.unknown.thing");
  }
  const Result<ImportedModel> model = import_bytes(zip.build());
  ASSERT_TRUE(model.ok()) << model.status().message();
}

// Replaces one random place of a JSON tree by something else: whatever comes of it, no crash and no untyped failure.
void mutate(json* tree, std::mt19937_64& random) {
  static const std::vector<json> kValues = {nullptr,
                                            true,
                                            -1,
                                            0,
                                            7,
                                            1e300,
                                            "",
                                            "x",
                                            "linear",
                                            json::array(),
                                            json::object(),
                                            std::int64_t{1} << 62,
                                            json::array({1, "a"}),
                                            json{{"as_int", 3}},
                                            json{{"name", "x"}}};
  json* place = tree;
  while (place->is_structured() && !place->empty() && random() % 8 != 0) {
    auto child = place->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random() % place->size()));
    place = &*child;
  }
  if (place->is_array() && !place->empty() && random() % 3 == 0) {
    place->push_back((*place)[random() % place->size()]);
  } else {
    *place = kValues[random() % kValues.size()];
  }
}

TEST(MalformedArchives, RandomChangesOfTheJsonNeverGiveAnUntypedFailure) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<ForgedEntry> entries = golden_entries();
  static const std::set<StatusCode> kTyped = {StatusCode::kCorruptData, StatusCode::kUnsupported,
                                              StatusCode::kVersionMismatch, StatusCode::kInvalidArgument};
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    ForgedZip zip(entries);
    for (ForgedEntry& entry : zip.entries) {
      if (entry.name != (round % 4 == 0 ? kWeights : kModel)) continue;
      json tree = json::parse(entry.content);
      for (std::uint64_t i = random() % 3; i < 3; ++i) mutate(&tree, random);
      entry.content = tree.dump();
    }
    const Result<ImportedModel> model = import_bytes(zip.build());
    if (model.ok()) continue;
    ++refused;
    ASSERT_TRUE(kTyped.contains(model.status().code())) << model.status().to_string();
    ASSERT_THAT(model.status().message(), HasSubstr(kName));
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace kpt
