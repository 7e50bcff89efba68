// Which part of one arena each block gets, from when it is alive. A pure function: no memory is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kpt {

// Alive from `first` to `last`, both included, in steps of a program.
struct Lifetime {
  std::size_t bytes = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  // one per lifetime, multiples of the alignment
  std::size_t arena_bytes = 0;
};

// Blocks that are alive at the same time never overlap. Greedy by size: the largest block first, each into the smallest
// gap that holds it; within a few per cent of the lower bound (the largest sum of bytes alive at one step) for graphs
// of transformers. `alignment` is a power of two. O(n²) for n blocks.
ArenaPlan plan_offsets(std::span<const Lifetime> lifetimes, std::size_t alignment = 64);

}  // namespace kpt
