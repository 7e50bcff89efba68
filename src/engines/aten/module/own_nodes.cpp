#include "engines/aten/module/own_nodes.h"

#include <algorithm>
#include <array>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/frame.h"
#include "engines/aten/module/tensors.h"

namespace kpt::aten {
namespace {

Status unsupported(std::string reason) { return {StatusCode::kUnsupported, std::move(reason)}; }

// Every argument of the operator once, by name, and nothing else; results that are tensors, none of them lists.
Status check_form(const ir::Graph& graph, const ir::Node& node, const ir::OwnOperator& op) {
  for (const ir::NamedArgument& given : node.arguments) {
    if (given.name.empty()) return unsupported("its arguments are not given by name");
    if (std::ranges::find(op.arguments, given.name) == op.arguments.end()) {
      return unsupported(fmt::format("it has no argument '{}'", given.name));
    }
  }
  for (const std::string_view name : op.arguments) {
    const auto count = std::ranges::count(node.arguments, name, &ir::NamedArgument::name);
    if (count == 0) return unsupported(fmt::format("its argument '{}' is missing", name));
    if (count > 1) return unsupported(fmt::format("its argument '{}' is given twice", name));
  }
  if (std::cmp_not_equal(node.outputs.size(), op.results)) {
    return unsupported(
        fmt::format("the file has {} results of it, the operator gives {}", node.outputs.size(), op.results));
  }
  for (const ir::Output& output : node.outputs) {
    if (output.is_list || output.values.size() != 1) return unsupported("a result of it is a list in the file");
    if (output.values[0] == ir::kNoValue) return unsupported("a result of it has no value in the file");
    const ir::Value& value = graph.at(output.values[0]);
    if (value.kind != ir::ValueKind::kTensor || value.tensor.layout != ir::Layout::kStrided ||
        value.tensor.strides.size() != value.tensor.dims.size()) {
      return unsupported("a result of it is no strided tensor in the file");
    }
  }
  return {};
}

const ir::Argument& find_argument(const ir::Node& node, std::string_view name) {
  return std::ranges::find(node.arguments, name, &ir::NamedArgument::name)->value;
}

std::vector<bool> find_used(const ir::Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  const auto use = [&](ir::ValueId id) { used[ir::index_of(id)] = true; };
  for (const ir::Node& node : graph.nodes) {
    for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, use);
  }
  for (const ir::GraphOutput& output : graph.outputs) ir::for_each_value(output.value, use);
  return used;
}

std::string list_types(std::initializer_list<DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : " or ", to_string(dtype));
  return text;
}

std::string text_of(at::IntArrayRef sizes) { return Dims({sizes.data(), sizes.size()}).to_string(); }

}  // namespace

OwnBinding::OwnBinding(const ir::Graph& graph, const ir::Node& node, const ir::OwnOperator& op,
                       const NvidiaPolicy& policy)
    : graph_(graph), op_(op), policy_(policy) {
  for (const std::string_view name : op.arguments) arguments_.push_back(&find_argument(node, name));
  for (const ir::Output& output : node.outputs) results_.push_back(&graph.at(output.values[0]).tensor);
}

bool OwnBinding::is_none(std::size_t position) const {
  return std::holds_alternative<ir::None>(arguments_[position]->value);
}

const ir::TensorType* OwnBinding::find_type(std::size_t position) const {
  const ir::ValueId* id = arguments_[position]->value_id();
  if (id == nullptr || graph_.at(*id).kind != ir::ValueKind::kTensor) return nullptr;
  return &graph_.at(*id).tensor;
}

bool OwnBinding::is_weight(std::size_t position) const {
  const ir::ValueId* id = arguments_[position]->value_id();
  return id != nullptr && std::ranges::any_of(graph_.inputs, [&](const ir::GraphInput& input) {
           return input.value == *id && input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed;
         });
}

Status OwnBinding::refuse(std::size_t position, std::string_view what) const {
  return unsupported(fmt::format("its argument '{}' {}", op_.arguments[position], what));
}

Status OwnBinding::check_tensor(std::size_t position, std::initializer_list<DType> dtypes, std::size_t least_rank,
                                std::size_t most_rank) const {
  const ir::TensorType* type = find_type(position);
  if (type == nullptr) return refuse(position, "is no tensor");
  if (type->layout != ir::Layout::kStrided) return refuse(position, "is not strided");
  if (std::ranges::find(dtypes, type->dtype) == dtypes.end()) {
    return refuse(position, fmt::format("is {}, it takes {}", to_string(type->dtype), list_types(dtypes)));
  }
  const std::size_t rank = type->dims.size();
  if (rank < least_rank || rank > most_rank) {
    return refuse(position, least_rank == most_rank
                                ? fmt::format("has rank {}, it takes {}", rank, least_rank)
                                : fmt::format("has rank {}, it takes {} to {}", rank, least_rank, most_rank));
  }
  return {};
}

Status OwnBinding::check_optional_tensor(std::size_t position, std::initializer_list<DType> dtypes,
                                         std::size_t least_rank, std::size_t most_rank) const {
  if (is_none(position)) return {};
  return check_tensor(position, dtypes, least_rank, most_rank);
}

Status OwnBinding::check_result(std::size_t index, DType dtype, std::size_t rank) const {
  const ir::TensorType& type = result_type(index);
  if (type.dtype == dtype && type.dims.size() == rank) return {};
  return unsupported(fmt::format("its result {} is {} of rank {} in the file, the operator gives {} of rank {}", index,
                                 to_string(type.dtype), type.dims.size(), to_string(dtype), rank));
}

Result<double> OwnBinding::number(std::size_t position) const {
  if (const auto* real = std::get_if<double>(&arguments_[position]->value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&arguments_[position]->value)) return static_cast<double>(*whole);
  return refuse(position, "is no constant number");
}

Result<std::int64_t> OwnBinding::integer(std::size_t position) const {
  if (const auto* whole = std::get_if<std::int64_t>(&arguments_[position]->value)) return *whole;
  return refuse(position, "is no constant integer");
}

Result<bool> OwnBinding::truth(std::size_t position) const {
  if (const auto* value = std::get_if<bool>(&arguments_[position]->value)) return *value;
  return refuse(position, "is no constant truth value");
}

Result<std::string> OwnBinding::text(std::size_t position) const {
  if (const auto* value = std::get_if<std::string>(&arguments_[position]->value)) return *value;
  return refuse(position, "is no text");
}

Result<ir::Activation> OwnBinding::activation(std::size_t position) const {
  KPT_ASSIGN_OR_RETURN(const std::string name, text(position));
  if (const auto found = ir::find_activation(name)) return *found;
  return refuse(position, "names no activation that there is");
}

Result<std::vector<std::int64_t>> OwnBinding::integers(std::size_t position, std::size_t count) const {
  const ir::List* list = arguments_[position]->list();
  if (list == nullptr || list->items.size() != count) {
    return refuse(position, fmt::format("is no list of {} integers", count));
  }
  std::vector<std::int64_t> values;
  for (const ir::Argument& item : list->items) {
    const auto* whole = std::get_if<std::int64_t>(&item.value);
    if (whole == nullptr) return refuse(position, fmt::format("is no list of {} constant integers", count));
    values.push_back(*whole);
  }
  return values;
}

const at::Tensor* OwnWeights::find(std::size_t position) const {
  const ArgumentSource& source = step_.arguments[position];
  return source.is_constant() ? nullptr : constants_[source.slot];
}

const at::Tensor* OwnCall::find_tensor(std::size_t position) const {
  const ArgumentSource& source = step_.arguments[position];
  if (source.is_constant()) return nullptr;
  return &tensor(position);
}

const at::Tensor& OwnCall::tensor(std::size_t position) const {
  const OwnStep::Expected& expected = step_.own->arguments[position];
  const ArgumentSource& source = step_.arguments[position];
  require(!source.is_constant() && frame_.slots[source.slot].isTensor(), "an argument is no tensor");
  const at::Tensor& tensor = frame_.slots[source.slot].toTensor();
  require(tensor.defined() && tensor.layout() == at::kStrided && tensor.device() == frame_.device && !tensor.is_neg() &&
              !tensor.is_conj(),
          "an argument is no plain tensor of the device");
  require(tensor.scalar_type() == expected.dtype, "an argument has another element type than the file says");
  require(tensor.dim() == expected.rank, "an argument has another rank than the file says");
  return tensor;
}

bool OwnCall::wants(std::size_t index) const { return step_.own->results[index].wanted; }

at::Tensor& OwnCall::result(std::size_t index, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const OwnStep::ExpectedResult& expected = step_.own->results[index];
  c10::IValue& slot = frame_.slots[static_cast<std::size_t>(step_.results[index].slots[0])];
  at::Tensor planned;
  if (expected.place >= 0) planned = frame_.planned[static_cast<std::size_t>(expected.place)];
  if (planned.defined()) {
    if (planned.sizes() != sizes) {
      throw OwnNodeFailure(fmt::format("its result {} is of the sizes {}, but the file says {}", index, text_of(sizes),
                                       text_of(planned.sizes())));
    }
    require(strides.empty() ? planned.is_contiguous() : planned.strides() == strides,
            "its result has other strides than the file says");
    slot = std::move(planned);
  } else if (strides.empty()) {
    slot = at::empty(sizes, at::TensorOptions(frame_.device).dtype(expected.dtype));
  } else {
    slot = at::empty_strided(sizes, strides, at::TensorOptions(frame_.device).dtype(expected.dtype));
  }
  return slot.toTensor();
}

void OwnCall::adopt(std::size_t index, const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const OwnStep::ExpectedResult& expected = step_.own->results[index];
  require(tensor.sizes() == sizes, "its result has other sizes than it should");
  require(tensor.scalar_type() == expected.dtype, "its result has another element type than the file says");
  if (expected.place >= 0 && frame_.planned[static_cast<std::size_t>(expected.place)].defined()) {
    result(index, sizes, strides).copy_(tensor);
    return;
  }
  frame_.slots[static_cast<std::size_t>(step_.results[index].slots[0])] =
      strides.empty() ? tensor.contiguous() : tensor;
}

void* OwnCall::workspace(std::size_t bytes) { return frame_.workspace.get(bytes); }

kernels::Parallel OwnCall::parallel() { return frame_.workers.parallel(); }

void OwnCall::require(bool holds, const char* what) {
  if (!holds) throw OwnNodeFailure(what);
}

Result<Step> bind_own_node(const ir::Graph& graph, const ir::Node& node, BindingContext& context) {
  const ir::OwnOperator* op = ir::find_own_operator(node.target);
  if (op == nullptr) return unsupported("KernelPyTorch has no such operator");
  const std::span<const OwnNodeEntry> table = own_node_table();
  const auto entry = std::ranges::find(table, node.target, &OwnNodeEntry::target);
  if (entry == table.end()) return unsupported("this engine has no kernel for it");
  KPT_RETURN_IF_ERROR(check_form(graph, node, *op));
  Step step;
  step.kind = Step::Kind::kOwn;
  step.own = std::make_unique<OwnStep>();
  KPT_ASSIGN_OR_RETURN(step.own->node, entry->bind(OwnBinding(graph, node, *op, context.policy)));
  for (const std::string_view name : op->arguments) {
    ArgumentSource& source = step.arguments.emplace_back();
    OwnStep::Expected& expected = step.own->arguments.emplace_back();
    const ir::ValueId* id = find_argument(node, name).value_id();
    if (id == nullptr) continue;  // a constant, which the node has read
    const ir::Value& value = graph.at(*id);
    if (value.kind != ir::ValueKind::kTensor) {
      return unsupported(fmt::format("its argument '{}' is computed, it takes a constant", name));
    }
    source.kind = ArgumentSource::Kind::kSlot;
    source.slot = ir::index_of(*id);
    expected = {to_scalar_type(value.tensor.dtype), static_cast<std::int64_t>(value.tensor.dims.size())};
  }
  if (context.used.empty()) context.used = find_used(graph);
  for (const ir::Output& output : node.outputs) {
    const std::uint32_t value = ir::index_of(output.values[0]);
    step.results.push_back({false, {static_cast<std::int64_t>(value)}});
    step.own->results.push_back(
        {to_scalar_type(graph.values[value].tensor.dtype), static_cast<bool>(context.used[value]), -1});
  }
  return step;
}

Result<bool> find_channels_last(const ir::TensorType& type) {
  std::array<std::optional<std::int64_t>, 4> sizes;
  std::array<std::optional<std::int64_t>, 4> strides;
  for (std::size_t axis = 1; axis < 4; ++axis) {
    sizes[axis] = type.dims[axis].constant();
    strides[axis] = type.strides[axis].constant();
  }
  if (!sizes[1] || !sizes[2] || !sizes[3] || !strides[1] || !strides[2] || !strides[3]) return strides[1] == 1;
  const std::int64_t c = *sizes[1];
  const std::int64_t h = *sizes[2];
  const std::int64_t w = *sizes[3];
  if (strides[1] == h * w && strides[2] == w && strides[3] == 1) return false;
  if (strides[1] == 1 && strides[2] == w * c && strides[3] == c) return true;
  return Status(StatusCode::kUnsupported, "its result is neither contiguous nor channels-last in the file");
}

kernels::Rows to_rows(const at::Tensor& tensor) {
  kernels::Rows rows;
  rows.data = tensor.const_data_ptr();
  rows.dtype = find_dtype(tensor.scalar_type()).value();
  rows.rank = static_cast<std::size_t>(tensor.dim());
  OwnCall::require(rows.rank >= 1 && rows.rank <= kMaxRank, "an argument has too few or too many axes");
  std::ranges::copy(tensor.sizes(), rows.sizes.begin());
  std::ranges::copy(tensor.strides(), rows.strides.begin());
  return rows;
}

}  // namespace kpt::aten
