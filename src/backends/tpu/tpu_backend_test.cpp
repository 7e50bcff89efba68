// The backend against the fake plugin in libtpu's place.
#include "backends/tpu/tpu_backend.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/tpu/topology.h"
#include "base/log.h"
#include "compile_cache/compile_cache.h"
#include "device/model_findings.h"
#include "engines/xla/execution/ahead_program.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kGraph = R"(kpt_graph 1
parameter w: float32[4, 3] "weight"
input x: float32[4, 3]
product: float32[4, 3] = aten.mul.Tensor(self=%x, other=%w)
output %product "y"
)";

constexpr const char* kAnySize = R"(kpt_graph 1
symbol s0 in 2..100
input x: float32[s0, 3]
sum: float32[s0, 3] = aten.add.Tensor(self=%x, other=%x)
output %sum "y"
)";

void order(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

class TpuBackendTest : public ::testing::Test {
 protected:
  TpuBackendTest() {
    order("");
    library_ = folder_.path() / "libtpu.so";
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", library_);
    set_library(library_.string());
    context_.compile_cache_folder = folder_.path() / "cache";
    context_.compile_cache_bytes = 1 << 30;
    context_.tpu_compile_time_limit = std::chrono::seconds(60);
  }
  ~TpuBackendTest() override { order(""); }

  void set_library(const std::string& path) {
    context_.detection.environment =
        Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}, {"TPU_LIBRARY_PATH", path}});
  }
  static const Target& find(const Backend& backend, std::string_view name) {
    for (const Target* target : backend.targets()) {
      if (target->name() == name) return *target;
    }
    throw std::runtime_error("no target " + std::string(name));
  }
  Result<std::unique_ptr<Program>> compile(const char* graph = kGraph, const std::string& target = "tpu:v5e:2x2",
                                           const ir::Bindings& sizes = {}) const {
    const auto backend = make_tpu_backend(context_);
    return find(*backend, target).compile_sized(ir::read_graph(graph).value(), sizes);
  }
  CacheStatistics statistics() const {
    return CompileCache::open(context_.compile_cache_folder, 1 << 30)->statistics().value();
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path library_;
  BackendContext context_;
};

TEST_F(TpuBackendTest, EveryTopologyIsATargetWithRates) {
  const auto backend = make_tpu_backend(context_);
  const auto targets = backend->targets();
  const auto topologies = tpu_topologies();
  ASSERT_EQ(targets.size(), topologies.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(targets[i]->name(), topologies[i].target_name());
    ASSERT_NE(targets[i]->rates(), nullptr);
    EXPECT_GT(targets[i]->rates()->memory_bytes, 0U);
    EXPECT_TRUE(targets[i]->capabilities().whole_graph_only);
    EXPECT_FALSE(targets[i]->capabilities().dynamic_shapes);
    EXPECT_NE(dynamic_cast<const ModelExaminer*>(targets[i]), nullptr);
  }
}

TEST_F(TpuBackendTest, AGraphBecomesAProgramWithFiguresForEveryTopology) {
  const auto backend = make_tpu_backend(context_);
  for (const Target* target : backend->targets()) {
    const auto program = target->compile(ir::read_graph(kGraph).value());
    ASSERT_TRUE(program.ok()) << target->name() << ": " << program.status().message();
    EXPECT_EQ((*program)->target(), target->name());
    ASSERT_NE((*program)->figures(), nullptr);
    EXPECT_EQ((*program)->figures()->argument_bytes, 1000U);
    const auto again = target->deserialize((*program)->serialize().value());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(dynamic_cast<const AheadProgram&>(**again).executable(), "fake_executable 1");
    if (target->name().ends_with("2x4")) break;  // a process each: a few are enough for one test
  }
}

TEST_F(TpuBackendTest, SupportComesFromTheLowering) {
  const auto backend = make_tpu_backend(context_);
  constexpr const char* kUnknown = R"(kpt_graph 1
input x: float32[4, 3]
a: float32[4, 3] = aten.mul.Tensor(self=%x, other=%x)
b: float32[4, 3] = nobody.knows.this(self=%a)
output %b "y"
)";
  const auto answers = find(*backend, "tpu:v4:2x2x1").supports(ir::read_graph(kUnknown).value()).value();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_TRUE(answers[0].supported);
  EXPECT_FALSE(answers[1].supported);
  const Status status = compile(kUnknown).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("nobody.knows.this"));
}

TEST_F(TpuBackendTest, FreeSizesMustBeGivenAndFitTheirRange) {
  const Status open = compile(kAnySize).status();
  EXPECT_EQ(open.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(open.message(), AllOf(HasSubstr("s0"), HasSubstr("fixed sizes")));
  ir::Bindings sizes;
  sizes.set("s0", 1);
  EXPECT_EQ(compile(kAnySize, "tpu:v5e:2x2", sizes).status().code(), StatusCode::kInvalidArgument);
  sizes.set("s0", 8);
  const auto program = compile(kAnySize, "tpu:v5e:2x2", sizes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(dynamic_cast<const AheadProgram&>(**program).facts().sizes, "s0=8");
}

TEST_F(TpuBackendTest, TheSecondTimeComesFromTheCacheAndNothingElseDoes) {
  ASSERT_TRUE(compile().ok());
  order("crash");  // whoever asks the compiler now fails
  const auto program = compile();
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->figures()->temporary_bytes, 4096U);
  EXPECT_EQ(statistics().hits, 1U);
  EXPECT_FALSE(compile(kGraph, "tpu:v6e:2x2").ok());
  EXPECT_FALSE(compile(kGraph, "tpu:v5e:4x4").ok());
  // Another libtpu: the same bytes at another time.
  std::filesystem::last_write_time(library_, std::filesystem::last_write_time(library_) + std::chrono::seconds(5));
  EXPECT_FALSE(compile().ok());
  order("");
  EXPECT_TRUE(compile().ok());
}

TEST_F(TpuBackendTest, ATargetTellsWhatCompilingForItTook) {
  const auto backend = make_tpu_backend(context_);
  const auto target = [&](std::string_view name) -> const Target& {
    const auto targets = backend->targets();
    return **std::ranges::find(targets, name, &Target::name);
  };
  const auto compile_for = [&](std::string_view name) {
    return target(name).compile(ir::read_graph(kGraph).value()).ok();
  };
  EXPECT_EQ(target("tpu:v5e:2x2").compile_statistics(), CompileStatistics{});
  EXPECT_TRUE(compile_for("tpu:v5e:2x2"));
  EXPECT_TRUE(compile_for("tpu:v5e:2x2"));
  order("fail PJRT_Compile 3 no such operation");
  EXPECT_FALSE(compile_for("tpu:v6e:2x2"));
  EXPECT_EQ(target("tpu:v5e:2x2").compile_statistics(), (CompileStatistics{1, 1, 1, 0}));
  EXPECT_EQ(target("tpu:v6e:2x2").compile_statistics(), (CompileStatistics{1, 0, 1, 1}));
}

TEST_F(TpuBackendTest, OptionsOfTheUsersForLibtpuArePartOfTheKey) {
  ASSERT_TRUE(compile().ok());
  order("crash");
  context_.detection.environment = Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"},
                                                          {"TPU_LIBRARY_PATH", library_.string()},
                                                          {"LIBTPU_INIT_ARGS", "--xla_something=1"}});
  EXPECT_FALSE(compile().ok());
}

TEST_F(TpuBackendTest, ADamagedEntryIsCompiledAnew) {
  ASSERT_TRUE(compile().ok());
  auto cache = CompileCache::open(context_.compile_cache_folder, 1 << 30).value();
  for (const CacheEntry& entry : cache.list().value()) {
    const auto path = context_.compile_cache_folder / (entry.digest + ".entry");
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  }
  std::string lines;
  const auto capture = log::capture(&lines);
  const auto program = compile();
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(dynamic_cast<const AheadProgram&>(**program).executable(), "fake_executable 1");
}

TEST_F(TpuBackendTest, AModelTooLargeIsRefusedBeforeTheCompilerIsAsked) {
  order("crash");
  const std::string huge = R"(kpt_graph 1
parameter w: float32[70000, 70000] "weight"
input x: float32[70000, 70000]
sum: float32[70000, 70000] = aten.add.Tensor(self=%x, other=%w)
output %sum "y"
)";
  const Status status = compile(huge.c_str()).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(status.vendor(), Vendor::kTpu);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("16.0 GiB"), HasSubstr("36.5 GiB"), HasSubstr("18.3 GiB")));
  order("");
  EXPECT_TRUE(compile(huge.c_str(), "tpu:v5p:2x2x1").ok());
}

TEST_F(TpuBackendTest, APartOfTheMemoryMayBeAllThereIs) {
  context_.tpu_memory_percent = 10;
  order("temporaries 2000000000");
  const Status status = compile().status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("16.0 GiB (1.6 GiB by tpu.memory_percent)"));
}

TEST_F(TpuBackendTest, PrecisionIsPartOfTheProgram) {
  constexpr const char* kProduct = R"(kpt_graph 1
parameter w: float32[4, 3] "weight"
input x: float32[2, 3]
y: float32[2, 4] = aten.linear.default(input=%x, weight=%w)
output %y "y"
)";
  ASSERT_TRUE(compile(kProduct).ok());
  order("crash");
  EXPECT_TRUE(compile(kProduct).ok());
  context_.tpu_precision = "DEFAULT";
  EXPECT_FALSE(compile(kProduct).ok());
}

// As for a device that is here, so that a decoder's cache is not there twice.
TEST_F(TpuBackendTest, BuffersThatAModelWritesMayBeOverwritten) {
  order("insist tf.aliasing_output = 1 : i32");
  const auto program = compile(R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
output %sum "y"
)");
  EXPECT_TRUE(program.ok()) << program.status().message();
  EXPECT_FALSE(compile().ok()) << "it writes nothing";
}

TEST_F(TpuBackendTest, PassesOfTheMatrixUnitAreInTheRates) {
  for (const auto& [precision, passes] : {std::pair("HIGHEST", 6), std::pair("HIGH", 3), std::pair("DEFAULT", 1)}) {
    context_.tpu_precision = precision;
    const auto backend = make_tpu_backend(context_);
    const HardwareRates* const rates = find(*backend, "tpu:v5e:2x2").rates();
    ASSERT_NE(rates, nullptr);
    EXPECT_EQ(rates->matrix_flops_per_second, 197e12);
    EXPECT_EQ(rates->wide_flops_per_second, 197e12 / passes) << precision;
  }
}

TEST_F(TpuBackendTest, TemporariesCountToo) {
  order("temporaries 20000000000");
  const Status status = compile().status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("temporaries 18.6 GiB"), HasSubstr("16.0 GiB")));
}

TEST_F(TpuBackendTest, ThePeakCountsWhereItIsMoreThanTheSum) {
  order("peak 20000000000");
  const Status status = compile().status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("temporaries 4.0 KiB, all at the peak 18.6 GiB;"), HasSubstr("16.0 GiB")));
}

TEST_F(TpuBackendTest, ACompilerThatSeesOtherDevicesIsRefused) {
  order("devices 8");
  const Status status = compile().status();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("8 devices"), HasSubstr("where 4 were expected")));
}

TEST_F(TpuBackendTest, WithoutLibtpuTheSentenceSaysHowToGetIt) {
  set_library("");
  const Status missing = compile().status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("libtpu"), HasSubstr("pip ")));
  set_library(source_dir() + "/LICENSE");
  EXPECT_EQ(compile().status().code(), StatusCode::kVendorLibrary);
}

}  // namespace
}  // namespace kpt
