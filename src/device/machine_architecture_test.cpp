#include "device/machine_architecture.h"

#include <gtest/gtest.h>

#include "base/build_info.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::TemporaryFolder;

std::string elf_header(unsigned char elf_class, unsigned char machine) {
  std::string header(64, '\0');
  header.replace(0, 4,
                 "\x7f"
                 "ELF");
  header[4] = static_cast<char>(elf_class);
  header[5] = 1;
  header[18] = static_cast<char>(machine);
  return header;
}

TEST(MachineArchitecture, ReadsTheMachineOfAnElfFile) {
  const TemporaryFolder folder;
  const auto architecture_of = [&folder](const std::string& content) {
    const auto path = folder.path() / "library.so";
    EXPECT_TRUE(write_file_atomically(path, content).ok());
    return read_elf_architecture(path);
  };
  EXPECT_EQ(*architecture_of(elf_header(2, 62)), "x86_64");
  EXPECT_EQ(*architecture_of(elf_header(2, 183)), "aarch64");
  EXPECT_EQ(*architecture_of(elf_header(2, 243)), "ELF machine 243");
  EXPECT_EQ(architecture_of(elf_header(1, 62)).status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(architecture_of("\x7f"
                            "ELF")
                .status()
                .code(),
            StatusCode::kCorruptData);
  EXPECT_EQ(architecture_of("#!/bin/sh\nexit 0\n # long enough for a header").status().code(),
            StatusCode::kCorruptData);
  EXPECT_EQ(read_elf_architecture(folder.path() / "missing.so").status().code(), StatusCode::kNotFound);
}

TEST(MachineArchitecture, ThisProgramIsForThisHost) {
  const auto own = read_elf_architecture("/proc/self/exe");
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  EXPECT_EQ(*own, build_info().architecture);
  EXPECT_EQ(find_host_architecture(SystemFiles()), *own);
}

TEST(MachineArchitecture, CpuinfoTellsTheArchitecture) {
  EXPECT_EQ(find_cpuinfo_architecture("processor\t: 0\nflags\t\t: fpu lm avx2\n"), "x86_64");
  EXPECT_EQ(find_cpuinfo_architecture("processor\t: 0\nflags\t\t: fpu sse2\n"), "i686");
  EXPECT_EQ(find_cpuinfo_architecture("CPU implementer\t: 0x41\nCPU architecture: 8\n"), "aarch64");
  EXPECT_EQ(find_cpuinfo_architecture("CPU architecture: 7\n"), "arm");
  EXPECT_EQ(find_cpuinfo_architecture("processor : 0\n"), "");
}

TEST(MachineArchitecture, RecordedMachineDoesNotAnswerForThisOne) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_host_architecture(SystemFiles(folder.path())), "");
}

}  // namespace
}  // namespace kpt
