#include "engines/native/plan_builder.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "memory/offset_planner.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

// Which family a kernel is of; empty for none.
std::string_view family_of(std::string_view kernel) {
  const auto& kernels = gpu::list_kernels();
  const auto found = std::ranges::lower_bound(kernels, kernel, {}, &gpu::KernelInfo::name);
  return found == kernels.end() || found->name != kernel ? std::string_view() : found->family;
}

std::size_t round_up(std::size_t bytes) { return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment; }

// Bytes of that many elements, and sums of some such, are far from the end of 64 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56U;

// Extents of zero count as one here: strides are products of the others, and must not overflow either.
bool is_too_large(const Dims& dims) {
  std::int64_t product = 1;
  return std::ranges::any_of(dims, [&product](std::int64_t extent) {
    return __builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product) || product > kMostElements;
  });
}

Status check_extents(DType given_type, const Dims& given, DType said_type, const Dims& said) {
  if (given == said && given_type == said_type) return {};
  return not_covered(fmt::format("it gives {}{}, and the file says {}{}", to_string(given_type), given.to_string(),
                                 to_string(said_type), said.to_string()));
}

}  // namespace

Status not_covered(std::string reason) { return {StatusCode::kUnsupported, std::move(reason)}; }

Status check_result(const View& result, DType dtype, const Dims& dims) {
  return check_extents(dtype, dims, result.dtype, result.dims);
}

PlanBuilder::PlanBuilder(const ir::Graph& graph, const MemoryFacts& facts, const ir::Bindings& sizes,
                         const Traits& traits)
    : graph_(graph),
      facts_(facts),
      sizes_(sizes),
      traits_(traits),
      values_(graph.values.size()),
      truths_(graph.values.size()),
      is_own_(graph.values.size(), false) {
  plan_.flag_block = make_block(0, std::nullopt);
}

std::uint32_t PlanBuilder::make_block(std::size_t bytes, std::optional<std::uint32_t> weight) {
  plan_.blocks.push_back({bytes, weight, 0});
  lives_.push_back({now(), now()});
  return static_cast<std::uint32_t>(plan_.blocks.size() - 1);
}

Result<Dims> PlanBuilder::dims(ir::ValueId id) const {
  Dims dims;
  for (const ir::Expr& dim : graph_.at(id).tensor.dims) {
    if (dims.size() == kMaxRank) return not_covered("a tensor has too many axes");
    KPT_ASSIGN_OR_RETURN(const std::int64_t extent, dim.evaluate(sizes_));
    dims.push_back(extent);
  }
  if (!kpt::count_elements(dims)) return not_covered("a tensor has extents without a product");
  if (is_too_large(dims)) return not_covered("a tensor is too large");
  return dims;
}

Result<View> PlanBuilder::value(ir::ValueId id) {
  if (!values_[ir::index_of(id)]) return not_covered(fmt::format("'{}' is no tensor", graph_.at(id).name));
  return *values_[ir::index_of(id)];
}

Result<std::optional<View>> PlanBuilder::find_tensor(const ir::Node& node, std::string_view name) {
  if (is_absent(node, name)) return std::optional<View>();
  const ir::ValueId id = value_argument(node, name);
  if (id == ir::kNoValue) return not_covered(fmt::format("argument '{}' is no tensor", name));
  KPT_ASSIGN_OR_RETURN(const View view, value(id));
  return std::optional(view);
}

Result<View> PlanBuilder::tensor(const ir::Node& node, std::string_view name) {
  KPT_ASSIGN_OR_RETURN(const auto view, find_tensor(node, name));
  if (!view) return not_covered(fmt::format("argument '{}' is missing", name));
  return *view;
}

Result<Number> PlanBuilder::number(const ir::Argument& argument) const {
  Number number;
  if (const auto* real = std::get_if<double>(&argument.value)) {
    number = {*real, static_cast<std::int64_t>(0), true};
    return number;
  }
  if (const auto* whole = std::get_if<std::int64_t>(&argument.value)) {
    number.whole = *whole;
  } else if (const auto* truth = std::get_if<bool>(&argument.value)) {
    number.whole = *truth ? 1 : 0;
  } else if (const ir::ValueId* id = argument.value_id(); id != nullptr && graph_.at(*id).kind == ir::ValueKind::kInt) {
    KPT_ASSIGN_OR_RETURN(number.whole, graph_.at(*id).expression.evaluate(sizes_));
  } else if (id != nullptr && truths_[ir::index_of(*id)]) {
    number.whole = *truths_[ir::index_of(*id)] ? 1 : 0;
  } else {
    return not_covered("an argument is a number that the model computes");
  }
  number.real = static_cast<double>(number.whole);
  return number;
}

Result<Number> PlanBuilder::number(const ir::Node& node, std::string_view name, std::optional<double> fallback) const {
  const ir::Argument* argument = find_argument(node, name);
  if (argument != nullptr && !std::holds_alternative<ir::None>(argument->value)) return number(*argument);
  if (!fallback) return not_covered(fmt::format("argument '{}' is missing", name));
  return Number{*fallback, static_cast<std::int64_t>(*fallback), false};
}

Result<std::int64_t> PlanBuilder::integer(const ir::Node& node, std::string_view name,
                                          std::optional<std::int64_t> fallback) const {
  if (is_absent(node, name)) {
    if (fallback) return *fallback;
    return not_covered(fmt::format("argument '{}' is missing", name));
  }
  KPT_ASSIGN_OR_RETURN(const Number found, number(*find_argument(node, name)));
  if (found.is_real) return not_covered(fmt::format("argument '{}' is no integer", name));
  return found.whole;
}

Result<std::size_t> PlanBuilder::axis(const ir::Node& node, std::string_view name, std::size_t rank,
                                      std::optional<std::int64_t> fallback) const {
  KPT_ASSIGN_OR_RETURN(const std::int64_t dim, integer(node, name, fallback));
  const auto axis = axis_of(dim, rank);
  if (!axis) return not_covered(fmt::format("there is no axis {}", dim));
  return *axis;
}

Result<std::vector<std::size_t>> PlanBuilder::axes(const ir::Node& node, std::string_view name,
                                                   std::size_t rank) const {
  const auto dims = ints_argument(node, name, std::vector<std::int64_t>{});
  if (!dims) return not_covered(fmt::format("argument '{}' is computed by the model", name));
  std::vector<std::size_t> axes;
  for (const std::int64_t dim : *dims) {
    const auto axis = axis_of(dim, rank);
    if (!axis) return not_covered(fmt::format("there is no axis {}", dim));
    axes.push_back(*axis);
  }
  return axes;
}

Result<View> PlanBuilder::make(DType dtype, const Dims& dims) {
  const auto count = kpt::count_elements(dims);
  if (!count || is_too_large(dims)) return not_covered("a tensor is too large");
  const std::size_t bytes = static_cast<std::size_t>(*count) * element_bytes(dtype);
  return contiguous_view(make_block(bytes, std::nullopt), dtype, dims);
}

Result<View> PlanBuilder::make_result(const ir::Node& node, std::size_t place) {
  const ir::ValueId id = result_at(node, place);
  if (id == ir::kNoValue || graph_.at(id).kind != ir::ValueKind::kTensor) {
    return not_covered("the result is no tensor");
  }
  KPT_ASSIGN_OR_RETURN(const Dims extents, dims(id));
  KPT_ASSIGN_OR_RETURN(const View view, make(dtype(id), extents));
  define(id, view);
  return view;
}

void PlanBuilder::define(ir::ValueId id, const View& view) { values_[ir::index_of(id)] = view; }

Status PlanBuilder::define_result(const ir::Node& node, const View& view) {
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue) return not_covered("the result is no tensor");
  KPT_ASSIGN_OR_RETURN(const Dims wanted, dims(id));
  KPT_RETURN_IF_ERROR(check_extents(view.dtype, view.dims, dtype(id), wanted));
  define(id, view);
  return {};
}

bool PlanBuilder::is_used(ir::ValueId id) const {
  bool used = false;
  for (const ir::Node& node : graph_.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId value) { used = used || value == id; });
    }
  }
  for (const ir::GraphOutput& output : graph_.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId value) { used = used || value == id; });
  }
  return used;
}

void PlanBuilder::forbid_sizes(std::string reason) {
  if (plan_.sizes.ok()) plan_.sizes = Status(StatusCode::kInvalidArgument, std::move(reason));
}

void PlanBuilder::use(const View& view) { lives_[view.block].last = now(); }

void PlanBuilder::add(const std::vector<View>& used, Emit emit) {
  for (const View& view : used) use(view);
  plan_.steps.push_back({node_, std::move(emit)});
}

void PlanBuilder::add(std::initializer_list<View> used, Emit emit) { add(std::vector<View>(used), std::move(emit)); }

View PlanBuilder::add_flag() {
  View flag = contiguous_view(plan_.flag_block, DType::kInt32, {1});
  flag.offset = static_cast<std::int64_t>(plan_.flags.size());
  plan_.flags.push_back(node_);
  return flag;
}

bool PlanBuilder::is_written(const View& view) const {
  return std::ranges::find(written_blocks_, view.block) != written_blocks_.end();
}

Status PlanBuilder::plan_inputs() {
  std::size_t position = 0;
  const std::vector<std::uint32_t> written = written_buffers(graph_, facts_);
  for (std::uint32_t index = 0; index < graph_.inputs.size(); ++index) {
    const ir::GraphInput& input = graph_.inputs[index];
    const bool given = input.kind == ir::InputKind::kUser;
    if (given) ++position;
    if (input.value == ir::kNoValue || graph_.at(input.value).kind != ir::ValueKind::kTensor) continue;
    KPT_ASSIGN_OR_RETURN(const Dims extents, dims(input.value));
    const auto count = static_cast<std::size_t>(kpt::count_elements(extents).value_or(0));
    const std::size_t bytes = count * element_bytes(dtype(input.value));
    const bool is_state = std::ranges::find(written, index) != written.end();
    const bool stays = is_weight(input) && !is_state;
    const std::uint32_t block = make_block(bytes, stays ? std::optional(index) : std::nullopt);
    const View view = contiguous_view(block, dtype(input.value), extents);
    define(input.value, view);
    if (given) plan_.inputs.push_back({position - 1, view});
    if (!is_state) continue;
    plan_.states.push_back({index, view, view});
    if (facts_.is_written(input.value)) written_blocks_.push_back(block);
  }
  return {};
}

void PlanBuilder::define_unknown(const ir::Node& node) {
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id == ir::kNoValue || graph_.at(id).kind != ir::ValueKind::kTensor || values_[ir::index_of(id)]) continue;
      const auto extents = dims(id);
      if (!extents.ok()) continue;
      if (const auto view = make(dtype(id), *extents); view.ok()) define(id, *view);
    }
  }
}

// The kernels' own checks, with addresses that nobody follows; what they need is noted.
Status PlanBuilder::check_steps(std::size_t first) {
  std::vector<std::byte*> blocks;
  for (std::size_t block = 0; block < plan_.blocks.size(); ++block) {
    blocks.push_back(std::bit_cast<std::byte*>(std::uintptr_t{block + 1} << 40U));
  }
  for (std::size_t step = first; step < plan_.steps.size(); ++step) {
    const auto launches = plan_.steps[step].emit(Addresses(blocks), traits_.shape);
    if (!launches.ok()) return not_covered(launches.status().message());
    for (const gpu::Launch& launch : *launches) {
      const std::string_view family = family_of(launch.kernel);
      if (std::ranges::find(families_, family) == families_.end()) families_.push_back(family);
    }
  }
  return {};
}

// Memory of its own that nobody looks at behind the current node, nor through a view.
bool PlanBuilder::is_private(ir::ValueId id) const {
  const auto uses = [id](const ir::Node& node) {
    std::size_t count = 0;
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId used) { count += used == id ? 1U : 0U; });
    }
    return count;
  };
  bool is_made = false;
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    const ir::Node& node = graph_.nodes[index];
    for (const ir::Output& output : node.outputs) {
      const bool makes = std::ranges::find(output.values, id) != output.values.end();
      if (makes && !gives_fresh_memory(node) && !is_own_[ir::index_of(id)]) return false;
      is_made = is_made || makes;
    }
    const std::size_t count = uses(node);
    if (index == node_ ? count != 1 : count > 0 && (index > node_ || !gives_fresh_memory(node))) return false;
  }
  return is_made && std::ranges::none_of(graph_.outputs, [id](const ir::GraphOutput& output) {
           return output.value.value_id() != nullptr && *output.value.value_id() == id;
         });
}

// add_ and the like by the rule of add. What may be written is a buffer of the model and, as if it were add, what
// nobody sees any more.
Status PlanBuilder::plan_in_place(const ir::Node& node) {
  std::string functional = node.target;
  if (const std::size_t mark = functional.rfind("_."); mark != std::string::npos) functional.erase(mark, 1);
  const Rule rule = find_rule(functional);
  if (rule == nullptr) return not_covered("no kernel of ours computes it");
  const ir::ValueId* id = node.arguments.empty() ? nullptr : node.arguments[0].value.value_id();
  const ir::ValueId result = only_result(node);
  if (id == nullptr || result == ir::kNoValue) return not_covered("it writes no tensor");
  KPT_ASSIGN_OR_RETURN(const View written, value(*id));
  if (!is_written(written)) {
    if (!is_private(*id)) return not_covered("it writes memory that other values may share");
    KPT_RETURN_IF_ERROR(rule(*this, node));
    is_own_[ir::index_of(result)] = true;  // and the next one in place may have it
    return {};
  }
  target_ = written;
  const Status status = rule(*this, node);
  target_.reset();
  KPT_RETURN_IF_ERROR(status);
  KPT_ASSIGN_OR_RETURN(const View made, value(result));
  if (made.block == written.block) return {};
  KPT_RETURN_IF_ERROR(check_extents(made.dtype, made.dims, written.dtype, written.dims));
  KPT_RETURN_IF_ERROR(copy_into(*this, made, written));
  define(result, written);
  return {};
}

Status PlanBuilder::plan_node(std::size_t index) {
  node_ = index;
  const ir::Node& node = graph_.nodes[index];
  const std::size_t first = plan_.steps.size();
  const Rule rule = find_rule(node.target);
  Status status;
  bool has_tensors = false;
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id == ir::kNoValue) continue;
      const ir::Value& value = graph_.at(id);
      has_tensors = has_tensors || value.kind == ir::ValueKind::kTensor;
      // A size is known from the inputs' sizes; its node computes nothing.
      if (value.kind == ir::ValueKind::kInt && status.ok()) status = value.expression.evaluate(sizes_).status();
      const bool is_truth = value.kind == ir::ValueKind::kBool;
      if (value.kind == ir::ValueKind::kFloat || (is_truth && rule == nullptr)) {
        status = not_covered("its result is a number that the model computes");
      }
    }
  }
  if (rule != nullptr && status.ok()) {
    status = rule(*this, node);
  } else if (status.ok() && is_in_place(node)) {
    status = plan_in_place(node);
  } else if (status.ok() && (has_tensors || node.outputs.empty())) {
    status = not_covered("no kernel of ours computes it");
  }
  if (status.ok()) status = check_steps(first);
  if (!status.ok()) define_unknown(node);
  return status;
}

Status PlanBuilder::plan_outputs() {
  node_ = graph_.nodes.size();
  const std::size_t first = plan_.steps.size();
  for (const ir::GraphOutput& output : graph_.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (id == nullptr) continue;
    if (graph_.at(*id).kind == ir::ValueKind::kInt) {
      KPT_ASSIGN_OR_RETURN(const std::int64_t number, graph_.at(*id).expression.evaluate(sizes_));
      plan_.outputs.push_back({std::nullopt, number});
      continue;
    }
    KPT_ASSIGN_OR_RETURN(const View view, value(*id));
    KPT_ASSIGN_OR_RETURN(const View dense, contiguous(*this, view));
    if (output.kind == ir::OutputKind::kUser) {
      plan_.outputs.push_back({dense, 0});
      continue;
    }
    const auto state = std::ranges::find_if(
        plan_.states, [&](const PlannedState& one) { return graph_.inputs[one.input].name == output.name; });
    if (state == plan_.states.end()) return not_covered(fmt::format("the model has no buffer '{}'", output.name));
    KPT_RETURN_IF_ERROR(check_extents(dense.dtype, dense.dims, state->before.dtype, state->before.dims));
    state->after = dense;
  }
  return check_steps(first);
}

Result<GraphPlan> PlanBuilder::finish() {
  for (const PlannedOutput& output : plan_.outputs) {
    if (output.view) use(*output.view);
  }
  for (const PlannedState& state : plan_.states) {
    use(state.after);
    lives_[state.before.block] = {0, now()};
  }
  Block& flags = plan_.blocks[plan_.flag_block];
  flags.bytes = plan_.flags.size() * sizeof(std::int32_t);
  lives_[plan_.flag_block] = {0, now()};
  for (const PlannedInput& input : plan_.inputs) lives_[input.view.block].first = 0;
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> places;
  for (std::size_t block = 0; block < plan_.blocks.size(); ++block) {
    if (plan_.blocks[block].weight || plan_.blocks[block].bytes == 0) continue;
    lifetimes.push_back({round_up(plan_.blocks[block].bytes), lives_[block].first, lives_[block].last});
    places.push_back(block);
  }
  const ArenaPlan arena = plan_offsets(lifetimes, kBlockAlignment);
  for (std::size_t i = 0; i < places.size(); ++i) plan_.blocks[places[i]].offset = arena.offsets[i];
  plan_.arena_bytes = arena.arena_bytes;
  for (const std::string_view family : families_) plan_.families.emplace_back(family);
  std::ranges::sort(plan_.families);
  return std::move(plan_);
}

std::vector<std::uint32_t> written_buffers(const ir::Graph& graph, const MemoryFacts& facts) {
  std::vector<std::uint32_t> written;
  for (std::uint32_t index = 0; index < graph.inputs.size(); ++index) {
    const ir::GraphInput& input = graph.inputs[index];
    if (input.kind != ir::InputKind::kBuffer || input.value == ir::kNoValue) continue;
    const bool replaced = std::ranges::any_of(graph.outputs, [&input](const ir::GraphOutput& output) {
      return output.kind == ir::OutputKind::kBufferMutation && output.name == input.name;
    });
    if (replaced || facts.is_written(input.value)) written.push_back(index);
  }
  return written;
}

Result<std::vector<BoundLaunch>> bind_plan(const GraphPlan& plan, std::span<std::byte* const> blocks,
                                           const gpu::DeviceShape& shape) {
  std::vector<BoundLaunch> bound;
  for (const Step& step : plan.steps) {
    KPT_ASSIGN_OR_RETURN(gpu::Plan launches, step.emit(Addresses(blocks), shape));
    for (gpu::Launch& launch : launches) {
      const std::string_view family = family_of(launch.kernel);
      bound.push_back({step.node, std::move(launch), family});
    }
  }
  return bound;
}

}  // namespace kpt::native
