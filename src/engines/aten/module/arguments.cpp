#include "engines/aten/module/arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include "engines/aten/module/tensors.h"

namespace kpt::aten {
namespace {

using Kind = ArgumentSource::Kind;

ArgumentSource make_constant(c10::IValue value) {
  ArgumentSource source;
  source.constant = std::move(value);
  return source;
}

ArgumentSource make_slot(Kind kind, ir::ValueId id) {
  ArgumentSource source;
  source.kind = kind;
  source.slot = ir::index_of(id);
  return source;
}

Status mismatch(std::string_view what, const c10::TypePtr& type) {
  return {StatusCode::kUnsupported, fmt::format("{} was given where the operator takes {}", what, type->str())};
}

bool is_tensor_type(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType; }

bool is_number_type(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::NumberType: return true;
    default: return false;
  }
}

bool is_float_type(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::FloatType || type->kind() == c10::TypeKind::SymFloatType;
}

bool is_int_type(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::IntType || type->kind() == c10::TypeKind::SymIntType;
}

at::Tensor wrapped_number(const c10::Scalar& scalar) { return at::native::wrapped_scalar_tensor(scalar); }

// A number (int, float, bool, complex) in a position of `type`.
Result<ArgumentSource> bind_number(const c10::Scalar& scalar, const c10::TypePtr& type) {
  if (is_tensor_type(type)) return make_constant(wrapped_number(scalar));
  if (is_float_type(type)) {
    if (scalar.isComplex()) return mismatch("a complex number", type);
    return make_constant(scalar.isBoolean() ? static_cast<double>(scalar.toBool()) : scalar.toDouble());
  }
  if (is_int_type(type)) {
    if (scalar.isBoolean()) return make_constant(static_cast<std::int64_t>(scalar.toBool()));
    if (!scalar.isIntegral(false)) return mismatch("a number with a fraction", type);
    return make_constant(scalar.toLong());
  }
  if (type->kind() == c10::TypeKind::BoolType || type->kind() == c10::TypeKind::SymBoolType) {
    if (!scalar.isBoolean()) return mismatch("a number", type);
    return make_constant(scalar.toBool());
  }
  if (type->kind() == c10::TypeKind::NumberType) return make_constant(c10::IValue(scalar));
  return mismatch("a number", type);
}

Result<ArgumentSource> bind_value(ir::ValueId id, const c10::TypePtr& type, const BindingContext& context) {
  const ir::Value& value = context.graph.at(id);
  if (value.kind == ir::ValueKind::kTensor) {
    if (is_tensor_type(type)) return make_slot(Kind::kSlot, id);
    return mismatch("the tensor '" + value.name + "'", type);
  }
  if (is_tensor_type(type)) return make_slot(Kind::kScalarTensor, id);
  if (is_float_type(type) && value.kind != ir::ValueKind::kFloat) return make_slot(Kind::kFloat, id);
  if (is_int_type(type) && value.kind == ir::ValueKind::kFloat) return mismatch("a float", type);
  if (is_int_type(type) && value.kind == ir::ValueKind::kBool) return make_slot(Kind::kInteger, id);
  if (!is_number_type(type)) return mismatch("the number '" + value.name + "'", type);
  return make_slot(Kind::kSlot, id);
}

c10::IValue make_constant_list(const std::vector<ArgumentSource>& items, const c10::TypePtr& element) {
  c10::impl::GenericList list(element);
  list.reserve(items.size());
  for (const ArgumentSource& item : items) list.push_back(item.constant);
  return {list};
}

// Lists of symbolic types travel as lists of their concrete ones.
c10::TypePtr concrete_element(const c10::TypePtr& element) {
  switch (element->kind()) {
    case c10::TypeKind::SymIntType: return c10::IntType::get();
    case c10::TypeKind::SymFloatType: return c10::FloatType::get();
    case c10::TypeKind::SymBoolType: return c10::BoolType::get();
    default: return element;
  }
}

Result<ArgumentSource> bind_list(const ir::List& list, const c10::TypePtr& type, BindingContext& context) {
  if (type->kind() != c10::TypeKind::ListType) return mismatch("a list", type);
  const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
  ArgumentSource source;
  bool constant = true;
  for (const ir::Argument& item : list.items) {
    KPT_ASSIGN_OR_RETURN(ArgumentSource bound, bind_argument(item, element, context));
    if (bound.kind == Kind::kList) return mismatch("a list of lists with computed values", type);
    constant = constant && bound.is_constant();
    source.items.push_back(std::move(bound));
  }
  if (constant) return make_constant(make_constant_list(source.items, concrete_element(element)));
  source.kind = Kind::kList;
  source.list = context.list_count++;
  if (is_tensor_type(element)) {
    source.element = ir::ElementKind::kTensor;
  } else if (element->kind() == c10::TypeKind::OptionalType) {
    source.element = ir::ElementKind::kOptionalTensor;
  } else if (is_int_type(element)) {
    source.element = ir::ElementKind::kInt;
  } else if (is_float_type(element)) {
    source.element = ir::ElementKind::kFloat;
  } else {
    return mismatch("a list of computed values", type);
  }
  return source;
}

// Constants that libtorch's stack carries as small integers or objects of its own.
struct ConstantVisitor {
  const c10::TypePtr& type;
  BindingContext& context;

  Result<ArgumentSource> operator()(const ir::None&) const { return mismatch("None", type); }
  Result<ArgumentSource> operator()(const ir::ValueId& id) const { return bind_value(id, type, context); }
  Result<ArgumentSource> operator()(const bool& value) const { return bind_number(value, type); }
  Result<ArgumentSource> operator()(const std::int64_t& value) const { return bind_number(value, type); }
  Result<ArgumentSource> operator()(const double& value) const { return bind_number(value, type); }
  Result<ArgumentSource> operator()(const std::complex<double>& value) const {
    return bind_number(c10::complex<double>(value.real(), value.imag()), type);
  }
  Result<ArgumentSource> operator()(const std::string& value) const {
    if (type->kind() != c10::TypeKind::StringType) return mismatch("a string", type);
    return make_constant(value);
  }
  Result<ArgumentSource> operator()(const DType& value) const {
    return make_constant(static_cast<std::int64_t>(to_scalar_type(value)));
  }
  Result<ArgumentSource> operator()(const ir::Layout& value) const {
    if (value != ir::Layout::kStrided) return mismatch("a sparse layout", type);
    return make_constant(static_cast<std::int64_t>(at::kStrided));
  }
  Result<ArgumentSource> operator()(const ir::MemoryFormat& value) const {
    switch (value) {
      case ir::MemoryFormat::kContiguous: return number(at::MemoryFormat::Contiguous);
      case ir::MemoryFormat::kChannelsLast: return number(at::MemoryFormat::ChannelsLast);
      case ir::MemoryFormat::kChannelsLast3d: return number(at::MemoryFormat::ChannelsLast3d);
      case ir::MemoryFormat::kPreserve: return number(at::MemoryFormat::Preserve);
    }
    return mismatch("a memory format", type);
  }
  // A graph exported on one device runs on another: the device is the engine's, not the file's.
  Result<ArgumentSource> operator()(const ir::DeviceSpec&) const { return make_constant(context.device); }
  Result<ArgumentSource> operator()(const ir::List& list) const { return bind_list(list, type, context); }
  Result<ArgumentSource> operator()(const ir::Subgraph&) const { return mismatch("a sub-graph", type); }
  Result<ArgumentSource> operator()(const ir::OperatorName&) const { return mismatch("an operator", type); }

  static ArgumentSource number(at::MemoryFormat format) { return make_constant(static_cast<std::int64_t>(format)); }
};

const c10::Argument* find_argument(const c10::FunctionSchema& schema, const ir::NamedArgument& given,
                                   std::size_t position, std::size_t* index) {
  const auto& arguments = schema.arguments();
  if (given.name.empty()) {
    *index = position;
    return position < arguments.size() ? &arguments[position] : nullptr;
  }
  for (*index = 0; *index < arguments.size(); ++*index) {
    if (arguments[*index].name() == given.name) return &arguments[*index];
  }
  return nullptr;
}

}  // namespace

Result<ArgumentSource> bind_argument(const ir::Argument& argument, const c10::TypePtr& type, BindingContext& context) {
  if (type->kind() == c10::TypeKind::OptionalType) {
    if (std::holds_alternative<ir::None>(argument.value)) return make_constant(c10::IValue());
    return bind_argument(argument, type->expectRef<c10::OptionalType>().getElementType(), context);
  }
  return std::visit(ConstantVisitor{type, context}, argument.value);
}

Result<std::vector<ArgumentSource>> bind_arguments(const std::vector<ir::NamedArgument>& given,
                                                   const c10::FunctionSchema& schema, BindingContext& context) {
  const auto& arguments = schema.arguments();
  std::vector<ArgumentSource> sources(arguments.size());
  std::vector<bool> filled(arguments.size(), false);
  for (std::size_t position = 0; position < given.size(); ++position) {
    std::size_t index = 0;
    const c10::Argument* argument = find_argument(schema, given[position], position, &index);
    if (argument == nullptr) {
      return Status(StatusCode::kUnsupported,
                    given[position].name.empty()
                        ? fmt::format("it is given {} arguments and takes {}", given.size(), arguments.size())
                        : fmt::format("it has no argument '{}'", given[position].name));
    }
    if (filled[index]) {
      return Status(StatusCode::kUnsupported, fmt::format("its argument '{}' is given twice", argument->name()));
    }
    auto bound = bind_argument(given[position].value, argument->type(), context);
    if (!bound.ok()) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("its argument '{}': {}", argument->name(), bound.status().message()));
    }
    const c10::AliasInfo* alias = argument->alias_info();
    if (bound->is_constant() && alias != nullptr && alias->isWrite()) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("its argument '{}' is written and constant", argument->name()));
    }
    sources[index] = std::move(bound).value();
    filled[index] = true;
  }
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    if (filled[index]) continue;
    if (arguments[index].default_value().has_value()) {
      sources[index] = make_constant(*arguments[index].default_value());
    } else if (arguments[index].type()->kind() != c10::TypeKind::OptionalType) {
      return Status(StatusCode::kUnsupported, fmt::format("its argument '{}' is missing", arguments[index].name()));
    }
  }
  return sources;
}

}  // namespace kpt::aten
