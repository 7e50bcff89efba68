// Every model of a folder that export_models.py or random_graphs.py made, lowered and run on XLA's CPU plugin, held
// against PyTorch eager, the ATen engine (models) and fp64 by the accuracy rule. Models must be lowered whole; of the
// random graphs, which draw from far more operators, what has no lowering is cut off and named. Usage:
// kpt_xla_models_test FOLDER [flags].
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "archive/mapped_file.h"
#include "graph_run.h"
#include "importer/model_file.h"
#include "kpt/model.h"
#include "model_cases.h"
#include "numerics/accuracy.h"
#include "passes/promote_to_fp64.h"
#include "tensor_files/safetensors.h"

namespace kpt {
namespace {

using model_cases::Json;
using model_cases::Tensors;

xla_test::ModuleRunner* runner() {
  static const auto opened = xla_test::ModuleRunner::open();
  return opened.ok() ? opened->get() : nullptr;
}

class XlaModelTest : public testing::Test {
 public:
  XlaModelTest(std::string folder, Json entry)
      : folder_(std::move(folder)), entry_(std::move(entry)), judge_(entry_), engine_judge_(entry_) {}

  void TestBody() override {
    const auto file = MappedFile::open(folder_ + "/" + entry_["cases_file"].get<std::string>());
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto tensors = read_safetensors(*file);
    ASSERT_TRUE(tensors.ok()) << tensors.status().message();
    auto model = import_model(folder_ + "/" + entry_["file"].get<std::string>());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const std::size_t all = model->graph.outputs.size();
    if (entry_.contains("graphs")) {
      for (const std::string& reason : xla_test::cut_unsupported(model->graph)) std::printf("  %s\n", reason.c_str());
      std::printf("  %zu of %zu outputs\n", model->graph.outputs.size(), all);
      // A rule that refuses what it used to lower must not go unseen; few graphs hold one of the operators without any.
      EXPECT_GE(model->graph.outputs.size() * 10, all * 9) << "too many outputs without lowering";
    } else {
      const auto loaded = load_model(folder_ + "/" + entry_["file"].get<std::string>(), LoadOptions{});
      ASSERT_TRUE(loaded.ok()) << loaded.status().message();
      auto session = loaded->start_session();
      ASSERT_TRUE(session.ok()) << session.status().message();
      engine_.emplace(std::move(session).value());
    }
    xla_test::GraphRun run(*runner(), model->graph, model->weights);
    for (std::size_t index = 0; index < model_cases::count_cases(*tensors) && !HasFatalFailure(); ++index) {
      SCOPED_TRACE(testing::Message() << "case " << index);
      run_case(run, *tensors, index);
    }
    judge_.finish();
    if (engine_) engine_judge_.finish();
  }

 private:
  void run_case(xla_test::GraphRun& run, const std::vector<NamedTensor>& tensors, std::size_t index) {
    const std::string prefix = "case" + std::to_string(index) + "/";
    Tensors inputs = model_cases::select(tensors, prefix + "input/");
    model_cases::add_views(entry_, index, model_cases::select(tensors, prefix + "base/"), inputs);
    const auto outputs = run.run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    Tensors by_engine;
    if (engine_) run_engine(inputs, by_engine);
    if (HasFatalFailure()) return;
    const Tensors eager = model_cases::select(tensors, prefix + "eager/");
    const Tensors exact = model_cases::select(tensors, prefix + "fp64/");
    for (const NamedTensor& output : *outputs) {
      const auto baseline = eager.find(output.name);
      ASSERT_NE(baseline, eager.end()) << "PyTorch gave no output '" << output.name << "'";
      const auto reference = exact.find(output.name);
      const bool absent = reference == exact.end() || reference->second.dtype() != DType::kFloat64;
      const Tensor reference_tensor = absent ? *promote_to_fp64(baseline->second) : reference->second;
      judge_.add(output, baseline->second, reference_tensor);
      if (!engine_) continue;
      const auto given = by_engine.find(output.name);
      ASSERT_NE(given, by_engine.end()) << "the ATen engine gave no output '" << output.name << "'";
      engine_judge_.add(output, given->second, reference_tensor);
    }
  }

  void run_engine(const Tensors& inputs, Tensors& outputs) {
    std::vector<NamedTensor> given;
    for (const auto& [name, tensor] : inputs) given.push_back({name, tensor});
    const auto answers = engine_->run(given);
    ASSERT_TRUE(answers.ok()) << answers.status().message();
    for (const NamedTensor& answer : *answers) outputs.insert_or_assign(answer.name, answer.tensor);
  }

  std::string folder_;
  Json entry_;
  model_cases::Judge judge_;
  std::optional<Session> engine_;  // the model on the ATen engine
  model_cases::Judge engine_judge_;
};

}  // namespace
}  // namespace kpt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: kpt_xla_models_test FOLDER\n");
    return 2;
  }
  if (kpt::runner() == nullptr) {
    std::printf("skipped: %s\n", kpt::xla_test::ModuleRunner::open().status().message().c_str());
    return 77;  // skipped, as ctest knows it
  }
  const std::string folder = argv[1];
  const auto index = kpt::model_cases::read_index(folder);
  std::printf("seed %s, torch %s\n", index["seed"].dump().c_str(), index["torch"].dump().c_str());
  for (const auto& entry : index["models"]) {
    testing::RegisterTest("XlaModels", entry["name"].get<std::string>().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [folder, entry]() -> testing::Test* { return new kpt::XlaModelTest(folder, entry); });
  }
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() > 0) return failed;
  std::fprintf(stderr, "no model was run: the folder is empty, or the filter leaves none\n");
  return 1;
}
