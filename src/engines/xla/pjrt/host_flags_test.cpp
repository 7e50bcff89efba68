#include "engines/xla/pjrt/host_flags.h"

#include <gtest/gtest.h>

namespace kpt::pjrt {
namespace {

constexpr const char* kFlag =
    "--xla_backend_extra_options=-scalable-vectorization=off,-force-vector-width=1,-vectorize-slp=false";

TEST(HostFlags, HiddenSveIsKeptFromTheCompiler) {
  EXPECT_EQ(add_host_flags("", "processor\t: 0\nFeatures\t: fp asimd i8mm bf16\nCPU part\t: 0xd40\n"), kFlag);
  EXPECT_EQ(add_host_flags("--xla_dump_to=x", "Features : fp svebf16\nCPU part : 0xd4f"),
            std::string("--xla_dump_to=x ") + kFlag);
}

TEST(HostFlags, Avx512WithoutPermutesOfBytesIsKeptFromTheCompiler) {
  constexpr const char* kCascadeLake = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512vl avx512_vnni\n";
  EXPECT_EQ(add_host_flags("", kCascadeLake), "--xla_cpu_max_isa=AVX2");
  EXPECT_EQ(add_host_flags("--xla_x=1", kCascadeLake), "--xla_x=1 --xla_cpu_max_isa=AVX2");
  EXPECT_EQ(add_host_flags("--xla_cpu_max_isa=AVX512", kCascadeLake), "--xla_cpu_max_isa=AVX512");
  EXPECT_EQ(add_host_flags("", "flags\t\t: avx2 avx512f avx512vbmi avx512_vbmi2\n"), "");
}

TEST(HostFlags, OthersAreLeftAlone) {
  EXPECT_EQ(add_host_flags("", "Features\t: fp asimd sve i8mm\n"), "");
  EXPECT_EQ(add_host_flags("--xla_x=1", "flags\t\t: fpu avx2\n"), "--xla_x=1");
  EXPECT_EQ(add_host_flags("", ""), "");
  EXPECT_EQ(add_host_flags("--xla_backend_extra_options=a", "Features : fp\nCPU part : 0xd40"),
            "--xla_backend_extra_options=a");
}

TEST(HostFlags, ACoreWithSveThatTheKernelDoesNotListHidesIt) {
  EXPECT_TRUE(hides_sve("Features\t: fp asimd i8mm bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"));
  EXPECT_FALSE(hides_sve("Features\t: fp asimd sve i8mm bf16\nCPU part\t: 0xd40\n"));
  EXPECT_FALSE(hides_sve("Features\t: fp asimd asimddp\nCPU part\t: 0xd0c\n"));  // Neoverse-N1 has none
  EXPECT_FALSE(hides_sve("flags\t: fpu avx2\n"));
  EXPECT_FALSE(hides_sve(""));
}

}  // namespace
}  // namespace kpt::pjrt
