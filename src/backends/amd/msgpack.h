// Reads MessagePack in place: numbers, strings, arrays, maps. What a code object's notes are written in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kpt/status.h"

namespace kpt {

// A place in untrusted bytes. Every read checks that the bytes are there and of the kind asked for (kCorruptData
// otherwise) and moves on; strings are views of the bytes. Counts of arrays and maps are at most the bytes that are
// left, so a caller may loop over them.
class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<std::size_t> read_map();    // pairs that follow
  Result<std::size_t> read_array();  // elements that follow
  Result<std::string_view> read_string();
  Result<std::uint64_t> read_unsigned();
  // Passes over one value with everything in it, without recursion.
  Status skip();

  std::size_t remaining() const { return bytes_.size() - at_; }

 private:
  struct Head;
  Result<Head> read_head();
  Status broken(std::string_view what) const;

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace kpt
