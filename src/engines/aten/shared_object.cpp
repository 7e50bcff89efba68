#include "engines/aten/shared_object.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kOwnMachine = EM_AARCH64;
#else
#error "add this machine's ELF number"
#endif

Status damaged(const std::filesystem::path& path, std::string_view clause) {
  return {StatusCode::kVendorLibrary, fmt::format("{} {}", path.string(), clause)};
}

template <typename Record>
bool read_record(std::ifstream& file, Record* record) {
  return static_cast<bool>(file.read(reinterpret_cast<char*>(record), sizeof(Record)));
}

}  // namespace

Status check_shared_object(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t file_bytes = std::filesystem::file_size(path, error);
  if (error) return {StatusCode::kNotFound, fmt::format("{} cannot be read: {}", path.string(), error.message())};
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file || !read_record(file, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return damaged(path, "is not a shared library");
  }
  constexpr unsigned char kOwnOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kOwnOrder ||
      header.e_machine != kOwnMachine) {
    return damaged(path, "is for another kind of machine");
  }
  if (header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr))
    return damaged(path, "is not a shared library");
  file.seekg(static_cast<std::streamoff>(std::min<Elf64_Off>(header.e_phoff, file_bytes)));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_record(file, &part)) return damaged(path, "is cut short: its table of contents is incomplete");
    if (part.p_type != PT_LOAD) continue;
    if (part.p_offset > file_bytes || part.p_filesz > file_bytes - part.p_offset) {
      return damaged(path, fmt::format("is cut short: {} are left of it", format_bytes(file_bytes)));
    }
  }
  return {};
}

}  // namespace kpt
