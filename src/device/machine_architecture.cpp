#include "device/machine_architecture.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/build_info.h"
#include "base/text.h"

namespace kpt {
namespace {

// Field offsets and values of the ELF-64 header.
constexpr std::size_t kHeaderBytes = 20;
constexpr std::size_t kClassAt = 4;
constexpr std::size_t kByteOrderAt = 5;
constexpr std::size_t kMachineAt = 18;
constexpr unsigned char kClass64 = 2;
constexpr unsigned char kLittleEndian = 1;
constexpr unsigned kMachineX86 = 62;
constexpr unsigned kMachineAarch64 = 183;

constexpr std::size_t kCpuinfoMaxBytes = 16u << 20;  // 2 KiB per logical CPU, so some 8000 of them

}  // namespace

std::string find_cpuinfo_architecture(std::string_view cpuinfo) {
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "CPU architecture") return value == "8" || value == "AArch64" ? "aarch64" : "arm";
    if (key == "flags") {
      const auto flags = split(value, ' ');
      return std::ranges::find(flags, "lm") != flags.end() ? "x86_64" : "i686";
    }
  }
  return {};
}

std::string find_host_architecture(const SystemFiles& files) {
  const auto text = read_text_file(files.resolve("/proc/cpuinfo"), kCpuinfoMaxBytes);
  std::string architecture = text.ok() ? find_cpuinfo_architecture(*text) : std::string();
  if (architecture.empty() && files.is_real()) architecture = build_info().architecture;
  return architecture;
}

Result<std::string> read_elf_architecture(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    const StatusCode code = error == EACCES || error == EPERM     ? StatusCode::kPermissionDenied
                            : error == ENOENT || error == ENOTDIR ? StatusCode::kNotFound
                                                                  : StatusCode::kIo;
    return Status(code, fmt::format("cannot open {}: {}", path.string(), std::generic_category().message(error)));
  }
  std::array<char, kHeaderBytes> header{};
  if (!file.read(header.data(), static_cast<std::streamsize>(header.size()))) {
    return Status(StatusCode::kCorruptData, fmt::format("{} is too short for a shared library", path.string()));
  }
  const auto byte = [&header](std::size_t at) { return static_cast<unsigned char>(header[at]); };
  const bool is_elf = byte(0) == 0x7f && header[1] == 'E' && header[2] == 'L' && header[3] == 'F';
  if (!is_elf || byte(kClassAt) != kClass64 || byte(kByteOrderAt) != kLittleEndian) {
    return Status(StatusCode::kCorruptData, fmt::format("{} is not a 64-bit shared library", path.string()));
  }
  const unsigned machine = byte(kMachineAt) + 256u * byte(kMachineAt + 1);
  switch (machine) {
    case kMachineX86: return std::string("x86_64");
    case kMachineAarch64: return std::string("aarch64");
    default: return fmt::format("ELF machine {}", machine);
  }
}

}  // namespace kpt
