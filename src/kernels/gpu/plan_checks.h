// What all plans check and compute. For the *_plan.cpp files of this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

inline Status invalid_call(std::string_view kernel, std::string_view what) {
  return {StatusCode::kInvalidArgument, fmt::format("{}: {}", kernel, what)};
}

// "f32", "bf16", "e4m3fnuz", …: as kernels are named; empty for types that no kernel has.
std::string_view type_suffix(DType dtype);
// float32, float16, bfloat16.
bool is_kernel_type(DType dtype);
// int8 and the four FP8 types.
bool is_quantized_type(DType dtype);

inline bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

inline bool are_aligned(std::initializer_list<const void*> addresses) {
  return std::ranges::all_of(addresses, [](const void* address) { return is_aligned(address, 16); });
}

inline bool are_multiples(std::initializer_list<std::int64_t> numbers, std::int64_t of) {
  return std::ranges::all_of(numbers, [of](std::int64_t number) { return number % of == 0; });
}

inline std::int64_t divide_up(std::int64_t number, std::int64_t by) { return number / by + (number % by != 0 ? 1 : 0); }
inline std::int64_t round_up(std::int64_t number, std::int64_t to) { return divide_up(number, to) * to; }

// Elements of a 16-byte access.
inline std::int64_t vector_elements(DType dtype) { return 16 / static_cast<std::int64_t>(element_bytes(dtype)); }

// Sizes that a kernel may be given: none negative, and the number of elements, with gaps, is one of 62 bits.
Status check_sizes(std::string_view kernel, std::initializer_list<std::int64_t> sizes);
// The grid's limit of all devices.
Status check_blocks(std::string_view kernel, std::int64_t blocks);

// A block's threads for a row of `items` accesses, `each` of them for a thread where that is possible.
inline int row_threads(std::int64_t items, std::int64_t each, int wave, int most) {
  return static_cast<int>(std::clamp<std::int64_t>(round_up(divide_up(items, each), wave), wave, most));
}

// One thread for each item, in blocks of 256.
inline constexpr int kItemThreads = 256;

}  // namespace kpt::gpu
