#include "optimize/tune_nodes.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "ir/text.h"
#include "passes/library_form.h"
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

std::string tell(bool library, double factor, double own_ms, double library_ms) {
  return library
             ? fmt::format("aten's is {:.2f} times faster ({:.3f} ms against {:.3f} ms)", factor, library_ms, own_ms)
             : fmt::format("{:.2f} times as fast as aten's ({:.3f} ms against {:.3f} ms)", factor, own_ms, library_ms);
}

class Tuner {
 public:
  Tuner(const ImportedModel& model, const std::vector<NamedTensor>& inputs, const PlacedDevice& device,
        const TuneOptions& options)
      : model_(model), sizes_(read_sizes(model.graph, inputs)), device_(device), options_(options) {}

  std::vector<KernelChoice> run() {
    const auto end = Clock::now() + std::chrono::duration<double>(options_.seconds);
    const MemoryFacts facts(model_.graph, model_.weights);
    const ConstantWeights constants(model_.graph, model_.weights, facts);
    std::map<std::string, std::size_t> kinds;  // by text
    for (const ir::Node& node : model_.graph.nodes) {
      if (!node.target.starts_with("kpt.")) continue;
      NodeModel alone = isolate_node(model_.graph, constants, node);
      const std::string text = ir::print_graph(alone.graph);
      const auto [found, first] = kinds.emplace(text, choices_.size());
      if (!first) {
        choices_[found->second].nodes.push_back(node.name);
        continue;
      }
      choices_.push_back({{node.name}, node.target, false, ""});
      KernelChoice& choice = choices_.back();
      const Support support = has_library_form(model_.graph, node);
      if (!support.supported) {
        choice.reason = "nothing to compare with: " + support.reason;
      } else if (!fix_sizes(alone.graph, sizes_).ok()) {
        choice.reason = "not measured: its sizes do not follow from the inputs'";
      } else if (!find_kept(alone.graph, choice)) {
        if (Clock::now() > end) {
          choice.reason = "not measured: the time was up";
          continue;
        }
        // A node that does not run alone costs its measurement, not the optimization.
        const Status status = measure(std::move(alone), choice);
        if (!status.ok()) choice.reason = "not measured: " + status.message();
      }
    }
    return std::move(choices_);
  }

 private:
  CacheKey key_of(const ir::Graph& alone) const {
    CacheKey key("kernel");
    key.add("node", ir::print_graph(alone)).add("surroundings", options_.surroundings);
    return key;
  }

  bool find_kept(const ir::Graph& alone, KernelChoice& choice) const {
    if (options_.cache == nullptr) return false;
    const auto kept = options_.cache->get(key_of(alone));
    if (!kept.ok() || !kept->has_value() || (*kept)->empty()) return false;
    choice.library = (*kept)->front() == 'L';
    choice.reason = (*kept)->substr(1);
    return true;
  }

  Status measure(NodeModel alone, KernelChoice& choice) const {
    const CacheKey key = key_of(alone.graph);
    ImportedModel own;
    own.graph = std::move(alone.graph);
    own.weights = std::move(alone.weights);
    ImportedModel other = own;
    use_library_forms(other.graph, other.weights, {"node"});
    KPT_ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, generate_inputs(own.graph, {}));
    KPT_ASSIGN_OR_RETURN(ModelRun first, ModelRun::load(std::move(own), device_));
    KPT_ASSIGN_OR_RETURN(ModelRun second, ModelRun::load(std::move(other), device_));
    KPT_ASSIGN_OR_RETURN(const PairedTimes times, measure_pair(first, second, inputs, options_.seconds_per_pair));
    choice.library = times.second_is_faster();
    choice.reason = choice.library ? tell(true, times.ratio, times.first_ms, times.second_ms)
                                   : tell(false, 1 / times.ratio, times.first_ms, times.second_ms);
    // A cache that cannot be written costs the next run a measurement, nothing else.
    if (options_.cache != nullptr) {
      [[maybe_unused]] const Status kept = options_.cache->put(key, (choice.library ? "L" : "O") + choice.reason);
    }
    return {};
  }

  const ImportedModel& model_;
  ir::Bindings sizes_;
  const PlacedDevice& device_;
  const TuneOptions& options_;
  std::vector<KernelChoice> choices_;
};

}  // namespace

std::vector<KernelChoice> tune_nodes(const ImportedModel& model, const std::vector<NamedTensor>& inputs,
                                     const PlacedDevice& device, const TuneOptions& options) {
  return Tuner(model, inputs, device, options).run();
}

std::vector<std::string> list_library_nodes(const std::vector<KernelChoice>& choices) {
  std::vector<std::string> nodes;
  for (const KernelChoice& choice : choices) {
    if (choice.library) nodes.insert(nodes.end(), choice.nodes.begin(), choice.nodes.end());
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
