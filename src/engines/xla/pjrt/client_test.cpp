// The client against the real CPU plugin.
#include "engines/xla/pjrt/client.h"

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/xla/pjrt/compile_options.h"
#include "engines/xla/testing/run_stablehlo.h"

namespace kpt::pjrt {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kAddAndMultiply = R"(
module @m {
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
    %s = "stablehlo.add"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %p = "stablehlo.multiply"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %s, %p : tensor<2x3xf32>, tensor<2x3xf32>
  }
})";

Tensor random_tensor(std::mt19937& random, DType dtype, const Dims& dims) {
  Tensor tensor = Tensor::empty(dtype, dims).value();
  auto* bytes = static_cast<std::uint8_t*>(tensor.data());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(dtype == DType::kBool ? random() & 1U : random());
  }
  return tensor;
}

Tensor random_floats(std::mt19937& random, const Dims& dims) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::normal_distribution<float> normal;
  for (float& value : tensor.elements<float>()) value = normal(random);
  return tensor;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// With KPT_NEEDS_CPU_PLUGIN() before it, the client is there or the test fails.
std::shared_ptr<const Client> client() { return kpt::testing::cpu_client().value(); }

TEST(PjrtClient, TellsWhatItIs) {
  KPT_NEEDS_CPU_PLUGIN();
  EXPECT_EQ(client()->platform_name(), "cpu");
  EXPECT_FALSE(client()->platform_version().empty());
  ASSERT_EQ(client()->devices().size(), 4U);
  EXPECT_EQ(client()->devices()[3].id, 3);
  EXPECT_FALSE(client()->devices()[0].kind.empty());
  EXPECT_THAT(client()->plugin().identity(), HasSubstr("PJRT 0."));
  EXPECT_TRUE(Plugin::is_open(kpt::testing::cpu_plugin_path()));
  EXPECT_EQ(Plugin::open(kpt::testing::cpu_plugin_path(), "x").value().get(), &client()->plugin());
}

TEST(PjrtClient, RunsAModuleWithSeveralResults) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Tensor x = random_floats(random, {2, 3});
  const Tensor y = random_floats(random, {2, 3});
  const Tensor inputs[] = {x, y};
  const auto outputs = kpt::testing::run_stablehlo(kAddAndMultiply, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  ASSERT_EQ(outputs->size(), 2U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ((*outputs)[0].elements<float>()[i], x.elements<float>()[i] + y.elements<float>()[i]);
    EXPECT_EQ((*outputs)[1].elements<float>()[i], x.elements<float>()[i] * y.elements<float>()[i]);
  }
}

// Long enough to be vectorised: what the compiler uses, this processor must have.
TEST(PjrtClient, LongVectorsOfEveryWidthAreComputed) {
  KPT_NEEDS_CPU_PLUGIN();
  for (const auto& [type, dtype] :
       {std::pair{"f32", DType::kFloat32}, std::pair{"f64", DType::kFloat64}, std::pair{"i8", DType::kInt8},
        std::pair{"i32", DType::kInt32}, std::pair{"i64", DType::kInt64}, std::pair{"bf16", DType::kBFloat16}}) {
    SCOPED_TRACE(type);
    std::string text = R"(
module @m {
  func.func public @main(%x: tensor<1031xT>) -> (tensor<1031xT>, tensor<T>) {
    %z = "stablehlo.constant"() <{value = dense<0ZERO> : tensor<T>}> : () -> tensor<T>
    %p = "stablehlo.multiply"(%x, %x) : (tensor<1031xT>, tensor<1031xT>) -> tensor<1031xT>
    %s = "stablehlo.subtract"(%p, %x) : (tensor<1031xT>, tensor<1031xT>) -> tensor<1031xT>
    %d = "stablehlo.divide"(%s, %x) : (tensor<1031xT>, tensor<1031xT>) -> tensor<1031xT>
    %r = "stablehlo.reduce"(%d, %z) ({
      ^bb0(%a: tensor<T>, %b: tensor<T>):
        %c = "stablehlo.maximum"(%a, %b) : (tensor<T>, tensor<T>) -> tensor<T>
        "stablehlo.return"(%c) : (tensor<T>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<1031xT>, tensor<T>) -> tensor<T>
    return %d, %r : tensor<1031xT>, tensor<T>
  }
})";
    const auto replace = [&text](const std::string& from, const std::string& to) {
      for (auto at = text.find(from); at != std::string::npos; at = text.find(from)) text.replace(at, from.size(), to);
    };
    replace("ZERO", is_floating(dtype) ? ".0" : "");
    replace("xT>", std::string("x") + type + ">");
    replace("<T>", std::string("<") + type + ">");
    Tensor x = Tensor::empty(dtype, Dims{1031}).value();
    for (std::size_t i = 0; i < 1031; ++i) {
      switch (dtype) {
        case DType::kFloat32: x.elements<float>()[i] = 3; break;
        case DType::kFloat64: x.elements<double>()[i] = 3; break;
        case DType::kInt8: x.elements<std::int8_t>()[i] = 3; break;
        case DType::kInt32: x.elements<std::int32_t>()[i] = 3; break;
        case DType::kInt64: x.elements<std::int64_t>()[i] = 3; break;
        default: x.elements<std::uint16_t>()[i] = 0x4040; break;  // 3 in bfloat16
      }
    }
    const Tensor inputs[] = {x};
    const auto outputs = kpt::testing::run_stablehlo(text, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    ASSERT_EQ(outputs->size(), 2U);
    if (dtype == DType::kInt64) {
      EXPECT_EQ((*outputs)[1].elements<std::int64_t>()[0], 2);
    }
    if (dtype == DType::kFloat32) {
      EXPECT_EQ((*outputs)[0].elements<float>()[1030], 2);
    }
  }
}

TEST(PjrtClient, EveryTypeComesBackAsItWent) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const DType dtypes[] = {
#define KPT_LIST_DTYPE(enumerator, name, bytes) DType::enumerator,
      KPT_DTYPES(KPT_LIST_DTYPE)
#undef KPT_LIST_DTYPE
  };
  for (const DType dtype : dtypes) {
    SCOPED_TRACE(to_string(dtype));
    for (const Dims& dims : {Dims{}, Dims{7}, Dims{3, 5, 2}, Dims{4, 0, 2}}) {
      SCOPED_TRACE(dims.to_string());
      const Tensor host = random_tensor(random, dtype, dims);
      for (const HostMemory memory : {HostMemory::kCopied, HostMemory::kBorrowed, HostMemory::kShared}) {
        const auto buffer = client()->upload(host, memory, random() % 4);
        if (dtype == DType::kComplex32) {
          EXPECT_EQ(buffer.status().code(), StatusCode::kUnsupported);
          continue;
        }
        ASSERT_TRUE(buffer.ok()) << buffer.status().message();
        EXPECT_EQ((*buffer)->bytes(), host.bytes());
        const auto back = (*buffer)->download();
        ASSERT_TRUE(back.ok()) << back.status().message();
        EXPECT_TRUE(same_bytes(host, *back));
        EXPECT_TRUE((*buffer)->wait_for_upload().ok());
      }
    }
  }
}

TEST(PjrtClient, StridedTensorsAreUploadedInOrder) {
  KPT_NEEDS_CPU_PLUGIN();
  std::mt19937 random(7);
  const Tensor host = random_floats(random, {3, 4});
  const Tensor turned = Tensor::from_buffer(host.buffer(), DType::kFloat32, Dims{4, 3}, Dims{1, 4}, 0).value();
  const Tensor back = client()->upload(turned, HostMemory::kCopied).value()->download().value();
  EXPECT_TRUE(same_bytes(turned.contiguous_copy().value(), back));
}

TEST(PjrtClient, CopiedMemoryMayChangeAtOnce) {
  KPT_NEEDS_CPU_PLUGIN();
  std::mt19937 random(8);
  const Tensor host = random_floats(random, {64, 1024});
  const Tensor before = host.contiguous_copy().value();
  const auto buffer = client()->upload(host, HostMemory::kCopied).value();
  for (float& value : host.elements<float>()) value = -1;
  EXPECT_TRUE(same_bytes(before, buffer->download().value()));
}

TEST(PjrtClient, SharedMemoryLivesAsLongAsTheBuffer) {
  KPT_NEEDS_CPU_PLUGIN();
  std::mt19937 random(9);
  std::weak_ptr<Buffer> memory;
  {
    Tensor host = random_floats(random, {64, 1024});
    const Tensor before = host.contiguous_copy().value();
    memory = host.buffer();
    auto buffer = client()->upload(host, HostMemory::kShared).value();
    host = Tensor();
    EXPECT_FALSE(memory.expired());
    EXPECT_TRUE(same_bytes(before, buffer->download().value()));
  }
  EXPECT_TRUE(memory.expired());
}

TEST(PjrtClient, TheCompilersMessageIsKept) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto failed = client()->compile("module { nonsense }", encode_compile_options({}));
  EXPECT_EQ(failed.status().code(), StatusCode::kCompilation);
  EXPECT_THAT(failed.status().message(), HasSubstr("PJRT_Client_Compile failed"));
  EXPECT_EQ(failed.status().message().find('\n'), std::string::npos);
}

TEST(PjrtClient, SerializedProgramRunsAgain) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto compiled = client()->compile(kAddAndMultiply, encode_compile_options({})).value();
  const auto bytes = compiled->serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto loaded = client()->deserialize(*bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::mt19937 random(10);
  const auto x = client()->upload(random_floats(random, {2, 3}), HostMemory::kCopied).value();
  const std::vector<std::vector<const DeviceBuffer*>> arguments = {{x.get(), x.get()}};
  auto first = compiled->execute(arguments).value();
  auto second = (*loaded)->execute(arguments).value();
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
  ASSERT_EQ(second.outputs[0].size(), 2U);
  EXPECT_TRUE(same_bytes(first.outputs[0][1]->download().value(), second.outputs[0][1]->download().value()));
  EXPECT_FALSE(client()->deserialize("no executable").ok());
}

TEST(PjrtClient, BuffersGivenAwayAreGoneAndOthersAreNot) {
  KPT_NEEDS_CPU_PLUGIN();
  constexpr std::string_view kIncrement = R"(
module @m {
  func.func public @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<1024xf32>) {
    %s = "stablehlo.add"(%x, %x) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    return %s : tensor<1024xf32>
  }
})";
  const auto program = client()->compile(kIncrement, encode_compile_options({})).value();
  std::mt19937 random(11);
  const Tensor host = random_floats(random, {1024});
  const auto x = client()->upload(host, HostMemory::kCopied).value();
  const std::vector<std::vector<const DeviceBuffer*>> arguments = {{x.get()}};
  auto first = program->execute(arguments).value();
  ASSERT_TRUE(first.wait().ok());
  EXPECT_TRUE(same_bytes(host, x->download().value())) << "a kept argument was overwritten";
  const std::size_t given_away[] = {0};
  auto second = program->execute(arguments, given_away).value();
  ASSERT_TRUE(second.wait().ok());
  EXPECT_TRUE(same_bytes(first.outputs[0][0]->download().value(), second.outputs[0][0]->download().value()));
  EXPECT_EQ(x->download().status().code(), StatusCode::kInvalidArgument) << "it is gone";
  EXPECT_EQ(program->execute(arguments).status().code(), StatusCode::kInvalidArgument);
}

TEST(PjrtClient, ManyThreadsRunOneProgram) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto program = client()->compile(kAddAndMultiply, encode_compile_options({})).value();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] {
      std::mt19937 random(index);
      for (int round = 0; round < 20; ++round) {
        const Tensor host = random_floats(random, {2, 3});
        const auto x = client()->upload(host, HostMemory::kShared).value();
        const std::vector<std::vector<const DeviceBuffer*>> arguments = {{x.get(), x.get()}};
        auto run = program->execute(arguments).value();
        const Tensor sum = run.outputs[0][0]->download().value();
        if (!run.wait().ok() || sum.elements<float>()[5] != 2 * host.elements<float>()[5]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A product whose rows are spread over four devices equals the product on one.
TEST(PjrtClient, FourDevicesShareOneModule) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto module_text = [](std::string_view sharding) {
    return std::string("module @m attributes {mhlo.num_partitions = ") + (sharding.empty() ? "1" : "4") +
           " : i32, mhlo.num_replicas = 1 : i32} {\n  func.func public @main(%x: tensor<8x16xf32>" +
           (sharding.empty() ? "" : " {mhlo.sharding = \"{devices=[4,1]<=[4]}\"}") + ", %w: tensor<16x4xf32>" +
           (sharding.empty() ? "" : " {mhlo.sharding = \"{replicated}\"}") + ") -> (tensor<8x4xf32>" +
           (sharding.empty() ? "" : " {mhlo.sharding = \"{devices=[4,1]<=[4]}\"}") + R"() {
    %p = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    return %p : tensor<8x4xf32>
  }
})";
  };
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Tensor x = random_floats(random, {8, 16});
  const Tensor w = random_floats(random, {16, 4});
  const Tensor inputs[] = {x, w};
  const Tensor whole = kpt::testing::run_stablehlo(module_text(""), inputs).value()[0];

  CompileSettings settings;
  settings.partitions = 4;
  settings.device_ids = {0, 1, 2, 3};
  const auto program = client()->compile(module_text("rows"), encode_compile_options(settings));
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::vector<std::vector<const DeviceBuffer*>> arguments;
  for (std::size_t device = 0; device < 4; ++device) {
    const Tensor rows = Tensor::from_buffer(x.buffer(), DType::kFloat32, Dims{2, 16}, Dims{16, 1},
                                            static_cast<std::int64_t>(device) * 32)
                            .value();
    buffers.push_back(client()->upload(rows, HostMemory::kCopied, device).value());
    buffers.push_back(client()->upload(w, HostMemory::kCopied, device).value());
    arguments.push_back({buffers[2 * device].get(), buffers[2 * device + 1].get()});
  }
  auto run = (*program)->execute(arguments);
  ASSERT_TRUE(run.ok()) << run.status().message();
  ASSERT_TRUE(run->wait().ok());
  for (std::size_t device = 0; device < 4; ++device) {
    const Tensor part = run->outputs[device][0]->download().value();
    ASSERT_EQ(part.dims(), (Dims{2, 4}));
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(part.elements<float>()[i], whole.elements<float>()[8 * device + i], 1e-5);
    }
  }
}

// A sum over the columns of all four devices needs a collective, which the compiler puts in.
TEST(PjrtClient, FourReplicasSumWithACollective) {
  KPT_NEEDS_CPU_PLUGIN();
  constexpr std::string_view kSum = R"(
module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func public @main(%x: tensor<5xf32>) -> (tensor<5xf32>) {
    %s = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<5xf32>) -> tensor<5xf32>
    return %s : tensor<5xf32>
  }
})";
  CompileSettings settings;
  settings.replicas = 4;
  settings.device_ids = {0, 1, 2, 3};
  const auto program = client()->compile(kSum, encode_compile_options(settings));
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::mt19937 random(12);
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::vector<std::vector<const DeviceBuffer*>> arguments;
  double sum = 0;
  for (std::size_t device = 0; device < 4; ++device) {
    const Tensor x = random_floats(random, {5});
    sum += static_cast<double>(x.elements<float>()[4]);
    buffers.push_back(client()->upload(x, HostMemory::kCopied, device).value());
    arguments.push_back({buffers[device].get()});
  }
  auto run = (*program)->execute(arguments);
  ASSERT_TRUE(run.ok()) << run.status().message();
  ASSERT_TRUE(run->wait().ok());
  for (std::size_t device = 0; device < 4; ++device) {
    EXPECT_NEAR(run->outputs[device][0]->download().value().elements<float>()[4], sum, 1e-5);
  }
}

TEST(PjrtClient, TheCompilerTellsTheMemoryOfAProgram) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto memory = client()->compile(kAddAndMultiply, encode_compile_options({})).value()->memory();
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(memory->argument_bytes, 48);
  EXPECT_GE(memory->output_bytes, 48);
}

TEST(PjrtClient, WrongDeviceIsRefused) {
  KPT_NEEDS_CPU_PLUGIN();
  const Tensor host = Tensor::empty(DType::kFloat32, Dims{1}).value();
  EXPECT_EQ(client()->upload(host, HostMemory::kCopied, 4).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kpt::pjrt
