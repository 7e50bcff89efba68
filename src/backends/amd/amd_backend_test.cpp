// A layer of a transformer on "amd:0" of the test libamdhip64, whose kernels run through the host mapping: every call
// of the runtime told to fail. tests/execution/amd_test.cpp holds the results of a BERT against fp64.
#include "backends/amd/amd_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/fake_hip.h"
#include "backends/amd/test_gpu.h"
#include "base/dynamic_library.h"
#include "ir/text.h"
#include "kpt/errors.h"
#include "support/rounds.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr std::size_t kModules = 6;  // families of kernels that the transformer launches

constexpr const char* kTransformer = R"(kpt_graph 1
parameter table: float32[11, 8] "table"
parameter norm_w: float32[8] "norm.weight"
parameter norm_b: float32[8] "norm.bias"
parameter qw: float32[8, 8] "q.weight"
parameter kw: float32[8, 8] "k.weight"
parameter vw: float32[8, 8] "v.weight"
parameter ow: float32[8, 8] "o.weight"
parameter ob: float32[8] "o.bias"
parameter uw: float32[12, 8] "up.weight"
parameter ub: float32[12] "up.bias"
parameter dw: float32[8, 12] "down.weight"
input ids: int64[1, 3]
input mask: int64[1, 3]
rows: float32[1, 3, 8] = aten.embedding.default(weight=%table, indices=%ids)
norm: float32[1, 3, 8] = aten.layer_norm.default(input=%rows, normalized_shape=[8], weight=%norm_w, bias=%norm_b)
q: float32[1, 3, 8] = aten.linear.default(input=%norm, weight=%qw)
k: float32[1, 3, 8] = aten.linear.default(input=%norm, weight=%kw)
v: float32[1, 3, 8] = aten.linear.default(input=%norm, weight=%vw)
q4: float32[1, 3, 2, 4] = aten.view.default(self=%q, size=[1, 3, 2, 4])
k4: float32[1, 3, 2, 4] = aten.view.default(self=%k, size=[1, 3, 2, 4])
v4: float32[1, 3, 2, 4] = aten.view.default(self=%v, size=[1, 3, 2, 4])
qt: float32[1, 2, 3, 4]{strides=[24, 4, 8, 1]} = aten.transpose.int(self=%q4, dim0=1, dim1=2)
kt: float32[1, 2, 3, 4]{strides=[24, 4, 8, 1]} = aten.transpose.int(self=%k4, dim0=1, dim1=2)
vt: float32[1, 2, 3, 4]{strides=[24, 4, 8, 1]} = aten.transpose.int(self=%v4, dim0=1, dim1=2)
kept: bool[1, 3] = aten.ne.Scalar(self=%mask, other=0)
kept4: bool[1, 1, 1, 3] = aten.view.default(self=%kept, size=[1, 1, 1, 3])
a: float32[1, 2, 3, 4]{strides=[24, 4, 8, 1]} = aten.scaled_dot_product_attention.default(query=%qt, key=%kt, value=%vt, attn_mask=%kept4)
at: float32[1, 3, 2, 4] = aten.transpose.int(self=%a, dim0=1, dim1=2)
flat: float32[1, 3, 8] = aten.reshape.default(self=%at, shape=[1, 3, 8])
o: float32[1, 3, 8] = aten.linear.default(input=%flat, weight=%ow, bias=%ob)
sum: float32[1, 3, 8] = aten.add.Tensor(self=%o, other=%rows)
up: float32[1, 3, 12] = aten.linear.default(input=%sum, weight=%uw, bias=%ub)
act: float32[1, 3, 12] = aten.gelu.default(self=%up)
down: float32[1, 3, 8] = aten.linear.default(input=%act, weight=%dw)
out: float32[1, 3, 8] = aten.add.Tensor(self=%down, other=%sum)
output %out "output"
)";

class AmdBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto library = DynamicLibrary::open(kFakeHip);
    ASSERT_TRUE(library.ok()) << library.status().to_string();
    live_ = library->find<std::size_t (*)()>("fake_hip_live");
    calls_ = library->find<const char* (*)()>("fake_hip_calls");
    reset_ = library->find<void (*)()>("fake_hip_reset");
    fail_ = library->find<void (*)(int, int)>("fake_hip_fail");
    failed_ = library->find<const char* (*)()>("fake_hip_failed");
    ASSERT_TRUE(live_ != nullptr && calls_ != nullptr && reset_ != nullptr && fail_ != nullptr && failed_ != nullptr);
    reset_();
    order();
    backend_ = gpu_.make_backend();
    make_model();
  }
  void TearDown() override {
    backend_.reset();
    EXPECT_EQ(live_(), leaked_) << "objects were not given back";
    reset_();
  }

  void order(const std::string& orders = "", std::size_t memory = 64U << 20U) { gpu_.order(orders, memory); }
  void make_model() {
    graph_ = ir::read_graph(kTransformer).value();
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 0.2F);
    for (const ir::GraphInput& input : graph_.inputs) {
      const ir::TensorType& type = graph_.at(input.value).tensor;
      Dims dims;
      for (const ir::Expr& dim : type.dims) dims.push_back(*dim.constant());
      const Tensor tensor = Tensor::empty(type.dtype, dims).value();
      if (type.dtype == DType::kFloat32) {
        for (float& value : tensor.elements<float>()) value = normal(random);
      } else {
        for (std::int64_t& value : tensor.elements<std::int64_t>()) {
          value = static_cast<std::int64_t>(random() % 2);
        }
      }
      if (input.kind == ir::InputKind::kUser) {
        inputs_.push_back(tensor);
      } else {
        weights_.emplace(input.name, tensor);
      }
    }
  }
  Result<std::unique_ptr<Executable>> load() {
    KPT_ASSIGN_OR_RETURN(const auto devices, backend_->devices());
    if (devices.empty()) return Status(StatusCode::kDeviceNotAvailable, "no device");
    KPT_ASSIGN_OR_RETURN(auto program, devices[0]->target().compile(graph_));
    return backend_->load(std::move(program), weights_, std::span(devices).first(1));
  }
  Status run(Executable& executable, std::vector<Tensor>& outputs,
             std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    RunContext context;
    context.deadline = std::chrono::steady_clock::now() + limit;
    return executable.run(context, inputs_, outputs);
  }
  Status load_and_run(std::vector<Tensor>& outputs) {
    KPT_ASSIGN_OR_RETURN(const auto executable, load());
    return run(*executable, outputs);
  }

  testing::TestGpu gpu_{"gfx942"};
  std::size_t leaked_ = 0;
  std::size_t (*live_)() = nullptr;
  const char* (*calls_)() = nullptr;
  void (*reset_)() = nullptr;
  void (*fail_)(int nth, int code) = nullptr;
  const char* (*failed_)() = nullptr;
  std::unique_ptr<Backend> backend_;
  ir::Graph graph_;
  Weights weights_;
  std::vector<Tensor> inputs_;
};

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) {
    return x.dims() == y.dims() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
  });
}

void expect_failure_of(const Status& status, std::string_view call) {
  EXPECT_FALSE(status.ok()) << call;
  EXPECT_THAT(status.message(), HasSubstr(fmt::format("{} failed", call)));
  EXPECT_EQ(status.vendor(), Vendor::kAmd);
}

TEST_F(AmdBackendTest, TargetsAreThereWithoutAGpu) {
  std::vector<std::string> names;
  for (const Target* target : backend_->targets()) names.emplace_back(target->name());
  EXPECT_THAT(names, Contains("amd:gfx942"));
  EXPECT_THAT(names, Contains("amd:gfx1100"));
  for (const Target* target : backend_->targets()) {
    const auto answers = target->supports(graph_);
    ASSERT_TRUE(answers.ok());
    EXPECT_TRUE(std::ranges::all_of(*answers, &Support::supported)) << target->name();
  }
}

TEST_F(AmdBackendTest, CapabilitiesFollowTheMatrixCores) {
  const auto capabilities = [&](std::string_view name) {
    for (const Target* target : backend_->targets()) {
      if (target->name() == name) return target->capabilities();
    }
    ADD_FAILURE() << name;
    return Capabilities{};
  };
  for (const char* name : {"amd:gfx90a", "amd:gfx942", "amd:gfx950", "amd:gfx1100", "amd:gfx1151", "amd:gfx1201"}) {
    EXPECT_THAT(capabilities(name).matrix_dtypes, IsSupersetOf({DType::kFloat16, DType::kBFloat16, DType::kInt8}))
        << name;
    EXPECT_THAT(capabilities(name).own_operators, Contains("kpt.linear_int8.default")) << name;
    EXPECT_EQ(capabilities(name).float16_operators, capabilities(name).own_operators) << name;
  }
  for (const char* name : {"amd:gfx942", "amd:gfx950", "amd:gfx1201"}) {
    EXPECT_THAT(capabilities(name).own_operators, Contains("kpt.linear_fp8.default")) << name;
    EXPECT_THAT(capabilities(name).own_operators, Not(Contains("kpt.linear_fp8_e5m2.default"))) << name;
    EXPECT_EQ(capabilities(name).fp8_inputs, Fp8Inputs::kE4M3) << "passes make nothing else for it";
    EXPECT_THAT(capabilities(name).matrix_dtypes, Contains(DType::kFloat8E4M3FN)) << name;
  }
  for (const char* name : {"amd:gfx908", "amd:gfx1030"}) {
    EXPECT_THAT(capabilities(name).matrix_dtypes, IsEmpty()) << name;
    EXPECT_THAT(capabilities(name).own_operators, Not(Contains("kpt.linear_int8.default"))) << name;
  }
  EXPECT_THAT(capabilities("amd:gfx1100").own_operators, Not(Contains("kpt.linear_fp8.default")));
  EXPECT_THAT(capabilities("amd:gfx1100").matrix_dtypes, Not(Contains(DType::kFloat8E4M3FN)));
}

// A layer and attention in bfloat16: the kernels that are asked for, what the target says of itself, and the numbers.
TEST_F(AmdBackendTest, MatrixCoresAreLeftAloneWhenTheyShallBe) {
  graph_ = ir::read_graph(R"(kpt_graph 1
parameter w: bfloat16[64, 64] "w"
input x: bfloat16[1, 2, 3, 64]
y: bfloat16[1, 2, 3, 64] = aten.linear.default(input=%x, weight=%w)
o: bfloat16[1, 2, 3, 64]{strides=[384, 64, 128, 1]} = aten.scaled_dot_product_attention.default(query=%y, key=%x, value=%x)
output %o "output"
)")
               .value();
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 0.3F);
  const auto numbers = [&](const Dims& dims) {
    const Tensor tensor = Tensor::empty(DType::kBFloat16, dims).value();
    for (std::uint16_t& bits : tensor.elements<std::uint16_t>()) {
      bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random)) >> 16U);
    }
    return tensor;
  };
  weights_ = {{"w", numbers({64, 64})}};
  inputs_ = {numbers({1, 2, 3, 64})};
  struct Seen {
    std::string kernels;
    Capabilities capabilities;
    std::vector<Tensor> outputs;
    std::string program;
  };
  const auto see = [&](bool matrix_cores) {
    Seen seen;
    BackendContext context;
    context.amd_matrix_cores = matrix_cores;
    backend_ = gpu_.make_backend(context);
    Device& device = *backend_->devices().value().front();
    seen.capabilities = device.target().capabilities();
    const auto program = device.target().compile(graph_).value();
    seen.program = program->serialize().value();
    for (const NodePlan& node : program->plan()) seen.kernels += node.how + "; ";
    const auto executable = load();
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    const auto activities = device.record([&] { return run(**executable, seen.outputs); });
    for (const Activity& activity : activities.value()) {
      if (activity.kind == Activity::Kind::kKernel) seen.kernels += std::string(activity.name) + "; ";
    }
    return seen;
  };
  const Seen with = see(true);
  const Seen without = see(false);
  EXPECT_THAT(with.kernels, AllOf(HasSubstr("matrix_cdna3_bf16; "), HasSubstr("attention_cdna3_bf16_64; "),
                                  Not(HasSubstr("product"))));
  EXPECT_THAT(without.kernels, AllOf(HasSubstr("product_"), HasSubstr("softmax_"), Not(HasSubstr("cdna3"))));
  EXPECT_THAT(without.program, Not(HasSubstr("matrix_cdna3")));
  EXPECT_THAT(without.capabilities.matrix_dtypes, IsEmpty());
  EXPECT_THAT(without.capabilities.own_operators, Not(Contains("kpt.linear_fp8.default")));
  EXPECT_NE(with.capabilities.features, without.capabilities.features) << "they are part of cache keys";
  const auto value = [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); };
  for (std::size_t i = 0; i < 384; ++i) {
    const float wanted = value(with.outputs.at(0).elements<std::uint16_t>()[i]);
    ASSERT_NEAR(value(without.outputs.at(0).elements<std::uint16_t>()[i]), wanted, 0.02) << i;
  }
  // A program that was stored with them runs without, by kernels that it does not hold.
  const auto stored = backend_->devices().value().front()->target().deserialize(with.program);
  ASSERT_TRUE(stored.ok()) << stored.status().to_string();
  EXPECT_THAT((*stored)->plan().at(0).how, HasSubstr("product_"));
}

TEST_F(AmdBackendTest, ProgramsComeBackFromTheirBytes) {
  const Target* const target = backend_->targets().front();
  const auto program = target->compile(graph_);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const std::string bytes = (*program)->serialize().value();
  EXPECT_EQ(target->deserialize(bytes).value()->graph(), graph_);
  EXPECT_EQ(backend_->targets().back()->deserialize(bytes).status().code(), StatusCode::kVersionMismatch);
  EXPECT_EQ(target->deserialize("text").status().code(), StatusCode::kCorruptData);
}

TEST_F(AmdBackendTest, TensorsGoUpAndComeBack) {
  Device& device = *backend_->devices().value().front();
  EXPECT_EQ(device.info().name, "amd:0");
  const Tensor& host = weights_.begin()->second;
  const auto up = device.upload(host);
  ASSERT_TRUE(up.ok()) << up.status().to_string();
  EXPECT_EQ(up->device(), "amd:0");
  EXPECT_TRUE(same({host}, {device.download(*up).value()}));
}

// Each call told to fail before anything is opened, in the middle of a run, and not at all afterwards.
TEST_F(AmdBackendTest, EveryCallMayFailAndTheNextRunIsRight) {
  const std::vector<int> codes = testing::kSanitized ? std::vector{719} : std::vector{1, 2, 719};
  std::vector<Tensor> wanted;
  ASSERT_TRUE(load_and_run(wanted).ok());
  {
    const auto executable = load();
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    for (const char* call : {"hipMemcpyAsync", "hipMemsetAsync", "hipModuleLaunchKernel", "hipSetDevice"}) {
      SCOPED_TRACE(call);
      order(fmt::format(R"("calls": {{"{}": 1}},)", call));
      std::vector<Tensor> outputs;
      expect_failure_of(run(**executable, outputs), call);
      order();
      ASSERT_TRUE(run(**executable, outputs).ok());
      EXPECT_TRUE(same(outputs, wanted));
    }
  }
  for (const char* call :
       {"hipInit", "hipGetDeviceCount", "hipSetDevice", "hipMalloc", "hipDeviceGetStreamPriorityRange",
        "hipStreamCreateWithPriority", "hipModuleLoadData", "hipModuleGetFunction", "hipMemcpyAsync", "hipMemsetAsync",
        "hipModuleLaunchKernel", "hipStreamQuery"}) {
    SCOPED_TRACE(call);
    for (const int code : codes) {
      ASSERT_TRUE(backend_->devices().value().front()->empty_cache().ok());  // or the next takes what is kept
      const auto kept = std::exchange(backend_, gpu_.make_backend());
      order(fmt::format(R"("calls": {{"{}": {}}},)", call, code));
      std::vector<Tensor> outputs;
      expect_failure_of(load_and_run(outputs), call);
      order();
      const Status again = load_and_run(outputs);
      ASSERT_TRUE(again.ok()) << again.to_string();
      EXPECT_TRUE(same(outputs, wanted));
    }
  }
  leaked_ = codes.size() * 2;  // weights of which nobody knows that they arrived, and their streams
}

// Every single call of loading and running, in turn, also where the same call succeeded before: a typed error that
// names it or the right result, and a run that is right afterwards.
TEST_F(AmdBackendTest, EachCallInTurnMayFailAndTheNextRunIsRight) {
  std::vector<Tensor> wanted;
  ASSERT_TRUE(load_and_run(wanted).ok());
  int turns = 0;
  for (; turns < 1000; ++turns) {
    backend_.reset();
    reset_();
    const testing::TestGpu gpu{"gfx942"};
    backend_ = gpu.make_backend();
    const int code = turns % 2 == 0 ? 719 : 2;
    fail_(turns + 1, code);
    std::vector<Tensor> outputs;
    const Status status = load_and_run(outputs);
    const std::string call = failed_();
    if (call.empty()) break;
    SCOPED_TRACE(fmt::format("call {}, {} returns {}", turns + 1, call, code));
    if (status.ok()) {
      EXPECT_TRUE(same(outputs, wanted));
    } else {
      expect_failure_of(status, call.substr(0, call.find("R0600")));
    }
    const Status again = load_and_run(outputs);
    ASSERT_TRUE(again.ok()) << again.to_string();
    EXPECT_TRUE(same(outputs, wanted));
    backend_.reset();
    EXPECT_LE(live_(), 2U);  // memory of which nobody knows whether work still uses it, and its stream
  }
  EXPECT_GT(turns, 40);
  EXPECT_LT(turns, 1000);
}

TEST_F(AmdBackendTest, MemoryThatEndsSaysWhatIsNeededAndFree) {
  order("", 1000);
  std::vector<Tensor> outputs;
  const Status status = load_and_run(outputs);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("1000 of 1000 bytes are free"));
  EXPECT_THAT(status.to_string(), HasSubstr("needed_bytes="));
  EXPECT_EQ(status.vendor(), Vendor::kAmd);
  order(R"("calls": {"hipMalloc": 2},)");  // of 64 MiB, all of which are free
  EXPECT_THROW(throw_status(load_and_run(outputs)), MemoryAllocationError);
  order();
  EXPECT_TRUE(load_and_run(outputs).ok());
}

TEST_F(AmdBackendTest, MemoryIsCountedKeptAndGivenBack) {
  Device& device = *backend_->devices().value().front();
  std::vector<Tensor> wanted;
  {
    const auto executable = load();
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    ASSERT_TRUE(run(**executable, wanted).ok());
    const MemoryStatistics used = device.memory().value();
    EXPECT_EQ(used.total_bytes, 64U << 20U);
    EXPECT_GT(*used.allocated_bytes, 2000U);
    EXPECT_GE(*used.reserved_bytes, *used.allocated_bytes);
    EXPECT_EQ(*used.free_bytes, *used.total_bytes - *used.reserved_bytes);
    EXPECT_EQ(used.out_of_memory_count, 0U);
    const std::string before = calls_();
    std::vector<Tensor> outputs;
    ASSERT_TRUE(run(**executable, outputs).ok());
    EXPECT_THAT(std::string(calls_()).substr(before.size()), Not(HasSubstr("hipMalloc"))) << "a steady run takes none";
    EXPECT_EQ(device.memory()->allocations, used.allocations);
  }
  const MemoryStatistics kept = device.memory().value();
  EXPECT_EQ(kept.allocated_bytes, 0U);
  EXPECT_GT(*kept.reserved_bytes, 0U) << "kept for the next";
  EXPECT_GT(*kept.peak_bytes, 2000U);
  ASSERT_TRUE(device.empty_cache().ok());
  ASSERT_TRUE(device.reset_peak_memory().ok());
  EXPECT_EQ(device.memory()->reserved_bytes, 0U);
  EXPECT_EQ(device.memory()->peak_bytes, 0U);
  EXPECT_EQ(device.memory()->free_bytes, device.memory()->total_bytes);
}

TEST_F(AmdBackendTest, MemoryThatOneModelCouldDoWithoutServesAnother) {
  std::vector<Tensor> wanted;
  const auto first = load();
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(run(**first, wanted).ok());
  Device& device = *backend_->devices().value().front();
  const auto second = load();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  order("", *device.memory()->reserved_bytes);  // the device is full: the first one's idle arena is part of it
  std::vector<Tensor> outputs;
  const Status status = run(**second, outputs);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(same(outputs, wanted));
  EXPECT_EQ(device.memory()->out_of_memory_count, 0U);
  ASSERT_TRUE(run(**first, outputs).ok()) << "and back";
  EXPECT_TRUE(same(outputs, wanted));
}

TEST_F(AmdBackendTest, OptionsBoundWhatItTakesLeavesAndKeeps) {
  BackendContext context;
  context.amd_memory_percent = 1;  // of 64 MiB
  backend_ = gpu_.make_backend(context);
  Device* device = backend_->devices().value().front();
  EXPECT_EQ(device->memory()->limit_bytes, (64U << 20U) / 100);
  const std::int64_t half[] = {400 << 10};
  const std::int64_t more[] = {700 << 10};
  EXPECT_TRUE(device->allocate(DType::kUInt8, half).ok());
  const Status limited = device->allocate(DType::kUInt8, more).status();
  EXPECT_EQ(limited.code(), StatusCode::kMemoryPool);
  EXPECT_THAT(limited.message(), HasSubstr("this process may take"));

  context = BackendContext();
  context.amd_margin_bytes = 63U << 20U;
  backend_ = gpu_.make_backend(context);
  device = backend_->devices().value().front();
  EXPECT_TRUE(device->allocate(DType::kUInt8, half).ok());
  const std::int64_t much[] = {2 << 20};
  const Status left = device->allocate(DType::kUInt8, much).status();
  EXPECT_EQ(left.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(left.message(), HasSubstr("would leave less than"));

  context = BackendContext();
  context.amd_kept_bytes = 0;
  backend_ = gpu_.make_backend(context);
  device = backend_->devices().value().front();
  EXPECT_TRUE(device->allocate(DType::kUInt8, half).ok());
  EXPECT_EQ(device->memory()->reserved_bytes, 0U);
}

// Whatever loads models makes a backend for each of them.
TEST_F(AmdBackendTest, BackendsOfAProcessShareTheMemoryOfAGpuAndItsTightestBounds) {
  BackendContext context;
  context.amd_memory_percent = 1;  // of 64 MiB
  const auto other = gpu_.make_backend(context);
  Device& first = *backend_->devices().value().front();
  EXPECT_EQ(first.memory()->limit_bytes, std::nullopt);
  Device& second = *other->devices().value().front();
  EXPECT_EQ(first.memory()->limit_bytes, (64U << 20U) / 100);
  const std::int64_t half[] = {400 << 10};
  Tensor held = first.allocate(DType::kUInt8, half).value();
  EXPECT_EQ(second.memory()->allocated_bytes, first.memory()->allocated_bytes);
  const Status full = second.allocate(DType::kUInt8, half).status();
  EXPECT_EQ(full.code(), StatusCode::kMemoryPool);
  EXPECT_THAT(full.message(), HasSubstr("this process may take"));
  held = Tensor();
  const std::string before = calls_();
  EXPECT_TRUE(second.allocate(DType::kUInt8, half).ok());
  EXPECT_THAT(std::string(calls_()).substr(before.size()), Not(HasSubstr("hipMalloc"))) << "what the first left";
}

TEST_F(AmdBackendTest, APartOfMemoryNeedsToKnowTheWhole) {
  BackendContext context;
  context.amd_memory_percent = 1;
  backend_ = gpu_.make_backend(context, 0);
  EXPECT_EQ(backend_->devices().value().front()->memory()->limit_bytes, (64U << 20U) / 100) << "the runtime knows it";
  backend_ = gpu_.make_backend(context, 0);
  order("", 0);
  const Status unknown = backend_->devices().status();
  EXPECT_EQ(unknown.code(), StatusCode::kDevice);
  EXPECT_EQ(unknown.vendor(), Vendor::kAmd);
  EXPECT_THAT(unknown.message(), HasSubstr("amd.memory_percent is 1, and nobody says how much memory GPU 0 has"));
  order(R"("calls": {"hipMemGetInfo": 1},)");
  expect_failure_of(backend_->devices().status(), "hipMemGetInfo");
  order();
  EXPECT_TRUE(backend_->devices().ok());
}

TEST_F(AmdBackendTest, WhatTheGpuDoesIsRecorded) {
  Device& device = *backend_->devices().value().front();
  const auto executable = load();
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  std::vector<Tensor> wanted;
  ASSERT_TRUE(run(**executable, wanted).ok());
  std::vector<Tensor> outputs;
  const auto activities = device.record([&] { return run(**executable, outputs); });
  ASSERT_TRUE(activities.ok()) << activities.status().to_string();
  EXPECT_TRUE(same(outputs, wanted));
  std::size_t kernels = 0;
  std::size_t copies = 0;
  std::size_t calls = 0;
  std::int64_t last = 0;
  for (const Activity& activity : *activities) {
    EXPECT_GT(activity.correlation, 0U);
    if (activity.kind == Activity::Kind::kCall) {
      ++calls;
      EXPECT_THAT(activity.name, ::testing::AnyOf("hipModuleLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync"));
      continue;
    }
    (activity.kind == Activity::Kind::kKernel ? kernels : copies) += 1;
    EXPECT_EQ(activity.duration_ns, 250000) << "as the test runtime has it";
    EXPECT_GT(activity.begin_ns, last) << "in the order of the work";
    last = activity.begin_ns;
  }
  EXPECT_GT(kernels, 10U);
  EXPECT_EQ(copies, 5U) << "two inputs, flags cleared, one output, flags";
  EXPECT_EQ(calls, kernels + copies);
  // Work that fails is reported, nobody waits for it, and afterwards nobody listens.
  std::string before;
  const auto failed = device.record([&] {
    EXPECT_TRUE(run(**executable, outputs).ok());
    before = calls_();
    return Status(StatusCode::kCancelled, "stop");
  });
  EXPECT_EQ(failed.status().code(), StatusCode::kCancelled);
  const std::string after = std::string(calls_()).substr(before.size());
  EXPECT_THAT(after, HasSubstr("hipEventDestroy"));
  EXPECT_THAT(after, Not(HasSubstr("hipEventQuery")));
  EXPECT_EQ(device.record([&] { return device.record([] { return Status(); }).status(); }).status().code(),
            StatusCode::kAlreadyExists);
  for (const char* call : {"hipEventCreateWithFlags", "hipEventRecord", "hipEventQuery", "hipEventElapsedTime"}) {
    order(fmt::format(R"("calls": {{"{}": 1}},)", call));
    expect_failure_of(device.record([&] { return run(**executable, outputs); }).status(), call);
    order();
    ASSERT_TRUE(run(**executable, outputs).ok());
    EXPECT_TRUE(same(outputs, wanted));
  }
}

TEST_F(AmdBackendTest, ARunThatDoesNotEndMeetsItsLimitAndTheNextIsRight) {
  const auto executable = load();
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  std::vector<Tensor> wanted;
  ASSERT_TRUE(run(**executable, wanted).ok());
  order(R"("kernel_hangs": true,)");
  std::vector<Tensor> outputs;
  const Status status = run(**executable, outputs, std::chrono::milliseconds(100));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.to_string();
  order();
  ASSERT_TRUE(run(**executable, outputs).ok());
  EXPECT_TRUE(same(outputs, wanted));
  leaked_ = 3 + kModules;  // arena and stream of the run that never ended, the weights that it reads, and the code
}

// Freed, it would be somebody else's when the GPU reads or writes it.
TEST_F(AmdBackendTest, MemoryOfACopyThatWasNotSeenToEndIsKept) {
  Device& device = *backend_->devices().value().front();
  const Tensor& host = weights_.begin()->second;
  const Tensor up = device.upload(host).value();
  const std::size_t live = live_();
  order(R"("calls": {"hipStreamQuery": 1},)");
  expect_failure_of(device.upload(host).status(), "hipStreamQuery");
  EXPECT_EQ(live_(), live + 2) << "memory and stream";
  expect_failure_of(device.download(up).status(), "hipStreamQuery");
  EXPECT_EQ(live_(), live + 3) << "another stream";
  order();
  EXPECT_TRUE(same({host}, {device.download(up).value()}));
  leaked_ = 4;  // what was read by the second copy too
}

TEST_F(AmdBackendTest, AKernelThatFailsIsReported) {
  const auto executable = load();
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  order(R"("kernel_faults": true,)");
  std::vector<Tensor> outputs;
  const Status status = run(**executable, outputs);
  EXPECT_EQ(status.code(), StatusCode::kKernel) << status.to_string();
  expect_failure_of(status, "hipStreamQuery");
  // The device stays unusable: the next run says so too.
  order();
  EXPECT_EQ(run(**executable, outputs).code(), StatusCode::kKernel);
  leaked_ = 5 + kModules;  // arenas and streams of two runs of which nobody knows that they ended, weights, code
}

TEST_F(AmdBackendTest, ADeviceOfAnotherTargetIsRefused) {
  Device* const device = backend_->devices().value().front();
  auto program = backend_->targets().front()->compile(graph_);
  ASSERT_TRUE(program.ok());
  Device* const devices[] = {device};
  const auto loaded = backend_->load(std::move(*program), weights_, devices);
  EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(loaded.status().message(), HasSubstr("cannot be loaded on amd:0, which is amd:gfx942"));
}

}  // namespace
}  // namespace kpt
