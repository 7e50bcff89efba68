// TPUs as devices: a machine with chips that is written down, and the fake plugin in libtpu's place.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/tpu/tpu_backend.h"
#include "backends/tpu/tpu_device_target.h"
#include "base/log.h"
#include "engines/xla/execution/ahead_program.h"
#include "ir/text.h"
#include "kpt/errors.h"
#include "support/hardware_fixture.h"
#include "support/tpu_machine.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The fake's programs give their arguments back: the output is x.
constexpr const char* kDeviceGraph = R"(kpt_graph 1
input x: float32[4, 3]
parameter w: float32[4, 3] "weight"
product: float32[4, 3] = aten.mul.Tensor(self=%x, other=%w)
output %product "y"
)";

constexpr const char* kAnySizeOfDevice = R"(kpt_graph 1
symbol s0 in 2..100
input x: float32[s0, 3]
sum: float32[s0, 3] = aten.add.Tensor(self=%x, other=%x)
output %sum "y"
)";

constexpr const char* kWide = R"(kpt_graph 1
input x: float32[40, 3]
parameter w: float32[40, 3] "weight"
product: float32[40, 3] = aten.mul.Tensor(self=%x, other=%w)
output %product "y"
)";

constexpr const char* kProduct = R"(kpt_graph 1
input x: float32[2, 3]
parameter w: float32[3, 3] "weight"
y: float32[2, 3] = aten.linear.default(input=%x, weight=%w)
output %y "y"
)";

// What a program needs on the fake device, whose limit is 5678 bytes: 1000 + 200 - 8 + 512 and the temporaries.
constexpr const char* kSmall = "temporaries 1000";
constexpr const char* kNobodyCompiles = "temporaries 1000;fail PJRT_Client_Compile 13 nobody compiles here";

void order_device(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

Tensor filled(const Dims& dims, float value) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  for (float& element : tensor.elements<float>()) element = value;
  return tensor;
}

class TpuDevicesTest : public ::testing::Test {
 protected:
  TpuDevicesTest() {
    order_device(kSmall);
    library_ = folder_.path() / "libtpu" / "libtpu.so";
    std::filesystem::create_directory(library_.parent_path());
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", library_);
    context_.detection.files = SystemFiles(machine_.root());
    context_.detection.probe_time_limit = std::chrono::seconds(20);
    variables_ = testing::tpu_machine_variables(library_.string());
    variables_["KPT_HELPER_DIR"] = build_dir() + "/libexec/kpt";
    context_.compile_cache_folder = folder_.path() / "cache";
    context_.compile_cache_bytes = 1 << 26;
  }
  ~TpuDevicesTest() override { order_device(""); }

  // A backend of its own for each question, as for each process: a client reads the plugin's version when it is made.
  std::unique_ptr<Backend> make() {
    context_.detection.environment = Environment::from_map(variables_);
    return make_tpu_backend(context_);
  }
  Status devices_status() { return make()->devices().status(); }

  struct Loaded {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Executable> executable;
  };
  Result<Loaded> load(const std::string& text, std::size_t place = 0, std::string_view stored = {}) {
    Loaded loaded{make(), nullptr};
    const ir::Graph graph = ir::read_graph(text).value();
    Weights weights;
    for (const ir::GraphInput& input : graph.inputs) {
      if (!is_weight(input)) continue;
      Dims dims;
      for (const ir::Expr& dim : graph.at(input.value).tensor.dims) dims.push_back(std::stoll(dim.to_string()));
      weights.emplace(input.name, filled(dims, 2));
    }
    KPT_ASSIGN_OR_RETURN(const auto devices, loaded.backend->devices());
    const Target& target = devices.at(place)->target();
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                         stored.empty() ? target.compile(graph) : target.deserialize(stored));
    Device* const one[] = {devices.at(place)};
    KPT_ASSIGN_OR_RETURN(loaded.executable, loaded.backend->load(std::move(program), weights, one));
    return loaded;
  }
  static Status run(const Result<Loaded>& loaded, const Tensor& x) {
    KPT_RETURN_IF_ERROR(loaded.status());
    RunContext context;
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {x};
    KPT_RETURN_IF_ERROR(loaded->executable->run(context, inputs, outputs));
    EXPECT_EQ(outputs.at(0).dims(), x.dims());
    return {};
  }
  // As `kpt compile --target tpu:v5e:2x2` makes it, on a machine without chips.
  std::string compile_ahead(const char* graph, const ir::Bindings& sizes = {}) {
    BackendContext context = context_;
    context.detection.files = SystemFiles();
    context.detection.environment = Environment::from_map(variables_);
    const auto backend = make_tpu_backend(context);
    const auto targets = backend->targets();
    const auto target = std::ranges::find(targets, "tpu:v5e:2x2", &Target::name);
    return (*target)->compile_sized(ir::read_graph(graph).value(), sizes).value()->serialize().value();
  }
  void write_package_version(const std::string& version) const {
    const auto folder = folder_.path() / "libtpu-1.dist-info";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "METADATA") << "Name: libtpu\nVersion: " << version << "\n";
  }

  testing::HardwareFixture machine_ = testing::make_tpu_machine();
  testing::TemporaryFolder folder_;
  std::filesystem::path library_;
  std::map<std::string, std::string, std::less<>> variables_;
  BackendContext context_;
};

TEST_F(TpuDevicesTest, ChipsWithLibtpuAreDevicesOfTheSlicesTarget) {
  const auto backend = make();
  const auto devices = backend->devices();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_EQ(devices->size(), 4U);
  EXPECT_EQ((*devices)[3]->info().name, "tpu:3");
  EXPECT_EQ((*devices)[3]->info().memory_bytes, std::uint64_t{16} << 30U);
  const Target& target = (*devices)[0]->target();
  EXPECT_EQ(target.name(), "tpu:v5e:2x2");
  ASSERT_NE((*devices)[0]->rates(), nullptr);
  EXPECT_EQ((*devices)[0]->rates()->memory_bytes, std::uint64_t{16} << 30U);
  EXPECT_TRUE(target.capabilities().dynamic_shapes);
  EXPECT_EQ(target.capabilities().matrix_dtypes, (std::vector{DType::kBFloat16, DType::kInt8}));
  EXPECT_FALSE(target.capabilities().own_operators.empty());
  EXPECT_EQ(target.arithmetic(), "");
  context_.tpu_precision = "DEFAULT";
  EXPECT_THAT(make()->devices().value()[0]->target().arithmetic(), HasSubstr("tpu.precision"));
}

TEST_F(TpuDevicesTest, WhatTheMachineDoesNotTellIsNotInTheName) {
  variables_.erase("TPU_TOPOLOGY");
  EXPECT_EQ(make()->devices().value()[0]->target().name(), "tpu:v5e");
  variables_.erase("TPU_ACCELERATOR_TYPE");
  const auto backend = make();
  const auto devices = backend->devices().value();
  EXPECT_EQ(devices[0]->target().name(), "tpu");
  EXPECT_EQ(devices[0]->rates(), nullptr);
  EXPECT_THAT(devices[0]->info().description, HasSubstr("unknown generation"));
  EXPECT_TRUE(run(load(kDeviceGraph), filled({4, 3}, 1)).ok());
}

TEST_F(TpuDevicesTest, TheUsersSliceIsTakenWhereTheMachineTellsNone) {
  const std::string stored = compile_ahead(kDeviceGraph);
  variables_.erase("TPU_TOPOLOGY");
  variables_.erase("TPU_ACCELERATOR_TYPE");
  EXPECT_FALSE(load(kDeviceGraph, 0, stored).ok()) << "a program for a slice, and nobody knows which this is";
  context_.tpu_topology = "v5e:2x2";
  order_device(kNobodyCompiles);
  context_.compile_cache_bytes = 0;
  const auto loaded = load(kDeviceGraph, 0, stored);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->backend->devices().value()[0]->target().name(), "tpu:v5e:2x2");
  context_.tpu_topology = "v7:2x2x1";
  const auto backend = make();
  const auto devices = backend->devices().value();
  EXPECT_EQ(devices.size(), 8U) << "two for each chip";
  EXPECT_EQ(devices[0]->info().memory_bytes, std::uint64_t{96} << 30U);
}

TEST_F(TpuDevicesTest, TpusOfAnotherSliceThanTheUsersAreRefused) {
  for (const char* chosen : {"v6e:2x2", "v5e:4x4", "v5e:9x9"}) {
    context_.tpu_topology = chosen;
    const Status status = devices_status();
    const bool known = std::string_view(chosen) != "v5e:9x9";
    EXPECT_EQ(status.code(), known ? StatusCode::kInvalidArchitecture : StatusCode::kConfiguration) << chosen;
    EXPECT_EQ(status.vendor(), Vendor::kTpu) << chosen;
    EXPECT_THAT(status.message(), HasSubstr(known ? "are v5e:2x2, and tpu.topology is " : "is 'v5e:9x9'")) << chosen;
  }
  context_.tpu_topology = "v5e:2x2";
  EXPECT_TRUE(devices_status().ok());
}

TEST_F(TpuDevicesTest, AChipMayBeSeveralDevices) {
  TpuReport report;
  report.generation = "v7";
  report.chips = 2;
  const auto devices = describe_tpu_devices(report, "");
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[3].name, "tpu:3");
  EXPECT_EQ(devices[3].memory_bytes, std::uint64_t{96} << 30U);
  EXPECT_TRUE(devices[3].usable);
  EXPECT_FALSE(describe_tpu_devices(report, "they are locked").at(0).usable);
}

TEST_F(TpuDevicesTest, WithoutChipsOrLibtpuThereIsASentence) {
  variables_.erase("TPU_LIBRARY_PATH");
  const Status no_library = devices_status();
  EXPECT_EQ(no_library.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_EQ(no_library.vendor(), Vendor::kTpu);
  EXPECT_THAT(no_library.message(), HasSubstr("no TPU can be used: libtpu is not installed"));
  variables_ = {{"TPU_LIBRARY_PATH", library_.string()}, {"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}};
  const testing::HardwareFixture bare = testing::make_tpu_machine(0);
  context_.detection.files = SystemFiles(bare.root());
  const Status no_chips = devices_status();
  EXPECT_EQ(no_chips.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_EQ(no_chips.message(), "no TPU can be used: no TPU chip on the PCI bus and no TPU device node");
}

TEST_F(TpuDevicesTest, ALibtpuThatEndsOrHangsIsNoDevice) {
  context_.detection.probe_time_limit = std::chrono::milliseconds(1000);
  for (const char* orders : {"crash", "abort", "hang", "null", "version 0 3"}) {
    order_device(orders);
    const auto start = std::chrono::steady_clock::now();
    const Status status = devices_status();
    EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable) << orders;
    EXPECT_EQ(status.vendor(), Vendor::kTpu) << orders;
    EXPECT_THAT(status.message(), HasSubstr("no TPU can be used: ")) << orders;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  }
}

TEST_F(TpuDevicesTest, ModelsRunOnEveryDevice) {
  for (const std::size_t place : {0U, 1U, 3U}) {
    const auto loaded = load(kDeviceGraph, place);
    const Status status = run(loaded, filled({4, 3}, 7));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(loaded->executable->device(), "tpu:" + std::to_string(place));
  }
}

TEST_F(TpuDevicesTest, AFailureOfLibtpuKeepsItsMessageAndItsVendor) {
  order_device("temporaries 1000;fail PJRT_LoadedExecutable_Execute 13 the board is on fire");
  const Status status = run(load(kDeviceGraph), filled({4, 3}, 7));
  EXPECT_EQ(status.vendor(), Vendor::kTpu);
  EXPECT_THAT(status.message(), HasSubstr("the board is on fire"));
}

TEST_F(TpuDevicesTest, ARunThatLibtpuKeepsForItselfEndsAtItsDeadline) {
  const auto loaded = load(kDeviceGraph);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  order_device("temporaries 1000;hang PJRT_LoadedExecutable_Execute");
  RunContext context;
  context.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  std::vector<Tensor> outputs;
  const Tensor inputs[] = {filled({4, 3}, 7)};
  const auto start = std::chrono::steady_clock::now();
  const Status status = loaded->executable->run(context, inputs, outputs);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.vendor(), Vendor::kTpu);
  EXPECT_THAT(status.message(), HasSubstr("the plugin of tpu:0 cannot be stopped"));
}

TEST_F(TpuDevicesTest, ATensorOfAnotherTpuIsRefused) {
  const auto loaded = load(kDeviceGraph, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto devices = loaded->backend->devices().value();
  const Tensor here = devices[1]->upload(filled({4, 3}, 7)).value();
  EXPECT_TRUE(run(loaded, here).ok());
  const Status status = run(loaded, devices[0]->upload(filled({4, 3}, 7)).value());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("lies on tpu:0; upload it to tpu:1"));
}

TEST_F(TpuDevicesTest, ADeviceThatLibtpuDoesNotGiveIsASentence) {
  const testing::HardwareFixture six = testing::make_tpu_machine(6);
  context_.detection.files = SystemFiles(six.root());
  const Status status = load(kDeviceGraph, 5).status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(status.message(), HasSubstr("tpu:5 is not there: PJRT plugin tpu gives this process 4 devices"));
  EXPECT_TRUE(load(kDeviceGraph, 3).ok());
}

TEST_F(TpuDevicesTest, MemoryIsWhatLibtpuCounts) {
  for (const std::size_t devices : {1U, 3U}) {
    context_.pjrt_devices = devices;
    const auto backend = make();
    const auto memory = backend->devices().value().at(1)->memory();
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ(memory->allocated_bytes, 1234U * devices);
    EXPECT_EQ(memory->limit_bytes, 5678U * devices);
  }
  context_.pjrt_devices = 2;
  EXPECT_THAT(load(kDeviceGraph, 3).status().message(), HasSubstr("pjrt.devices asks for 2 devices, and tpu:3 has 1"));
}

TEST_F(TpuDevicesTest, AModelThatDevicesCannotShareIsATypedError) {
  context_.pjrt_devices = 2;
  context_.pjrt_split_weights = true;
  const Status status = load(kProduct).status();  // of 3 × 3 weights
  EXPECT_THROW(throw_status(status), TpuModelPreparationError) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("no weight of the model can be shared out over 2 devices"));
}

TEST_F(TpuDevicesTest, AProgramMayTakeAPartOfTheMemory) {
  EXPECT_TRUE(load(kDeviceGraph).ok());
  context_.tpu_memory_percent = 40;
  const Status large = load(kDeviceGraph).status();
  EXPECT_EQ(large.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(large.vendor(), Vendor::kTpu);
  EXPECT_THAT(large.message(),
              AllOf(HasSubstr("5.5 KiB (2.3 KiB by tpu.memory_percent)"), HasSubstr("arguments take 1000 B")));
  // The sum is 2704 bytes.
  context_.tpu_memory_percent = 60;
  order_device("temporaries 1000;peak 3000");
  EXPECT_TRUE(load(kDeviceGraph).ok());
  order_device("temporaries 1000;peak 4000");
  const Status peak = load(kDeviceGraph).status();
  EXPECT_EQ(peak.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(peak.message(), HasSubstr("all at the peak 3.9 KiB"));
  // Weights alone are too many: nothing is uploaded.
  context_.tpu_memory_percent = 1;
  order_device("temporaries 1000;fail PJRT_Client_BufferFromHostBuffer 13 uploaded");
  EXPECT_THAT(load(kWide).status().message(), HasSubstr("weights take 480 B")) << "134 bytes are left";
}

TEST_F(TpuDevicesTest, TheSecondLoadComesFromTheCacheUnlessThePrecisionIsAnother) {
  ASSERT_TRUE(load(kProduct).ok());
  order_device(kNobodyCompiles);
  EXPECT_TRUE(load(kProduct).ok());
  context_.tpu_precision = "DEFAULT";
  EXPECT_THAT(load(kProduct).status().message(), HasSubstr("nobody compiles here"));
  context_.tpu_precision = "HIGHEST";
  context_.compile_cache_bytes = 0;
  EXPECT_THAT(load(kProduct).status().message(), HasSubstr("nobody compiles here"));
}

TEST_F(TpuDevicesTest, AStoredGraphComesBack) {
  const auto backend = make();
  const Target& target = backend->devices().value()[0]->target();
  const std::string bytes = target.compile(ir::read_graph(kDeviceGraph).value()).value()->serialize().value();
  EXPECT_TRUE(run(load(kDeviceGraph, 0, bytes), filled({4, 3}, 7)).ok());
  // The slice's target without hardware reads it too, to explain it.
  const auto targets = backend->targets();
  EXPECT_TRUE((*std::ranges::find(targets, "tpu:v5e:2x2", &Target::name))->deserialize(bytes).ok());
  EXPECT_EQ(target.deserialize("nonsense").status().code(), StatusCode::kCorruptData);
}

TEST_F(TpuDevicesTest, WhatWasCompiledAheadIsLoadedWithoutTheCompiler) {
  const std::string stored = compile_ahead(kDeviceGraph);
  order_device(kNobodyCompiles);
  context_.compile_cache_bytes = 0;
  for (const std::size_t place : {0U, 2U}) {
    const Status status = run(load(kDeviceGraph, place, stored), filled({4, 3}, 7));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_THAT(load(kDeviceGraph).status().message(), HasSubstr("nobody compiles here"));
}

TEST_F(TpuDevicesTest, OtherSizesThanTheStoredOnesAreCompiledHere) {
  ir::Bindings sizes;
  sizes.set("s0", 8);
  const std::string stored = compile_ahead(kAnySizeOfDevice, sizes);
  order_device(kNobodyCompiles);
  const auto loaded = load(kAnySizeOfDevice, 0, stored);
  const Status status = run(loaded, filled({8, 3}, 7));
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(run(loaded, filled({5, 3}, 7)).message(), HasSubstr("nobody compiles here"));
  order_device(kSmall);
  EXPECT_TRUE(run(loaded, filled({5, 3}, 7)).ok());
}

TEST_F(TpuDevicesTest, AStoredProgramOfAnotherLibtpuIsCompiledAnew) {
  context_.compile_cache_bytes = 0;
  const std::string stored = compile_ahead(kDeviceGraph);
  std::string lines;
  const auto capture = log::capture(&lines);
  log::configure(log::Level::kInfo, log::Format::kText);
  const auto expect_anew = [&](const std::string& orders, const char* reason) {
    lines.clear();
    order_device(orders);
    const Status status = run(load(kDeviceGraph, 0, stored), filled({4, 3}, 7));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(lines, AllOf(HasSubstr("a stored program is not used and the model is compiled here"),
                             HasSubstr(reason), HasSubstr("stored=false")));
  };
  expect_anew("temporaries 1000;platform_version fake 2", "and this is PJRT 0.81; fake 2");
  expect_anew("temporaries 1000;fail PJRT_Executable_DeserializeAndLoad 3 bytes of another", "bytes of another");
  context_.tpu_precision = "HIGH";
  expect_anew(kSmall, "tpu.precision asks for HIGH");
  context_.tpu_precision = "HIGHEST";
  lines.clear();
  EXPECT_TRUE(load(kDeviceGraph, 0, stored).ok());
  EXPECT_THAT(lines, AllOf(HasSubstr("stored=true"), Not(HasSubstr("is not used"))));
}

// Its executable would be given arguments in another order, which nobody could see.
TEST_F(TpuDevicesTest, AStoredProgramOfAnotherModuleIsCompiledAnew) {
  context_.compile_cache_bytes = 0;
  const auto program = AheadProgram::deserialize(kTpuForm, "tpu:v5e:2x2", compile_ahead(kDeviceGraph)).value();
  const auto& made = dynamic_cast<const AheadProgram&>(*program);
  pjrt::TopologyProgram compiled;
  compiled.executable = made.executable();
  compiled.figures = *made.figures();
  AheadFacts facts = made.facts();
  EXPECT_EQ(facts.module.size(), 64U);
  facts.module.front() = facts.module.front() == '0' ? '1' : '0';
  const AheadProgram other(kTpuForm, "tpu:v5e:2x2", made.graph(), facts, compiled);
  std::string lines;
  const auto capture = log::capture(&lines);
  log::configure(log::Level::kInfo, log::Format::kText);
  EXPECT_TRUE(load(kDeviceGraph, 0, other.serialize().value()).ok());
  EXPECT_THAT(lines, AllOf(HasSubstr("the model is lowered otherwise now"), HasSubstr("stored=false")));
}

TEST_F(TpuDevicesTest, ThePackagesVersionDecidesWhereItIsKnown) {
  write_package_version("0.0.51");
  const std::string stored = compile_ahead(kDeviceGraph);
  order_device(std::string(kNobodyCompiles) + ";platform_version another text");
  context_.compile_cache_bytes = 0;
  EXPECT_TRUE(load(kDeviceGraph, 0, stored).ok());
  write_package_version("0.0.52");
  EXPECT_THAT(load(kDeviceGraph, 0, stored).status().message(), HasSubstr("nobody compiles here"));
}

TEST_F(TpuDevicesTest, AProgramOfAnotherTargetIsRefused) {
  const std::string stored = compile_ahead(kDeviceGraph);
  variables_["TPU_TOPOLOGY"] = "2x4";
  const auto backend = make();
  const auto devices = backend->devices().value();
  EXPECT_EQ(devices[0]->target().name(), "tpu:v5e:2x4");
  EXPECT_EQ(devices[0]->target().deserialize(stored).status().code(), StatusCode::kVersionMismatch);
  const std::shared_ptr<const Program> program = AheadProgram::deserialize(kTpuForm, "tpu:v5e:2x2", stored).value();
  EXPECT_EQ(backend->load(program, {}, std::span(devices).first(1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->load(nullptr, {}, std::span(devices).first(1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->load(program, {}, {}).status().code(), StatusCode::kInvalidArgument);
}

// The chips belong to this process, so that the compiler in the other one must do without them, and without their lock.
TEST_F(TpuDevicesTest, UnderATimeLimitLibtpuCompilesInAProcessOfItsOwn) {
  context_.compile_time_limit = std::chrono::seconds(60);
  const auto open = make();
  Device& device = *open->devices().value()[0];
  ASSERT_TRUE(device.upload(filled({1}, 1)).ok());  // from now on the plugin is open here
  order_device(std::string(kNobodyCompiles) + ";locked");
  const Status status = run(load(kDeviceGraph), filled({4, 3}, 7));
  EXPECT_TRUE(status.ok()) << status.message();
  order_device("temporaries 1000;hang PJRT_Compile");
  context_.compile_time_limit = std::chrono::milliseconds(500);
  context_.compile_cache_bytes = 0;
  const Status hanging = load(kDeviceGraph).status();
  EXPECT_EQ(hanging.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(hanging.message(), HasSubstr("pjrt.compile_timeout_ms"));
  variables_.erase("TPU_TOPOLOGY");
  const Status unknown = load(kDeviceGraph).status();
  EXPECT_EQ(unknown.code(), StatusCode::kUnsupported);
  EXPECT_THAT(unknown.message(), HasSubstr("set tpu.topology"));
  context_.tpu_topology = "v5e:2x2";
  EXPECT_EQ(load(kDeviceGraph).status().code(), StatusCode::kCompilationTimeout) << "now the shape is known";
}

}  // namespace
}  // namespace kpt
