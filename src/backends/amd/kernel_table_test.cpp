// Every kernel compiled for AMD targets, where a compiler is that knows them. Results are kept in the build folder.
#include "backends/amd/kernel_table.h"

#include <algorithm>

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
