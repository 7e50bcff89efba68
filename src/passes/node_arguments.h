// Reading the arguments of nodes. An argument that stands at its default is absent in exported graphs, so every reader
// takes the operator's default.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace kpt {

bool is_any(const ir::Node& node, std::initializer_list<std::string_view> targets);
// The same elements in the same order with other sizes.
bool is_reshape(const ir::Node& node);

// "add" of "aten.add.Tensor"; the whole target where it has no such form.
std::string_view operator_name(std::string_view target);

// Null when the node does not give it.
const ir::Argument* find_argument(const ir::Node& node, std::string_view name);

// kNoValue when it is absent, None or a constant.
ir::ValueId value_argument(const ir::Node& node, std::string_view name);
// A constant number (an integer counts); nothing for values, None and other kinds.
std::optional<double> number_argument(const ir::Node& node, std::string_view name,
                                      std::optional<double> fallback = std::nullopt);
std::optional<std::int64_t> int_argument(const ir::Node& node, std::string_view name,
                                         std::optional<std::int64_t> fallback = std::nullopt);
std::optional<bool> bool_argument(const ir::Node& node, std::string_view name,
                                  std::optional<bool> fallback = std::nullopt);
std::optional<DType> dtype_argument(const ir::Node& node, std::string_view name);
std::optional<ir::MemoryFormat> format_argument(const ir::Node& node, std::string_view name);
std::string_view string_argument(const ir::Node& node, std::string_view name, std::string_view fallback);
// A list of constants (a single integer counts as a list of one); nothing when an item is a value.
std::optional<std::vector<std::int64_t>> ints_argument(
    const ir::Node& node, std::string_view name, std::optional<std::vector<std::int64_t>> fallback = std::nullopt);
// A list of values; empty when it is none, or an item is no value.
std::vector<ir::ValueId> values_argument(const ir::Node& node, std::string_view name);
// Whether the argument is absent or None.
bool is_absent(const ir::Node& node, std::string_view name);

// The only result of a node with exactly one that is a value; kNoValue otherwise.
ir::ValueId only_result(const ir::Node& node);
// The result at a place, kNoValue when it is not there or a list.
ir::ValueId result_at(const ir::Node& node, std::size_t place);

// An axis as a number from 0: -1 is the last. Nothing when it is out of range.
std::optional<std::size_t> axis_of(std::int64_t dim, std::size_t rank);

ir::Argument ints(const std::vector<std::int64_t>& values);
ir::Argument value_or_none(ir::ValueId id);

}  // namespace kpt
