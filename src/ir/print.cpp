// print_graph and print_node.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/expr_text.h"
#include "ir/text.h"
#include "ir/text_names.h"

namespace kpt::ir {

ElementKind guess_element_kind(const List& list) {
  for (const Argument& item : list.items) {
    if (item.value_id() != nullptr) continue;
    if (std::holds_alternative<None>(item.value)) return ElementKind::kOptionalTensor;
    if (std::holds_alternative<std::int64_t>(item.value)) return ElementKind::kInt;
    if (std::holds_alternative<double>(item.value)) return ElementKind::kFloat;
    if (std::holds_alternative<bool>(item.value)) return ElementKind::kBool;
    if (std::holds_alternative<std::string>(item.value)) return ElementKind::kString;
    if (item.list() != nullptr) return ElementKind::kList;
    break;
  }
  return ElementKind::kTensor;
}

std::vector<Expr> row_major_strides(const std::vector<Expr>& dims) {
  std::vector<Expr> strides(dims.size());
  Expr stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    if (i > 0) stride = Expr::make(ExprOp::kMul, {stride, dims[i]});
  }
  return strides;
}

namespace {

bool is_target(std::string_view text) {
  Scanner scanner(text);
  return !text.empty() && scanner.word(kTargetSigns) == text;
}

std::string format_target(std::string_view target) { return is_target(target) ? std::string(target) : quote(target); }

std::string format_device(const DeviceSpec& device) {
  std::string text = is_word(device.type) ? device.type : quote(device.type);
  if (device.index) text += ":" + std::to_string(*device.index);
  return text;
}

std::string format_exprs(const std::vector<Expr>& exprs) {
  std::string text = "[";
  for (const Expr& expr : exprs) {
    if (text.size() > 1) text += ", ";
    text += expr.to_string();
  }
  return text + "]";
}

std::string format_tensor_type(const TensorType& type) {
  std::string attributes;
  const auto add = [&](const std::string& text) { attributes += (attributes.empty() ? "" : ", ") + text; };
  if (type.strides != row_major_strides(type.dims)) add("strides=" + format_exprs(type.strides));
  if (type.storage_offset != Expr(0)) add("offset=" + type.storage_offset.to_string());
  if (type.device != DeviceSpec{}) add("device=" + format_device(type.device));
  if (type.layout != Layout::kStrided) add("layout=" + std::string(name_of(kLayoutNames, type.layout)));
  if (type.requires_grad) add("requires_grad");
  std::string text = std::string(to_string(type.dtype)) + format_exprs(type.dims);
  if (!attributes.empty()) text += "{" + attributes + "}";
  return text;
}

std::string format_type(const Value& value) {
  const std::string expression = value.expression == Expr(0) ? "" : value.expression.to_string();
  switch (value.kind) {
    case ValueKind::kTensor: return format_tensor_type(value.tensor);
    case ValueKind::kInt: return "int(" + value.expression.to_string() + ")";
    case ValueKind::kFloat: return "float(" + expression + ")";
    case ValueKind::kBool: return "bool(" + expression + ")";
  }
  return "invalid";
}

// A name where it is defined. "none" is what an absent value is called.
std::string format_defined_name(std::string_view name) {
  return is_word(name) && name != "none" ? std::string(name) : "%" + quote(name);
}

class Printer {
 public:
  Printer(const Graph& graph, std::string& out, std::size_t indent) : graph_(graph), out_(out), indent_(indent) {}

  void print();
  void print(const Node& node);

 private:
  void start_line() { out_.append(2 * indent_, ' '); }
  bool has(ValueId id) const { return index_of(id) < graph_.values.size(); }
  void write_definition(ValueId id);
  void write_output(const Output& output);
  void write(const Argument& argument);
  void write_list(const List& list);
  void write_subgraph(const Subgraph& subgraph);
  void print_input(const GraphInput& input);
  void print_order();

  const Graph& graph_;
  std::string& out_;
  std::size_t indent_;
};

// Follows the definitions and notes whether reading them in this order gives every value the index it has.
class OrderCheck {
 public:
  explicit OrderCheck(std::size_t count) : defined_(count, false) {}

  void define(ValueId id) {
    if (id == kNoValue) return;
    regular_ &= index_of(id) == next_++;
    if (index_of(id) < defined_.size()) defined_[index_of(id)] = true;
  }
  void use(const Argument& argument) {
    for_each_value(argument, [&](ValueId id) { regular_ &= index_of(id) < next_; });
  }
  bool regular() const { return regular_ && next_ == defined_.size(); }
  const std::vector<bool>& defined() const { return defined_; }

 private:
  std::vector<bool> defined_;
  std::size_t next_ = 0;
  bool regular_ = true;
};

void Printer::print_order() {
  OrderCheck order(graph_.values.size());
  for (const GraphInput& input : graph_.inputs) {
    order.define(input.value);
    order.use(input.fixed);
  }
  for (const Node& node : graph_.nodes) {
    for (const NamedArgument& argument : node.arguments) order.use(argument.value);
    for (const Output& output : node.outputs)
      std::for_each(output.values.begin(), output.values.end(), [&](ValueId id) { order.define(id); });
  }
  if (order.regular() || graph_.values.empty()) return;
  start_line();
  out_ += "values";
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    out_ += (i == 0 ? " " : ", ") + format_defined_name(graph_.values[i].name);
  }
  out_ += "\n";
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    if (order.defined()[i]) continue;
    start_line();
    out_ += "unused ";
    write_definition(static_cast<ValueId>(i));
    out_ += "\n";
  }
}

void Printer::print() {
  print_order();
  for (const SymbolRange& symbol : graph_.symbols) {
    start_line();
    out_ += "symbol " + format_symbol(symbol.name) + " in ";
    if (symbol.min) out_ += std::to_string(*symbol.min);
    out_ += "..";
    if (symbol.max) out_ += std::to_string(*symbol.max);
    out_ += "\n";
  }
  for (const GraphInput& input : graph_.inputs) print_input(input);
  for (const Node& node : graph_.nodes) {
    start_line();
    print(node);
    out_ += "\n";
  }
  for (const GraphOutput& output : graph_.outputs) {
    start_line();
    out_ += std::string(name_of(kOutputKindNames, output.kind)) + " ";
    write(output.value);
    if (!output.name.empty()) out_ += " " + quote(output.name);
    out_ += "\n";
  }
}

void Printer::print_input(const GraphInput& input) {
  start_line();
  out_ += std::string(name_of(kInputKindNames, input.kind)) + " ";
  write_definition(input.value);
  if (!has(input.value) || input.name != graph_.at(input.value).name) out_ += " " + quote(input.name);
  if (!input.persistent) out_ += " not_persistent";
  if (!std::holds_alternative<None>(input.fixed.value)) {
    out_ += " = ";
    write(input.fixed);
  }
  out_ += "\n";
}

void Printer::print(const Node& node) {
  if (node.outputs.empty()) out_ += "()";
  bool first = true;
  for (const Output& output : node.outputs) {
    if (!std::exchange(first, false)) out_ += ", ";
    write_output(output);
  }
  out_ += " = " + format_target(node.target) + "(";
  first = true;
  for (const NamedArgument& argument : node.arguments) {
    if (!std::exchange(first, false)) out_ += ", ";
    if (!argument.name.empty()) out_ += (is_word(argument.name) ? argument.name : quote(argument.name)) + "=";
    write(argument.value);
  }
  out_ += ")";
  if (!node.grad_enabled) out_ += " no_grad";
  std::string expected;
  if (!node.outputs.empty() && !node.outputs[0].values.empty() && has(node.outputs[0].values[0])) {
    expected = graph_.at(node.outputs[0].values[0]).name;
  }
  if (node.name != expected) out_ += " name=" + quote(node.name);
}

void Printer::write_definition(ValueId id) {
  if (!has(id)) {
    out_ += "none";
    return;
  }
  out_ += format_defined_name(graph_.at(id).name) + ": " + format_type(graph_.at(id));
}

void Printer::write_output(const Output& output) {
  if (output.is_list) out_ += "[";
  bool first = true;
  for (const ValueId id : output.values) {
    if (!std::exchange(first, false)) out_ += ", ";
    write_definition(id);
  }
  if (output.is_list) out_ += "]";
}

void Printer::write(const Argument& argument) {
  struct Writer {
    Printer& printer;
    std::string& out;
    void operator()(const None&) const { out += "none"; }
    void operator()(ValueId id) const {
      const std::string name = printer.has(id) ? printer.graph_.at(id).name : "?";
      out += "%" + (is_word(name) ? name : quote(name));
    }
    void operator()(bool value) const { out += value ? "true" : "false"; }
    void operator()(std::int64_t value) const { out += std::to_string(value); }
    void operator()(double value) const { out += format_double(value); }
    void operator()(const std::complex<double>& value) const {
      out += "complex(" + format_double(value.real()) + ", " + format_double(value.imag()) + ")";
    }
    void operator()(const std::string& value) const { out += quote(value); }
    void operator()(DType value) const { out += "dtype(" + std::string(to_string(value)) + ")"; }
    void operator()(Layout value) const { out += "layout(" + std::string(name_of(kLayoutNames, value)) + ")"; }
    void operator()(MemoryFormat value) const {
      out += "memory_format(" + std::string(name_of(kMemoryFormatNames, value)) + ")";
    }
    void operator()(const DeviceSpec& value) const { out += "device(" + format_device(value) + ")"; }
    void operator()(const List& value) const { printer.write_list(value); }
    void operator()(const Subgraph& value) const { printer.write_subgraph(value); }
    void operator()(const OperatorName& value) const { out += "operator(" + format_target(value.target) + ")"; }
  };
  std::visit(Writer{*this, out_}, argument.value);
}

void Printer::write_list(const List& list) {
  if (list.element != guess_element_kind(list)) out_ += name_of(kElementNames, list.element);
  out_ += "[";
  bool first = true;
  for (const Argument& item : list.items) {
    if (!std::exchange(first, false)) out_ += ", ";
    write(item);
  }
  out_ += "]";
}

void Printer::write_subgraph(const Subgraph& subgraph) {
  out_ += "graph " + quote(subgraph.name);
  if (subgraph.graph == nullptr) return;
  out_ += " {\n";
  Printer(*subgraph.graph, out_, indent_ + 1).print();
  start_line();
  out_ += "}";
}

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text = std::string(kTextHeader) + "\n";
  Printer(graph, text, 0).print();
  return text;
}

std::string print_node(const Graph& graph, const Node& node) {
  std::string text;
  Printer(graph, text, 0).print(node);
  return text;
}

}  // namespace kpt::ir
