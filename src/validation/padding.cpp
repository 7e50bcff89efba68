#include "validation/padding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"
#include "runtime/input_roles.h"

namespace kpt {
namespace {

// Between what rounding in fp64 can do and what other content does.
constexpr double kUnchanged = 1e-9;
constexpr double kChanged = 1e-6;

const Tensor* find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found != tensors.end() ? &found->tensor : nullptr;
}

// Calls `change(element)` for every element at a padded position.
template <typename T, typename Change>
void change_padding(const Tensor& tensor, const std::vector<bool>& kept, const Change& change) {
  const auto elements = tensor.elements<T>();
  const std::size_t width = kept.empty() ? 0 : elements.size() / kept.size();
  for (std::size_t index = 0; index < elements.size(); ++index) {
    if (!kept[index / width]) change(elements[index]);
  }
}

// A copy with other content at the padded positions; nothing where it cannot be other.
Result<std::optional<Tensor>> disturb(const Tensor& given, const InputUse& use, const std::vector<bool>& kept) {
  KPT_ASSIGN_OR_RETURN(Tensor copy, given.contiguous_copy());
  if (use.role == InputRole::kIndex && use.below && *use.below > 1) {
    const std::int64_t below = *use.below;
    const auto next = [below](auto& id) {
      const auto value = static_cast<std::int64_t>(id);
      id = static_cast<std::remove_reference_t<decltype(id)>>(value >= 0 && value + 1 < below ? value + 1 : 0);
    };
    if (copy.dtype() == DType::kInt64) {
      change_padding<std::int64_t>(copy, kept, next);
    } else if (copy.dtype() == DType::kInt32) {
      change_padding<std::int32_t>(copy, kept, next);
    } else {
      return std::optional<Tensor>();
    }
    return std::optional<Tensor>(std::move(copy));
  }
  if (use.role != InputRole::kPlain) return std::optional<Tensor>();
  if (copy.dtype() == DType::kFloat32) {
    change_padding<float>(copy, kept, [](float& value) { value = 1 - value; });
  } else if (copy.dtype() == DType::kFloat64) {
    change_padding<double>(copy, kept, [](double& value) { value = 1 - value; });
  } else {
    return std::optional<Tensor>();
  }
  return std::optional<Tensor>(std::move(copy));
}

// Whether nothing changed at kept positions, and something at every padded one.
Result<bool> changed_in_padding_only(const Tensor& before, const Tensor& after, const std::vector<bool>& kept) {
  if (!is_floating(before.dtype()) || !(before.dims() == after.dims())) return false;
  KPT_ASSIGN_OR_RETURN(const Tensor wide_before, promote_to_fp64(before));
  KPT_ASSIGN_OR_RETURN(const Tensor wide_after, promote_to_fp64(after));
  KPT_ASSIGN_OR_RETURN(const Tensor a, wide_before.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(const Tensor b, wide_after.contiguous_copy());
  const auto x = a.elements<double>();
  const auto y = b.elements<double>();
  const std::size_t width = kept.empty() ? 0 : x.size() / kept.size();
  for (std::size_t position = 0; position < kept.size(); ++position) {
    double size = 0;
    double change = 0;
    for (std::size_t index = position * width; index < (position + 1) * width; ++index) {
      if (!std::isfinite(x[index]) || !std::isfinite(y[index])) {
        if (kept[position]) return false;
        change = size = 1;  // what is no number in padding does not speak against it
        break;
      }
      size += x[index] * x[index];
      change += (x[index] - y[index]) * (x[index] - y[index]);
    }
    const double relative = std::sqrt(change / std::max(size, 1e-300));
    if (kept[position] ? relative > kUnchanged : relative < kChanged) return false;
  }
  return true;
}

}  // namespace

bool Padding::covers(const std::string& output) const { return std::ranges::find(outputs, output) != outputs.end(); }

std::optional<std::string> find_attention_mask(const ir::Graph& graph) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || input.name != "attention_mask") continue;
    if (graph.at(input.value).tensor.dims.size() == 2 && find_input_use(graph, input).role == InputRole::kMask) {
      return input.name;
    }
  }
  return std::nullopt;
}

Result<std::vector<bool>> kept_positions(const Tensor& mask) {
  if (mask.dims().size() != 2) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} is no mask of positions", mask.to_string()));
  }
  // As numbers, where -0 is 0.
  KPT_ASSIGN_OR_RETURN(const Tensor exact, is_floating(mask.dtype()) ? promote_to_fp64(mask) : Result<Tensor>(mask));
  KPT_ASSIGN_OR_RETURN(const Tensor dense, exact.contiguous_copy());
  const std::size_t width = element_bytes(dense.dtype());
  const auto* bytes = static_cast<const std::byte*>(dense.data());
  std::vector<bool> kept(static_cast<std::size_t>(dense.element_count()));
  for (std::size_t index = 0; index < kept.size(); ++index) {
    const auto any_bit = [](std::byte byte) { return byte != std::byte{0}; };
    kept[index] = is_floating(dense.dtype()) ? dense.elements<double>()[index] != 0
                                             : std::any_of(bytes + index * width, bytes + (index + 1) * width, any_bit);
  }
  return kept;
}

bool has_positions_of(const Tensor& tensor, const Tensor& mask) {
  return tensor.dims().size() >= 2 && mask.dims().size() == 2 && tensor.dims()[0] == mask.dims()[0] &&
         tensor.dims()[1] == mask.dims()[1];
}

Result<Tensor> take_positions(const Tensor& tensor, const std::vector<bool>& kept, bool wanted) {
  std::int64_t positions = 0;
  if (tensor.dims().size() < 2 || __builtin_mul_overflow(tensor.dims()[0], tensor.dims()[1], &positions) ||
      !std::cmp_equal(positions, kept.size())) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} does not have {} positions", tensor.to_string(), kept.size()));
  }
  KPT_ASSIGN_OR_RETURN(const Tensor dense, tensor.contiguous_copy());
  Dims dims(std::span<const std::int64_t>(tensor.dims()).subspan(1));
  dims[0] = std::ranges::count(kept, wanted);
  KPT_ASSIGN_OR_RETURN(Tensor taken, Tensor::empty(tensor.dtype(), dims));
  const std::size_t row = kept.empty() ? 0 : dense.bytes() / kept.size();
  const auto* from = static_cast<const std::byte*>(dense.data());
  auto* to = static_cast<std::byte*>(taken.data());
  for (std::size_t position = 0; position < kept.size(); ++position) {
    if (kept[position] != wanted || row == 0) continue;
    std::memcpy(to, from + position * row, row);
    to += row;
  }
  return taken;
}

Result<std::optional<Padding>> find_padding(ModelRun& model, const std::string& mask,
                                            const std::vector<NamedTensor>& inputs,
                                            const std::vector<NamedTensor>& outputs) {
  const Tensor* given = find_tensor(inputs, mask);
  if (given == nullptr || given->dims().size() != 2) return std::optional<Padding>();
  KPT_ASSIGN_OR_RETURN(const std::vector<bool> kept, kept_positions(*given));
  const auto padded = std::ranges::count(kept, false);
  if (padded == 0 || std::cmp_equal(padded, kept.size())) return std::optional<Padding>();
  std::vector<NamedTensor> others = inputs;
  bool any = false;
  for (const ir::GraphInput& input : model.loaded().graph().inputs) {
    const auto other = std::ranges::find(others, input.name, &NamedTensor::name);
    if (input.kind != ir::InputKind::kUser || input.name == mask || other == others.end()) continue;
    if (!has_positions_of(other->tensor, *given)) continue;
    KPT_ASSIGN_OR_RETURN(std::optional<Tensor> changed,
                         disturb(other->tensor, find_input_use(model.loaded().graph(), input), kept));
    if (!changed) continue;
    other->tensor = std::move(*changed);
    any = true;
  }
  if (!any) return std::optional<Padding>();
  const auto after = model.run(others);
  if (!after.ok()) return std::optional<Padding>();  // it cannot take such content there: nothing is proved
  Padding padding{mask, {}};
  for (std::size_t index = 0; index < std::min(outputs.size(), after->size()); ++index) {
    if (!has_positions_of(outputs[index].tensor, *given)) continue;
    KPT_ASSIGN_OR_RETURN(const bool proved,
                         changed_in_padding_only(outputs[index].tensor, (*after)[index].tensor, kept));
    if (proved) padding.outputs.push_back(outputs[index].name);
  }
  if (padding.outputs.empty()) return std::optional<Padding>();
  return std::optional<Padding>(std::move(padding));
}

}  // namespace kpt
