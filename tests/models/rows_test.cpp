// Rows that are added to a batch never reach its own. For every model of a folder whose rows are known to be
// independent (runtime/batch_rows.h): a batch of three runs as it is, and with three further rows that are NaN from the
// start, in every floating input and behind every embedding; the first three rows must pass the accuracy rule against
// it. Usage: kpt_zoo_rows_test FOLDER [GoogleTest flags], or FOLDER DEVICE for a GPU, whose runs are captured: the
// second is recorded and the third replays it. Positions that are added to sequences: sequences_test.cpp. Ends with 77
// (skipped) and the reason where there is no such device.
// On the CPU it is a large number instead in bfloat16: where a row's width is no multiple of 32, oneDNN's products on
// AMX multiply what lies behind it by zero, so that the NaN of one row reaches the row before it, in PyTorch too; no
// number does.
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
constexpr std::uint16_t kNanBits = 0x7fc0;

bool takes_nan(DType dtype, bool on_cpu) { return dtype == DType::kFloat32 || !on_cpu; }

// Behind every embedding of rows stands a node that poisons those that a further input names.
std::vector<NamedTensor> add_poison(ImportedModel& model, const std::string& symbol, bool on_cpu) {
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
    const double poison = takes_nan(type.dtype, on_cpu) ? std::nan("") : kLarge;
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

void fill_with_poison(const Tensor& rows, bool on_cpu) {
  switch (rows.dtype()) {
    case DType::kFloat32: std::ranges::fill(rows.elements<float>(), std::nanf("")); break;
    case DType::kBFloat16:
      std::ranges::fill(rows.elements<std::uint16_t>(), takes_nan(rows.dtype(), on_cpu) ? kNanBits : kLargeBits);
      break;
    default: FAIL() << "an input in " << to_string(rows.dtype());
  }
}

class ZooRows : public testing::Test {
 public:
  ZooRows(std::string path, std::uint64_t seed, std::string device)
      : path_(std::move(path)), seed_(seed), device_(std::move(device)), on_cpu_(device_ == "cpu") {}

  void TestBody() override {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(*load_config({}, environment), environment);
    const PlacedDevice cpu = find_runnable_device("cpu", *context).value();
    const PlacedDevice here = find_runnable_device(device_, *context).value();
    ImportedModel model = import_model(path_).value();
    const auto batch = find_batch_rows(model.graph);
    if (!batch.ok()) GTEST_SKIP() << batch.status().message();
    SCOPED_TRACE(testing::Message() << "seed " << seed_);
    std::vector<Case> cases;
    // Captured runs take turns, so that what a record gives cannot be what is left of an earlier run.
    for (std::uint64_t further = 0; further < (on_cpu_ ? 1U : 2U); ++further) {
      const Draw draw = make_draws(model, {1, seed_ + further, {{batch->symbol, kRows}}, {}}).value().front();
      cases.push_back({draw.inputs, ModelRun::load(model, here).value().run(draw.inputs).value(),
                       load_fp64_form(model, cpu).value().run(draw.inputs).value()});
    }
    run_parts(model, here, cases.front());
    const std::vector<NamedTensor> flags = add_poison(model, batch->symbol, on_cpu_);
    ModelRun run = ModelRun::load(std::move(model), here).value();
    for (std::size_t round = 0; round < (on_cpu_ ? 1U : 3U); ++round) {
      SCOPED_TRACE(testing::Message() << "round " << round);
      const Case& given = cases[round % cases.size()];
      const std::vector<NamedTensor> inputs = add_rows(given.inputs, flags);
      ASSERT_FALSE(inputs.empty()) << "nothing carries the poison";
      compare_padded(run.run(inputs).value(), given);
    }
  }

 private:
  // A batch as it is, and what it gives.
  struct Case {
    std::vector<NamedTensor> inputs;
    std::vector<NamedTensor> plain;
    std::vector<NamedTensor> exact;
  };

  // With `flags` before them. Empty where nothing of it carries the poison.
  std::vector<NamedTensor> add_rows(const std::vector<NamedTensor>& rows, const std::vector<NamedTensor>& flags) const {
    std::vector<NamedTensor> inputs = flags;
    std::size_t poisoned = flags.size();
    for (const NamedTensor& input : rows) {
      const Tensor wide = pad_rows(input.tensor, kAll).value();
      if (is_floating(wide.dtype())) {
        fill_with_poison(take_rows(wide, kRows, kAll - kRows), on_cpu_);
        ++poisoned;
      }
      inputs.push_back({input.name, wide});
    }
    return poisoned > 0 ? inputs : std::vector<NamedTensor>();
  }

  void compare_padded(const std::vector<NamedTensor>& padded, const Case& expected) const {
    const std::vector<NamedTensor>& plain = expected.plain;
    const std::vector<NamedTensor>& exact = expected.exact;
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

  static void expect_right(const Tensor& given, const Tensor& plain, const Tensor& exact) {
    const auto verdict = compare(given.contiguous_copy().value(), plain, exact, default_tolerance(plain.dtype()));
    ASSERT_TRUE(verdict.ok()) << verdict.status().message();
    EXPECT_TRUE(verdict->passed) << verdict->reason;
  }

  static void run_parts(const ImportedModel& model, const PlacedDevice& here, const Case& whole) {
    SCOPED_TRACE("in parts");
    const auto& [inputs, plain, exact] = whole;
    ModelRun run = ModelRun::load(model, here).value();
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
  bool shows_poison(const Tensor& row, const Tensor& before) const {
    if (!is_floating(row.dtype())) return false;
    const Tensor wide = convert_floating(row, DType::kFloat64).value();
    const Tensor other = convert_floating(before, DType::kFloat64).value();
    if (!takes_nan(row.dtype(), on_cpu_)) return !std::ranges::equal(wide.elements<double>(), other.elements<double>());
    return std::ranges::any_of(wide.elements<double>(), [](double value) { return std::isnan(value); });
  }

  std::string path_;
  std::uint64_t seed_;
  std::string device_;
  bool on_cpu_;
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
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kpt_zoo_rows_test FOLDER [DEVICE]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::string device = argc > 2 ? argv[2] : "cpu";
  const kpt::Environment environment = kpt::Environment::from_process();
  const auto context = kpt::make_backend_context(*kpt::load_config({}, environment), environment);
  const auto placed = kpt::find_runnable_device(device, *context);
  if (!placed.ok()) {
    const kpt::StatusCode code = placed.status().code();
    const bool absent = code == kpt::StatusCode::kDeviceNotAvailable || code == kpt::StatusCode::kInvalidArchitecture;
    const bool skip = absent && device != "cpu";
    std::printf("%s: %s\n", skip ? "skipped" : "failed", placed.status().message().c_str());
    return skip ? 77 : 1;
  }
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
                          [=]() -> testing::Test* { return new kpt::ZooRows(path, seed, device); });
  }
  if (device == "cpu") {
    testing::RegisterTest("Proofs", "OfMostDynamicModels", nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> testing::Test* { return new kpt::ZooProofs(paths); });
  }
  kpt::register_sequence_tests(models, seed, device);
  return RUN_ALL_TESTS();
}
