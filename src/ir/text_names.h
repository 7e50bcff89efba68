// The words of the graph's text form, for writing and reading.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace kpt::ir {

inline constexpr std::string_view kTextHeader = "kpt_graph 1";
// Beside letters, digits and '_' in the name of an operator.
inline constexpr std::string_view kTargetSigns = ".:";

// Each in the order of its enumeration.
inline constexpr std::array<std::string_view, 7> kLayoutNames = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                                 "sparse_bsr", "sparse_bsc", "mkldnn"};
inline constexpr std::array<std::string_view, 4> kMemoryFormatNames = {"contiguous", "channels_last",
                                                                       "channels_last_3d", "preserve"};
inline constexpr std::array<std::string_view, 5> kInputKindNames = {"input", "parameter", "buffer", "constant",
                                                                    "fixed"};
inline constexpr std::array<std::string_view, 4> kOutputKindNames = {"output", "buffer_mutation", "parameter_mutation",
                                                                     "input_mutation"};
inline constexpr std::array<std::string_view, 7> kElementNames = {"tensor", "tensor?", "int", "float",
                                                                  "bool",   "string",  "list"};

template <typename Enum, std::size_t kCount>
std::string_view name_of(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : "invalid";
}

template <typename Enum, std::size_t kCount>
std::optional<Enum> find_by_name(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// What a list without a stated kind holds: the first item that is a constant says it, and values alone are tensors.
ElementKind guess_element_kind(const List& list);

// Row-major strides for symbolic extents.
std::vector<Expr> row_major_strides(const std::vector<Expr>& dims);

}  // namespace kpt::ir
