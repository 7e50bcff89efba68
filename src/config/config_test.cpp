#include "config/config.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "kpt/errors.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Values = std::map<std::string, std::string, std::less<>>;

class ConfigLoading : public ::testing::Test {
 protected:
  ConfigLoading() {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() / ("kpt_config_test_" + test + std::to_string(::getpid()));
  }
  ~ConfigLoading() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, std::string_view text) {
    EXPECT_TRUE(write_file_atomically(folder_ / name, text).ok());
    return folder_ / name;
  }
  static Result<Config> load(const ConfigSources& sources, Values values = {}) {
    return load_config(sources, Environment::from_map(std::move(values)));
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigLoading, WithoutSourcesGivesDefaults) {
  const Config config = load({}).value();
  EXPECT_EQ(config.get(options::kLogLevel), log::Level::kWarn);
  EXPECT_EQ(config.get(options::kLogFormat), log::Format::kText);
  EXPECT_EQ(config.get(options::kCliColor), ColorMode::kAuto);
  EXPECT_EQ(config.get(options::kProbeTimeoutMs), 10000);
  EXPECT_THAT(config.get(options::kProbeBackends), ElementsAre("nvidia", "amd", "tpu", "pjrt", "torch"));
  EXPECT_THAT(config.get(options::kPjrtPlugins), SizeIs(0));
  EXPECT_FALSE(config.get(options::kStrict));
  EXPECT_EQ(config.get(options::kThreadsCount), 0);
  EXPECT_EQ(config.get(options::kCacheDir), "");
  EXPECT_EQ(config.origin(options::kStrict).to_string(), "default");
}

TEST_F(ConfigLoading, EachSourceBeatsTheWeakerOnes) {
  const auto file = write("c.yaml", "log:\n  level: error\n");
  ConfigSources sources;
  sources.preset = "development";
  EXPECT_EQ(load(sources)->get(options::kLogLevel), log::Level::kDebug);
  EXPECT_EQ(load(sources)->origin(options::kLogLevel).to_string(), "preset development");

  sources.file = file;
  EXPECT_EQ(load(sources)->get(options::kLogLevel), log::Level::kError);
  EXPECT_EQ(load(sources)->origin(options::kLogLevel).to_string(), "file " + file.string() + ":2");
  EXPECT_TRUE(load(sources)->get(options::kStrict));  // the preset still holds where the file says nothing

  EXPECT_EQ(load(sources, {{"KPT_LOG", "info"}})->get(options::kLogLevel), log::Level::kInfo);
  EXPECT_EQ(load(sources, {{"KPT_LOG", "info"}})->origin(options::kLogLevel).to_string(), "environment KPT_LOG");

  sources.settings = {"log.level=warn", "log.level=off"};
  EXPECT_EQ(load(sources, {{"KPT_LOG", "info"}})->get(options::kLogLevel), log::Level::kOff);
  EXPECT_EQ(load(sources, {{"KPT_LOG", "info"}})->origin(options::kLogLevel).to_string(), "flag --set log.level");
}

TEST_F(ConfigLoading, EveryOptionListensToItsVariable) {
  const Config config = load({}, {{"KPT_LOG", "error"},
                                  {"KPT_LOG_FORMAT", "json"},
                                  {"KPT_CACHE_DIR", "/c"},
                                  {"KPT_CACHE_BUDGET_BYTES", "4096"},
                                  {"KPT_COLOR", "never"},
                                  {"KPT_CPU_ISA", "no-bf16"},
                                  {"KPT_PROBE_TIMEOUT_MS", "200"},
                                  {"KPT_PROBE_BACKENDS", "amd"},
                                  {"KPT_PJRT_PLUGINS", "x=/x"},
                                  {"KPT_AMD_ARCHITECTURE", "gfx942"},
                                  {"KPT_AMD_COMPILE_OPTIONS", "-O2,-ffp-contract=off"},
                                  {"KPT_AMD_ENGINE", "native"},
                                  {"KPT_AMD_MATRIX_CORES", "false"},
                                  {"KPT_AMD_MEMORY_KEPT_BYTES", "1000000"},
                                  {"KPT_AMD_MEMORY_MARGIN_BYTES", "1000000"},
                                  {"KPT_AMD_MEMORY_PERCENT", "80"},
                                  {"KPT_NVIDIA_FP8_ACTIVATIONS", "auto"},
                                  {"KPT_NVIDIA_FP8_HISTORY", "4"},
                                  {"KPT_NVIDIA_FP8_SCALING", "delayed"},
                                  {"KPT_NVIDIA_GRAPH_MEMORY_BYTES", "1000000"},
                                  {"KPT_NVIDIA_MEMORY_MARGIN_BYTES", "1000000"},
                                  {"KPT_NVIDIA_MEMORY_PERCENT", "80"},
                                  {"KPT_NVIDIA_NVTX", "true"},
                                  {"KPT_NVIDIA_TF32", "true"},
                                  {"KPT_NVIDIA_TUNE", "products"},
                                  {"KPT_MEMORY_BATCH_BUCKETS", "false"},
                                  {"KPT_MEMORY_SEQUENCE_BUCKETS", "false"},
                                  {"KPT_MEMORY_SPLIT_BATCHES", "true"},
                                  {"KPT_PLACEMENT_SPLIT", "true"},
                                  {"KPT_PJRT_COMPILE_TIMEOUT_MS", "500"},
                                  {"KPT_PJRT_DEVICES", "4"},
                                  {"KPT_PJRT_SHARDING", "weights"},
                                  {"KPT_STRICT", "1"},
                                  {"KPT_THREADS", "3"},
                                  {"KPT_TORCH_DIR", "/t"},
                                  {"KPT_TPU_COMPILE_MEMORY_BYTES", "4294967296"},
                                  {"KPT_TPU_COMPILE_TIMEOUT_MS", "700"},
                                  {"KPT_TPU_MEMORY_PERCENT", "80"},
                                  {"KPT_TPU_PRECISION", "bfloat16"},
                                  {"KPT_TPU_PRICES", "v5e=1.2"},
                                  {"KPT_TPU_TOPOLOGY", "v5e:2x2"}})
                            .value();
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    EXPECT_EQ(config.origin(static_cast<OptionId>(i)).kind, Origin::Kind::kEnvironment) << option_table()[i].name;
  }
  EXPECT_EQ(config.get(options::kCliColor), ColorMode::kNever);
  EXPECT_EQ(config.get(options::kTorchDir), "/t");
  EXPECT_EQ(config.get(options::kThreadsCount), 3);
}

TEST_F(ConfigLoading, PresetComesFromFlagThenVariableThenFile) {
  ConfigSources sources;
  sources.file = write("c.yaml", "preset: training\n");
  EXPECT_EQ(load(sources)->origin(options::kLogLevel).to_string(), "preset training");
  EXPECT_EQ(load(sources, {{"KPT_PRESET", "development"}})->origin(options::kLogLevel).to_string(),
            "preset development");
  sources.preset = "inference";
  EXPECT_EQ(load(sources, {{"KPT_PRESET", "development"}})->get(options::kLogFormat), log::Format::kJson);
  EXPECT_EQ(load(sources, {{"KPT_PRESET", "development"}})->origin(options::kLogLevel).to_string(), "default");
}

TEST_F(ConfigLoading, FileComesFromFlagThenVariableThenHome) {
  write("home/.config/kpt/config.yaml", "threads.count: 1\n");
  write("xdg/kpt/config.yaml", "threads.count: 2\n");
  const auto named = write("named.yaml", "threads.count: 3\n");
  ConfigSources flag;
  flag.file = write("flag.yaml", "threads.count: 4\n");
  Values values = {{"HOME", (folder_ / "home").string()}};
  EXPECT_EQ(load({}, values)->get(options::kThreadsCount), 1);
  values["XDG_CONFIG_HOME"] = (folder_ / "xdg").string();
  EXPECT_EQ(load({}, values)->get(options::kThreadsCount), 2);
  values["KPT_CONFIG"] = named.string();
  EXPECT_EQ(load({}, values)->get(options::kThreadsCount), 3);
  EXPECT_EQ(load(flag, values)->get(options::kThreadsCount), 4);
}

TEST_F(ConfigLoading, AMissingFileMattersOnlyWhenItWasNamed) {
  EXPECT_TRUE(load({}, {{"HOME", (folder_ / "nobody").string()}}).ok());
  EXPECT_TRUE(load({}, {{"HOME", "relative"}, {"XDG_CONFIG_HOME", "relative"}}).ok());
  const auto result = load({}, {{"KPT_CONFIG", (folder_ / "none.yaml").string()}});
  EXPECT_EQ(result.status().code(), StatusCode::kConfiguration);
  EXPECT_THAT(result.status().message(), HasSubstr("none.yaml"));
}

TEST_F(ConfigLoading, ProblemsOfAllSourcesAreReported) {
  ConfigSources sources;
  sources.file = write("c.yaml", "log.levle: info\n");
  sources.preset = "fast";
  sources.settings = {"strict", "probe.timeout=5", "threads.count=many"};
  const Status status = load(sources, {{"KPT_STRICT", "maybe"}}).status();
  EXPECT_EQ(status.code(), StatusCode::kConfiguration);
  EXPECT_THAT(status.message(), HasSubstr("c.yaml:1: unknown option \"log.levle\""));
  ASSERT_THAT(status.details(), SizeIs(5));
  EXPECT_THAT(status.details()[0].value, StartsWith("--preset: preset is \"fast\", expected one of inference"));
  EXPECT_EQ(status.details()[1].value, "environment variable KPT_STRICT: strict is \"maybe\", expected true or false");
  EXPECT_EQ(status.details()[2].value, "--set: \"strict\" has no value, expected name=value");
  EXPECT_EQ(status.details()[3].value,
            "--set: unknown option \"probe.timeout\", expected an option's name; did you mean probe.timeout_ms?");
  EXPECT_THAT(status.details()[4].value, StartsWith("--set threads.count: threads.count is \"many\""));
}

TEST_F(ConfigLoading, ASettingMayHoldEqualsSignsAndBeEmpty) {
  ConfigSources sources;
  sources.settings = {"pjrt.plugins=cpu=/a=b", "probe.backends="};
  const Config config = load(sources).value();
  EXPECT_THAT(config.get(options::kPjrtPlugins), ElementsAre("cpu=/a=b"));
  EXPECT_THAT(config.get(options::kProbeBackends), SizeIs(0));
}

TEST(ConfigAssignment, AWeakerOriginChangesNothing) {
  Config config;
  EXPECT_TRUE(config.assign(OptionId::kStrict, true, {Origin::Kind::kFile, "f", 1}));
  EXPECT_FALSE(config.assign(OptionId::kStrict, false, {Origin::Kind::kPreset, "p"}));
  EXPECT_TRUE(config.get(options::kStrict));
  EXPECT_EQ(config.origin(options::kStrict).to_string(), "file f:1");
}

TEST(ConfigAssignment, AnotherTypeBreaksAnInvariant) {
  Config config;
  EXPECT_THROW(config.assign(OptionId::kStrict, std::int64_t{1}, {Origin::Kind::kFlag, "f"}), InternalError);
}

TEST(ConfigComparison, LooksAtValuesAndNotAtOrigins) {
  Config left;
  Config right;
  left.assign(OptionId::kStrict, false, {Origin::Kind::kFlag, "--set strict"});
  EXPECT_TRUE(left.same_values(right));
  left.assign(OptionId::kStrict, true, {Origin::Kind::kFlag, "--set strict"});
  EXPECT_FALSE(left.same_values(right));
}

}  // namespace
}  // namespace kpt
