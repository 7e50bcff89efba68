// For which processor: this host, and a library that we may want to open on it.
//
// The loader calls a library for another processor "No such file or directory"; asking first gives a true reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.h"
#include "kpt/status.h"

namespace kpt {

// "aarch64", "x86_64", …: by /proc/cpuinfo, so that a recorded machine answers for itself; on the real machine the
// architecture of this binary when /proc/cpuinfo does not tell. Empty when neither is known.
std::string find_host_architecture(const SystemFiles& files);

// The same for the text of a /proc/cpuinfo.
std::string find_cpuinfo_architecture(std::string_view cpuinfo);

// The processor an ELF file is for: "x86_64", "aarch64", or "ELF machine 243" for others. Reads 20 bytes. Fails with
// kNotFound, kPermissionDenied, kIo, or with kCorruptData when it is no 64-bit ELF file.
Result<std::string> read_elf_architecture(const std::filesystem::path& path);

}  // namespace kpt
