// No false alarm: every model of a folder, plain and optimized at every level, must pass the accuracy gate with fresh
// seeds. Usage: kpt_zoo_gate_test FOLDER [SEEDS] [GoogleTest flags]; SEEDS is 1 unless given, 20 for the long run.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "importer/model_file.h"
#include "optimize/optimize.h"

namespace kpt {
namespace {

using Json = nlohmann::json;

class ZooGate : public testing::Test {
 public:
  ZooGate(std::string path, Level level, int seeds, std::uint64_t first)
      : path_(std::move(path)), level_(level), seeds_(seeds), first_(first) {}

  void TestBody() override {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(*load_config({}, environment), environment);
    const auto device = find_runnable_device("cpu", *context);
    ASSERT_TRUE(device.ok()) << device.status().message();
    ImportOptions import_options;
    import_options.read_sample_inputs = true;
    const auto model = import_model(path_, import_options);
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (int round = 0; round < seeds_ && !HasFatalFailure(); ++round) {
      OptimizeOptions options;
      options.level = level_;
      options.measure = false;
      options.draws.count = 2;
      options.draws.seed = first_ + static_cast<std::uint64_t>(round);
      SCOPED_TRACE(testing::Message() << "seed " << options.draws.seed);
      const auto outcome = optimize_model(*model, options, *device, *device);
      ASSERT_TRUE(outcome.ok()) << outcome.status().message();
      EXPECT_TRUE(outcome->report.passed()) << explain(outcome->report);
      EXPECT_EQ(outcome->artifact.has_value(), outcome->report.passed());
    }
  }

 private:
  static std::string explain(const OptimizeReport& report) {
    std::string text;
    for (const OutputVerdict& verdict : report.gate.worst()) {
      if (!verdict.passed) text += verdict.output + ": " + verdict.reason + "\n";
    }
    return text + (report.culprit ? report.culprit->sentence() : "");
  }

  std::string path_;
  Level level_;
  int seeds_;
  std::uint64_t first_;
};

}  // namespace
}  // namespace kpt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: kpt_zoo_gate_test FOLDER [SEEDS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const int seeds = argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 1;
  const std::uint64_t first = std::random_device{}();
  std::ifstream stream(folder + "/index.json");
  const auto index = kpt::Json::parse(stream);
  std::printf("seeds %llu and the next %d\n", static_cast<unsigned long long>(first), seeds - 1);
  for (const auto& entry : index["models"]) {
    for (const kpt::Level level : {kpt::Level::kConservative, kpt::Level::kBalanced, kpt::Level::kAggressive}) {
      const std::string suite = "Gate_" + std::string(kpt::level_name(level));
      const std::string path = folder + "/" + entry["file"].get<std::string>();
      testing::RegisterTest(suite.c_str(), entry["name"].get<std::string>().c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [=]() -> testing::Test* { return new kpt::ZooGate(path, level, seeds, first); });
    }
  }
  return RUN_ALL_TESTS();
}
