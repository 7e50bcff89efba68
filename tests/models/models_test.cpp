// Runs every model of a folder that export_models.py or random_graphs.py made, and holds every output against PyTorch
// eager and fp64 by the accuracy rule; and the oracle, our own fp64 run, against PyTorch's. Two tests per model. A
// folder without index.json holds pairs of X.pt2 and X.cases.safetensors. Usage: kpt_models_test FOLDER [GoogleTest
// flags], or FOLDER DEVICE, which runs the models there.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "archive/mapped_file.h"
#include "importer/model_file.h"
#include "known_corners.h"
#include "kpt/model.h"
#include "model_cases.h"
#include "numerics/accuracy.h"
#include "passes/promote_to_fp64.h"
#include "tensor_files/safetensors.h"
#include "validation/reference.h"

namespace kpt {
namespace {

using model_cases::add_views;
using model_cases::count_cases;
using model_cases::Json;
using model_cases::select;
using model_cases::Tensors;

// Files of this process that ran, and those of them that stopped at a known corner.
struct FileCounts {
  std::size_t run = 0;
  std::size_t stopped = 0;
};

class ModelTest : public testing::Test {
 public:
  ModelTest(std::string folder, std::string device, Json entry, FileCounts& counts)
      : folder_(std::move(folder)),
        device_(std::move(device)),
        entry_(std::move(entry)),
        judge_(entry_, device_.starts_with("nvidia:")),
        counts_(counts) {}

  void TestBody() override {
    const auto file = MappedFile::open(folder_ + "/" + entry_["cases_file"].get<std::string>());
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto tensors = read_safetensors(*file);
    ASSERT_TRUE(tensors.ok()) << tensors.status().message();
    LoadOptions options;
    options.device = device_;
    const auto model = load_model(folder_ + "/" + entry_["file"].get<std::string>(), options);
    const StatusCode code = model.status().code();
    if (device_ != "cpu" && (code == StatusCode::kDeviceNotAvailable || code == StatusCode::kInvalidArchitecture)) {
      GTEST_SKIP() << model.status().message();
    }
    ASSERT_TRUE(model.ok()) << model.status().message();
    check_names(*model);
    auto session = model->start_session();
    ASSERT_TRUE(session.ok()) << session.status().message();
    ++counts_.run;
    const std::size_t cases = count_cases(*tensors);
    for (std::size_t index = 0; index < cases && !HasFatalFailure() && corner_.empty(); ++index) {
      SCOPED_TRACE(testing::Message() << "case " << index);
      run_case(*session, *tensors, index);
      // Devices that capture a run for later ones must give the same answer from what they captured.
      for (int again = 0; again < 2 && device_ != "cpu" && !model->is_stateful() && corner_.empty(); ++again) {
        run_case(*session, *tensors, index);
      }
    }
    if (corner_.empty() || judge_.compared() > 0) judge_.finish();
    if (corner_.empty()) return;
    ++counts_.stopped;
    GTEST_SKIP() << corner_;
  }

 private:
  void check_names(const Model& model) {
    std::vector<std::string> names;
    for (const TensorSpec& spec : model.outputs()) names.push_back(spec.name);
    if (!entry_.contains("outputs")) return;
    const Json& outputs = entry_["outputs"];  // names in order, or for random graphs names with their tolerance
    if (outputs.is_array()) {
      EXPECT_EQ(names, outputs.get<std::vector<std::string>>());
      return;
    }
    EXPECT_EQ(names.size(), outputs.size());
    for (const std::string& name : names) EXPECT_TRUE(outputs.contains(name)) << name;
  }

  void run_case(Session& session, const std::vector<NamedTensor>& tensors, std::size_t index) {
    const std::string prefix = "case" + std::to_string(index) + "/";
    Tensors inputs = select(tensors, prefix + "input/");
    add_views(entry_, index, select(tensors, prefix + "base/"), inputs);
    std::vector<NamedTensor> given;
    for (auto& [name, tensor] : inputs) given.push_back({name, tensor});
    const auto outputs = session.run(given);
    const auto corner = outputs.ok() || !judge_.allows_corners()
                            ? std::nullopt
                            : model_cases::find_known_failure(outputs.status().message());
    if (corner) {
      corner_ = "known corner: " + std::string(*corner) + ": " + outputs.status().message();
      return;
    }
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    const Tensors eager = select(tensors, prefix + "eager/");
    const Tensors exact = select(tensors, prefix + "fp64/");
    const Tensors uncached = select(tensors, prefix + "without_cache/");
    for (const NamedTensor& output : *outputs) {
      const auto baseline = eager.find(output.name);
      ASSERT_NE(baseline, eager.end()) << "PyTorch gave no output '" << output.name << "'";
      const auto reference = exact.find(output.name);
      // Without an fp64 run (integers, casts) PyTorch's own result is the reference.
      const bool absent = reference == exact.end() || reference->second.dtype() != DType::kFloat64;
      const Tensor reference_tensor = absent ? *promote_to_fp64(baseline->second) : reference->second;
      judge_.add(output, baseline->second, reference_tensor);
      // With a cache as without: the same answer, by the same rule.
      const auto without = uncached.find(output.name);
      if (without != uncached.end()) judge_.add(output, without->second, reference_tensor);
    }
  }

  std::string folder_;
  std::string device_;
  Json entry_;
  model_cases::Judge judge_;
  FileCounts& counts_;
  std::string corner_;  // at which the file stopped
};

// What is skipped for a corner is not compared: a failure of all files must not pass for one.
class CornerTest : public testing::Test {
 public:
  explicit CornerTest(const FileCounts& counts) : counts_(counts) {}
  void TestBody() override {
    EXPECT_LE(counts_.stopped, std::max<std::size_t>(1, counts_.run / model_cases::kFilesForOneStop))
        << "files stopped at a known corner, of " << counts_.run;
  }

 private:
  const FileCounts& counts_;
};

// The model's fp64 form must give what the module in double precision gives in PyTorch.
class OracleTest : public testing::Test {
 public:
  OracleTest(std::string folder, Json entry) : folder_(std::move(folder)), entry_(std::move(entry)) {}

  void TestBody() override {
    const auto file = MappedFile::open(folder_ + "/" + entry_["cases_file"].get<std::string>());
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto tensors = read_safetensors(*file);
    ASSERT_TRUE(tensors.ok()) << tensors.status().message();
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(*load_config({}, environment), environment);
    const auto placed = find_runnable_device("cpu", *context);
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    const auto model = import_model(folder_ + "/" + entry_["file"].get<std::string>());
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto reference = Reference::load(*model, *placed->backend, *placed->device);
    ASSERT_TRUE(reference.ok()) << reference.status().message();
    for (std::size_t index = 0; index < count_cases(*tensors) && !HasFatalFailure(); ++index) {
      SCOPED_TRACE(testing::Message() << "case " << index);
      run_case(*reference, *tensors, index);
    }
    const auto wanted = std::ranges::count_if(*tensors, [](const NamedTensor& tensor) {
      return tensor.name.find("/fp64/") != std::string::npos && tensor.tensor.dtype() == DType::kFloat64;
    });
    EXPECT_EQ(compared_, wanted) << "outputs of PyTorch that were not compared";
  }

 private:
  void run_case(Reference& reference, const std::vector<NamedTensor>& tensors, std::size_t index) {
    const std::string prefix = "case" + std::to_string(index) + "/";
    Tensors inputs = select(tensors, prefix + "input/");
    add_views(entry_, index, select(tensors, prefix + "base/"), inputs);
    std::vector<NamedTensor> given;
    for (auto& [name, tensor] : inputs) given.push_back({name, tensor});
    const auto outputs = reference.run(given);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    const Tensors exact = select(tensors, prefix + "fp64/");
    for (const NamedTensor& output : *outputs) {
      const auto expected = exact.find(output.name);
      if (expected == exact.end() || expected->second.dtype() != DType::kFloat64) continue;
      ++compared_;
      // Sums in another order: far below what any other type can show.
      const auto verdict = compare(output.tensor, expected->second, expected->second, {1e-8, 1e-8, 2});
      ASSERT_TRUE(verdict.ok()) << output.name << ": " << verdict.status().message();
      EXPECT_TRUE(verdict->passed) << output.name << ": " << verdict->reason;
    }
  }

  std::string folder_;
  Json entry_;
  std::ptrdiff_t compared_ = 0;
};

}  // namespace
}  // namespace kpt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kpt_models_test FOLDER [DEVICE]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::string device = argc > 2 ? argv[2] : "cpu";
  const auto index = kpt::model_cases::read_index(folder);
  std::printf("seed %s, torch %s\n", index["seed"].dump().c_str(), index["torch"].dump().c_str());
  kpt::FileCounts counts;
  for (const auto& entry : index["models"]) {
    testing::RegisterTest(
        "Models", entry["name"].get<std::string>().c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [=, &counts]() -> testing::Test* { return new kpt::ModelTest(folder, device, entry, counts); });
    if (device != "cpu") continue;
    testing::RegisterTest("Oracle", entry["name"].get<std::string>().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [folder, entry]() -> testing::Test* { return new kpt::OracleTest(folder, entry); });
  }
  // Behind the models, in whose order GoogleTest runs them.
  if (device != "cpu") {
    testing::RegisterTest("Corners", "StopFewFiles", nullptr, nullptr, __FILE__, __LINE__,
                          [&counts]() -> testing::Test* { return new kpt::CornerTest(counts); });
  }
  return RUN_ALL_TESTS();
}
