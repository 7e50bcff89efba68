#include "engines/xla/stablehlo/lower.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "device/graph_arguments.h"
#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/numbers.h"
#include "passes/memory_facts.h"
#include "passes/node_arguments.h"

namespace kpt::xla {
namespace {

// Nodes that compute nothing. Metadata was true of the machine of the export; ranges repeat what the symbols say.
constexpr std::string_view kIgnored[] = {
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
};

// In-place forms whose functional form has another name.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"aten.__iand__.Scalar", "aten.__and__.Scalar"},
    {"aten.__iand__.Tensor", "aten.__and__.Tensor"},
    {"aten.__ilshift__.Scalar", "aten.__lshift__.Scalar"},
    {"aten.__ilshift__.Tensor", "aten.__lshift__.Tensor"},
    {"aten.__ior__.Scalar", "aten.__or__.Scalar"},
    {"aten.__ior__.Tensor", "aten.__or__.Tensor"},
    {"aten.__irshift__.Scalar", "aten.__rshift__.Scalar"},
    {"aten.__irshift__.Tensor", "aten.__rshift__.Tensor"},
    {"aten.__ixor__.Scalar", "aten.__xor__.Scalar"},
    {"aten.__ixor__.Tensor", "aten.__xor__.Tensor"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
};

// "aten.add_.Tensor" → "aten.add.Tensor".
std::string functional_target(std::string_view target) {
  for (const auto& [in_place, functional] : kRenamed) {
    if (in_place == target) return std::string(functional);
  }
  std::string result(target);
  const std::size_t place = result.rfind("_.");
  if (place != std::string::npos) result.erase(place, 1);
  return result;
}

class Walk {
 public:
  // `assumed`: the sizes are made up, so the graph's assertions about them say nothing.
  Walk(const ir::Graph& graph, const ir::Bindings& sizes, bool assumed)
      : graph_(graph), numbers_(graph, sizes), environment_(graph, builder_), assumed_(assumed) {}

  // One answer per node.
  std::vector<Support> run() {
    define_inputs();
    std::vector<Support> answers;
    for (const ir::Node& node : graph_.nodes) {
      Support answer;
      try {
        lower_node(node);
      } catch (const Refusal& refusal) {
        answer = {false, refusal.reason};
      } catch (const std::exception& error) {
        answer = {false, fmt::format("its arguments make no sense: {}", error.what())};
      }
      if (!answer.supported) define_missing(node);
      answers.push_back(std::move(answer));
    }
    return answers;
  }

  Result<LoweredModule> finish() {
    try {
      collect_results();
    } catch (const Refusal& refusal) {
      return Status(StatusCode::kUnsupported, refusal.reason);
    }
    write_module();
    return std::move(module_);
  }

 private:
  void define_inputs();
  void lower_node(const ir::Node& node);
  bool gives_number(const ir::Node& node) const;
  void check_assertion(const ir::Node& node);
  void define_missing(const ir::Node& node);
  void collect_results();
  void add_result(std::uint32_t index, const Value& value);
  std::optional<Value> new_contents(std::uint32_t input);
  void write_module();

  const ir::Graph& graph_;
  Builder builder_;
  Numbers numbers_;
  Environment environment_;
  bool assumed_;
  LoweredModule module_;
  std::vector<Value> returned_;
};

void Walk::define_inputs() {
  for (std::size_t index = 0; index < graph_.inputs.size(); ++index) {
    const ir::GraphInput& input = graph_.inputs[index];
    if (input.value == ir::kNoValue || graph_.at(input.value).kind != ir::ValueKind::kTensor) continue;
    const ir::TensorType& type = graph_.at(input.value).tensor;
    try {
      Value value{fmt::format("%arg{}", index), type.dtype, numbers_.evaluate(type.dims)};
      type_name(value.dtype, value.dims);
      environment_.define_input(input.value, static_cast<std::uint32_t>(index), std::move(value));
    } catch (const Refusal&) {
      continue;  // who uses it will say so
    }
  }
}

void Walk::check_assertion(const ir::Node& node) {
  const ir::Argument* condition = find_argument(node, "self");
  if (condition == nullptr) refuse("it asserts nothing");
  std::optional<Number> truth;
  if (const auto* constant = std::get_if<bool>(&condition->value)) truth = *constant;
  if (const ir::ValueId* id = condition->value_id()) truth = numbers_.find(*id);
  if (!truth) refuse("it asserts something that is not known before the run");
  if (as_double(*truth) == 0 && !assumed_) {
    refuse(fmt::format("these sizes break it: {}", string_argument(node, "assert_msg", "")));
  }
}

bool Walk::gives_number(const ir::Node& node) const {
  return std::ranges::any_of(node.outputs, [&](const ir::Output& output) {
    return std::ranges::any_of(output.values, [&](ir::ValueId id) {
      return id != ir::kNoValue && graph_.at(id).kind != ir::ValueKind::kTensor;
    });
  });
}

void Walk::lower_node(const ir::Node& node) {
  if (std::find(std::begin(kIgnored), std::end(kIgnored), node.target) != std::end(kIgnored)) return;
  if (node.target == "aten._assert_scalar.default") return check_assertion(node);
  if (numbers_.run_node(node)) return;
  const Rule* rule = find_rule(node.target);
  const bool renamed = std::ranges::any_of(kRenamed, [&](const auto& row) { return row.first == node.target; });
  const bool writes = rule == nullptr && (renamed || is_in_place(node));
  const std::string functional = writes ? functional_target(node.target) : std::string();
  if (writes) rule = find_rule(functional);
  if (rule == nullptr) {
    refuse(node.target.starts_with("aten.") && gives_number(node)
               ? "it reads a number out of a tensor, which is not known before the run"
               : "there is no lowering for this operator");
  }
  Call call(graph_, node, environment_, numbers_, builder_, writes);
  rule->lower(call);
  call.check_complete();
}

// So that the nodes behind can be judged, too, results of a node without lowering are taken as zeros of their type.
void Walk::define_missing(const ir::Node& node) {
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id == ir::kNoValue || graph_.at(id).kind != ir::ValueKind::kTensor || environment_.is_defined(id)) continue;
      const ir::TensorType& type = graph_.at(id).tensor;
      try {
        environment_.define(id, builder_.splat(std::int64_t{0}, type.dtype, numbers_.evaluate(type.dims)));
      } catch (const Refusal&) {
        continue;  // its users have no operand then, which is their reason
      }
    }
  }
}

void Walk::add_result(std::uint32_t index, const Value& value) {
  module_.results.push_back({index, value.dtype, value.dims});
  returned_.push_back(value);
}

// What a buffer or an input holds afterwards, when the graph writes it: by an output of the graph, or in place.
std::optional<Value> Walk::new_contents(std::uint32_t input) {
  const ir::GraphInput& place = graph_.inputs[input];
  for (const ir::GraphOutput& output : graph_.outputs) {
    const bool of_user = place.kind == ir::InputKind::kUser;
    if (output.kind == ir::OutputKind::kUser || output.name != place.name) continue;
    if (of_user != (output.kind == ir::OutputKind::kInputMutation)) continue;
    if (const ir::ValueId* id = output.value.value_id()) return environment_.read(*id);
  }
  return environment_.written_input(input);
}

void Walk::collect_results() {
  for (std::size_t index = 0; index < graph_.outputs.size(); ++index) {
    const ir::GraphOutput& output = graph_.outputs[index];
    const ir::ValueId* id = output.value.value_id();
    if (output.kind != ir::OutputKind::kUser || id == nullptr) continue;
    Value value;
    if (graph_.at(*id).kind == ir::ValueKind::kTensor) {
      value = environment_.read(*id);
    } else {
      const auto number = numbers_.find(*id);
      if (!number)
        refuse(fmt::format("the output %{} is a number that is not known before the run", graph_.at(*id).name));
      const bool real = std::holds_alternative<double>(*number);
      const bool truth = std::holds_alternative<bool>(*number);
      value = builder_.scalar(*number, real ? DType::kFloat64 : truth ? DType::kBool : DType::kInt64);
    }
    add_result(static_cast<std::uint32_t>(index), value);
  }
  module_.output_count = module_.results.size();
  for (std::size_t index = 0; index < graph_.inputs.size(); ++index) {
    if (graph_.inputs[index].value == ir::kNoValue) continue;
    if (const auto value = new_contents(static_cast<std::uint32_t>(index))) {
      add_result(static_cast<std::uint32_t>(index), *value);
    }
  }
}

void Walk::write_module() {
  std::string arguments;
  for (std::size_t index = 0; index < graph_.inputs.size(); ++index) {
    if (!environment_.is_argument(static_cast<std::uint32_t>(index))) continue;
    const ir::TensorType& type = graph_.at(graph_.inputs[index].value).tensor;
    ModulePlace place{static_cast<std::uint32_t>(index), type.dtype, numbers_.evaluate(type.dims)};
    if (!arguments.empty()) arguments += ", ";
    arguments += fmt::format("%arg{}: {}", index, type_name(place.dtype, place.dims));
    module_.arguments.push_back(std::move(place));
  }
  std::vector<std::string> types;
  std::vector<std::string> names;
  for (const Value& value : returned_) {
    types.push_back(type_name(value.dtype, value.dims));
    names.push_back(value.name);
  }
  const std::string joined = fmt::format("{}", fmt::join(types, ", "));
  module_.text = fmt::format(
      "module @kpt {{\n  func.func public @main({}) -> ({}) {{\n{}    \"func.return\"({}) : ({}) -> ()\n  }}\n}}\n",
      arguments, joined, builder_.text(), fmt::join(names, ", "), joined);
}

// Assumed sizes are multiples of one of these after the other: a model may be right for such alone, as one that sees s0
// elements as [s0 // 3, 3] is.
constexpr std::int64_t kUnits[] = {32, 60, 63, 1001, 1};

// Within the range; apart from each other, so that no two extents are equal by chance, and not 0 or 1.
std::int64_t assume_size(const ir::SymbolRange& symbol, std::size_t position, std::int64_t unit) {
  const std::int64_t low = std::max<std::int64_t>(symbol.min.value_or(2), 2);
  const auto wanted = static_cast<std::int64_t>(2 + position % 8) * unit;
  if (wanted < low) {
    const std::int64_t over = low % unit;
    const std::int64_t whole = over == 0 || low > kMaxNumber ? low : low - over + unit;
    return symbol.max && whole > *symbol.max ? low : whole;
  }
  if (!symbol.max || wanted <= *symbol.max) return wanted;
  const std::int64_t whole = *symbol.max - *symbol.max % unit;
  return whole >= low ? whole : std::max(*symbol.max, symbol.min.value_or(0));
}

}  // namespace

Result<LoweredModule> lower(const ir::Graph& graph, const SymbolValues& sizes) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.value == ir::kNoValue || graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
    for (const ir::Expr& extent : graph.at(input.value).tensor.dims) {
      const auto value = extent.evaluate(sizes);
      if (!value.ok()) {
        return Status(StatusCode::kInvalidArgument, fmt::format("the extents of the input '{}' are not known: {}",
                                                                input.name, value.status().message()));
      }
    }
  }
  Walk walk(graph, sizes, false);
  const std::vector<Support> answers = walk.run();
  std::vector<std::string> reasons;
  for (std::size_t index = 0; index < answers.size(); ++index) {
    if (answers[index].supported) continue;
    const ir::Node& node = graph.nodes[index];
    reasons.push_back(
        fmt::format("{} ({}): {}", node.name.empty() ? "a node" : node.name, node.target, answers[index].reason));
  }
  if (!reasons.empty()) {
    return Status(StatusCode::kUnsupported, fmt::format("{} of {} nodes cannot be lowered to StableHLO: {}",
                                                        reasons.size(), graph.nodes.size(), fmt::join(reasons, "; ")));
  }
  return walk.finish();
}

Result<std::vector<Support>> check_lowering(const ir::Graph& graph, const SymbolValues& sizes) {
  const auto shown = find_shown_symbols(graph);
  std::vector<Support> answers;
  for (const std::int64_t unit : kUnits) {
    SymbolValues tried;
    bool assumed = false;
    for (std::size_t index = 0; index < graph.symbols.size(); ++index) {
      const ir::SymbolRange& symbol = graph.symbols[index];
      if (!shown.contains(symbol.name)) continue;
      const auto given = sizes.find(symbol.name);
      assumed = assumed || !given;
      tried.set(symbol.name, given ? *given : assume_size(symbol, index, unit));
    }
    const std::vector<Support> found = Walk(graph, tried, assumed).run();
    if (answers.empty()) answers = found;
    for (std::size_t index = 0; index < found.size(); ++index) {
      if (found[index].supported) answers[index] = found[index];
    }
    if (!assumed || std::ranges::all_of(answers, &Support::supported)) break;
  }
  return answers;
}

}  // namespace kpt::xla
