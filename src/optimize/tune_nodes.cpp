#include "optimize/tune_nodes.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "ir/text.h"
#include "passes/library_form.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "runtime/generate_inputs.h"

namespace kpt {
namespace {

using Clock = std::chrono::steady_clock;

// What the inputs say of the model's symbols. The texts belong to `graph`.
ir::Bindings read_sizes(const ir::Graph& graph, const std::vector<NamedTensor>& inputs) {
  ir::Bindings sizes;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const std::vector<ir::Expr>& dims = graph.at(input.value).tensor.dims;
    for (const NamedTensor& given : inputs) {
      if (given.name != input.name || given.tensor.dims().size() != dims.size()) continue;
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (dims[axis].is_symbol()) sizes.set(dims[axis].name(), given.tensor.dims()[axis]);
      }
    }
  }
  return sizes;
}

// What a node is held against.
struct Rival {
  Taken taken;
  std::string name;  // "aten's"
};

std::string tell(const Rival& rival, const PairedTimes& times) {
  return times.second_is_faster() ? fmt::format("{} is {:.2f} times faster ({:.3f} ms against {:.3f} ms)", rival.name,
                                                times.ratio, times.second_ms, times.first_ms)
                                  : fmt::format("{:.2f} times as fast as {} ({:.3f} ms against {:.3f} ms)",
                                                1 / times.ratio, rival.name, times.first_ms, times.second_ms);
}

class Tuner {
 public:
  Tuner(const ImportedModel& model, const std::vector<NamedTensor>& inputs, const PlacedDevice& device,
        const TuneOptions& options)
      : model_(model),
        sizes_(read_sizes(model.graph, inputs)),
        device_(device),
        options_(options),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))),
        facts_(model.graph, model.weights),
        constants_(model.graph, model.weights, facts_) {}

  std::vector<KernelChoice> hold_against_library() {
    for (const ir::Node& node : model_.graph.nodes) {
      if (!node.target.starts_with("kpt.")) continue;
      NodeModel own = isolate_node(model_.graph, constants_, node);
      KernelChoice* choice = add_kind(node, ir::print_graph(own.graph));
      if (choice == nullptr) continue;
      const Support support = has_library_form(model_.graph, node);
      if (!support.supported) {
        choice->reason = "nothing to compare with: " + support.reason;
      } else if (fix(own, *choice)) {
        NodeModel other = own;
        use_library_forms(other.graph, other.weights, {"node"});
        choose(std::move(own), std::move(other), {Taken::kLibrary, "aten's"}, *choice);
      }
    }
    return std::move(choices_);
  }

  std::vector<KernelChoice> hold_against(const ImportedModel& wider) {
    const MemoryFacts facts(wider.graph, wider.weights);
    const ConstantWeights constants(wider.graph, wider.weights, facts);
    for (const ir::Node& node : model_.graph.nodes) {
      if (!is_quantized_product(node.target)) continue;
      const auto found = std::ranges::find(wider.graph.nodes, node.name, &ir::Node::name);
      if (found == wider.graph.nodes.end() || is_quantized_product(found->target)) continue;
      NodeModel own = isolate_node(model_.graph, constants_, node);
      NodeModel other = isolate_node(wider.graph, constants, *found);
      KernelChoice* choice = add_kind(node, ir::print_graph(own.graph) + ir::print_graph(other.graph));
      if (choice == nullptr || !fix(own, *choice) || !fix(other, *choice)) continue;
      const ir::ValueId weight = value_argument(*found, "weight");
      const std::string type =
          weight == ir::kNoValue ? found->target : std::string(to_string(wider.graph.at(weight).tensor.dtype));
      choose(std::move(own), std::move(other), {Taken::kUnquantized, type}, *choice);
    }
    return std::move(choices_);
  }

 private:
  // The choice of a kind that was not seen before. Null: the node has gone to the others of its kind.
  KernelChoice* add_kind(const ir::Node& node, const std::string& text) {
    const auto [found, first] = kinds_.emplace(text, choices_.size());
    if (!first) {
      choices_[found->second].nodes.push_back(node.name);
      return nullptr;
    }
    choices_.push_back({{node.name}, node.target, Taken::kOwn, ""});
    return &choices_.back();
  }

  bool fix(NodeModel& alone, KernelChoice& choice) const {
    if (fix_sizes(alone.graph, sizes_).ok()) return true;
    choice.reason = "not measured: its sizes do not follow from the inputs'";
    return false;
  }

  void choose(NodeModel own, NodeModel other, const Rival& rival, KernelChoice& choice) const {
    CacheKey key("kernel");
    key.add("node", ir::print_graph(own.graph))
        .add("other", ir::print_graph(other.graph))
        .add("surroundings", options_.surroundings);
    if (find_kept(key, rival, choice)) return;
    if (Clock::now() > end_) {
      choice.reason = "not measured: the time was up";
      return;
    }
    // A node that does not run alone costs its measurement, not the optimization.
    const Status status = measure(std::move(own), std::move(other), rival, choice);
    if (!status.ok()) {
      choice.reason = "not measured: " + status.message();
    } else if (options_.cache != nullptr) {
      // A cache that cannot be written costs the next run a measurement, nothing else.
      const char* taken = choice.taken == Taken::kOwn ? "O" : "R";
      [[maybe_unused]] const Status kept = options_.cache->put(key, taken + choice.reason);
    }
  }

  bool find_kept(const CacheKey& key, const Rival& rival, KernelChoice& choice) const {
    if (options_.cache == nullptr) return false;
    const auto kept = options_.cache->get(key);
    if (!kept.ok() || !kept->has_value() || (*kept)->empty()) return false;
    choice.taken = (*kept)->front() == 'R' ? rival.taken : Taken::kOwn;
    choice.reason = (*kept)->substr(1);
    return true;
  }

  Status measure(NodeModel own, NodeModel other, const Rival& rival, KernelChoice& choice) const {
    ImportedModel first;
    first.graph = std::move(own.graph);
    first.weights = std::move(own.weights);
    ImportedModel second;
    second.graph = std::move(other.graph);
    second.weights = std::move(other.weights);
    KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, generate_inputs(first.graph, {}));
    KPT_ASSIGN_OR_RETURN(ModelRun one, ModelRun::load(std::move(first), device_));
    KPT_ASSIGN_OR_RETURN(ModelRun two, ModelRun::load(std::move(second), device_));
    KPT_ASSIGN_OR_RETURN(const PairedTimes times,
                         measure_pair(one, two, inputs, options_.seconds_per_pair, find_resident(device_)));
    choice.taken = times.second_is_faster() ? rival.taken : Taken::kOwn;
    choice.reason = tell(rival, times);
    return {};
  }

  const ImportedModel& model_;
  ir::Bindings sizes_;
  const PlacedDevice& device_;
  const TuneOptions& options_;
  Clock::time_point end_;
  MemoryFacts facts_;
  ConstantWeights constants_;
  std::map<std::string, std::size_t> kinds_;  // by text
  std::vector<KernelChoice> choices_;
};

}  // namespace

std::vector<KernelChoice> tune_nodes(const ImportedModel& model, const std::vector<NamedTensor>& inputs,
                                     const PlacedDevice& device, const TuneOptions& options) {
  return Tuner(model, inputs, device, options).hold_against_library();
}

std::vector<KernelChoice> tune_quantized(const ImportedModel& model, const ImportedModel& wider,
                                         const std::vector<NamedTensor>& inputs, const PlacedDevice& device,
                                         const TuneOptions& options) {
  return Tuner(model, inputs, device, options).hold_against(wider);
}

std::vector<std::string> list_nodes(const std::vector<KernelChoice>& choices, Taken taken) {
  std::vector<std::string> nodes;
  for (const KernelChoice& choice : choices) {
    if (choice.taken == taken) nodes.insert(nodes.end(), choice.nodes.begin(), choice.nodes.end());
  }
  return nodes;
}

void forget_nodes(std::vector<KernelChoice>& choices, const std::vector<std::string>& names) {
  for (KernelChoice& choice : choices) {
    std::erase_if(choice.nodes, [&](const std::string& node) { return std::ranges::find(names, node) != names.end(); });
  }
  std::erase_if(choices, [](const KernelChoice& choice) { return choice.nodes.empty(); });
}

}  // namespace kpt
