#include "backends/tpu/examine_model.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "device/graph_arguments.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/stablehlo/lower.h"
#include "ir/figures.h"
#include "passes/matrix_extents.h"

namespace kpt {
namespace {

// A finding for a product begins where this part of the matrix unit is used.
constexpr double kEnough = 0.75;

void find_sizes(const ir::Graph& graph, const ir::Bindings& sizes, std::vector<ModelFinding>& findings) {
  const auto shown = find_shown_symbols(graph);
  for (const ir::SymbolRange& symbol : graph.symbols) {
    const std::string range = fmt::format("{} to {}", symbol.min.value_or(0),
                                          symbol.max ? fmt::to_string(*symbol.max) : std::string("any number"));
    const auto value = sizes.find(symbol.name);
    if (!shown.contains(symbol.name)) {
      if (!value) continue;  // find_operators() names the node that reads it out of a tensor
      findings.push_back({FindingKind::kSize, true, symbol.name,
                          fmt::format("{} is no size of the model's inputs, and cannot be given", symbol.name)});
    } else if (!value) {
      findings.push_back({FindingKind::kSize, true, symbol.name,
                          fmt::format("the model leaves {} free ({}), and a program for a TPU has fixed sizes: give it "
                                      "a value",
                                      symbol.name, range)});
    } else if ((symbol.min && *value < *symbol.min) || (symbol.max && *value > *symbol.max)) {
      findings.push_back({FindingKind::kSize, true, symbol.name,
                          fmt::format("{}={} is out of its range, {}", symbol.name, *value, range)});
    }
  }
}

void find_operators(const ir::Graph& graph, const ir::Bindings& sizes, std::vector<ModelFinding>& findings) {
  const auto answers = xla::check_lowering(graph, sizes);
  if (!answers.ok()) return;  // compiling says the same, and why
  for (std::size_t i = 0; i < answers->size(); ++i) {
    if ((*answers)[i].supported) continue;
    findings.push_back({FindingKind::kOperator, true, graph.nodes[i].name,
                        fmt::format("{} cannot be compiled: {}", graph.nodes[i].target, (*answers)[i].reason)});
  }
}

// What a type costs on every generation; empty where it is at home.
std::string_view cost_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128: return "TPUs have no 64-bit floats, and XLA puts them together from smaller ones";
    case DType::kInt64:
    case DType::kUInt64: return "TPUs have 32-bit integers, and XLA keeps each as two of them";
    case DType::kFloat16: return "TPUs compute in bfloat16 and float32, so every use converts";
    default: return "";
  }
}

void find_element_types(const ir::Graph& graph, std::vector<ModelFinding>& findings) {
  struct Use {
    std::size_t count = 0;
    std::string first;
  };
  // What no node takes or makes does not reach the device.
  std::vector<bool> used(graph.values.size(), false);
  for (const ir::Node& node : graph.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { used[ir::index_of(id)] = true; });
    }
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) used[ir::index_of(id)] = true;
      }
    }
  }
  std::map<DType, Use> uses;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ir::Value& value = graph.values[i];
    if (!used[i] || value.kind != ir::ValueKind::kTensor) continue;
    Use& use = uses[value.tensor.dtype];
    if (use.count++ == 0) use.first = value.name;
  }
  for (const auto& [dtype, use] : uses) {
    const bool unknown = !pjrt::buffer_type_of(dtype);
    const std::string_view cost = unknown ? "XLA has no such type" : cost_of(dtype);
    if (cost.empty()) continue;
    findings.push_back({FindingKind::kElementType, unknown, std::string(to_string(dtype)),
                        fmt::format("{} tensor{} of type {}, the first is '{}': {}", use.count,
                                    use.count == 1 ? " is" : "s are", to_string(dtype), use.first, cost)});
  }
}

double used_part(const MatrixExtents& product, std::int64_t unit) {
  const auto filled = [unit](std::int64_t extent) {
    const std::int64_t whole = (extent + unit - 1) / unit * unit;
    return static_cast<double>(extent) / static_cast<double>(whole);
  };
  return product.inner < 1 || product.columns < 1 ? 1 : filled(product.inner) * filled(product.columns);
}

std::string percent(double part) { return fmt::format("{:.{}f} %", 100 * part, part < 0.1 ? 1 : 0); }

// By the work that is done for nothing, most first.
void find_waste(const ir::Graph& graph, const ir::Bindings& sizes, const TpuGeneration& generation,
                std::vector<ModelFinding>& findings) {
  struct Waste {
    double idle_flops = 0;
    ModelFinding finding;
  };
  std::vector<Waste> all;
  const double total = ir::count_figures(graph, sizes).flops;
  for (const ir::Node& node : graph.nodes) {
    const std::vector<MatrixExtents> products = find_products(graph, node, sizes);
    const auto worst = std::ranges::min_element(
        products, {}, [&](const MatrixExtents& product) { return used_part(product, generation.matrix_unit); });
    if (worst == products.end()) continue;
    const double used = used_part(*worst, generation.matrix_unit);
    if (used >= kEnough) continue;
    const double flops = ir::count_node(graph, node, sizes).flops.value_or(0);
    all.push_back(
        {flops * (1 / used - 1),
         {FindingKind::kMatrixUnit, false, node.name,
          fmt::format("{} multiplies by a matrix of {} x {}, which fills {} of the {} x {} matrix unit, "
                      "in {} of the model's work; multiples of {} fill it",
                      node.target, worst->inner, worst->columns, percent(used), generation.matrix_unit,
                      generation.matrix_unit, percent(total > 0 ? flops / total : 0), generation.matrix_unit)}});
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Waste::idle_flops);
  for (Waste& waste : all) findings.push_back(std::move(waste.finding));
}

// Nothing when a size is free or the sum passes 64 bits.
std::optional<std::uint64_t> add_bytes(const ir::Graph& graph, ir::ValueId id, const ir::Bindings& sizes,
                                       std::uint64_t sum) {
  const auto extents = find_extents(graph, id, sizes);
  if (!extents) return std::nullopt;
  std::uint64_t bytes = element_bytes(graph.at(id).tensor.dtype);
  for (const std::int64_t extent : *extents) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return __builtin_add_overflow(sum, bytes, &sum) ? std::nullopt : std::optional(sum);
}

void find_memory(const ir::Graph& graph, const ir::Bindings& sizes, std::uint64_t memory_bytes,
                 std::vector<ModelFinding>& findings) {
  std::optional<std::uint64_t> given = 0;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.value == ir::kNoValue || graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
    if (given) given = add_bytes(graph, input.value, sizes, *given);
  }
  std::optional<std::uint64_t> made = 0;
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind != ir::OutputKind::kUser || id == nullptr) continue;
    if (graph.at(*id).kind == ir::ValueKind::kTensor && made) made = add_bytes(graph, *id, sizes, *made);
  }
  if (!given || !made || (*given <= memory_bytes && *made <= memory_bytes - *given)) return;
  findings.push_back({FindingKind::kMemory, true, "",
                      fmt::format("weights and inputs take {} and outputs {}, and a program may take {} of a device",
                                  format_bytes(*given), format_bytes(*made), format_bytes(memory_bytes))});
}

}  // namespace

std::vector<ModelFinding> examine_model(const ir::Graph& graph, const ir::Bindings& sizes,
                                        const TpuGeneration& generation, std::uint64_t memory_bytes) {
  std::vector<ModelFinding> findings;
  find_sizes(graph, sizes, findings);
  find_operators(graph, sizes, findings);
  find_memory(graph, sizes, memory_bytes, findings);
  find_element_types(graph, findings);
  find_waste(graph, sizes, generation, findings);
  std::stable_partition(findings.begin(), findings.end(), [](const ModelFinding& finding) { return finding.refuses; });
  return findings;
}

}  // namespace kpt
