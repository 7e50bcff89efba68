// The compression function of SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kpt {

using Sha256State = std::array<std::uint32_t, 8>;

// Takes `count` blocks of 64 bytes into the state, by the processor's instructions where it has them.
void sha256_blocks(Sha256State& state, const unsigned char* blocks, std::size_t count);

// The same without them: what other machines run.
void sha256_blocks_portable(Sha256State& state, const unsigned char* blocks, std::size_t count);

}  // namespace kpt
