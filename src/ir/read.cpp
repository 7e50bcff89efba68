// read_graph. Each step answers whether it went well; the first failure is kept with its line.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/expr_text.h"
#include "ir/text.h"
#include "ir/text_names.h"
#include "kpt/tensor.h"

namespace kpt::ir {
namespace {

// The graph being read, and the values seen so far.
struct Scope {
  Graph graph;
  std::unordered_map<std::string, ValueId> ids;
  std::vector<bool> defined;
  bool ordered = false;  // a line `values` has named them all

  ValueId add(const std::string& name) {
    const ValueId id = graph.add_value({});
    graph.at(id).name = name;
    ids.emplace(name, id);
    defined.push_back(false);
    return id;
  }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : scanner_(text) {}

  Result<Graph> run() {
    Scope scope;
    const bool good =
        (scanner_.accept(kTextHeader) || fail("the first line is not '" + std::string(kTextHeader) + "'")) &&
        read_statements(scope) && (scanner_.at_end() || fail("'}' closes nothing"));
    if (!good) return Status(StatusCode::kCorruptData, failure_);
    return std::move(scope.graph);
  }

 private:
  bool fail(const std::string& reason) {
    if (failure_.empty()) failure_ = "line " + std::to_string(scanner_.line()) + " of a graph's text: " + reason;
    return false;
  }
  bool expect(std::string_view sign) { return scanner_.accept(sign) || fail("'" + std::string(sign) + "' is missing"); }
  // A word that does not start the next line, where it would be a value's name.
  bool accept_flag(std::string_view word) {
    const std::size_t before = scanner_.position();
    if (scanner_.accept_word(word) && scanner_.peek() != ':') return true;
    scanner_.go_to(before);
    return false;
  }

  bool read_statements(Scope& scope);
  bool read_statement(Scope& scope);
  bool read_order(Scope& scope);
  bool read_symbol(Scope& scope);
  bool read_input(Scope& scope, InputKind kind);
  bool read_graph_output(Scope& scope, OutputKind kind);
  bool read_node(Scope& scope);
  bool read_outputs(Scope& scope, Node& node);
  bool read_arguments(Scope& scope, Node& node);

  bool read_defined_name(std::string& name);
  bool read_definition(Scope& scope, ValueId& id);
  bool read_type(Value& value);
  bool read_tensor_type(TensorType& type);
  bool read_attribute(TensorType& type, bool& has_strides);
  bool read_expr(Expr& expr);
  bool read_exprs(std::vector<Expr>& exprs);
  bool read_device(DeviceSpec& device);
  bool read_target(std::string& target);

  bool read_argument(Scope& scope, Argument& argument);
  bool read_reference(Scope& scope, Argument& argument);
  bool read_constant_call(std::string_view word, Argument& argument);
  bool read_complex(Argument& argument);
  bool read_list(Scope& scope, std::optional<ElementKind> kind, Argument& argument);
  bool read_subgraph(Argument& argument);

  Scanner scanner_;
  std::size_t nesting_ = 0;
  std::string failure_;
};

bool Reader::read_statements(Scope& scope) {
  while (!scanner_.at_end() && scanner_.peek() != '}') {
    if (!read_statement(scope)) return false;
  }
  for (std::size_t i = 0; i < scope.defined.size(); ++i) {
    if (!scope.defined[i]) return fail("the value " + quote(scope.graph.values[i].name) + " is named but not defined");
  }
  return true;
}

bool Reader::read_statement(Scope& scope) {
  const std::size_t start = scanner_.position();
  const std::string_view word = scanner_.word();
  const char next = scanner_.peek();
  if (!word.empty() && word != "none" && next != ':') {
    if (word == "values") return read_order(scope);
    if (word == "symbol") return read_symbol(scope);
    if (word == "unused") {
      ValueId id = kNoValue;
      return read_definition(scope, id) && (id != kNoValue || fail("a name is missing"));
    }
    if (const auto kind = find_by_name<InputKind>(kInputKindNames, word)) return read_input(scope, *kind);
    if (const auto kind = find_by_name<OutputKind>(kOutputKindNames, word)) return read_graph_output(scope, *kind);
    return fail("'" + std::string(word.substr(0, 40)) + "' starts no statement");
  }
  scanner_.go_to(start);
  return read_node(scope);
}

bool Reader::read_order(Scope& scope) {
  if (scope.ordered || !scope.graph.values.empty()) return fail("the order of values must stand first, and once");
  scope.ordered = true;
  do {
    std::string name;
    if (!read_defined_name(name)) return false;
    if (scope.ids.contains(name)) return fail("the value " + quote(name) + " is named twice");
    scope.add(name);
  } while (scanner_.accept(","));
  return true;
}

bool Reader::read_symbol(Scope& scope) {
  SymbolRange& symbol = scope.graph.symbols.emplace_back();
  symbol.name = scan_symbol(scanner_);
  if (symbol.name.empty()) return fail("the name of a symbol is missing");
  if (!scanner_.accept_word("in")) return fail("'in' is missing");
  const auto read_end = [&](std::optional<std::int64_t>& end) {
    const auto number = scanner_.number();
    if (number && std::holds_alternative<double>(*number)) return fail("the range of a symbol needs integers");
    if (number) end = std::get<std::int64_t>(*number);
    return true;
  };
  if (scanner_.peek() != '.' && !read_end(symbol.min)) return false;
  if (!expect("..")) return false;
  const char next = scanner_.peek();
  const bool has_end = next == '-' || (next >= '0' && next <= '9');
  return !has_end || (read_end(symbol.max) && (symbol.max || fail("the range of a symbol needs integers")));
}

bool Reader::read_input(Scope& scope, InputKind kind) {
  GraphInput& input = scope.graph.inputs.emplace_back();
  input.kind = kind;
  if (!read_definition(scope, input.value)) return false;
  if (auto name = scanner_.quoted()) {
    input.name = *std::move(name);
  } else if (input.value != kNoValue) {
    input.name = scope.graph.at(input.value).name;
  }
  input.persistent = !accept_flag("not_persistent");
  return !scanner_.accept("=") || read_argument(scope, input.fixed);
}

bool Reader::read_graph_output(Scope& scope, OutputKind kind) {
  GraphOutput& output = scope.graph.outputs.emplace_back();
  output.kind = kind;
  if (!read_argument(scope, output.value)) return false;
  output.name = scanner_.quoted().value_or("");
  return true;
}

bool Reader::read_node(Scope& scope) {
  Node node;
  // The arguments stand behind the values that the node defines, but must not use them.
  const bool good = read_outputs(scope, node) && expect("=") && read_target(node.target) && read_arguments(scope, node);
  if (!good) return false;
  node.grad_enabled = !accept_flag("no_grad");
  if (accept_flag("name")) {
    if (!expect("=")) return false;
    auto name = scanner_.quoted();
    if (!name) return fail("a name in quotes is missing");
    node.name = *std::move(name);
  } else if (!node.outputs.empty() && !node.outputs[0].values.empty() && node.outputs[0].values[0] != kNoValue) {
    node.name = scope.graph.at(node.outputs[0].values[0]).name;
  }
  scope.graph.nodes.push_back(std::move(node));
  return true;
}

bool Reader::read_outputs(Scope& scope, Node& node) {
  if (scanner_.accept("(")) return expect(")");
  do {
    Output& output = node.outputs.emplace_back();
    output.is_list = scanner_.accept("[");
    if (output.is_list && scanner_.accept("]")) continue;
    do {
      if (!read_definition(scope, output.values.emplace_back(kNoValue))) return false;
    } while (output.is_list && scanner_.accept(","));
    if (output.is_list && !expect("]")) return false;
  } while (scanner_.accept(","));
  return true;
}

bool Reader::read_arguments(Scope& scope, Node& node) {
  if (!expect("(")) return false;
  if (scanner_.accept(")")) return true;
  do {
    NamedArgument& argument = node.arguments.emplace_back();
    const std::size_t start = scanner_.position();
    std::string name = scanner_.peek() == '"' ? scanner_.quoted().value_or("") : std::string(scanner_.word());
    if (!name.empty() && scanner_.accept("=")) {
      argument.name = std::move(name);
    } else {
      scanner_.go_to(start);
    }
    if (!read_argument(scope, argument.value)) return false;
  } while (scanner_.accept(","));
  return expect(")");
}

bool Reader::read_defined_name(std::string& name) {
  if (scanner_.accept("%")) {
    auto quoted = scanner_.quoted();
    if (!quoted) return fail("a name in quotes is missing");
    name = *std::move(quoted);
    return true;
  }
  name = scanner_.word();
  return (!name.empty() && name != "none") || fail("a name is missing");
}

// `name: type`, or `none`.
bool Reader::read_definition(Scope& scope, ValueId& id) {
  if (scanner_.accept_word("none")) return true;
  std::string name;
  Value value;
  if (!read_defined_name(name) || !expect(":") || !read_type(value)) return false;
  const auto known = scope.ids.find(name);
  if (known != scope.ids.end()) {
    id = known->second;
    if (scope.defined[index_of(id)]) return fail("the value " + quote(name) + " is defined twice");
  } else {
    if (scope.ordered) return fail("the value " + quote(name) + " is not in the list of values");
    id = scope.add(name);
  }
  value.name = std::move(name);
  scope.graph.at(id) = std::move(value);
  scope.defined[index_of(id)] = true;
  return true;
}

bool Reader::read_type(Value& value) {
  const std::string_view word = scanner_.word();
  if (scanner_.peek() != '(') {
    const auto dtype = find_dtype(word);
    if (!dtype) return fail("'" + std::string(word.substr(0, 40)) + "' is no element type");
    value.tensor.dtype = *dtype;
    return read_tensor_type(value.tensor);
  }
  if (word == "int") {
    value.kind = ValueKind::kInt;
  } else if (word == "float") {
    value.kind = ValueKind::kFloat;
  } else if (word == "bool") {
    value.kind = ValueKind::kBool;
  } else {
    return fail("'" + std::string(word.substr(0, 40)) + "' is no kind of value");
  }
  scanner_.accept("(");
  if (scanner_.accept(")")) return true;
  return read_expr(value.expression) && expect(")");
}

bool Reader::read_tensor_type(TensorType& type) {
  if (!read_exprs(type.dims)) return false;
  bool has_strides = false;
  if (scanner_.accept("{")) {
    do {
      if (!read_attribute(type, has_strides)) return false;
    } while (scanner_.accept(","));
    if (!expect("}")) return false;
  }
  if (!has_strides) type.strides = row_major_strides(type.dims);
  return true;
}

bool Reader::read_attribute(TensorType& type, bool& has_strides) {
  const std::string_view word = scanner_.word();
  if (word == "requires_grad") {
    type.requires_grad = true;
    return true;
  }
  if (!expect("=")) return false;
  if (word == "strides") {
    has_strides = true;
    type.strides.clear();
    return read_exprs(type.strides);
  }
  if (word == "offset") return read_expr(type.storage_offset);
  if (word == "device") return read_device(type.device);
  if (word == "layout") {
    const auto layout = find_by_name<Layout>(kLayoutNames, scanner_.word());
    if (layout) type.layout = *layout;
    return layout.has_value() || fail("the layout is unknown");
  }
  return fail("'" + std::string(word.substr(0, 40)) + "' is no property of a tensor");
}

bool Reader::read_expr(Expr& expr) {
  auto read = scan_expr(scanner_);
  if (!read) return fail(read.status().message());
  expr = *std::move(read);
  return true;
}

bool Reader::read_exprs(std::vector<Expr>& exprs) {
  if (!expect("[")) return false;
  if (scanner_.accept("]")) return true;
  do {
    if (exprs.size() == kMaxRank) return fail("a tensor has more than " + std::to_string(kMaxRank) + " dimensions");
    if (!read_expr(exprs.emplace_back())) return false;
  } while (scanner_.accept(","));
  return expect("]");
}

bool Reader::read_device(DeviceSpec& device) {
  const bool is_quoted = scanner_.peek() == '"';
  auto type = is_quoted ? scanner_.quoted() : std::optional<std::string>(scanner_.word());
  if (!type || (type->empty() && !is_quoted)) return fail("the name of a device is missing");
  device.type = *std::move(type);
  if (!scanner_.accept(":")) return true;
  const auto number = scanner_.number();
  const auto* index = number ? std::get_if<std::int64_t>(&*number) : nullptr;
  if (index == nullptr || *index < std::numeric_limits<int>::min() || *index > std::numeric_limits<int>::max()) {
    return fail("the index of a device is missing");
  }
  device.index = static_cast<int>(*index);
  return true;
}

bool Reader::read_target(std::string& target) {
  if (scanner_.peek() != '"') {
    target = scanner_.word(kTargetSigns);
    return !target.empty() || fail("the name of an operator is missing");
  }
  auto quoted = scanner_.quoted();
  if (!quoted) return fail("the name of an operator is missing");
  target = *std::move(quoted);
  return true;
}

bool Reader::read_argument(Scope& scope, Argument& argument) {
  const char next = scanner_.peek();
  if (next == '%') return read_reference(scope, argument);
  if (next == '[') return read_list(scope, std::nullopt, argument);
  if (next == '"') {
    auto text = scanner_.quoted();
    if (!text) return fail("a text in quotes is broken");
    argument.value = *std::move(text);
    return true;
  }
  if (const auto number = scanner_.number()) {
    std::visit([&](auto value) { argument.value = value; }, *number);
    return true;
  }
  if (scanner_.accept("tensor?")) return read_list(scope, ElementKind::kOptionalTensor, argument);
  const std::string_view word = scanner_.word();
  if (word == "none" || word == "true" || word == "false") {
    if (word != "none") argument.value = word == "true";
    return true;
  }
  if (word == "graph") return read_subgraph(argument);
  if (const auto kind = find_by_name<ElementKind>(kElementNames, word)) return read_list(scope, kind, argument);
  return read_constant_call(word, argument);
}

bool Reader::read_reference(Scope& scope, Argument& argument) {
  scanner_.accept("%");
  const bool is_quoted = scanner_.peek() == '"';
  const auto name = is_quoted ? scanner_.quoted() : std::optional<std::string>(scanner_.word());
  if (!name || (name->empty() && !is_quoted)) return fail("the name of a value is missing");
  const auto known = scope.ids.find(*name);
  if (known == scope.ids.end()) return fail("the value " + quote(*name) + " is not defined above");
  argument.value = known->second;
  return true;
}

// dtype(…), layout(…), memory_format(…), device(…), operator(…), complex(…).
bool Reader::read_constant_call(std::string_view word, Argument& argument) {
  const auto take = [&](const auto& found, const char* what) {
    if (!found) return fail(what);
    argument.value = *found;
    return expect(")");
  };
  if (word.empty() || !scanner_.accept("(")) return fail("an argument is missing");
  if (word == "dtype") return take(find_dtype(scanner_.word()), "the element type is unknown");
  if (word == "layout") return take(find_by_name<Layout>(kLayoutNames, scanner_.word()), "the layout is unknown");
  if (word == "memory_format") {
    return take(find_by_name<MemoryFormat>(kMemoryFormatNames, scanner_.word()), "the memory format is unknown");
  }
  if (word == "device") {
    DeviceSpec device;
    if (!read_device(device)) return false;
    argument.value = std::move(device);
    return expect(")");
  }
  if (word == "operator") {
    OperatorName name;
    if (!read_target(name.target)) return false;
    argument.value = std::move(name);
    return expect(")");
  }
  if (word == "complex") return read_complex(argument);
  return fail("'" + std::string(word.substr(0, 40)) + "' is no kind of constant");
}

bool Reader::read_complex(Argument& argument) {
  const auto part = [&](double& value) {
    const auto number = scanner_.number();
    const double* real = number ? std::get_if<double>(&*number) : nullptr;
    if (real == nullptr) return fail("a complex number needs two floating numbers");
    value = *real;
    return true;
  };
  double real = 0;
  double imaginary = 0;
  if (!part(real) || !expect(",") || !part(imaginary) || !expect(")")) return false;
  argument.value = std::complex<double>(real, imaginary);
  return true;
}

bool Reader::read_list(Scope& scope, std::optional<ElementKind> kind, Argument& argument) {
  if (!expect("[")) return false;
  if (++nesting_ > kMaxNesting) return fail("lists and graphs are nested too deeply");
  List list;
  if (!scanner_.accept("]")) {
    do {
      if (!read_argument(scope, list.items.emplace_back())) return false;
    } while (scanner_.accept(","));
    if (!expect("]")) return false;
  }
  --nesting_;
  list.element = kind ? *kind : guess_element_kind(list);
  argument.value = std::move(list);
  return true;
}

bool Reader::read_subgraph(Argument& argument) {
  auto name = scanner_.quoted();
  if (!name) return fail("the name of a graph is missing");
  Subgraph subgraph;
  subgraph.name = *std::move(name);
  if (scanner_.accept("{")) {
    if (++nesting_ > kMaxNesting) return fail("lists and graphs are nested too deeply");
    Scope inner;
    if (!read_statements(inner) || !expect("}")) return false;
    --nesting_;
    subgraph.graph = std::make_shared<const Graph>(std::move(inner.graph));
  }
  argument.value = std::move(subgraph);
  return true;
}

}  // namespace

Result<Graph> read_graph(std::string_view text) { return Reader(text).run(); }

}  // namespace kpt::ir
