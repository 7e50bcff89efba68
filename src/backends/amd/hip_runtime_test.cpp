// The HIP runtime and launcher against the test library of tests/fakes, whose kernels run through the host mapping.
#include "backends/amd/hip_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/code_object_forge.h"
#include "backends/amd/fake_hip.h"
#include "backends/amd/hip_compiler.h"
#include "backends/amd/hip_launcher.h"
#include "base/log.h"
#include "kernels/gpu/matrix.h"
#include "kernels/gpu/norm.h"
#include "kernels/gpu/softmax.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kCallLimit{20000};
constexpr int kComputeUnits = 4;

// A code object that names the kernels of three families, for the test library to find.
std::string forge(std::string_view target) {
  const auto wave = static_cast<std::uint64_t>(find_amd_architecture(target)->wavefront_size);
  std::vector<std::pair<std::string, testing::KernelFields>> kernels;
  for (const gpu::KernelInfo& info : gpu::list_kernels()) {
    if (info.family != "norm" && info.family != "softmax" && info.family != "matrix_cdna3") continue;
    kernels.push_back({std::string(info.name),
                       {{".kernarg_segment_size", info.arg_bytes},
                        {".max_flat_workgroup_size", static_cast<std::uint64_t>(info.max_threads)},
                        {".wavefront_size", wave}}});
  }
  return testing::make_code_object(testing::make_metadata(kernels, fmt::format("amdgcn-amd-amdhsa--{}", target)));
}

class HipRuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seed_ = std::random_device{}();
    trace_ = std::make_unique<::testing::ScopedTrace>(__FILE__, __LINE__, "seed " + std::to_string(seed_));
    random_.seed(seed_);
    const auto library = DynamicLibrary::open(kFakeHip);
    ASSERT_TRUE(library.ok()) << library.status().to_string();
    live_ = library->find<std::size_t (*)()>("fake_hip_live");
    calls_ = library->find<const char* (*)()>("fake_hip_calls");
    reset_ = library->find<void (*)()>("fake_hip_reset");
    fail_ = library->find<void (*)(int, int)>("fake_hip_fail");
    failed_ = library->find<const char* (*)()>("fake_hip_failed");
    ASSERT_TRUE(live_ != nullptr && calls_ != nullptr && reset_ != nullptr && fail_ != nullptr && failed_ != nullptr);
    set_machine();
  }
  void TearDown() override { EXPECT_EQ(live_(), 0U) << "objects were not given back"; }

  // One GPU; `orders` are more members of the specification.
  void set_machine(const std::string& orders = "", const std::string& gfx = "gfx942:sramecc+:xnack-",
                   std::size_t memory = 64U << 20U) {
    reset_();
    const auto path = folder_.path() / fmt::format("spec{}.json", specs_++);
    std::ofstream(path) << fmt::format(R"({{"version": 60443482, {} "devices": [{{"name": "test", "gfx": "{}",
      "memory_total": {}}}]}})",
                                       orders, gfx, memory);
    ::setenv("KPT_FAKE_HIP", path.c_str(), 1);
  }

  static Result<HipDevice> open() {
    KPT_ASSIGN_OR_RETURN(const auto runtime, HipRuntime::open({kFakeHip}));
    return HipRuntime::open_device(runtime, 0);
  }

  std::vector<float> draw(std::size_t count) {
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  std::unique_ptr<::testing::ScopedTrace> trace_;
  testing::TemporaryFolder folder_;
  int specs_ = 0;
  std::size_t (*live_)() = nullptr;
  const char* (*calls_)() = nullptr;
  void (*reset_)() = nullptr;
  void (*fail_)(int nth, int code) = nullptr;
  const char* (*failed_)() = nullptr;
};

// What all calls of the runtime are used for: softmax of rows x width values, up, run, down, with events around it.
Result<std::vector<float>> run_softmax(const Result<HipDevice>& opened, const std::string& object,
                                       const std::vector<float>& input, std::int64_t rows,
                                       std::chrono::milliseconds limit = kCallLimit) {
  KPT_RETURN_IF_ERROR(opened.status());
  const HipDevice& device = *opened;
  KPT_ASSIGN_OR_RETURN(const HipMemoryInfo memory, device.memory_info());
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  const std::size_t bytes = input.size() * sizeof(float);
  KPT_ASSIGN_OR_RETURN(const HipMemory pinned, device.allocate_host(bytes));
  std::memcpy(pinned.data(), input.data(), bytes);
  KPT_ASSIGN_OR_RETURN(const HipMemory source, device.allocate(bytes));
  KPT_ASSIGN_OR_RETURN(const HipMemory copy, device.allocate(bytes));
  KPT_ASSIGN_OR_RETURN(const HipMemory result, device.allocate(bytes));
  KPT_ASSIGN_OR_RETURN(const HipStream stream, device.make_stream());
  KPT_ASSIGN_OR_RETURN(const HipStream other, device.make_stream());
  KPT_ASSIGN_OR_RETURN(const HipEvent begin, device.make_event());
  KPT_ASSIGN_OR_RETURN(const HipEvent end, device.make_event());
  const std::vector<std::string> objects = {object};
  KPT_ASSIGN_OR_RETURN(const auto launcher, HipLauncher::make(device, kComputeUnits, objects));
  KPT_RETURN_IF_ERROR(other.copy_to_device(source.data(), pinned.data(), bytes));
  KPT_RETURN_IF_ERROR(other.record(begin));
  KPT_RETURN_IF_ERROR(stream.wait(begin));
  KPT_RETURN_IF_ERROR(stream.copy_on_device(copy.data(), source.data(), bytes));
  KPT_RETURN_IF_ERROR(stream.fill(result.data(), 0xff, bytes));
  gpu::SoftmaxCall call;
  call.input = copy.data();
  call.output = result.data();
  call.queries = rows;
  call.width = call.input_stride = static_cast<std::int64_t>(input.size()) / rows;
  KPT_RETURN_IF_ERROR(gpu::run_plan(*launcher, gpu::plan_softmax(call, launcher->shape()), stream.get()));
  KPT_RETURN_IF_ERROR(stream.record(end));
  KPT_RETURN_IF_ERROR(stream.synchronize(limit));
  KPT_RETURN_IF_ERROR(end.synchronize(limit));
  KPT_ASSIGN_OR_RETURN(const auto time, end.since(begin));
  EXPECT_GE(time.count(), 0.0F);
  std::vector<float> output(input.size());
  KPT_RETURN_IF_ERROR(stream.copy_to_host(output.data(), result.data(), bytes));
  KPT_RETURN_IF_ERROR(device.synchronize());
  return output;
}

void expect_softmax(const std::vector<float>& input, const std::vector<float>& output, std::size_t rows) {
  ASSERT_EQ(input.size(), output.size());
  const std::size_t width = input.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* x = input.data() + row * width;
    const double top = *std::max_element(x, x + width);
    double total = 0;
    for (std::size_t i = 0; i < width; ++i) total += std::exp(x[i] - top);
    for (std::size_t i = 0; i < width; ++i) {
      EXPECT_NEAR(output[row * width + i], std::exp(x[i] - top) / total, 2e-6) << row << ", " << i;
    }
  }
}

TEST_F(HipRuntimeTest, SoftmaxThroughTheRuntimeIsRight) {
  for (const char* target : {"gfx942", "gfx1100"}) {
    SCOPED_TRACE(target);
    set_machine("", target);
    const std::vector<float> input = draw(3 * 37);
    const auto output = run_softmax(open(), forge(target), input, 3);
    ASSERT_TRUE(output.ok()) << output.status().to_string();
    expect_softmax(input, *output, 3);
  }
}

TEST_F(HipRuntimeTest, NormThroughTheRuntimeIsRight) {
  const auto device = open();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(device->architecture().gfx_target, "gfx942");
  const std::vector<std::string> objects = {forge("gfx942")};
  const auto launcher = HipLauncher::make(*device, kComputeUnits, objects);
  ASSERT_TRUE(launcher.ok()) << launcher.status().to_string();
  EXPECT_EQ((*launcher)->shape().wave, 64);
  const std::size_t rows = 5;
  const std::size_t width = 72;
  const std::vector<float> input = draw(rows * width);
  const auto memory = device->allocate(2 * rows * width * sizeof(float));
  const auto stream = device->make_stream();
  ASSERT_TRUE(memory.ok() && stream.ok());
  auto* values = static_cast<float*>(memory->data());
  ASSERT_TRUE(stream->copy_to_device(values, input.data(), rows * width * sizeof(float)).ok());
  gpu::NormCall call;
  call.input = values;
  call.normed = values + rows * width;
  call.rows = rows, call.width = call.input_stride = width, call.epsilon = 1e-5F;
  const Status ran = gpu::run_plan(**launcher, gpu::plan_norm(call, (*launcher)->shape()), stream->get());
  ASSERT_TRUE(ran.ok()) << ran.to_string();
  std::vector<float> output(rows * width);
  ASSERT_TRUE(stream->copy_to_host(output.data(), values + rows * width, rows * width * sizeof(float)).ok());
  ASSERT_TRUE(stream->synchronize(kCallLimit).ok());
  for (std::size_t row = 0; row < rows; ++row) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) mean += input[row * width + i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(input[row * width + i] - mean, 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (std::size_t i = 0; i < width; ++i) {
      EXPECT_NEAR(output[row * width + i], (input[row * width + i] - mean) * scale, 2e-5);
    }
  }
}

TEST_F(HipRuntimeTest, MatrixProductThroughTheRuntimeIsRight) {
  const auto device = open();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const std::vector<std::string> objects = {forge("gfx942")};
  const auto launcher = HipLauncher::make(*device, kComputeUnits, objects);
  const auto stream = device->make_stream();
  ASSERT_TRUE(launcher.ok() && stream.ok());
  constexpr std::size_t kRows = 17;
  constexpr std::size_t kColumns = 33;
  constexpr std::size_t kDepth = 37;
  // bfloat16: small whole numbers and their products are exact.
  const auto to_bits = [](int value) {
    const auto number = static_cast<float>(value);
    return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, number) >> 16U);
  };
  std::uniform_int_distribution<int> small(-3, 3);
  std::vector<int> values((kRows + kColumns) * kDepth);
  std::vector<std::uint16_t> bits;
  for (int& value : values) bits.push_back(to_bits(value = small(random_)));
  const auto memory = device->allocate((bits.size() + kRows * kColumns) * 2);
  ASSERT_TRUE(memory.ok());
  auto* start = static_cast<std::uint16_t*>(memory->data());
  ASSERT_TRUE(stream->copy_to_device(start, bits.data(), bits.size() * 2).ok());
  gpu::MatrixCall call;
  call.dtype = DType::kBFloat16;
  call.bias_dtype = call.output_dtype = DType::kBFloat16;
  call.input = start;
  call.weight = start + kRows * kDepth;
  call.output = start + bits.size();
  call.rows = kRows, call.columns = kColumns, call.depth = call.input_stride = call.weight_stride = kDepth;
  const Status ran = gpu::run_plan(**launcher, gpu::plan_matrix(call, (*launcher)->shape()), stream->get());
  ASSERT_TRUE(ran.ok()) << ran.to_string();
  std::vector<std::uint16_t> output(kRows * kColumns);
  ASSERT_TRUE(stream->copy_to_host(output.data(), start + bits.size(), output.size() * 2).ok());
  ASSERT_TRUE(stream->synchronize(kCallLimit).ok());
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      double wanted = 0;
      for (std::size_t k = 0; k < kDepth; ++k) {
        wanted += values[row * kDepth + k] * values[(kRows + column) * kDepth + k];
      }
      const auto got = __builtin_bit_cast(float, static_cast<std::uint32_t>(output[row * kColumns + column]) << 16U);
      EXPECT_NEAR(got, wanted, std::abs(wanted) / 256) << row << ", " << column;
    }
  }
}

// Every call of the runtime, told to fail in the middle of work: the error names it, and everything is given back.
TEST_F(HipRuntimeTest, EveryCallMayFail) {
  const std::string object = forge("gfx942");
  const std::vector<float> input = draw(74);
  for (const char* call : {"hipInit",
                           "hipGetDeviceCount",
                           "hipGetDevicePropertiesR0600",
                           "hipSetDevice",
                           "hipMemGetInfo",
                           "hipHostMalloc",
                           "hipMalloc",
                           "hipDeviceGetStreamPriorityRange",
                           "hipStreamCreateWithPriority",
                           "hipEventCreateWithFlags",
                           "hipModuleLoadData",
                           "hipMemcpyAsync",
                           "hipEventRecord",
                           "hipStreamWaitEvent",
                           "hipMemsetAsync",
                           "hipModuleGetFunction",
                           "hipModuleLaunchKernel",
                           "hipStreamQuery",
                           "hipEventQuery",
                           "hipEventElapsedTime",
                           "hipDeviceSynchronize"}) {
    for (const int code : {1, 2, 101, 719, 4242}) {
      SCOPED_TRACE(fmt::format("{} returns {}", call, code));
      set_machine(fmt::format(R"("calls": {{"{}": {}}},)", call, code));
      const auto output = run_softmax(open(), object, input, 2);
      ASSERT_FALSE(output.ok());
      const std::string name = std::string_view(call).ends_with("R0600") ? "hipGetDeviceProperties" : call;
      EXPECT_THAT(output.status().message(), HasSubstr(name + " failed"));
      EXPECT_THAT(output.status().message(), HasSubstr(fmt::format("(HIP error {})", code)));
      EXPECT_EQ(output.status().vendor(), Vendor::kAmd);
      if (code == 2) {
        const bool pinned = std::string_view(call) == "hipHostMalloc";
        EXPECT_EQ(output.status().code(), pinned ? StatusCode::kMemoryAllocation : StatusCode::kOutOfMemory);
      } else if (code == 101) {
        EXPECT_EQ(output.status().code(), StatusCode::kDeviceNotAvailable);
      } else if (std::string_view(call) == "hipModuleLaunchKernel") {
        EXPECT_EQ(output.status().code(), StatusCode::kKernelLaunch);
      } else {
        EXPECT_EQ(output.status().code(), code == 719 ? StatusCode::kKernel : StatusCode::kDevice);
      }
      EXPECT_EQ(live_(), 0U);
    }
  }
}

// The same call succeeds many times before: every single one of a run, in turn.
TEST_F(HipRuntimeTest, EachCallInTurnMayFail) {
  const std::string object = forge("gfx942");
  const std::vector<float> input = draw(74);
  int turns = 0;
  for (bool reached = true; reached; ++turns) {
    set_machine();
    fail_(turns + 1, 1);
    std::string lines;
    const auto capture = log::capture(&lines);
    const auto output = run_softmax(open(), object, input, 2);
    const std::string call = failed_();
    reached = !call.empty();
    if (!reached) {
      EXPECT_TRUE(output.ok()) << output.status().to_string();
      break;
    }
    SCOPED_TRACE(fmt::format("call {}, {}", turns + 1, call));
    const std::string name = call.ends_with("R0600") ? "hipGetDeviceProperties" : call;
    EXPECT_EQ(live_(), 0U);
    if (output.ok()) {  // what fails while it is given back is logged
      EXPECT_THAT(lines, HasSubstr(name + " failed"));
      expect_softmax(input, *output, 2);
      continue;
    }
    EXPECT_THAT(output.status().message(), HasSubstr(name + " failed"));
    EXPECT_THAT(output.status().code(), AnyOf(Eq(StatusCode::kDevice), Eq(StatusCode::kKernelLaunch)));
    EXPECT_EQ(output.status().vendor(), Vendor::kAmd);
  }
  EXPECT_GT(turns, 40);
}

TEST_F(HipRuntimeTest, CodesOfModulesHaveTypesOfTheirOwn) {
  struct Row {
    const char* call;
    int code;
    StatusCode wanted;
  };
  for (const Row& row :
       {Row{"hipModuleLoadData", 209, StatusCode::kInvalidArchitecture},
        Row{"hipModuleLoadData", 98, StatusCode::kInvalidArchitecture},
        Row{"hipModuleLoadData", 200, StatusCode::kCorruptData},
        Row{"hipModuleLoadData", 218, StatusCode::kCorruptData},
        Row{"hipModuleGetFunction", 500, StatusCode::kNotFound}, Row{"hipStreamQuery", 700, StatusCode::kKernel},
        Row{"hipStreamQuery", 702, StatusCode::kKernel}, Row{"hipModuleLaunchKernel", 719, StatusCode::kKernelLaunch},
        Row{"hipMalloc", 3, StatusCode::kDeviceNotAvailable}}) {
    SCOPED_TRACE(fmt::format("{} returns {}", row.call, row.code));
    set_machine(fmt::format(R"("calls": {{"{}": {}}},)", row.call, row.code));
    const auto output = run_softmax(open(), forge("gfx942"), draw(74), 2);
    EXPECT_EQ(output.status().code(), row.wanted) << output.status().to_string();
    EXPECT_EQ(live_(), 0U);
  }
}

// What fails while it is given back is logged; the result stands.
TEST_F(HipRuntimeTest, FailuresToGiveBackAreLogged) {
  for (const char* call : {"hipFree", "hipHostFree", "hipStreamDestroy", "hipEventDestroy", "hipModuleUnload"}) {
    SCOPED_TRACE(call);
    set_machine(fmt::format(R"("calls": {{"{}": 1}},)", call));
    std::string lines;
    const auto capture = log::capture(&lines);
    const auto output = run_softmax(open(), forge("gfx942"), draw(74), 2);
    EXPECT_TRUE(output.ok()) << output.status().to_string();
    EXPECT_THAT(lines, HasSubstr(std::string(call) + " failed"));
  }
}

TEST_F(HipRuntimeTest, CallsComeInTheOrderOfTheWork) {
  ASSERT_TRUE(run_softmax(open(), forge("gfx942"), draw(74), 2).ok());
  std::size_t at = 0;
  const std::string calls = calls_();
  for (const char* call : {"hipInit\n", "hipMalloc\n", "hipModuleLoadData\n", "hipMemcpyAsync\n", "hipMemsetAsync\n",
                           "hipModuleLaunchKernel\n", "hipStreamQuery\n", "hipMemcpyAsync\n", "hipModuleUnload\n",
                           "hipStreamDestroy\n", "hipFree\n"}) {
    at = calls.find(call, at);
    ASSERT_NE(at, std::string::npos) << call << "is missing in\n" << calls;
    at += 1;
  }
}

TEST_F(HipRuntimeTest, StreamsHavePriorities) {
  const auto device = open();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  for (const auto& [priority, number] :
       {std::pair(HipPriority::kLow, 1), std::pair(HipPriority::kNormal, 0), std::pair(HipPriority::kHigh, -1)}) {
    reset_();
    ASSERT_TRUE(device->make_stream(priority).ok());
    EXPECT_THAT(calls_(), HasSubstr(fmt::format("priority {}\n", number)));
  }
}

TEST_F(HipRuntimeTest, MemoryOfTheDeviceEnds) {
  set_machine("", "gfx942", 1000);
  const auto device = open();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const auto first = device->allocate(600);
  ASSERT_TRUE(first.ok());
  const auto second = device->allocate(600);
  EXPECT_EQ(second.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(second.status().message(), HasSubstr("hipMalloc failed (600 bytes on GPU 0)"));
  EXPECT_EQ(device->memory_info()->free_bytes, 400U);
  EXPECT_TRUE(device->allocate(0).ok());
}

TEST_F(HipRuntimeTest, CodeForAnotherTargetIsRefused) {
  const auto device = open();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const std::string other = forge("gfx90a");
  const auto module = device->load_module(std::as_bytes(std::span(other)));
  EXPECT_EQ(module.status().code(), StatusCode::kInvalidArchitecture);
  EXPECT_EQ(module.status().message(), "the code object is for gfx90a and GPU 0 is gfx942");
  const std::string broken = "no code object";
  const auto nothing = device->load_module(std::as_bytes(std::span(broken)));
  EXPECT_EQ(nothing.status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(nothing.status().vendor(), Vendor::kAmd);
  EXPECT_THAT(calls_(), ::testing::Not(HasSubstr("hipModuleLoadData")));
}

TEST_F(HipRuntimeTest, LaunchesThatDoNotFitAreRefused) {
  const auto device = open();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const std::vector<std::string> twice = {forge("gfx942"), forge("gfx942")};
  EXPECT_EQ(HipLauncher::make(*device, kComputeUnits, twice).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(HipLauncher::make(*device, 0, {}).status().code(), StatusCode::kInvalidArgument);
  const auto launcher = HipLauncher::make(*device, kComputeUnits, std::span(twice).first(1));
  ASSERT_TRUE(launcher.ok()) << launcher.status().to_string();
  gpu::Launch launch;
  launch.kernel = "nothing";
  EXPECT_EQ((*launcher)->launch(launch, nullptr).code(), StatusCode::kNotFound);
  launch.kernel = "norm_wave_f32";
  launch.blocks = 1, launch.threads = 64, launch.arg_bytes = 8;
  EXPECT_THAT((*launcher)->launch(launch, nullptr).message(), HasSubstr("bytes of arguments"));
  const gpu::KernelInfo& info =
      *std::ranges::find(gpu::list_kernels(), std::string_view("norm_wave_f32"), &gpu::KernelInfo::name);
  launch.arg_bytes = info.arg_bytes;
  launch.threads = 2048;
  EXPECT_EQ((*launcher)->launch(launch, nullptr).code(), StatusCode::kKernelLaunch);
  EXPECT_THAT(calls_(), ::testing::Not(HasSubstr("hipModuleLaunchKernel")));
}

TEST_F(HipRuntimeTest, AKernelThatFailsIsReportedByWhatWaits) {
  set_machine(R"("kernel_faults": true,)");
  const auto output = run_softmax(open(), forge("gfx942"), draw(74), 2);
  EXPECT_EQ(output.status().code(), StatusCode::kKernel);
  EXPECT_THAT(output.status().message(), HasSubstr("hipStreamQuery failed: unspecified launch failure"));
}

TEST_F(HipRuntimeTest, AKernelThatDoesNotEndMeetsTheLimit) {
  set_machine(R"("kernel_hangs": true,)");
  const auto begin = std::chrono::steady_clock::now();
  const auto output = run_softmax(open(), forge("gfx942"), draw(74), 2, std::chrono::milliseconds(80));
  EXPECT_EQ(output.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(output.status().message(), HasSubstr("after 80 ms"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(80));
}

TEST_F(HipRuntimeTest, TheRuntimesOfRocm5AndRocm7RunKernels) {
  for (const char* library : {"/fakes/amd_rocm5/libamdhip64.so.5", "/fakes/amd_rocm7/libamdhip64.so.7"}) {
    SCOPED_TRACE(library);
    const auto runtime = HipRuntime::open({build_dir() + library});
    ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
    const auto device = HipRuntime::open_device(*runtime, 0);
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    EXPECT_EQ(device->architecture().gfx_target, "gfx942");
    const std::vector<float> input = draw(74);
    const auto output = run_softmax(device, forge("gfx942"), input, 2);
    ASSERT_TRUE(output.ok()) << output.status().to_string();
    expect_softmax(input, *output, 2);
  }
}

TEST_F(HipRuntimeTest, MachinesWithoutAUsableGpu) {
  EXPECT_EQ(HipRuntime::open({"libkpt_no_such_hip.so.7"}).status().code(), StatusCode::kNotFound);
  set_machine(R"("count": 0,)");
  EXPECT_EQ(open().status().code(), StatusCode::kDeviceNotAvailable);
  // What Debian's runtime 5.2 says without a GPU.
  set_machine(R"("calls": {"hipInit": 101, "hipGetDeviceCount": 100},)");
  EXPECT_THAT(open().status().message(), HasSubstr("hipGetDeviceCount failed: no ROCm-capable device"));
  set_machine("", "gfx1300");
  EXPECT_EQ(open().status().code(), StatusCode::kInvalidArchitecture);
  EXPECT_THAT(open().status().message(), HasSubstr("GPU 0 is gfx1300"));
  set_machine("", "none");
  EXPECT_THAT(open().status().message(), HasSubstr("told no gfx target"));
  set_machine();
  const auto runtime = HipRuntime::open({kFakeHip});
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  for (const int index : {-1, 1}) {
    EXPECT_EQ(HipRuntime::open_device(*runtime, index).status().code(), StatusCode::kDeviceNotAvailable);
  }
}

// The machine's own runtime, where it is installed: it has every function; without a GPU it says so, with one it runs
// a kernel that was compiled for it.
TEST(HipLibrary, TheRealRuntimeIsOpenedAndAnswers) {
  const auto library = open_hip_library(hip_library_names());
  if (!library.ok()) GTEST_SKIP() << library.status().message();
  EXPECT_EQ(HipApi::load(*library).missing(), nullptr);
  const auto runtime = HipRuntime::open();
  if (!runtime.ok()) {
    // Where AMD's driver is, a GPU may be there that the runtime has trouble with.
    if (!std::filesystem::exists("/dev/kfd")) {
      EXPECT_EQ(runtime.status().code(), StatusCode::kDeviceNotAvailable) << runtime.status().to_string();
    }
    EXPECT_THAT(runtime.status().message(), HasSubstr("hip"));
    return;
  }
  const auto device = HipRuntime::open_device(*runtime, 0);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const std::string target(device->architecture().gfx_target);
  const auto compiler = find_hip_compiler(Environment::from_process(), target);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  const auto source = own_kernels("softmax");
  ASSERT_TRUE(source.ok());
  const auto object = compile_hip(*compiler, *source, target, std::chrono::minutes(5));
  ASSERT_TRUE(object.ok()) << object.status().to_string();
  std::vector<float> input(3 * 37);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
  const auto output = run_softmax(device, *object, input, 3);
  ASSERT_TRUE(output.ok()) << output.status().to_string();
  expect_softmax(input, *output, 3);
}

}  // namespace
}  // namespace kpt
