#include "engines/aten/shortage_text.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace kpt::aten {
namespace {

constexpr std::uint64_t kKiB = std::uint64_t{1} << 10U;
constexpr std::uint64_t kMiB = kKiB << 10U;
constexpr std::uint64_t kGiB = kMiB << 10U;
constexpr std::uint64_t kTiB = kGiB << 10U;

// Texts of PyTorch 1.0 to 2.9 as users reported them.
TEST(ShortageText, TellsTheRequestThatFailed) {
  const std::pair<const char*, std::uint64_t> texts[] = {
      {"CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.90 GiB already "
       "allocated; 576.00 KiB free; 30.96 MiB cached)",
       kMiB},
      {"CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; "
       "9.28 GiB free; 4.68 MiB cached)",
       12 * kMiB + 512 * kKiB},
      {"CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 2.00 GiB total capacity; 788.51 MiB already "
       "allocated; 145.93 MiB free; 1.02 GiB reserved in total by PyTorch)",
       264 * kMiB},
      {"CUDA out of memory. Tried to allocate 1.25 GiB (GPU 0; 6.00 GiB total capacity; 3.49 GiB already allocated; "
       "1.04 GiB free; 3.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
       "max_split_size_mb to avoid fragmentation.",
       kGiB + 256 * kMiB},
      {"CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacty of 4.00 GiB of which 41.56 MiB is "
       "free. Including non-PyTorch memory, this process has 3.44 GiB memory in use.",
       32 * kMiB},
      {"CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is "
       "free. Including non-PyTorch memory, this process has 23.60 GiB memory in use.",
       22 * kMiB},
      {"HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB is "
       "free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch",
       2 * kMiB},
      {"[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
       "allocate "
       "1099511627776 bytes. Error code 12 (Cannot allocate memory)",
       kTiB},
      {"CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction "
       "limit. Requested size: 3.00 GiB",
       3 * kGiB},
  };
  for (const auto& [text, bytes] : texts) EXPECT_EQ(find_requested_bytes(text), bytes) << text;
}

TEST(ShortageText, TheNameOfANodeIsNotTheRequest) {
  EXPECT_EQ(find_requested_bytes("node 'tried to allocate 1 bytes' (aten.add.Tensor) failed: CUDA out of memory. Tried "
                                 "to allocate 2.00 GiB. GPU 0 has"),
            2 * kGiB);
}

TEST(ShortageText, FractionsAreOfTheUnit) {
  EXPECT_EQ(find_requested_bytes("Tried to allocate 1.05 KiB"), 1075U);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 0.5 GiB."), kGiB / 2);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 1.000000000000000000000000000001 TiB"), kTiB);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 1.999999999 TiB"), kTiB + 999999 * kTiB / 1000000);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 512 bytes"), 512U);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 800000000.00 GiB."), 800000000 * kGiB);
}

TEST(ShortageText, WhatNamesNoSizeGivesNone) {
  for (const char* text :
       {"", "CUDA out of memory.", "CUDA error: out of memory", "CUDNN_STATUS_ALLOC_FAILED",
        "CUDA out of memory. Tried to allocate more than 1EB memory.", "Tried to allocate ", "Tried to allocate .5 MiB",
        "Tried to allocate 20.00", "Tried to allocate 20.00 ", "Tried to allocate 20.00MiB",
        "Tried to allocate 20.00 MiBs", "Tried to allocate 20,00 MiB", "Tried to allocate -1 bytes",
        "Tried to allocate 1e+03 KiB", "Tried to allocate nan MiB", "Tried to allocate 2.00 EiB"}) {
    EXPECT_EQ(find_requested_bytes(text), std::nullopt) << text;
  }
}

TEST(ShortageText, WhatIsBeyond64BitsGivesNone) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(find_requested_bytes("Tried to allocate 18446744073709551615 bytes"), kMost);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 18446744073709551616 bytes"), std::nullopt);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 18014398509481983.99 KiB"), kMost - 10U);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 18014398509481984.00 KiB"), std::nullopt);
  EXPECT_EQ(find_requested_bytes("Tried to allocate 20000000.00 TiB"), std::nullopt);
  EXPECT_EQ(find_requested_bytes("Tried to allocate " + std::string(4000, '9') + " bytes"), std::nullopt);
}

TEST(ShortageText, LibrariesNameTheirOwnAllocations) {
  EXPECT_EQ(find_shortage("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            ShortageSign::kCertain);
  EXPECT_EQ(find_shortage("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), ShortageSign::kCertain);
  EXPECT_EQ(find_shortage("CUDA error: out of memory"), ShortageSign::kCertain);
  EXPECT_EQ(find_shortage("HIP error: out of memory"), ShortageSign::kCertain);
  EXPECT_EQ(find_shortage("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
            ShortageSign::kPossible);
  EXPECT_EQ(find_shortage("CUDA error: an illegal memory access was encountered"), ShortageSign::kNone);
}

}  // namespace
}  // namespace kpt::aten
