// Rows that are added to a batch never reach its own. For every model of a folder whose rows are known to be
// independent (runtime/batch_rows.h): a batch of three runs as it is, and with three further rows that are NaN from the
// start, in every floating input and behind every embedding; the first three rows must pass the accuracy rule against
// it. Usage: kpt_zoo_rows_test FOLDER [GoogleTest flags]
// In bfloat16 it is a large number instead: where a row's width is no multiple of 32, oneDNN's products on AMX multiply
// what lies behind it by zero, so that the NaN of one row reaches the row before it, in PyTorch too; no number does.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "importer/model_file.h"
#include "numerics/accuracy.h"
#include "passes/graph_edit.h"
#include "runtime/batch_rows.h"
#include "runtime/row_parts.h"
#include "sequences_test.h"
#include "validation/held_runs.h"

namespace kpt {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kAll = 6;
constexpr double kLarge = 16384;
constexpr std::uint16_t kLargeBits = 0x4680;  // the same in bfloat16

// Behind every embedding of rows stands a node that poisons those that a further input names.
std::vector<NamedTensor> add_poison(ImportedModel& model, const std::string& symbol) {
  std::vector<NamedTensor> inputs;
  std::vector<std::pair<ir::ValueId, std::string>> added;
  GraphEdit edit(model.graph, model.weights);
  const std::size_t nodes = edit.size();
  for (NodeIndex index = 0; index < nodes; ++index) {
    if (edit.node(index).target != "aten.embedding.default") continue;
    const ir::ValueId rows = edit.node(index).outputs[0].values[0];
    const ir::TensorType type = edit.type(rows);
    if (!type.dims[0].is_symbol() || type.dims[0].name() != symbol) continue;
    std::vector<ir::Expr> dims(type.dims.size(), ir::Expr(1));
    dims[0] = type.dims[0];
    const std::string name = edit.fresh_name("poison");
    const ir::ValueId which = edit.add_value(name, contiguous_type(DType::kBool, dims));
    added.emplace_back(which, name);
    const ir::ValueId poisoned = edit.add_value(edit.fresh_name("poisoned"), type);
    edit.replace_uses(rows, poisoned);
    const double poison = type.dtype == DType::kFloat32 ? std::nan("") : kLarge;
    edit.insert_behind(index, make_node("poisoned", "aten.masked_fill.Scalar",
                                        {{"self", {rows}}, {"mask", {which}}, {"value", {poison}}}, poisoned));
    Dims shape{kAll};
    for (std::size_t axis = 1; axis < dims.size(); ++axis) shape.push_back(1);
    const Tensor flags = Tensor::empty(DType::kBool, shape).value();
    for (std::int64_t row = 0; row < kAll; ++row) {
      flags.elements<std::uint8_t>()[static_cast<std::size_t>(row)] = row >= kRows ? 1 : 0;
    }
    inputs.push_back({name, flags});
  }
  edit.finish();
  for (const auto& [value, name] : added) {
    ir::GraphInput input;
    input.kind = ir::InputKind::kUser;
    input.name = name;
    input.value = value;
    model.graph.inputs.push_back(std::move(input));
  }
  return inputs;
}

void fill_with_poison(const Tensor& rows) {
  switch (rows.dtype()) {
    case DType::kFloat32: std::ranges::fill(rows.elements<float>(), std::nanf("")); break;
    case DType::kBFloat16: std::ranges::fill(rows.elements<std::uint16_t>(), kLargeBits); break;
    default: FAIL() << "an input in " << to_string(rows.dtype());
  }
}

class ZooRows : public testing::Test {
 public:
  ZooRows(std::string path, std::uint64_t seed) : path_(std::move(path)), seed_(seed) {}

  void TestBody() override {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(*load_config({}, environment), environment);
    const PlacedDevice cpu = find_runnable_device("cpu", *context).value();
    ImportedModel model = import_model(path_).value();
    const auto batch = find_batch_rows(model.graph);
    if (!batch.ok()) GTEST_SKIP() << batch.status().message();
    SCOPED_TRACE(testing::Message() << "seed " << seed_);
    const Draw draw = make_draws(model, {1, seed_, {{batch->symbol, kRows}}, {}}).value().front();
    const auto plain = ModelRun::load(model, cpu).value().run(draw.inputs).value();
    const auto exact = load_fp64_form(model, cpu).value().run(draw.inputs).value();

    run_parts(model, cpu, draw.inputs, plain, exact);
    std::vector<NamedTensor> inputs = add_poison(model, batch->symbol);
    std::size_t poisoned = inputs.size();
    for (const NamedTensor& input : draw.inputs) {
      const Tensor wide = pad_rows(input.tensor, kAll).value();
      if (is_floating(wide.dtype())) {
        fill_with_poison(take_rows(wide, kRows, kAll - kRows));
        ++poisoned;
      }
      inputs.push_back({input.name, wide});
    }
    ASSERT_GT(poisoned, 0U) << "nothing carries the poison";
    const auto padded = ModelRun::load(std::move(model), cpu).value().run(inputs).value();
    ASSERT_EQ(padded.size(), plain.size());
    bool arrives = false;
    for (std::size_t index = 0; index < plain.size(); ++index) {
      SCOPED_TRACE(plain[index].name);
      expect_right(take_rows(padded[index].tensor, 0, kRows), plain[index].tensor, exact[index].tensor);
      arrives = arrives ||
                shows_poison(take_rows(padded[index].tensor, kRows, 1), take_rows(padded[index].tensor, kRows - 1, 1));
    }
    EXPECT_TRUE(arrives) << "the poison of the further rows is gone at the end: this test shows nothing";
  }

 private:
  static void expect_right(const Tensor& given, const Tensor& plain, const Tensor& exact) {
    const auto verdict = compare(given.contiguous_copy().value(), plain, exact, default_tolerance(plain.dtype()));
    ASSERT_TRUE(verdict.ok()) << verdict.status().message();
    EXPECT_TRUE(verdict->passed) << verdict->reason;
  }

  static void run_parts(const ImportedModel& model, const PlacedDevice& cpu, const std::vector<NamedTensor>& inputs,
                        const std::vector<NamedTensor>& plain, const std::vector<NamedTensor>& exact) {
    SCOPED_TRACE("in parts");
    ModelRun run = ModelRun::load(model, cpu).value();
    std::vector<std::vector<Tensor>> parts(plain.size());
    for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>(0, 1), {1, kRows - 1}}) {
      std::vector<NamedTensor> some;
      for (const NamedTensor& input : inputs) some.push_back({input.name, take_rows(input.tensor, begin, count)});
      const std::vector<NamedTensor> outputs = run.run(some).value();
      for (std::size_t index = 0; index < parts.size(); ++index) {
        parts[index].push_back(outputs[index].tensor.contiguous_copy().value());
      }
    }
    for (std::size_t index = 0; index < parts.size(); ++index) {
      SCOPED_TRACE(plain[index].name);
      expect_right(join_rows(parts[index]).value(), plain[index].tensor, exact[index].tensor);
    }
  }

  // NaN where that was the poison; else numbers that are not those of the row before.
  static bool shows_poison(const Tensor& row, const Tensor& before) {
    if (!is_floating(row.dtype())) return false;
    const Tensor wide = convert_floating(row, DType::kFloat64).value();
    const Tensor other = convert_floating(before, DType::kFloat64).value();
    if (row.dtype() == DType::kBFloat16) return !std::ranges::equal(wide.elements<double>(), other.elements<double>());
    return std::ranges::any_of(wide.elements<double>(), [](double value) { return std::isnan(value); });
  }

  std::string path_;
  std::uint64_t seed_;
};

// Otherwise the others would be skipped and show nothing. 33 as PyTorch 2.15 exports them, 29 as 2.11 does.
class ZooProofs : public testing::Test {
 public:
  explicit ZooProofs(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  void TestBody() override {
    const auto known = std::ranges::count_if(
        paths_, [](const std::string& path) { return find_batch_rows(import_model(path).value().graph).ok(); });
    EXPECT_GE(known, 25) << "of " << paths_.size() << " models";
  }

 private:
  std::vector<std::string> paths_;
};

}  // namespace
}  // namespace kpt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: kpt_zoo_rows_test FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::ifstream stream(folder + "/index.json");
  const auto index = kpt::Json::parse(stream);
  std::vector<std::string> paths;
  std::vector<std::pair<std::string, std::string>> models;
  for (const auto& entry : index["models"]) {
    const std::string path = folder + "/" + entry["file"].get<std::string>();
    paths.push_back(path);
    models.emplace_back(entry["name"].get<std::string>(), path);
    testing::RegisterTest("Rows", entry["name"].get<std::string>().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> testing::Test* { return new kpt::ZooRows(path, seed); });
  }
  testing::RegisterTest("Proofs", "OfMostDynamicModels", nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new kpt::ZooProofs(paths); });
  kpt::register_sequence_tests(models, seed);
  return RUN_ALL_TESTS();
}
