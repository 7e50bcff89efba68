#include "engines/xla/stablehlo/call.h"

#include <algorithm>

#include <fmt/format.h>

#include "engines/xla/stablehlo/numbers.h"
#include "passes/node_arguments.h"

namespace kpt::xla {

void refuse(std::string reason) { throw Refusal{std::move(reason)}; }

std::size_t normalize_axis(std::int64_t axis, std::size_t rank) {
  // PyTorch lets a tensor without dimensions pass as one with a single one.
  const auto found = axis_of(axis, std::max<std::size_t>(rank, 1));
  if (!found) refuse(fmt::format("axis {} is out of range for {} dimensions", axis, rank));
  return *found;
}

Call::Call(const ir::Graph& graph, const ir::Node& node, Environment& environment, Numbers& numbers, Builder& builder,
           bool writes)
    : graph_(graph), node_(node), environment_(environment), numbers_(numbers), builder_(builder), writes_(writes) {
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      results_.push_back(id);
      ResultType type;
      if (id != ir::kNoValue && graph.at(id).kind == ir::ValueKind::kTensor) {
        type = {graph.at(id).tensor.dtype, numbers.evaluate(graph.at(id).tensor.dims)};
        type_name(type.dtype, type.dims);  // refuses what cannot be written
      }
      types_.push_back(std::move(type));
      given_.push_back(id == ir::kNoValue);
    }
  }
}

const ir::Argument* Call::find(std::string_view name) const {
  const ir::Argument* argument = find_argument(node_, name);
  return argument == nullptr || std::holds_alternative<ir::None>(argument->value) ? nullptr : argument;
}

bool Call::has(std::string_view name) const { return find(name) != nullptr; }

std::optional<Number> Call::to_number(const ir::Argument& argument) const {
  if (const auto* whole = std::get_if<std::int64_t>(&argument.value)) return *whole;
  if (const auto* real = std::get_if<double>(&argument.value)) return *real;
  if (const auto* truth = std::get_if<bool>(&argument.value)) return *truth;
  const ir::ValueId* id = argument.value_id();
  if (id == nullptr || graph_.at(*id).kind == ir::ValueKind::kTensor) return std::nullopt;
  const auto known = numbers_.find(*id);
  if (!known) refuse(fmt::format("the number %{} is not known before the run", graph_.at(*id).name));
  return known;
}

std::optional<Value> Call::find_tensor(std::string_view name) {
  const ir::Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  const ir::ValueId* id = argument->value_id();
  if (id == nullptr || graph_.at(*id).kind != ir::ValueKind::kTensor) {
    refuse(fmt::format("its argument '{}' is no tensor", name));
  }
  return environment_.read(*id);
}

Value Call::tensor(std::string_view name) {
  auto found = find_tensor(name);
  if (!found) refuse(fmt::format("its argument '{}' is missing", name));
  return *std::move(found);
}

Operand Call::operand(std::string_view name) {
  const ir::Argument* argument = find(name);
  if (argument == nullptr) refuse(fmt::format("its argument '{}' is missing", name));
  if (const auto number = to_number(*argument)) return {std::nullopt, *number};
  return {tensor(name), std::int64_t{0}};
}

std::vector<std::optional<Value>> Call::optional_tensors(std::string_view name) {
  const ir::Argument* argument = find(name);
  const ir::List* list = argument == nullptr ? nullptr : argument->list();
  if (list == nullptr) refuse(fmt::format("its argument '{}' is no list of tensors", name));
  std::vector<std::optional<Value>> values;
  for (const ir::Argument& item : list->items) {
    if (std::holds_alternative<ir::None>(item.value)) {
      values.emplace_back();
      continue;
    }
    const ir::ValueId* id = item.value_id();
    if (id == nullptr || graph_.at(*id).kind != ir::ValueKind::kTensor) {
      refuse(fmt::format("its argument '{}' is no list of tensors", name));
    }
    values.emplace_back(environment_.read(*id));
  }
  return values;
}

std::vector<Value> Call::tensors(std::string_view name) {
  std::vector<Value> values;
  for (std::optional<Value>& value : optional_tensors(name)) {
    if (!value) refuse(fmt::format("its argument '{}' is no list of tensors", name));
    values.push_back(*std::move(value));
  }
  return values;
}

std::optional<Number> Call::find_number(std::string_view name) {
  const ir::Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  const auto number = to_number(*argument);
  if (!number) refuse(fmt::format("its argument '{}' is no number", name));
  return number;
}

Number Call::number(std::string_view name) {
  const auto found = find_number(name);
  if (!found) refuse(fmt::format("its argument '{}' is missing", name));
  return *found;
}

double Call::real(std::string_view name, double fallback) {
  const auto found = find_number(name);
  return found ? as_double(*found) : fallback;
}

std::int64_t Call::integer(std::string_view name) { return as_int(number(name)); }

std::int64_t Call::integer(std::string_view name, std::int64_t fallback) {
  const auto found = find_number(name);
  return found ? as_int(*found) : fallback;
}

bool Call::flag(std::string_view name, bool fallback) {
  const auto found = find_number(name);
  return found ? as_double(*found) != 0 : fallback;
}

std::optional<Extents> Call::find_ints(std::string_view name) {
  const ir::Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  Extents values;
  if (argument->list() == nullptr) {
    values.push_back(integer(name));
    if (values.back() > kMaxNumber || values.back() < -kMaxNumber) refuse(fmt::format("its '{}' is too large", name));
    return values;
  }
  for (const ir::Argument& item : argument->list()->items) {
    const auto number = to_number(item);
    if (!number) refuse(fmt::format("its argument '{}' is no list of integers", name));
    values.push_back(as_int(*number));
    if (values.back() > kMaxNumber || values.back() < -kMaxNumber) {
      refuse(fmt::format("its argument '{}' holds {}", name, values.back()));
    }
  }
  return values;
}

Extents Call::ints(std::string_view name, const Extents& fallback) { return find_ints(name).value_or(fallback); }

Extents Call::ints_per_axis(std::string_view name, std::size_t axes, const Extents& fallback) {
  Extents values = ints(name, fallback);
  if (values.empty()) values = fallback;
  if (values.size() == 1) values.resize(axes, values[0]);
  if (values.size() != axes) refuse(fmt::format("its '{}' is not for the {} axes that it works on", name, axes));
  return values;
}

std::string_view Call::text(std::string_view name, std::string_view fallback) const {
  return string_argument(node_, name, fallback);
}

std::size_t Call::axis(std::string_view name, std::size_t rank, std::optional<std::int64_t> fallback) {
  return normalize_axis(fallback ? integer(name, *fallback) : integer(name), rank);
}

Extents Call::axes(std::string_view name, std::size_t rank) {
  Extents axes = ints(name, {});
  if (axes.empty()) {
    for (std::size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<std::int64_t>(axis));
    return axes;
  }
  if (rank == 0) return {};
  for (std::int64_t& axis : axes) axis = static_cast<std::int64_t>(normalize_axis(axis, rank));
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

Extents Call::recorded_strides(std::string_view argument) const {
  const ir::ValueId id = value_argument(node_, argument);
  if (id == ir::kNoValue) refuse(fmt::format("its argument '{}' is no tensor", argument));
  return numbers_.evaluate(graph_.at(id).tensor.strides);
}

ir::ValueId Call::result_id(std::size_t result) const {
  if (result >= results_.size()) refuse("the graph records fewer results than it has");
  return results_[result];
}

const ResultType& Call::type(std::size_t result) const {
  result_id(result);  // refuses what is not there
  return types_[result];
}

Extents Call::recorded_strides(std::size_t result) const {
  const ir::ValueId id = result_id(result);
  if (id == ir::kNoValue) refuse("the graph records no type for a result");
  return numbers_.evaluate(graph_.at(id).tensor.strides);
}

bool Call::is_used(std::size_t result) const {
  const ir::ValueId wanted = result_id(result);
  bool used = false;
  const auto visit = [&](ir::ValueId id) { used = used || id == wanted; };
  for (const ir::Node& node : graph_.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, visit);
  }
  for (const ir::GraphOutput& output : graph_.outputs) ir::for_each_value(output.value, visit);
  return used;
}

void Call::set(Value value, std::size_t result) {
  if (result_id(result) == ir::kNoValue) return;
  const ResultType& type = types_[result];
  if (value.dims != type.dims) {
    refuse(fmt::format("it gives {} where the graph records {}", list_text(value.dims), list_text(type.dims)));
  }
  value = builder_.convert(value, type.dtype);
  given_[result] = true;
  if (!writes_) {
    environment_.define(results_[result], std::move(value));
    return;
  }
  const ir::ValueId* target = node_.arguments.empty() ? nullptr : node_.arguments[0].value.value_id();
  if (target == nullptr || result != 0) refuse("it writes something that is no tensor");
  environment_.write(*target, value);
  environment_.define_view(results_[0], *target, {});
}

void Call::set_view(std::string_view argument, std::span<const ViewStep> steps, std::size_t result) {
  const ir::Argument* source = find(argument);
  if (writes_) refuse("it changes the shape of a tensor in place");
  if (source == nullptr || source->value_id() == nullptr)
    refuse(fmt::format("its argument '{}' is no tensor", argument));
  if (result_id(result) == ir::kNoValue) return;
  environment_.define_view(results_[result], *source->value_id(), steps);
  const Value seen = environment_.read(results_[result]);
  if (seen.dims != types_[result].dims || seen.dtype != types_[result].dtype) {
    refuse(fmt::format("it gives {} where the graph records {}", type_name(seen.dtype, seen.dims),
                       type_name(types_[result].dtype, types_[result].dims)));
  }
  given_[result] = true;
}

void Call::leave_out(std::size_t result) {
  if (result < given_.size()) given_[result] = true;
}

void Call::check_complete() const {
  if (std::find(given_.begin(), given_.end(), false) != given_.end()) refuse("not all of its results have a lowering");
}

DType Call::compute_dtype(std::span<const Operand> operands) {
  DType dtype = promote_operands(operands);
  const DType result = results_.empty() ? dtype : type().dtype;
  if (is_floating(result) && (!is_floating(dtype) || element_bytes(result) > element_bytes(dtype))) dtype = result;
  return math_dtype(dtype);
}

Value Call::expand(const Operand& operand, DType dtype) { return expand(operand, dtype, type().dims); }

Value Call::expand(const Operand& operand, DType dtype, const Extents& dims) {
  if (!operand.tensor) return builder_.splat(operand.number, dtype, dims);
  return builder_.broadcast_to(builder_.convert(*operand.tensor, dtype), dims);
}

}  // namespace kpt::xla
