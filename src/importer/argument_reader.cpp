// GraphReader: the union Argument.
#include <algorithm>
#include <array>
#include <complex>
#include <utility>

#include "base/text.h"
#include "importer/graph_reader.h"

namespace kpt::pt2 {

using ir::ElementKind;
using ir::ValueKind;

template <typename ReadItem>
Status GraphReader::list(ElementKind kind, ir::Argument* argument, const ReadItem& read_item) {
  ir::List list{.element = kind, .items = {}};
  KPT_RETURN_IF_ERROR(reader_->array([&]() -> Status { return read_item(&list.items.emplace_back()); }));
  argument->value = std::move(list);
  return {};
}

Status GraphReader::use_value(std::string name, ValueKind kind, ir::Argument* argument) {
  const auto found = scope_->ids.find(name);
  if (found != scope_->ids.end()) {
    if (scope_->kinds[index_of(found->second)] != kind) {
      return reader_->error("the value '" + name + "' is used as another kind elsewhere");
    }
    argument->value = found->second;
    return {};
  }
  if (scope_->closed) return reader_->error("the value '" + name + "' is not in the graph");
  if (name.empty()) return reader_->error("a value without a name");
  const ir::ValueId id = scope_->graph.add_value({.name = name, .kind = kind, .tensor = {}, .expression = {}});
  scope_->typed.push_back(false);
  scope_->kinds.push_back(kind);
  scope_->ids.emplace(std::move(name), id);
  argument->value = id;
  return {};
}

Status GraphReader::tensor_name(ir::Argument* argument) {
  std::string name;
  KPT_RETURN_IF_ERROR(reader_->object(
      [&](std::string_view key) -> Status { return key == "name" ? reader_->string(&name) : reader_->skip(); }));
  return use_value(std::move(name), ValueKind::kTensor, argument);
}

// An item of a list of tensors. In lists that sub-graphs take, the exporter names numbers in the same way: they are
// known by then, and verify() refuses them elsewhere.
Status GraphReader::listed_name(ir::Argument* argument) {
  std::string name;
  KPT_RETURN_IF_ERROR(reader_->object(
      [&](std::string_view key) -> Status { return key == "name" ? reader_->string(&name) : reader_->skip(); }));
  const auto found = scope_->ids.find(name);
  const ValueKind kind = found == scope_->ids.end() ? ValueKind::kTensor : scope_->kinds[index_of(found->second)];
  return use_value(std::move(name), kind, argument);
}

Status GraphReader::optional_tensor(ir::Argument* argument) {
  return read_union(reader_, [&](std::string_view tag) -> Status {
    if (tag == "as_tensor") return tensor_name(argument);
    if (tag != "as_none") return reader_->error("expected as_tensor or as_none");
    argument->value = ir::None{};
    return reader_->skip();
  });
}

Status GraphReader::constant(ElementKind kind, ir::Argument* argument) {
  switch (kind) {
    case ElementKind::kInt: return reader_->integer(&argument->value.emplace<std::int64_t>());
    case ElementKind::kFloat: return reader_->number(&argument->value.emplace<double>());
    case ElementKind::kBool: return reader_->boolean(&argument->value.emplace<bool>());
    default: return reader_->string(&argument->value.emplace<std::string>());
  }
}

Status GraphReader::scalar(ValueKind kind, ir::Argument* argument) {
  return read_union(reader_, [&](std::string_view tag) -> Status {
    if (tag == "as_name") {
      std::string name;
      KPT_RETURN_IF_ERROR(reader_->string(&name));
      return use_value(std::move(name), kind, argument);
    }
    if (tag == "as_int" && kind == ValueKind::kInt) return constant(ElementKind::kInt, argument);
    if (tag == "as_float" && kind == ValueKind::kFloat) return constant(ElementKind::kFloat, argument);
    if (tag == "as_bool" && kind == ValueKind::kBool) return constant(ElementKind::kBool, argument);
    return reader_->error("expected as_name or a constant of the same kind");
  });
}

Status GraphReader::complex(ir::Argument* argument) {
  double real = 0;
  double imaginary = 0;
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key == "real") return reader_->number(&real);
    if (key == "imag") return reader_->number(&imaginary);
    return reader_->skip();
  }));
  argument->value = std::complex<double>(real, imaginary);
  return {};
}

Status GraphReader::subgraph(ir::Argument* argument) {
  if (depth_ >= kMaxDepth) return reader_->error("sub-graphs nested too deeply");
  ir::Subgraph subgraph;
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key == "name") return reader_->string(&subgraph.name);
    if (key != "graph") return reader_->skip();
    std::string outer_refusal = std::exchange(refusal_, {});
    std::unique_ptr<Scope> outer = std::exchange(scope_, std::make_unique<Scope>());
    ++depth_;
    Result<ir::Graph> inner = graph();
    --depth_;
    scope_ = std::move(outer);
    refusal_ = std::move(outer_refusal);
    if (!inner.ok()) return inner.status();
    subgraph.graph = std::make_shared<const ir::Graph>(std::move(inner).value());
    return {};
  }));
  if (subgraph.graph == nullptr) return reader_->error("a sub-graph without 'graph'");
  argument->value = std::move(subgraph);
  return {};
}

// Kept, not returned: the message names the node, whose name stands behind its arguments.
Status GraphReader::refuse(std::string_view tag) {
  std::string what = "an argument of the kind '" + printable(tag, 64) + "'";
  if (tag == "as_custom_obj" && reader_->peek() == JsonReader::Kind::kObject) {
    std::string name;
    std::string type;
    KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
      if (key == "name") return reader_->string(&name);
      return key == "class_fqn" ? reader_->string(&type) : reader_->skip();
    }));
    what = "the custom object '" + printable(name, 64) + "' (" + printable(type, 64) + ")";
  } else {
    KPT_RETURN_IF_ERROR(reader_->skip());
  }
  if (refusal_.empty()) refusal_ = std::move(what);
  return {};
}

struct GraphReader::Tag {
  std::string_view name;
  Status (*read)(GraphReader&, ir::Argument*);

  static Status none(GraphReader& self, ir::Argument* out) {
    out->value = ir::None{};
    return self.reader_->skip();
  }
  static Status tensor(GraphReader& self, ir::Argument* out) { return self.tensor_name(out); }
  static Status graph(GraphReader& self, ir::Argument* out) { return self.subgraph(out); }
  static Status dtype(GraphReader& self, ir::Argument* out) {
    return read_dtype(self.reader_, &out->value.emplace<DType>());
  }
  static Status device(GraphReader& self, ir::Argument* out) {
    return read_device(self.reader_, &out->value.emplace<ir::DeviceSpec>());
  }
  static Status optional_tensor(GraphReader& self, ir::Argument* out) { return self.optional_tensor(out); }
  static Status complex(GraphReader& self, ir::Argument* out) { return self.complex(out); }

  template <ElementKind kind>
  static Status one(GraphReader& self, ir::Argument* out) {
    return self.constant(kind, out);
  }
  template <ElementKind kind>
  static Status many(GraphReader& self, ir::Argument* out) {
    return self.list(kind, out, [&](ir::Argument* item) { return self.constant(kind, item); });
  }
  template <ElementKind kind>
  static Status lists(GraphReader& self, ir::Argument* out) {
    return self.list(ElementKind::kList, out, [&](ir::Argument* item) { return many<kind>(self, item); });
  }
  template <ValueKind kind>
  static Status symbolic(GraphReader& self, ir::Argument* out) {
    return self.scalar(kind, out);
  }
  template <ValueKind kind, ElementKind element>
  static Status symbolic_list(GraphReader& self, ir::Argument* out) {
    return self.list(element, out, [&](ir::Argument* item) { return self.scalar(kind, item); });
  }
  static Status tensors(GraphReader& self, ir::Argument* out) {
    return self.list(ElementKind::kTensor, out, [&](ir::Argument* item) { return self.listed_name(item); });
  }
  static Status nested_tensors(GraphReader& self, ir::Argument* out) {
    return self.list(ElementKind::kList, out, [&](ir::Argument* item) { return tensors(self, item); });
  }
  static Status optional_tensors(GraphReader& self, ir::Argument* out) {
    return self.list(ElementKind::kOptionalTensor, out, [&](ir::Argument* item) { return self.optional_tensor(item); });
  }
  static Status layout(GraphReader& self, ir::Argument* out) {
    std::int64_t number = 0;
    KPT_RETURN_IF_ERROR(self.reader_->integer(&number));
    const std::optional<ir::Layout> found = find_layout(number);
    if (!found) return self.reader_->error("the layout " + std::to_string(number) + " is unknown");
    out->value = *found;
    return {};
  }
  static Status memory_format(GraphReader& self, ir::Argument* out) {
    std::int64_t number = 0;
    KPT_RETURN_IF_ERROR(self.reader_->integer(&number));
    const std::optional<ir::MemoryFormat> found = find_memory_format(number);
    if (!found) return self.reader_->error("the memory format " + std::to_string(number) + " is unknown");
    out->value = *found;
    return {};
  }
  static Status operator_name(GraphReader& self, ir::Argument* out) {
    std::string target;
    KPT_RETURN_IF_ERROR(self.reader_->string(&target));
    out->value = ir::OperatorName{strip_target(target)};
    return {};
  }
};

const GraphReader::Tag* GraphReader::find_tag(std::string_view name) {
  static constexpr std::array kTags = {
      Tag{"as_none", Tag::none},
      Tag{"as_tensor", Tag::tensor},
      Tag{"as_tensors", Tag::tensors},
      Tag{"as_int", Tag::one<ElementKind::kInt>},
      Tag{"as_ints", Tag::many<ElementKind::kInt>},
      Tag{"as_float", Tag::one<ElementKind::kFloat>},
      Tag{"as_floats", Tag::many<ElementKind::kFloat>},
      Tag{"as_string", Tag::one<ElementKind::kString>},
      Tag{"as_strings", Tag::many<ElementKind::kString>},
      Tag{"as_bool", Tag::one<ElementKind::kBool>},
      Tag{"as_bools", Tag::many<ElementKind::kBool>},
      Tag{"as_sym_int", Tag::symbolic<ValueKind::kInt>},
      Tag{"as_sym_ints", Tag::symbolic_list<ValueKind::kInt, ElementKind::kInt>},
      Tag{"as_sym_float", Tag::symbolic<ValueKind::kFloat>},
      Tag{"as_sym_floats", Tag::symbolic_list<ValueKind::kFloat, ElementKind::kFloat>},
      Tag{"as_sym_bool", Tag::symbolic<ValueKind::kBool>},
      Tag{"as_sym_bools", Tag::symbolic_list<ValueKind::kBool, ElementKind::kBool>},
      Tag{"as_scalar_type", Tag::dtype},
      Tag{"as_memory_format", Tag::memory_format},
      Tag{"as_layout", Tag::layout},
      Tag{"as_device", Tag::device},
      Tag{"as_graph", Tag::graph},
      Tag{"as_optional_tensor", Tag::optional_tensor},
      Tag{"as_optional_tensors", Tag::optional_tensors},
      Tag{"as_operator", Tag::operator_name},
      Tag{"as_complex", Tag::complex},
      Tag{"as_nested_tensors", Tag::nested_tensors},
      Tag{"as_int_lists", Tag::lists<ElementKind::kInt>},
      Tag{"as_float_lists", Tag::lists<ElementKind::kFloat>},
  };
  const auto found = std::find_if(kTags.begin(), kTags.end(), [name](const Tag& tag) { return tag.name == name; });
  return found == kTags.end() ? nullptr : &*found;
}

Status GraphReader::argument(ir::Argument* argument) {
  return read_union(reader_, [&](std::string_view name) -> Status {
    const Tag* tag = find_tag(name);
    return tag == nullptr ? refuse(name) : tag->read(*this, argument);
  });
}

Status GraphReader::known_argument(ir::Argument* argument) {
  KPT_RETURN_IF_ERROR(this->argument(argument));
  return refusal_.empty() ? Status() : unsupported("the signature");
}

}  // namespace kpt::pt2
