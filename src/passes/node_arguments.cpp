#include "passes/node_arguments.h"

#include <algorithm>

namespace kpt {

bool is_any(const ir::Node& node, std::initializer_list<std::string_view> targets) {
  return std::find(targets.begin(), targets.end(), node.target) != targets.end();
}

bool is_reshape(const ir::Node& node) {
  return is_any(node, {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"});
}

std::string_view operator_name(std::string_view target) {
  const std::size_t first = target.find('.');
  const std::size_t last = target.rfind('.');
  if (first == std::string_view::npos || first == last) return target;
  return target.substr(first + 1, last - first - 1);
}

const ir::Argument* find_argument(const ir::Node& node, std::string_view name) {
  for (const ir::NamedArgument& argument : node.arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

ir::ValueId value_argument(const ir::Node& node, std::string_view name) {
  const ir::Argument* argument = find_argument(node, name);
  const ir::ValueId* id = argument == nullptr ? nullptr : argument->value_id();
  return id == nullptr ? ir::kNoValue : *id;
}

std::optional<double> number_argument(const ir::Node& node, std::string_view name, std::optional<double> fallback) {
  const ir::Argument* argument = find_argument(node, name);
  if (argument == nullptr || std::holds_alternative<ir::None>(argument->value)) return fallback;
  if (const auto* real = std::get_if<double>(&argument->value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&argument->value)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<std::int64_t> int_argument(const ir::Node& node, std::string_view name,
                                         std::optional<std::int64_t> fallback) {
  const ir::Argument* argument = find_argument(node, name);
  if (argument == nullptr || std::holds_alternative<ir::None>(argument->value)) return fallback;
  if (const auto* whole = std::get_if<std::int64_t>(&argument->value)) return *whole;
  return std::nullopt;
}

std::optional<bool> bool_argument(const ir::Node& node, std::string_view name, std::optional<bool> fallback) {
  const ir::Argument* argument = find_argument(node, name);
  if (argument == nullptr || std::holds_alternative<ir::None>(argument->value)) return fallback;
  if (const auto* truth = std::get_if<bool>(&argument->value)) return *truth;
  return std::nullopt;
}

std::optional<DType> dtype_argument(const ir::Node& node, std::string_view name) {
  const ir::Argument* argument = find_argument(node, name);
  const auto* dtype = argument == nullptr ? nullptr : std::get_if<DType>(&argument->value);
  return dtype == nullptr ? std::nullopt : std::optional(*dtype);
}

std::optional<ir::MemoryFormat> format_argument(const ir::Node& node, std::string_view name) {
  const ir::Argument* argument = find_argument(node, name);
  const auto* format = argument == nullptr ? nullptr : std::get_if<ir::MemoryFormat>(&argument->value);
  return format == nullptr ? std::nullopt : std::optional(*format);
}

std::string_view string_argument(const ir::Node& node, std::string_view name, std::string_view fallback) {
  const ir::Argument* argument = find_argument(node, name);
  const auto* text = argument == nullptr ? nullptr : std::get_if<std::string>(&argument->value);
  return text == nullptr ? fallback : std::string_view(*text);
}

std::optional<std::vector<std::int64_t>> ints_argument(const ir::Node& node, std::string_view name,
                                                       std::optional<std::vector<std::int64_t>> fallback) {
  const ir::Argument* argument = find_argument(node, name);
  if (argument == nullptr || std::holds_alternative<ir::None>(argument->value)) return fallback;
  if (const auto* whole = std::get_if<std::int64_t>(&argument->value)) return std::vector{*whole};
  const ir::List* list = argument->list();
  if (list == nullptr) return std::nullopt;
  std::vector<std::int64_t> result;
  for (const ir::Argument& item : list->items) {
    const auto* whole = std::get_if<std::int64_t>(&item.value);
    if (whole == nullptr) return std::nullopt;
    result.push_back(*whole);
  }
  return result;
}

std::vector<ir::ValueId> values_argument(const ir::Node& node, std::string_view name) {
  const ir::Argument* argument = find_argument(node, name);
  const ir::List* list = argument == nullptr ? nullptr : argument->list();
  if (list == nullptr) return {};
  std::vector<ir::ValueId> result;
  for (const ir::Argument& item : list->items) {
    if (item.value_id() == nullptr) return {};
    result.push_back(*item.value_id());
  }
  return result;
}

bool is_absent(const ir::Node& node, std::string_view name) {
  const ir::Argument* argument = find_argument(node, name);
  return argument == nullptr || std::holds_alternative<ir::None>(argument->value);
}

ir::ValueId only_result(const ir::Node& node) { return node.outputs.size() == 1 ? result_at(node, 0) : ir::kNoValue; }

ir::ValueId result_at(const ir::Node& node, std::size_t place) {
  if (place >= node.outputs.size() || node.outputs[place].is_list) return ir::kNoValue;
  return node.outputs[place].values[0];
}

std::optional<std::size_t> axis_of(std::int64_t dim, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (dim < -signed_rank || dim >= signed_rank) return std::nullopt;
  return static_cast<std::size_t>(dim < 0 ? dim + signed_rank : dim);
}

ir::Argument ints(const std::vector<std::int64_t>& values) {
  ir::List list;
  list.element = ir::ElementKind::kInt;
  for (const std::int64_t value : values) list.items.push_back({value});
  return {std::move(list)};
}

ir::Argument value_or_none(ir::ValueId id) { return id == ir::kNoValue ? ir::Argument{ir::None{}} : ir::Argument{id}; }

}  // namespace kpt
