#include "runtime/input_check.h"

#include <cstring>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

// Type and rank that a number travels in.
DType number_dtype(ir::ValueKind kind) {
  switch (kind) {
    case ir::ValueKind::kFloat: return DType::kFloat64;
    case ir::ValueKind::kBool: return DType::kBool;
    default: return DType::kInt64;
  }
}

std::string range_text(const ir::SymbolRange& range) {
  if (range.min && range.max) return fmt::format("{} to {}", *range.min, *range.max);
  if (range.min) return fmt::format("at least {}", *range.min);
  if (range.max) return fmt::format("at most {}", *range.max);
  return "any";
}

// What the form may be where its symbol has this range.
ir::SymbolRange range_of(const ir::LinearForm& form, const ir::SymbolRange& range) {
  const auto end = [&](const std::optional<std::int64_t>& bound) { return bound ? form.at(*bound) : std::nullopt; };
  return {.name = {}, .min = end(range.min), .max = end(range.max)};
}

std::string place_text(std::optional<std::size_t> axis) { return axis ? fmt::format("size {}", *axis) : "its value"; }

}  // namespace

InputCheck::InputCheck(const ir::Graph& graph) : graph_(graph) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = graph.at(input.value);
    for (std::size_t axis = 0; value.kind == ir::ValueKind::kTensor && axis < value.tensor.dims.size(); ++axis) {
      const ir::Expr& dim = value.tensor.dims[axis];
      if (!dim.constant() && !dim.is_symbol()) derived_.emplace_back(expected_.size(), axis);
    }
    expected_.push_back({&value, input.name});
    names_.push_back(input.name);
  }
}

const ir::SymbolRange* InputCheck::find_range(std::string_view symbol) const {
  for (const ir::SymbolRange& range : graph_.symbols) {
    if (range.name == symbol) return &range;
  }
  return nullptr;
}

std::string InputCheck::describe(const ir::Value& value) const {
  if (value.kind != ir::ValueKind::kTensor) return std::string(to_string(number_dtype(value.kind))) + "[]";
  std::vector<std::string> dims;
  for (const ir::Expr& dim : value.tensor.dims) {
    const auto form = ir::find_linear(dim);
    const ir::SymbolRange* range = form ? find_range(form->symbol) : nullptr;
    dims.push_back(range != nullptr ? fmt::format("{} ({})", dim.to_string(), range_text(range_of(*form, *range)))
                                    : dim.to_string());
  }
  return fmt::format("{}[{}]", to_string(value.tensor.dtype), join(dims, ", "));
}

Status InputCheck::mismatch(const Expected& expected, const Tensor& given, std::string why) const {
  return {StatusCode::kInvalidArgument,
          fmt::format("input '{}': expected {}, got {}{}: {}", expected.name, describe(*expected.value),
                      to_string(given.dtype()), given.dims().to_string(), std::move(why))};
}

Status InputCheck::bind_symbol(const Expected& expected, const Tensor& given, std::optional<std::size_t> axis,
                               std::string_view symbol, std::int64_t number, ir::Bindings& symbols) const {
  const auto bound = symbols.find(symbol);
  if (bound && *bound != number) {
    return mismatch(expected, given,
                    fmt::format("{} ({}) must be {}, as in an earlier place", place_text(axis), symbol, *bound));
  }
  const ir::SymbolRange* range = find_range(symbol);
  if (range != nullptr && ((range->min && number < *range->min) || (range->max && number > *range->max))) {
    return mismatch(expected, given, fmt::format("{} ({}) must be {}", place_text(axis), symbol, range_text(*range)));
  }
  symbols.set(symbol, number);
  return {};
}

// An integer that the graph knows as a symbol is bound like a size.
Status InputCheck::check_integer(const Expected& expected, const Tensor& given, ir::Bindings& symbols) const {
  const ir::Expr& expression = expected.value->expression;
  if (!expression.is_symbol() || given.data() == nullptr) return {};  // without an address only the device sees it
  std::int64_t number = 0;
  std::memcpy(&number, given.data(), sizeof number);
  return bind_symbol(expected, given, std::nullopt, expression.name(), number, symbols);
}

Status InputCheck::check_one(const Expected& expected, const Tensor& given, ir::Bindings& symbols) const {
  if (!given.defined()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("input '{}' is missing: expected {}", expected.name, describe(*expected.value))};
  }
  if (expected.value->kind != ir::ValueKind::kTensor) {
    if (given.dtype() != number_dtype(expected.value->kind)) return mismatch(expected, given, "another type");
    if (!given.dims().empty()) return mismatch(expected, given, "it is a number, a tensor of rank 0");
    return expected.value->kind == ir::ValueKind::kInt ? check_integer(expected, given, symbols) : Status();
  }
  const ir::TensorType& type = expected.value->tensor;
  if (given.dtype() != type.dtype) return mismatch(expected, given, "another type");
  if (given.dims().size() != type.dims.size()) {
    return mismatch(expected, given, fmt::format("the rank must be {}", type.dims.size()));
  }
  for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
    const ir::Expr& dim = type.dims[axis];
    const std::int64_t size = given.dims()[axis];
    if (const auto fixed = dim.constant()) {
      if (size != *fixed) return mismatch(expected, given, fmt::format("size {} must be {}", axis, *fixed));
      continue;
    }
    if (!dim.is_symbol()) continue;  // looked at when all symbols are known
    KPT_RETURN_IF_ERROR(bind_symbol(expected, given, axis, dim.name(), size, symbols));
  }
  return {};
}

// A size that is derived from one that no input has by itself says what that one is.
Status InputCheck::check_derived(const Expected& expected, const Tensor& given, std::size_t axis,
                                 ir::Bindings& symbols) const {
  const ir::Expr& dim = expected.value->tensor.dims[axis];
  const std::int64_t size = given.dims()[axis];
  const auto form = ir::find_linear(dim);
  if (!form || symbols.find(form->symbol)) return {};
  const auto number = form->solve(size);
  if (!number) {
    return mismatch(expected, given,
                    fmt::format("size {} must be {} for an integer {}", axis, dim.to_string(), form->symbol));
  }
  const ir::SymbolRange* range = find_range(form->symbol);
  if (range != nullptr && ((range->min && *number < *range->min) || (range->max && *number > *range->max))) {
    return mismatch(expected, given,
                    fmt::format("size {} ({}) must be {}", axis, dim.to_string(), range_text(range_of(*form, *range))));
  }
  symbols.set(form->symbol, *number);
  return {};
}

Status InputCheck::check(std::span<const Tensor> inputs) const {
  if (inputs.size() != expected_.size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes {} input{} ({}), {} were given", expected_.size(),
                        expected_.size() == 1 ? "" : "s", join(names_, ", "), inputs.size())};
  }
  static thread_local ir::Bindings symbols;  // kept: a steady run allocates nothing
  symbols.clear();
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    KPT_RETURN_IF_ERROR(check_one(expected_[index], inputs[index], symbols));
  }
  for (const auto& [index, axis] : derived_) {
    KPT_RETURN_IF_ERROR(check_derived(expected_[index], inputs[index], axis, symbols));
  }
  for (const auto& [index, axis] : derived_) {
    const ir::Expr& dim = expected_[index].value->tensor.dims[axis];
    const auto wanted = dim.evaluate(symbols);
    // A symbol that no input has alone, or in a form that can be solved, cannot be checked before the run.
    if (wanted.ok() && *wanted != inputs[index].dims()[axis]) {
      return mismatch(expected_[index], inputs[index],
                      fmt::format("size {} must be {} = {}", axis, dim.to_string(), *wanted));
    }
  }
  return {};
}

}  // namespace kpt
