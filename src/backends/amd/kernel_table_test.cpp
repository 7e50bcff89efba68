// Every kernel compiled for AMD targets, where a compiler is that knows them. Results are kept in the build folder.
#include "backends/amd/kernel_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/amd/code_object.h"
#include "base/environment.h"
#include "base/files.h"
#include "kernels/gpu/kernel_sources.h"
#include "kernels/gpu/launch.h"

namespace kpt {
namespace {

constexpr std::chrono::minutes kLimit{5};

CompileCache open_cache() {
  return std::move(CompileCache::open(std::string(KPT_BUILD_DIR) + "/amd_kernel_cache", 1U << 30U)).value();
}

// Families whose lanes work alone: LDS in them is an array that did not stay in registers.
bool shares_nothing(std::string_view family) {
  return family == "activation" || family == "convert" || family == "elementwise" || family == "embedding" ||
         family == "gather" || family == "rotary";
}

class AmdKernels : public ::testing::TestWithParam<const char*> {};

TEST_P(AmdKernels, CompileWithoutSpillsWithinTheLimits) {
  const std::string target = GetParam();
  const auto compiler = find_hip_compiler(Environment::from_process(), target);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  CompileCache cache = open_cache();
  HipCompileCache compilations(*compiler, &cache, kLimit);
  const AmdArchitecture& architecture = *find_amd_architecture(target);
  for (const gpu::KernelFamily& entry : gpu::kernel_families()) {
    const std::string_view family = entry.name;
    SCOPED_TRACE(family);
    if (!runs_family(architecture, entry)) continue;  // WMMA and no matrix cores have other instructions
    const auto source = own_kernels(family);
    ASSERT_TRUE(source.ok());
    const auto bytes = compilations.compile(*source, target);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    const auto object = read_code_object(std::as_bytes(std::span(*bytes)));
    ASSERT_TRUE(object.ok()) << object.status().to_string();
    EXPECT_EQ(object->gfx_target, target);
    std::size_t wanted = 0;
    for (const gpu::KernelInfo& info : gpu::list_kernels()) {
      if (info.family != family) continue;
      ++wanted;
      const auto kernel = std::ranges::find(object->kernels, info.name, &KernelResources::name);
      ASSERT_NE(kernel, object->kernels.end()) << info.name;
      const Status status = check_resources(architecture, *kernel);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(kernel->private_bytes, 0U) << info.name;  // arrays stay in registers
      if (shares_nothing(family)) {
        EXPECT_EQ(kernel->lds_bytes, 0U) << info.name << ": the compiler put an array into LDS";
      }
      EXPECT_EQ(kernel->max_threads, static_cast<std::uint64_t>(info.max_threads)) << info.name;
      // The arguments are one structure and nothing hidden, so any launcher can fill them in.
      EXPECT_EQ(kernel->argument_bytes, info.arg_bytes) << info.name;
    }
    EXPECT_EQ(object->kernels.size(), wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AmdKernels, ::testing::Values("gfx942", "gfx950", "gfx1100"));

TEST(AmdMatrixKernels, HaveTheMatrixInstruction) {
  for (const std::string target : {"gfx90a", "gfx942", "gfx950"}) {
    const auto compiler = find_hip_compiler(Environment::from_process(), target);
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    const auto source = own_kernels("matrix");
    ASSERT_TRUE(source.ok());
    const auto assembly = hip_assembly(*compiler, *source, target, kLimit);
    ASSERT_TRUE(assembly.ok()) << assembly.status().to_string();
    for (const char* kernel : {"matrix_mfma_f16:", "matrix_mfma_bf16:"}) {
      const std::size_t begin = assembly->find(kernel);
      ASSERT_NE(begin, std::string::npos) << kernel;
      const std::string body = assembly->substr(begin, assembly->find(".Lfunc_end", begin) - begin);
      EXPECT_NE(body.find("v_mfma_f32_16x16x16"), std::string::npos) << kernel << " on " << target;
    }
  }
}

std::string vector_of(const char* type, int count) {
  return count == 1 ? type : fmt::format("{} __attribute__((ext_vector_type({})))", type, count);
}

// What a lane holds of one operand, in the type that the compiler's function takes.
std::string operand_type(const AmdMatrixInstruction& instruction, const AmdArchitecture& architecture) {
  const bool wmma = architecture.matrix_unit == AmdMatrixUnit::kWmma;
  // RDNA3 holds every row twice.
  const int holders = wmma ? (architecture.name.starts_with("RDNA3") ? 16 : 32) : 64;
  const int elements = instruction.m * instruction.k / holders;
  switch (instruction.precision) {
    case Precision::kFp64: return "double";
    case Precision::kFp32:
    case Precision::kTf32: return vector_of("float", elements);
    case Precision::kFp16: return vector_of("_Float16", elements);
    case Precision::kBf16: return vector_of(wmma || elements < 8 ? "short" : "__bf16", elements);
    case Precision::kInt4: return vector_of("int", elements / 8);
    default: break;
  }
  if (instruction.name.starts_with("mfma_scale")) return vector_of("int", 8);
  return !wmma && elements == 8 ? "long" : vector_of("int", elements / 4);
}

std::string call_of(const AmdMatrixInstruction& instruction, const AmdArchitecture& architecture) {
  const bool integer = instruction.name.find("_i32_") != std::string_view::npos;
  const bool wide = instruction.precision == Precision::kFp64;
  const std::string sums = vector_of(integer ? "int" : (wide ? "double" : "float"),
                                     instruction.m * instruction.n / architecture.wavefront_size);
  std::string arguments = "a[0], a[1], *c";
  if (architecture.matrix_unit == AmdMatrixUnit::kMfma) {
    arguments += instruction.name.starts_with("mfma_scale") ? ", 0, 0, 0, 0, 0, 0" : ", 0, 0, 0";
  } else if (integer) {
    arguments = "true, a[0], true, a[1], *c, false";
  }
  return fmt::format(
      "namespace n_{0}_{1} {{ typedef {2}; typedef {3}; }}\nextern \"C\" __attribute__((global)) void k_{0}_{1}"
      "(n_{0}_{1}::A* a, n_{0}_{1}::C* c) {{ *c = __builtin_amdgcn_{0}({4}); }}\n",
      instruction.name, static_cast<int>(instruction.precision),
      [](std::string type) {  // "float __attribute__((…))" → "float A __attribute__((…))"
        return type.insert(std::min(type.find(" __"), type.size()), " A");
      }(operand_type(instruction, architecture)),
      [](std::string type) { return type.insert(std::min(type.find(" __"), type.size()), " C"); }(sums), arguments);
}

// The table's instructions, operands and shapes against the compiler: each becomes one instruction.
TEST(AmdMatrixInstructions, EveryOneOfTheTableBecomesMachineCode) {
  for (const AmdArchitecture& row : amd_architectures()) {
    if (row.matrix_instructions.empty()) continue;
    SCOPED_TRACE(row.gfx_target);
    const auto compiler = find_hip_compiler(Environment::from_process(), row.gfx_target);
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    HipSource source{"table.hip", "", {}};
    for (const AmdMatrixInstruction& instruction : row.matrix_instructions) source.text += call_of(instruction, row);
    const auto assembly = hip_assembly(*compiler, source, row.gfx_target, kLimit);
    ASSERT_TRUE(assembly.ok()) << assembly.status().to_string() << source.text;
    std::size_t count = 0;
    for (const char* mark : {"\tv_mfma_", "\tv_wmma_"}) {
      for (auto at = assembly->find(mark); at != std::string::npos; at = assembly->find(mark, at + 1)) ++count;
    }
    EXPECT_EQ(count, row.matrix_instructions.size());
  }
}

TEST(AmdKernelTable, ThePageIsCurrent) {
  const auto page = read_text_file(std::string(KPT_SOURCE_DIR) + "/docs/reference/amd_kernels.md", 1U << 20U);
  ASSERT_TRUE(page.ok()) << page.status().to_string();
  const auto compiler = find_hip_compiler(Environment::from_process(), "gfx950");
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  if (compiler_line(*page) != compiler->version) {
    GTEST_SKIP() << "the page was made with '" << compiler_line(*page) << "', here is '" << compiler->version << "'";
  }
  CompileCache cache = open_cache();
  HipCompileCache compilations(*compiler, &cache, kLimit);
  const auto made = kernel_table_page(compilations);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(*made, *page) << "write it anew: cmake --build <build folder> --target reference_amd_kernels";
}

}  // namespace
}  // namespace kpt
