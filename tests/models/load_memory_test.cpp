// A loaded model uses its weights in the mapped file: anonymous memory grows by at most 5 % of them over the same
// process with a tiny model, which has opened libtorch already. Usage: kpt_load_memory_test FOLDER (of
// export_models.py).
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "kpt/model.h"
#include "memory/process_memory.h"
#include "model_cases.h"

namespace kpt {
namespace {

struct Chosen {
  std::string path;
  std::uint64_t weight_bytes = 0;
};

constexpr const char* kTiny = "nested_fp32_static";
constexpr const char* kLarge = "minilm_fp32_static";  // 90 MB of real weights

class LoadMemory : public testing::Test {
 public:
  LoadMemory(Chosen tiny, Chosen large) : tiny_(std::move(tiny)), large_(std::move(large)) {}

  void TestBody() override {
    ASSERT_FALSE(tiny_.path.empty() || large_.path.empty()) << "the folder lacks " << kTiny << " or " << kLarge;
    ASSERT_GE(large_.weight_bytes, std::uint64_t{64} << 20U) << "too small to tell weights from the rest";
    const auto small = load(tiny_);
    ASSERT_TRUE(small.ok()) << small.status().message();
    const auto before = anonymous_bytes();
    const auto model = load(large_);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto session = model->start_session();
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::int64_t growth = anonymous_bytes() - before;
    std::printf("%.1f MB of weights, anonymous memory grew by %.2f MB\n",
                static_cast<double>(large_.weight_bytes) / 1e6, static_cast<double>(growth) / 1e6);
    EXPECT_LE(growth, static_cast<std::int64_t>(large_.weight_bytes / 20));
    // A copy of the weights would show.
    const std::vector<char> copy(large_.weight_bytes, 'x');
    EXPECT_GT(anonymous_bytes() - before, growth + static_cast<std::int64_t>(large_.weight_bytes / 2)) << copy.back();
  }

 private:
  static Result<Model> load(const Chosen& chosen) { return load_model(chosen.path); }
  static std::int64_t anonymous_bytes() {
    return static_cast<std::int64_t>(read_process_memory(SystemFiles()).value().anonymous_bytes);
  }

  Chosen tiny_;
  Chosen large_;
};

// Empty when it is not there.
Chosen choose(const model_cases::Json& index, const std::string& folder, const std::string& name) {
  for (const auto& entry : index["models"]) {
    if (entry["name"] != name) continue;
    return {folder + "/" + entry["file"].get<std::string>(), entry["parameter_bytes"].get<std::uint64_t>()};
  }
  return {};
}

}  // namespace
}  // namespace kpt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: kpt_load_memory_test FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  const auto index = kpt::model_cases::read_index(folder);
  const auto tiny = kpt::choose(index, folder, kpt::kTiny);
  const auto large = kpt::choose(index, folder, kpt::kLarge);
  testing::RegisterTest("LoadMemory", "WeightsStayInTheFile", nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new kpt::LoadMemory(tiny, large); });
  return RUN_ALL_TESTS();
}
