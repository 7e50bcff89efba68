#include "importer/signature.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace kpt::pt2 {
namespace {

class SignatureReader {
 public:
  SignatureReader(JsonReader* reader, GraphReader* values, ir::Graph* graph, const std::string& file)
      : reader_(reader), values_(values), graph_(graph), file_(file) {}

  Status run() {
    bool has_inputs = false;
    bool has_outputs = false;
    KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
      if (key == "input_specs") {
        has_inputs = true;
        return specs(&graph_->inputs, &SignatureReader::input);
      }
      if (key == "output_specs") {
        has_outputs = true;
        return specs(&graph_->outputs, &SignatureReader::output);
      }
      return reader_->skip();
    }));
    if (!has_inputs || !has_outputs) return reader_->error("a signature without 'input_specs' or 'output_specs'");
    return check_mutations();
  }

 private:
  // One specification for each element, no more and no fewer.
  template <typename Element>
  Status specs(std::vector<Element>* elements, Status (SignatureReader::*read)(std::string_view, Element*)) {
    std::size_t count = 0;
    KPT_RETURN_IF_ERROR(reader_->array([&]() -> Status {
      if (count == elements->size()) return reader_->error("more specifications than the graph has");
      Element* element = &(*elements)[count++];
      return read_union(reader_, [&](std::string_view tag) { return (this->*read)(tag, element); });
    }));
    return count == elements->size() ? Status() : reader_->error("fewer specifications than the graph has");
  }

  Status input(std::string_view tag, ir::GraphInput* input) {
    if (tag == "user_input") return user_input(input);
    if (tag == "constant_input") return constant_input(input);
    if (tag == "parameter") return weight(input, ir::InputKind::kParameter, "parameter_name");
    if (tag == "buffer") return weight(input, ir::InputKind::kBuffer, "buffer_name");
    if (tag == "tensor_constant") return weight(input, ir::InputKind::kConstant, "tensor_constant_name");
    return unsupported("input", tag);
  }

  // The value behind a user input or output.
  Status user_argument(const char* what, ir::Argument* value) {
    bool seen = false;
    KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
      if (key != "arg") return reader_->skip();
      seen = true;
      return values_->known_argument(value);
    }));
    return seen ? Status() : reader_->error(std::string("a user ") + what + " without 'arg'");
  }

  Status user_input(ir::GraphInput* input) {
    ir::Argument value;
    KPT_RETURN_IF_ERROR(user_argument("input", &value));
    const ir::ValueId* id = value.value_id();
    if (input->value != (id == nullptr ? ir::kNoValue : *id)) return reader_->error("another input than the graph has");
    return {};
  }

  Status constant_input(ir::GraphInput* input) {
    if (input->kind != ir::InputKind::kFixed) return reader_->error("a constant where the graph has a value");
    return reader_->object([&](std::string_view key) -> Status {
      if (key == "name") return reader_->string(&input->name);
      return key == "value" ? values_->known_argument(&input->fixed) : reader_->skip();
    });
  }

  Status weight(ir::GraphInput* input, ir::InputKind kind, std::string_view name_key) {
    std::string value_name;
    input->kind = kind;
    std::string key_of_weight;
    KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
      if (key == "arg") return tensor_name(&value_name);
      if (key == name_key) return reader_->string(&key_of_weight);
      if (key == "persistent") return reader_->boolean(&input->persistent);
      return reader_->skip();
    }));
    if (input->value == ir::kNoValue || graph_->at(input->value).name != value_name) {
      return reader_->error("another input than the graph has");
    }
    if (graph_->at(input->value).kind != ir::ValueKind::kTensor) return reader_->error("a weight that is no tensor");
    if (key_of_weight.empty()) return reader_->error("a weight without '" + std::string(name_key) + "'");
    input->name = std::move(key_of_weight);
    return {};
  }

  Status tensor_name(std::string* name) {
    return reader_->object(
        [&](std::string_view key) -> Status { return key == "name" ? reader_->string(name) : reader_->skip(); });
  }

  Status output(std::string_view tag, ir::GraphOutput* output) {
    if (tag == "user_output") return user_output(output);
    if (tag == "buffer_mutation") return mutation(output, ir::OutputKind::kBufferMutation, "buffer_name");
    if (tag == "parameter_mutation") return mutation(output, ir::OutputKind::kParameterMutation, "parameter_name");
    if (tag == "user_input_mutation") return mutation(output, ir::OutputKind::kInputMutation, "user_input_name");
    return unsupported("output", tag);
  }

  Status user_output(ir::GraphOutput* output) {
    ir::Argument value;
    KPT_RETURN_IF_ERROR(user_argument("output", &value));
    const ir::ValueId* said = value.value_id();
    const ir::ValueId* real = output->value.value_id();
    const bool same = said == nullptr || real == nullptr ? said == real : *said == *real;
    return same ? Status() : reader_->error("another output than the graph has");
  }

  Status mutation(ir::GraphOutput* output, ir::OutputKind kind, std::string_view name_key) {
    std::string value_name;
    output->kind = kind;
    KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
      if (key == "arg") return tensor_name(&value_name);
      return key == name_key ? reader_->string(&output->name) : reader_->skip();
    }));
    const ir::ValueId* id = output->value.value_id();
    if (id == nullptr || graph_->at(*id).name != value_name) return reader_->error("another output than the graph has");
    return {};
  }

  // A mutation names a weight, or the value of an input: the latter becomes the input's own name here, which
  // name_arguments() keeps in step. One of each input at most: an input's own name may be long.
  Status check_mutations() {
    std::set<std::pair<ir::InputKind, std::string_view>> unchanged;
    for (const ir::GraphInput& input : graph_->inputs) unchanged.emplace(input.kind, input.name);
    for (const ir::GraphOutput& output : graph_->outputs) {
      if (output.kind == ir::OutputKind::kUser) continue;
      const ir::InputKind kind = output.kind == ir::OutputKind::kBufferMutation      ? ir::InputKind::kBuffer
                                 : output.kind == ir::OutputKind::kParameterMutation ? ir::InputKind::kParameter
                                                                                     : ir::InputKind::kUser;
      if (unchanged.erase({kind, output.name}) == 0) {
        return reader_->error("a mutation of '" + output.name + "', which is no input of that kind, or a second one");
      }
    }
    return {};
  }

  Status unsupported(const char* what, std::string_view tag) const {
    return {StatusCode::kUnsupported, file_ + ": the signature has an " + what + " of the kind '" + printable(tag, 64) +
                                          "', which is not supported"};
  }

  JsonReader* reader_;
  GraphReader* values_;
  ir::Graph* graph_;
  const std::string& file_;
};

// Tree specifications that say nothing usable are a note; broken ones an error.
Status read_names(const Result<TreeNode>& tree, const CallSignature* inputs, std::vector<std::string>* names,
                  std::vector<std::string>* notes) {
  Result<std::vector<std::string>> found = !tree.ok()          ? Result<std::vector<std::string>>(tree.status())
                                           : inputs == nullptr ? name_outputs(*tree)
                                                               : name_inputs(*tree, inputs->argument_names);
  if (found.ok()) {
    *names = std::move(found).value();
    return {};
  }
  if (found.status().code() != StatusCode::kUnsupported) return found.status();
  notes->push_back(found.status().message() + "; the exporter's names are used");
  return {};
}

void name_graph_inputs(std::vector<std::string> names, ir::Graph* graph, std::vector<std::string>* notes) {
  std::vector<ir::GraphInput*> callers;
  for (ir::GraphInput& input : graph->inputs) {
    if (input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed) callers.push_back(&input);
  }
  if (names.size() != callers.size()) {
    notes->emplace_back("the description of the inputs does not fit the graph; the exporter's names are used");
    names.clear();
    for (std::size_t i = 0; i < callers.size(); ++i) {
      names.push_back(callers[i]->name.empty() ? "arg_" + std::to_string(i) : callers[i]->name);
    }
    make_unique(&names);
  }
  std::map<std::string, std::string> renamed;
  for (std::size_t i = 0; i < callers.size(); ++i) {
    if (callers[i]->kind == ir::InputKind::kUser) renamed[callers[i]->name] = names[i];
    callers[i]->name = std::move(names[i]);
  }
  for (ir::GraphOutput& output : graph->outputs) {
    if (output.kind == ir::OutputKind::kInputMutation) output.name = renamed[output.name];
  }
}

}  // namespace

Status apply_signature(JsonReader* reader, GraphReader* values, ir::Graph* graph, const std::string& file) {
  return SignatureReader(reader, values, graph, file).run();
}

Status name_arguments(const CallSignature& call, const NamedTupleFields& fields, const std::string& file,
                      ir::Graph* graph, std::vector<std::string>* notes) {
  std::vector<std::string> names;
  if (!call.in_spec.empty()) {
    KPT_RETURN_IF_ERROR(read_names(parse_tree_spec(call.in_spec, fields, file + " (in_spec)"), &call, &names, notes));
  }
  name_graph_inputs(std::move(names), graph, notes);
  names.clear();
  if (!call.out_spec.empty()) {
    KPT_RETURN_IF_ERROR(
        read_names(parse_tree_spec(call.out_spec, fields, file + " (out_spec)"), nullptr, &names, notes));
  }
  std::vector<ir::GraphOutput*> results;
  for (ir::GraphOutput& output : graph->outputs) {
    if (output.kind == ir::OutputKind::kUser) results.push_back(&output);
  }
  if (names.size() != results.size()) {
    notes->emplace_back("the description of the outputs does not fit the graph; they are named by position");
    names.clear();
    for (std::size_t i = 0; i < results.size(); ++i) names.push_back("output_" + std::to_string(i));
  }
  for (std::size_t i = 0; i < results.size(); ++i) results[i]->name = std::move(names[i]);
  return {};
}

}  // namespace kpt::pt2
