// The compile cache under the fake plugin, whose versions can be ordered, and under the real one.
#include "engines/xla/execution/module_compiler.h"

#include <cstdlib>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void order(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

class ModuleCompilerTest : public ::testing::Test {
 protected:
  ModuleCompilerTest() { order(""); }
  ~ModuleCompilerTest() override { order(""); }

  ModuleCompilerOptions options() const {
    ModuleCompilerOptions made;
    made.environment = Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}});
    made.cache_folder = folder_.path() / "cache";
    made.cache_bytes = 1 << 20;
    return made;
  }
  // A copy of the fake plugin: another file is another build of it.
  std::string copy_plugin(const std::string& name) const {
    const std::string path = (folder_.path() / name).string();
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path);
    return path;
  }
  static std::shared_ptr<const pjrt::Client> client(const std::string& path) {
    return pjrt::Client::create(pjrt::Plugin::open(path, "fake").value(), {}).value();
  }
  static ModuleSource source_of(const Result<CompiledModule>& compiled) {
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return compiled.ok() ? compiled->source : ModuleSource::kCompiledHere;
  }

  testing::TemporaryFolder folder_;
};

constexpr const char* kModule = "() -> (tensor<f32>)";
constexpr std::chrono::milliseconds kLimit{2000};  // for calls that must pass it, beside others that must not

TEST_F(ModuleCompilerTest, TheSecondProcessTakesTheProgramFromTheCache) {
  const std::string plugin = copy_plugin("a.so");
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCompiledHere);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCache);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile("other () -> (tensor<f32>)")),
            ModuleSource::kCompiledHere);
  ModuleCompilerOptions flagged = options();
  flagged.settings.flags.emplace_back("xla_some_flag", true);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), flagged).compile(kModule)), ModuleSource::kCompiledHere);
}

TEST_F(ModuleCompilerTest, AnotherVersionIsNeverReused) {
  const std::string plugin = copy_plugin("a.so");
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCompiledHere);
  order("platform_version fake 2");
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCompiledHere);
  order("");
  const std::string rebuilt = copy_plugin("b.so");  // same bytes, written later
  std::filesystem::last_write_time(rebuilt, std::filesystem::last_write_time(plugin) + std::chrono::seconds(5));
  EXPECT_EQ(source_of(ModuleCompiler(client(rebuilt), options()).compile(kModule)), ModuleSource::kCompiledHere);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCache);
}

TEST_F(ModuleCompilerTest, ACorruptEntryIsCompiledAnewAndReplaced) {
  const std::string plugin = copy_plugin("a.so");
  ASSERT_TRUE(ModuleCompiler(client(plugin), options()).compile(kModule).ok());
  std::string lines;
  const auto capture = log::capture(&lines);
  for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "cache")) {
    if (file.path().extension() != ".entry") continue;
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-3, std::ios::end);
    stream.put('X');
  }
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCompiledHere);
  EXPECT_FALSE(lines.empty());
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCache);
}

TEST_F(ModuleCompilerTest, AnEntryThatThePluginRefusesIsReplaced) {
  const std::string plugin = copy_plugin("a.so");
  ASSERT_TRUE(ModuleCompiler(client(plugin), options()).compile(kModule).ok());
  order("fail PJRT_Executable_DeserializeAndLoad 3 made by another XLA");
  std::string lines;
  {
    const auto capture = log::capture(&lines);
    EXPECT_EQ(source_of(ModuleCompiler(client(plugin), options()).compile(kModule)), ModuleSource::kCompiledHere);
  }
  EXPECT_THAT(lines, HasSubstr("made by another XLA"));
}

TEST_F(ModuleCompilerTest, WithoutAFolderOrWithABrokenOneItCompiles) {
  const std::string plugin = copy_plugin("a.so");
  ModuleCompilerOptions none = options();
  none.cache_folder.clear();
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), none).compile(kModule)), ModuleSource::kCompiledHere);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), none).compile(kModule)), ModuleSource::kCompiledHere);
  std::string lines;
  const auto capture = log::capture(&lines);
  ModuleCompilerOptions broken = options();
  broken.cache_folder = plugin + "/below_a_file";
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), broken).compile(kModule)), ModuleSource::kCompiledHere);
  EXPECT_THAT(lines, HasSubstr("compile cache cannot be used"));
}

TEST_F(ModuleCompilerTest, UnderATimeLimitAHangIsATypedErrorAndNothingIsKept) {
  const std::string plugin = copy_plugin("a.so");
  ModuleCompilerOptions limited = options();
  limited.time_limit = std::chrono::milliseconds(500);
  order("hang PJRT_Client_Compile");
  const Status status = ModuleCompiler(client(plugin), limited).compile(kModule).status();
  EXPECT_EQ(status.code(), StatusCode::kCompilationTimeout);
  order("");
  limited.time_limit = std::chrono::seconds(20);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), limited).compile(kModule)), ModuleSource::kCompiledInChild);
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), limited).compile(kModule)), ModuleSource::kCache);
}

TEST_F(ModuleCompilerTest, UnderATimeLimitAPluginThatNeverLoadsWhatWasCompiledIsATypedError) {
  const std::string plugin = copy_plugin("a.so");
  ModuleCompilerOptions limited = options();
  limited.time_limit = std::chrono::milliseconds(5000);
  limited.call_limit = std::chrono::milliseconds(2000);
  ASSERT_EQ(source_of(ModuleCompiler(client(plugin), limited).compile(kModule)), ModuleSource::kCompiledInChild);
  order("hang PJRT_Executable_DeserializeAndLoad");
  const auto start = std::chrono::steady_clock::now();
  const Status status = ModuleCompiler(client(plugin), limited).compile("other () -> (tensor<f32>)").status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("has not answered within 5.0 s when asked to load a program"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
  order("");
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), limited).compile("other () -> (tensor<f32>)")),
            ModuleSource::kCompiledInChild);
}

TEST_F(ModuleCompilerTest, ATimeLimitForTheCompilerIsNoneForLoadingWhatItMade) {
  ModuleCompilerOptions limited = options();
  limited.time_limit = std::chrono::milliseconds(2000);
  order("slow PJRT_Executable_DeserializeAndLoad 3000");
  for (const std::chrono::milliseconds call_limit : {std::chrono::seconds(0), std::chrono::seconds(60)}) {
    limited.call_limit = call_limit;
    const std::string module = std::to_string(call_limit.count()) + " () -> (tensor<f32>)";
    EXPECT_EQ(source_of(ModuleCompiler(client(copy_plugin(module.substr(0, 1))), limited).compile(module)),
              ModuleSource::kCompiledInChild);
  }
}

TEST_F(ModuleCompilerTest, ACompilerThatHangsInThisProcessIsGivenUpAndNobodyWaitsForItAgain) {
  const std::string plugin = copy_plugin("a.so");
  ModuleCompilerOptions limited = options();
  limited.call_limit = kLimit;
  const std::string gate = (folder_.path() / "gate").string();
  const ModuleCompiler compiler(client(plugin), limited);
  order("stall PJRT_Client_Compile " + gate);
  const auto start = std::chrono::steady_clock::now();
  const Status late = compiler.compile(kModule).status();
  EXPECT_EQ(late.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(late.message(), AllOf(HasSubstr("PJRT plugin fake has not compiled the program within 2.0 s"),
                                    HasSubstr("pjrt.compile_timeout_ms")));
  const Status refused = compiler.compile("other () -> (tensor<f32>)").status();
  EXPECT_EQ(refused.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(refused.message(), HasSubstr("PJRT plugin fake does not answer"));
  EXPECT_EQ(compiler.load("fake_executable 1").status().code(), StatusCode::kDeviceNotAvailable);
  std::ofstream(gate) << "";
  Status status = refused;
  while (!status.ok() && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    status = compiler.compile(kModule).status();
  }
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(ModuleCompilerTest, LoadingAndSerializingInThisProcessEndAtTheLimitToo) {
  const std::string plugin = copy_plugin("a.so");
  ModuleCompilerOptions limited = options();
  limited.call_limit = kLimit;
  order("hang PJRT_Executable_Serialize");
  EXPECT_EQ(source_of(ModuleCompiler(client(plugin), limited).compile(kModule)), ModuleSource::kCompiledHere);
  EXPECT_THAT(ModuleCompiler(client(plugin), limited).compile_serialized(kModule).status().message(),
              HasSubstr("cannot serialize it"));
  order("");
  ASSERT_TRUE(ModuleCompiler(client(plugin), options()).compile(kModule).ok());
  order("hang PJRT_Executable_DeserializeAndLoad");
  const Status status = ModuleCompiler(client(plugin), limited).compile(kModule).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("has not answered within 2.0 s when asked to load a program"));
}

TEST_F(ModuleCompilerTest, BytesComeAlongWhereverTheProgramComesFrom) {
  const std::string plugin = copy_plugin("a.so");
  ModuleCompilerOptions none = options();
  none.cache_folder.clear();
  ModuleCompilerOptions limited = none;
  limited.time_limit = std::chrono::seconds(20);
  for (const ModuleCompilerOptions& each : {none, limited, options(), options()}) {
    const auto compiled = ModuleCompiler(client(plugin), each).compile_serialized(kModule);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(compiled->bytes, "fake_executable 1");
  }
  order("fail PJRT_Executable_Serialize 12 not made for that");
  EXPECT_TRUE(ModuleCompiler(client(plugin), none).compile(kModule).ok());
  const Status status = ModuleCompiler(client(plugin), none).compile_serialized(kModule).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("cannot serialize it"));
}

TEST_F(ModuleCompilerTest, ConditionsTellReleasesVersionsAndOptionsApart) {
  const std::string plugin = copy_plugin("a.so");
  const CompileConditions first = find_conditions(*client(plugin), options());
  EXPECT_EQ(first.platform, "fake");
  EXPECT_EQ(first.platform_version, "fake 1");
  EXPECT_EQ(first.host, "") << "no code for the processor";
  const std::string copied = copy_plugin("b.so");  // the same release, installed later
  std::filesystem::last_write_time(copied, std::filesystem::last_write_time(plugin) + std::chrono::seconds(5));
  EXPECT_EQ(find_conditions(*client(copied), options()).plugin, first.plugin);
  const std::string rebuilt = copy_plugin("c.so");
  std::ofstream(rebuilt, std::ios::app | std::ios::binary) << "more";
  EXPECT_NE(find_conditions(*client(rebuilt), options()).plugin, first.plugin);
  ModuleCompilerOptions flagged = options();
  flagged.settings.flags.emplace_back("xla_some_flag", true);
  EXPECT_NE(find_conditions(*client(plugin), flagged).options, first.options);
}

TEST_F(ModuleCompilerTest, TheRealPluginsProgramsComeBackFromTheCache) {
  KPT_NEEDS_CPU_PLUGIN();
  constexpr const char* kTwice = R"(module @m {
  func.func public @main(%x: tensor<3xf32>) -> (tensor<3xf32>) {
    %s = "stablehlo.add"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %s : tensor<3xf32>
  }
})";
  const auto cpu = testing::cpu_client().value();
  EXPECT_EQ(source_of(ModuleCompiler(cpu, options()).compile(kTwice)), ModuleSource::kCompiledHere);
  const auto cached = ModuleCompiler(cpu, options()).compile(kTwice);
  ASSERT_EQ(source_of(cached), ModuleSource::kCache);
  const Tensor host = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : host.elements<float>()) value = 2;
  const auto x = cpu->upload(host, pjrt::HostMemory::kCopied).value();
  auto run = cached->executable->execute(std::vector<std::vector<const pjrt::DeviceBuffer*>>{{x.get()}}).value();
  EXPECT_EQ(run.outputs[0][0]->download().value().elements<float>()[2], 4);
}

}  // namespace
}  // namespace kpt
