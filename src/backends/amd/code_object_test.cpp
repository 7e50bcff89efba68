#include "backends/amd/code_object.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/code_object_forge.h"
#include "backends/amd/msgpack.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using testing::make_code_object;
using testing::make_metadata;
using testing::MsgpackWriter;

Result<CodeObject> read(const std::string& bytes) { return read_code_object(std::as_bytes(std::span(bytes))); }

const testing::KernelFields kFields = {{".vgpr_count", 40},
                                       {".agpr_count", 4},
                                       {".sgpr_count", 30},
                                       {".vgpr_spill_count", 1},
                                       {".sgpr_spill_count", 2},
                                       {".group_segment_fixed_size", 16640},
                                       {".wavefront_size", 64},
                                       {".private_segment_fixed_size", 16},
                                       {".kernarg_segment_size", 120},
                                       {".max_flat_workgroup_size", 256}};

TEST(CodeObject, KernelsAndTheirResourcesAreRead) {
  const auto object = read(make_code_object(make_metadata({{"second", kFields}, {"first", {}}})));
  ASSERT_TRUE(object.ok()) << object.status().to_string();
  EXPECT_EQ(object->gfx_target, "gfx942");
  ASSERT_EQ(object->kernels.size(), 2U);
  EXPECT_EQ(object->kernels[0].name, "first");
  const KernelResources& kernel = object->kernels[1];
  EXPECT_EQ(kernel.vector_registers, 40U);
  EXPECT_EQ(kernel.accumulation_registers, 4U);
  EXPECT_EQ(kernel.scalar_registers, 30U);
  EXPECT_EQ(kernel.vector_spills, 1U);
  EXPECT_EQ(kernel.scalar_spills, 2U);
  EXPECT_EQ(kernel.lds_bytes, 16640U);
  EXPECT_EQ(kernel.private_bytes, 16U);
  EXPECT_EQ(kernel.argument_bytes, 120U);
  EXPECT_EQ(kernel.wavefront_size, 64U);
  EXPECT_EQ(kernel.max_threads, 256U);
}

TEST(CodeObject, EveryTruncationAndManyDamagedBytesAreSurvived) {
  const std::string good = make_code_object(make_metadata({{"kernel", kFields}}));
  for (std::size_t length = 0; length < good.size(); ++length) {
    const auto object = read(good.substr(0, length));
    // What follows the metadata's last value is padding.
    if (length + 4 < good.size()) {
      EXPECT_EQ(object.status().code(), StatusCode::kCorruptData) << length;
    }
  }
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int change = 0; change < 3; ++change) bad[random() % bad.size()] = static_cast<char>(random());
    if (const auto object = read(bad); !object.ok()) {
      EXPECT_EQ(object.status().code(), StatusCode::kCorruptData);
    }
  }
}

TEST(CodeObject, WhatIsWrongIsNamed) {
  const std::string metadata = make_metadata({{"kernel", {}}});
  EXPECT_THAT(read("").status().message(), HasSubstr("shorter than a header"));
  EXPECT_THAT(read(std::string(100, 'x')).status().message(), HasSubstr("no ELF file"));
  EXPECT_THAT(read(make_code_object(metadata, 62)).status().message(), HasSubstr("another machine"));
  std::string outside = make_code_object(metadata);
  outside[32] = '\xff';
  outside[39] = '\x7f';
  EXPECT_THAT(read(outside).status().message(), HasSubstr("program headers are outside"));
  std::string notes = make_code_object(metadata);
  notes[64 + 39] = '\x7f';  // the segment's size
  EXPECT_THAT(read(notes).status().message(), HasSubstr("notes are outside"));
  EXPECT_THAT(read(make_code_object(make_metadata({{"", {}}}))).status().message(), HasSubstr("has no name"));
  EXPECT_THAT(read(make_code_object(make_metadata({}, "x86_64"))).status().message(), HasSubstr("names no GPU"));
  MsgpackWriter many;
  many.map(1).text("amdhsa.kernels").raw("\xdd\xff\xff\xff\xff");
  EXPECT_THAT(read(make_code_object(many.bytes())).status().message(), HasSubstr("more elements than there are bytes"));
  MsgpackWriter negative;
  negative.map(1).text("amdhsa.kernels").array(1).map(1).text(".vgpr_count").raw("\xff");
  EXPECT_THAT(read(make_code_object(negative.bytes())).status().message(), HasSubstr("not negative"));
}

TEST(Msgpack, DeepNestingIsPassedWithoutRecursion) {
  std::string deep(100000, '\x91');
  deep += '\x01';
  MsgpackReader reader(std::as_bytes(std::span(deep)));
  EXPECT_TRUE(reader.skip().ok());
  EXPECT_EQ(reader.remaining(), 0U);
  deep.pop_back();
  MsgpackReader endless(std::as_bytes(std::span(deep)));
  EXPECT_EQ(endless.skip().code(), StatusCode::kCorruptData);
}

TEST(Occupancy, FollowsRegistersLdsAndBlocks) {
  const AmdArchitecture& cdna3 = *find_amd_architecture("gfx942");
  KernelResources kernel;
  kernel.name = "kernel";
  kernel.wavefront_size = 64;
  kernel.max_threads = 256;
  kernel.vector_registers = 32;
  kernel.scalar_registers = 30;
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 256), 8);
  kernel.vector_registers = 65;  // 72 with the granule
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 256), 7);
  kernel.vector_registers = 512;
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 256), 1);
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 512), 0);
  kernel.vector_registers = 32;
  kernel.lds_bytes = 20000;  // three workgroups of four waves on four SIMDs
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 256), 3);
  kernel.lds_bytes = 16384 - 1;
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 256), 4);
  kernel.lds_bytes = 65537;
  EXPECT_EQ(waves_per_simd(cdna3, kernel, 256), 0);
  EXPECT_GT(waves_per_simd(*find_amd_architecture("gfx950"), kernel, 256), 0);
  kernel.lds_bytes = 0;
  const AmdArchitecture& rdna3 = *find_amd_architecture("gfx1100");
  kernel.vector_registers = 97;  // 120 with the granule of 24
  EXPECT_EQ(waves_per_simd(rdna3, kernel, 32), 12);
}

// The figures of LLVM's own test of the same (occupancy-levels.ll, amdhsa).
TEST(Occupancy, ScalarRegistersComeInPiecesAndTheTrapHandlerHasSome) {
  KernelResources kernel;
  kernel.vector_registers = 24;
  const auto waves = [&](const char* target, std::uint64_t scalars) {
    kernel.scalar_registers = scalars;
    return waves_per_simd(*find_amd_architecture(target), kernel, 64);
  };
  EXPECT_EQ(waves("gfx900", 64), 10);
  EXPECT_EQ(waves("gfx900", 80), 8);
  EXPECT_EQ(waves("gfx900", 88), 7);
  EXPECT_EQ(waves("gfx900", 100), 6);
  EXPECT_EQ(waves("gfx950", 80), 8);
  EXPECT_EQ(waves("gfx950", 81), 7);
  EXPECT_EQ(waves("gfx950", 102), 6);
  EXPECT_EQ(waves("gfx1100", 106), 16);
  EXPECT_EQ(waves("gfx950", ~std::uint64_t{0}), 0);
}

TEST(Occupancy, LdsIsRoundedUp) {
  KernelResources kernel;
  kernel.vector_registers = 24;
  kernel.lds_bytes = 8192 + 1;  // 8704 of 65536; 8960 of 163840
  EXPECT_EQ(waves_per_simd(*find_amd_architecture("gfx942"), kernel, 256), 7);
  kernel.lds_bytes = 32768;  // 33280 of 163840
  EXPECT_EQ(waves_per_simd(*find_amd_architecture("gfx950"), kernel, 256), 4);
}

TEST(Occupancy, LimitsAreChecked) {
  const AmdArchitecture& cdna3 = *find_amd_architecture("gfx942");
  KernelResources kernel;
  kernel.name = "k";
  kernel.wavefront_size = 64;
  kernel.max_threads = 256;
  EXPECT_TRUE(check_resources(cdna3, kernel).ok());
  kernel.vector_spills = 3;
  EXPECT_EQ(check_resources(cdna3, kernel).message(), "kernel k for gfx942: it spills 3 vector and 0 scalar registers");
  kernel.vector_spills = 0;
  kernel.lds_bytes = 70000;
  EXPECT_THAT(check_resources(cdna3, kernel).message(), HasSubstr("70000 bytes of LDS of 65536"));
  kernel.lds_bytes = 0;
  kernel.wavefront_size = 32;
  EXPECT_THAT(check_resources(cdna3, kernel).message(), HasSubstr("wavefronts have 32 lanes"));
}

}  // namespace
}  // namespace kpt
