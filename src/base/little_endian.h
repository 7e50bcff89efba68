// Numbers as files carry them: little endian, at any address.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <string>

namespace kpt {

static_assert(std::endian::native == std::endian::little, "tensors are used where they lie in little-endian files");

// The number at `bytes`, which must have sizeof(T) bytes left.
template <std::unsigned_integral T>
T load_little_endian(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <std::unsigned_integral T>
void append_little_endian(std::string& text, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text.append(bytes, sizeof bytes);
}

}  // namespace kpt
