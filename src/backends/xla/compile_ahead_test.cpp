// Programs that are compiled ahead of time and loaded again: with the fake plugin, whose versions and failures can be
// ordered, as xla:cuda, and with the real one on the CPU.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/xla/xla_backend.h"
#include "base/log.h"
#include "engines/xla/execution/compile_ahead.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAnySizeAhead = R"(kpt_graph 1
symbol s0 in 1..100
parameter w: float32[3] "weight"
input x: float32[s0, 3]
product: float32[s0, 3] = aten.mul.Tensor(self=%x, other=%w)
output %product "y"
)";

// A buffer that every run adds its input to.
constexpr const char* kAheadCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
output %sum "y"
)";

void order_ahead(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

ir::Bindings rows(std::int64_t count) {
  ir::Bindings sizes;
  sizes.set("s0", count);
  return sizes;
}

class CompileAhead : public ::testing::Test {
 protected:
  CompileAhead() {
    order_ahead("");
    context_.detection.environment = Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}});
    context_.detection.probe_time_limit = std::chrono::seconds(60);
    context_.detection.pjrt_plugins = {"cuda=" + copy_plugin("a.so")};
    context_.compile_cache_folder = folder_.path() / "cache";
    context_.compile_cache_bytes = 1 << 26;
    context_.threads = 2;
    weight_ = random_floats({3});
  }
  ~CompileAhead() override { order_ahead(""); }

  std::string copy_plugin(const std::string& name) const {
    const std::string path = (folder_.path() / name).string();
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path);
    return path;
  }

  Tensor random_floats(const Dims& dims) {
    Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
    std::normal_distribution<float> normal;
    for (float& value : tensor.elements<float>()) value = normal(random_);
    return tensor;
  }

  // Of a new backend.
  const Target& target(const std::string& name) {
    backend_ = make_xla_backend(context_);
    for (const Target* each : backend_->targets()) {
      if (each->name() == name) return *each;
    }
    ADD_FAILURE() << "no target " << name;
    return *backend_->targets().front();
  }

  // What `kpt compile` would write.
  Result<std::string> store(const std::string& graph, const ir::Bindings& sizes = {},
                            const std::string& name = "xla:cuda") {
    KPT_ASSIGN_OR_RETURN(const auto program, target(name).compile_sized(ir::read_graph(graph).value(), sizes));
    return program->serialize();
  }

  // As a later process does; what it logs is added to lines_.
  Result<std::unique_ptr<Executable>> load(const std::string& bytes, const Weights& weights) {
    backend_ = make_xla_backend(context_);
    KPT_ASSIGN_OR_RETURN(const auto devices, backend_->devices());
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, devices.at(0)->target().deserialize(bytes));
    const auto capture = log::capture(&lines_);
    log::configure(log::Level::kInfo, log::Format::kText);
    return backend_->load(std::move(program), weights, devices);
  }

  void expect_right(Executable& executable, std::int64_t count) {
    const Tensor x = random_floats({count, 3});
    RunContext context;
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {x};
    const Status status = executable.run(context, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::size_t i = 0; i < static_cast<std::size_t>(3 * count); ++i) {
      EXPECT_EQ(outputs[0].elements<float>()[i], x.elements<float>()[i] * weight_.elements<float>()[i % 3]);
    }
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  testing::TemporaryFolder folder_;
  BackendContext context_;
  std::unique_ptr<Backend> backend_;
  Tensor weight_;
  std::string lines_;
};

constexpr const char* kNobody = "fail PJRT_Client_Compile 13 nobody compiles here";

TEST_F(CompileAhead, TheProgramHoldsWhatThePluginTells) {
  const Target& cuda = target("xla:cuda");
  const auto program = cuda.compile_sized(ir::read_graph(kAnySizeAhead).value(), rows(4));
  ASSERT_TRUE(program.ok()) << program.status().message();
  const CompileFigures& figures = *(*program)->figures();
  EXPECT_EQ(figures.compiler, "plugin cuda; PJRT 0.81; fake 1");
  EXPECT_EQ(figures.device_kind, "fake device");
  EXPECT_EQ(figures.code_bytes, 512U);
  EXPECT_EQ(figures.argument_bytes, 1000U);
  EXPECT_EQ(figures.output_bytes, 200U);
  EXPECT_EQ(figures.alias_bytes, 8U);
  EXPECT_EQ(figures.temporary_bytes, 4096U);
  EXPECT_EQ(figures.peak_bytes, 5000U);
  EXPECT_GT(figures.flops.value_or(0), 0);
  EXPECT_EQ(figures.flops, 2 * figures.bytes_accessed.value_or(0));
  EXPECT_EQ(figures.compiler_seconds, 0.25);
  EXPECT_EQ(figures.transcendentals, std::nullopt);
  const auto& ahead = dynamic_cast<const AheadProgram&>(**program);
  EXPECT_EQ(ahead.executable(), "fake_executable 1");
  EXPECT_EQ(ahead.facts().sizes, "s0=4");
  EXPECT_THAT(ahead.facts().conditions,
              AllOf(HasSubstr(R"("platform":"fake")"), HasSubstr(R"("platform_version":"fake 1")"),
                    HasSubstr(R"("plugin":"PJRT 0.81; )")));
  EXPECT_EQ(cuda.compile_statistics(), (CompileStatistics{1, 0, 1, 0}));
  ASSERT_TRUE(cuda.compile_sized(ir::read_graph(kAnySizeAhead).value(), rows(4)).ok());
  EXPECT_EQ(cuda.compile_statistics(), (CompileStatistics{1, 1, 1, 0}));
}

TEST_F(CompileAhead, FiguresThatThePluginLacksAreAbsent) {
  order_ahead("fail PJRT_Executable_GetCompiledMemoryStats 12 not counted;lack PJRT_Executable_GetCostAnalysis");
  const auto program = target("xla:cuda").compile_sized(ir::read_graph(kAheadCounter).value(), {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->figures()->argument_bytes, std::nullopt);
  EXPECT_EQ((*program)->figures()->flops, std::nullopt);
}

TEST_F(CompileAhead, FiguresThatThePluginFailsToTellAreAbsentAndTheProgramIsNot) {
  order_ahead(
      "fail PJRT_Executable_GetCompiledMemoryStats 13 miscounted;fail PJRT_Executable_GetCostAnalysis 13 no sums");
  const auto capture = log::capture(&lines_);
  log::configure(log::Level::kInfo, log::Format::kText);
  const auto program = target("xla:cuda").compile_sized(ir::read_graph(kAheadCounter).value(), {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->figures()->argument_bytes, std::nullopt);
  EXPECT_EQ((*program)->figures()->flops, std::nullopt);
  EXPECT_THAT(lines_, AllOf(HasSubstr("miscounted"), HasSubstr("no sums")));
}

TEST_F(CompileAhead, WhatIsStoredIsLoadedWithoutTheCompiler) {
  const std::string bytes = store(kAheadCounter).value();
  context_.compile_cache_folder.clear();
  order_ahead(kNobody);
  const auto executable = load(bytes, {{"count", weight_}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_THAT(lines_, AllOf(HasSubstr("stored=true"), HasSubstr("device=xla:cuda")));
}

TEST_F(CompileAhead, AnotherPlatformPluginOrDeviceCompilesAnewAndSaysSo) {
  const std::string bytes = store(kAheadCounter).value();
  const Weights weights = {{"count", weight_}};
  order_ahead("platform_version fake 2");
  ASSERT_TRUE(load(bytes, weights).ok());
  EXPECT_THAT(lines_, AllOf(HasSubstr("a stored program is not used"), HasSubstr("platform version fake 1"),
                            HasSubstr("this is fake 2"), HasSubstr("stored=false")));
  order_ahead("");
  lines_.clear();
  const std::string other = copy_plugin("b.so");
  std::ofstream(other, std::ios::app | std::ios::binary) << "one more release";
  context_.detection.pjrt_plugins = {"cuda=" + other};
  ASSERT_TRUE(load(bytes, weights).ok());
  EXPECT_THAT(lines_, AllOf(HasSubstr("it was compiled by the plugin PJRT 0.81"), HasSubstr("stored=false")));
  context_.detection.pjrt_plugins = {"cuda=" + (folder_.path() / "a.so").string()};
  const auto program = AheadProgram::deserialize(kXlaAheadForm, "xla:cuda", bytes).value();
  const auto& ahead = dynamic_cast<const AheadProgram&>(*program);
  const auto changed = [&](AheadFacts facts, const std::string& kind) {
    pjrt::TopologyProgram compiled;
    compiled.executable = ahead.executable();
    compiled.figures.device_kind = kind;
    lines_.clear();
    const AheadProgram made(kXlaAheadForm, "xla:cuda", ahead.graph(), std::move(facts), std::move(compiled));
    return load(made.serialize().value(), weights).status();
  };
  ASSERT_TRUE(changed(ahead.facts(), "another device").ok());
  EXPECT_THAT(lines_, HasSubstr("it is for the device another device, and this is fake device"));
  const AheadFacts& facts = ahead.facts();
  ASSERT_TRUE(changed({facts.sizes, facts.module, "[]"}, "fake device").ok());
  EXPECT_THAT(lines_, HasSubstr("what it was compiled with cannot be read"));
  ASSERT_TRUE(changed({facts.sizes, "of another module", facts.conditions}, "fake device").ok());
  EXPECT_THAT(lines_, AllOf(HasSubstr("the model is lowered otherwise now"), HasSubstr("stored=false")));
  ASSERT_TRUE(changed(facts, "fake device").ok());
  EXPECT_THAT(lines_, HasSubstr("stored=true"));
}

TEST_F(CompileAhead, BytesThatThePluginRefusesAreCompiledAnew) {
  const std::string bytes = store(kAheadCounter).value();
  order_ahead("fail PJRT_Executable_DeserializeAndLoad 3 made by another XLA");
  context_.compile_cache_folder.clear();
  ASSERT_TRUE(load(bytes, {{"count", weight_}}).ok());
  EXPECT_THAT(lines_, AllOf(HasSubstr("made by another XLA"), HasSubstr("stored=false")));
}

TEST_F(CompileAhead, SeveralDevicesDoNotUseIt) {
  const std::string bytes = store(kAheadCounter).value();
  context_.pjrt_devices = 3;
  (void)load(bytes, {{"count", weight_}});
  EXPECT_THAT(lines_, HasSubstr("it is for one device, and pjrt.devices asks for 3"));
}

TEST_F(CompileAhead, DamagedBytesAreTypedErrors) {
  const std::string bytes = store(kAheadCounter).value();
  EXPECT_EQ(target("xla:rocm").deserialize(bytes).status().code(), StatusCode::kVersionMismatch);
  const Target& cuda = target("xla:cuda");
  EXPECT_EQ(cuda.deserialize(bytes.substr(0, bytes.size() / 2)).status().code(), StatusCode::kCorruptData);
  std::string later = bytes;
  later.replace(0, later.find('\n'), "kpt-xla-executable 3");
  EXPECT_EQ(cuda.deserialize(later).status().code(), StatusCode::kVersionMismatch);
}

TEST_F(CompileAhead, SizesMustBeGiven) {
  const Status open = store(kAnySizeAhead).status();
  EXPECT_EQ(open.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(open.message(), HasSubstr("a program for xla:cuda has fixed sizes, and the model leaves s0 free"));
  EXPECT_THAT(store(kAnySizeAhead, rows(101)).status().message(), HasSubstr("s0=101 is out of its range"));
}

TEST_F(CompileAhead, APluginThatCannotSerializeIsASentence) {
  order_ahead("lack PJRT_Executable_Serialize");
  const Status lacks = store(kAheadCounter).status();
  EXPECT_EQ(lacks.code(), StatusCode::kUnsupported);
  EXPECT_THAT(lacks.message(), AllOf(HasSubstr("PJRT plugin cuda compiled the program and cannot serialize it"),
                                     HasSubstr("lacks PJRT_Executable_Serialize")));
  context_.detection.pjrt_plugins = {"cuda=" + copy_plugin("b.so")};  // a table is read once
  order_ahead("fail PJRT_Executable_Serialize 12 this compiler keeps its code");
  const Status refuses = store(kAheadCounter).status();
  EXPECT_EQ(refuses.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refuses.message(), HasSubstr("this compiler keeps its code"));
  order_ahead("bare");
  EXPECT_EQ(store(kAheadCounter).status().code(), StatusCode::kVendorLibrary);
  const auto counts = backend_->targets()[1]->compile_statistics();
  EXPECT_EQ(counts, (CompileStatistics{1, 0, 1, 1}));
}

TEST_F(CompileAhead, AMissingOrUnusablePluginIsASentence) {
  const Status missing = store(kAheadCounter, {}, "xla:rocm").status();
  EXPECT_EQ(missing.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(missing.message(), HasSubstr("compiling for xla:rocm needs its PJRT plugin, which was not found"));
  order_ahead("crash");
  std::string lines;
  const auto capture = log::capture(&lines);
  const Status unusable = store(kAheadCounter).status();
  EXPECT_EQ(unusable.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(unusable.message(), HasSubstr("compiling for xla:cuda needs its PJRT plugin, which cannot be used: "));
}

TEST_F(CompileAhead, TheCompilersErrorAndTheTimeLimitAreTyped) {
  order_ahead("fail PJRT_Client_Compile 3 no such operation");
  EXPECT_THAT(store(kAheadCounter).status().message(), HasSubstr("no such operation"));
  EXPECT_EQ(backend_->targets()[1]->compile_statistics(), (CompileStatistics{1, 0, 1, 1}));
  context_.compile_time_limit = std::chrono::milliseconds(500);
  order_ahead("hang PJRT_Client_Compile");
  const auto start = std::chrono::steady_clock::now();
  const Status status = store(kAheadCounter).status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(status.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(status.message(), HasSubstr("pjrt.compile_timeout_ms"));
}

class CompileAheadOnTheCpu : public CompileAhead {
 protected:
  CompileAheadOnTheCpu() { context_.detection.pjrt_plugins = {"xla_cpu_pjrt=" + testing::cpu_plugin_path()}; }
};

TEST_F(CompileAheadOnTheCpu, AStoredProgramGivesTheNumbersAndOtherSizesAreCompiled) {
  KPT_NEEDS_CPU_PLUGIN();
  for (const std::chrono::milliseconds limit : {std::chrono::seconds(0), std::chrono::seconds(120)}) {
    context_.compile_time_limit = limit;
    context_.compile_cache_folder = folder_.path() / std::to_string(limit.count());
    const auto bytes = store(kAnySizeAhead, rows(5), "xla:cpu");
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    const CompileFigures figures = *target("xla:cpu").deserialize(*bytes).value()->figures();
    EXPECT_EQ(figures.argument_bytes, (5 * 3 + 3) * 4U);
    EXPECT_EQ(figures.output_bytes, 5 * 3 * 4U);
    EXPECT_THAT(figures.compiler, HasSubstr("plugin xla_cpu_pjrt; PJRT 0."));
    context_.compile_cache_folder.clear();
    lines_.clear();
    const auto executable = load(*bytes, {{"weight", weight_}});
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    EXPECT_THAT(lines_, AllOf(HasSubstr("stored=true"), Not(HasSubstr("not used"))));
    expect_right(**executable, 5);
    expect_right(**executable, 7);
  }
}

TEST_F(CompileAheadOnTheCpu, BuffersThatAModelWritesAreKeptByAStoredProgram) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto bytes = store(kAheadCounter, {}, "xla:cpu");
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto executable = load(*bytes, {{"count", weight_}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_THAT(lines_, HasSubstr("stored=true"));
  const auto state = (*executable)->make_state().value();
  const Tensor x = random_floats({3});
  std::vector<float> expected(weight_.elements<float>().begin(), weight_.elements<float>().end());
  for (int round = 0; round < 4; ++round) {
    RunContext context;
    context.state = state.get();
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {x};
    const Status status = (*executable)->run(context, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::size_t i = 0; i < 3; ++i) {
      expected[i] += x.elements<float>()[i];
      EXPECT_EQ(outputs[0].elements<float>()[i], expected[i]) << round;
    }
  }
}

TEST_F(CompileAheadOnTheCpu, AnotherNumberOfThreadsOrAnotherProcessorCompilesAnew) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto bytes = store(kAnySizeAhead, rows(5), "xla:cpu");
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  context_.threads = 1;
  const auto executable = load(*bytes, {{"weight", weight_}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_THAT(lines_, AllOf(HasSubstr("not used"), HasSubstr("threads.count")));
  expect_right(**executable, 5);
  context_.threads = 2;
  std::string other = *bytes;  // as another machine stores it
  const std::string mark = "\"host\":\"";
  ASSERT_NE(other.find(mark), std::string::npos);
  other.replace(other.find(mark) + mark.size(), 4, "else");
  lines_.clear();
  const auto elsewhere = load(other, {{"weight", weight_}});
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status().message();
  EXPECT_THAT(lines_, HasSubstr("it was compiled for a processor with other features"));
  expect_right(**elsewhere, 5);
}

}  // namespace
}  // namespace kpt
