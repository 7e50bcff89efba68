// Makes code objects without a compiler: for tests of the reader, and seeds of its fuzzer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/little_endian.h"

namespace kpt::testing {

// MessagePack as LLVM writes it: the shortest form of everything.
class MsgpackWriter {
 public:
  MsgpackWriter& map(std::size_t pairs) { return head(0x80, 15, 0xde, pairs); }
  MsgpackWriter& array(std::size_t elements) { return head(0x90, 15, 0xdc, elements); }
  MsgpackWriter& text(std::string_view value) {
    if (value.size() < 32) {
      bytes_ += static_cast<char>(0xa0U | value.size());
    } else {
      bytes_ += '\xd9';
      bytes_ += static_cast<char>(value.size());
    }
    bytes_ += value;
    return *this;
  }
  MsgpackWriter& number(std::uint64_t value) {
    if (value < 128) {
      bytes_ += static_cast<char>(value);
      return *this;
    }
    bytes_ += '\xcf';
    for (int shift = 56; shift >= 0; shift -= 8)
      bytes_ += static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xffU);
    return *this;
  }
  MsgpackWriter& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  MsgpackWriter& head(unsigned small, std::size_t most, unsigned large, std::size_t count) {
    if (count <= most) {
      bytes_ += static_cast<char>(small | count);
    } else {
      bytes_ += static_cast<char>(large);
      bytes_ += static_cast<char>(count >> 8U);
      bytes_ += static_cast<char>(count & 0xffU);
    }
    return *this;
  }
  std::string bytes_;
};

// An ELF file with one segment of notes: one of another vendor, then the metadata.
inline std::string make_code_object(const std::string& metadata, std::uint16_t machine = 224) {
  std::string notes;
  auto add_note = [&notes](std::string_view name, std::uint32_t type, const std::string& content) {
    append_little_endian(notes, static_cast<std::uint32_t>(name.size()));
    append_little_endian(notes, static_cast<std::uint32_t>(content.size()));
    append_little_endian(notes, type);
    for (const std::string_view part : {name, std::string_view(content)}) {
      notes += part;
      notes.append((4 - part.size() % 4) % 4, '\0');
    }
  };
  add_note(std::string_view("GNU\0", 4), 3, "build id");
  add_note(std::string_view("AMDGPU\0", 7), 32, metadata);
  std::string file(
      "\x7f"
      "ELF\x02\x01\x01\x40",
      8);
  file.append(8, '\0');
  append_little_endian(file, std::uint16_t{3});
  append_little_endian(file, machine);
  append_little_endian(file, std::uint32_t{1});
  append_little_endian(file, std::uint64_t{0});   // entry
  append_little_endian(file, std::uint64_t{64});  // program headers
  append_little_endian(file, std::uint64_t{0});   // sections
  append_little_endian(file, std::uint32_t{0});
  for (const unsigned word : {64U, 56U, 1U, 64U, 0U, 0U}) append_little_endian(file, static_cast<std::uint16_t>(word));
  append_little_endian(file, std::uint32_t{4});
  append_little_endian(file, std::uint32_t{4});
  for (const std::uint64_t word : {std::uint64_t{120}, std::uint64_t{120}, std::uint64_t{120},
                                   std::uint64_t{notes.size()}, std::uint64_t{notes.size()}, std::uint64_t{4}}) {
    append_little_endian(file, word);
  }
  return file + notes;
}

using KernelFields = std::vector<std::pair<std::string, std::uint64_t>>;

inline std::string make_metadata(const std::vector<std::pair<std::string, KernelFields>>& kernels,
                                 std::string_view target = "amdgcn-amd-amdhsa--gfx942:sramecc+") {
  MsgpackWriter writer;
  writer.map(3).text("amdhsa.kernels").array(kernels.size());
  for (const auto& [name, fields] : kernels) {
    writer.map(fields.size() + 2).text(".args").array(1).map(1).text(".size").number(8);
    writer.text(".name").text(name);
    for (const auto& [key, value] : fields) writer.text(key).number(value);
  }
  writer.text("amdhsa.target").text(target);
  writer.text("amdhsa.version").array(2).number(1).number(2);
  return writer.bytes();
}

}  // namespace kpt::testing
