#include "backends/amd/kernel_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/code_object.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

TEST(KernelStore, KernelsAreCompiledOnceAndKept) {
  const testing::TemporaryFolder folder;
  BackendContext context;
  context.detection.environment = Environment::from_process();
  context.compile_cache_folder = folder.path();
  context.compile_cache_bytes = 1U << 30U;
  const auto compiler = find_hip_compiler(context.detection.environment, "gfx942");
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  std::string first;
  for (const std::uint64_t hits : {0U, 1U}) {
    KernelStore store(context);  // as another process has it
    const auto object = store.get("gather", "gfx942");
    ASSERT_TRUE(object.ok()) << object.status().to_string();
    EXPECT_EQ(read_code_object(std::as_bytes(std::span(*object)))->gfx_target, "gfx942");
    if (first.empty()) first = *object;
    EXPECT_EQ(*object, first);
    const auto cache = CompileCache::open(folder.path(), 1U << 30U);
    ASSERT_TRUE(cache.ok());
    EXPECT_EQ(cache->statistics()->entries, 1U);
    EXPECT_EQ(cache->statistics()->hits, hits);
  }
}

TEST(KernelStore, WithoutACompilerItSaysWhatIsMissing) {
  const testing::TemporaryFolder folder;
  BackendContext context;
  context.detection.environment =
      Environment::from_map({{"PATH", folder.path().string()}, {"ROCM_PATH", folder.path().string()}});
  KernelStore store(context);
  const Status status = store.get("gather", "gfx942").status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.to_string();
  EXPECT_EQ(status.vendor(), Vendor::kAmd);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("clang"));
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_EQ(store.get("gather", "gfx1").status().code(), StatusCode::kInvalidArchitecture);
}

}  // namespace
}  // namespace kpt
